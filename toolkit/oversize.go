package toolkit

import (
	"fmt"
	"unicode/utf8"

	"github.com/toolwire/toolwire/events"
)

// limit applies the tool's cap on results. Up to it a result travels whole, by reference if it is
// large; beyond it the policy says what happens, and the result tells that it did.
func (t *Tool) limit(r *events.ToolResult) error {
	have, limit := size(r), t.maxResult()
	if have <= limit {
		return nil
	}
	if t.def.Oversize != OversizeTruncate {
		return &tooLargeError{size: have, limit: limit}
	}
	truncate(r, limit)
	return nil
}

func (t *Tool) maxResult() int {
	if t.def.MaxResult == 0 {
		return DefaultMaxResult
	}
	return t.def.MaxResult
}

// size is what the cap counts: content and structured content, as they are written.
func size(r *events.ToolResult) int {
	n := len(r.StructuredContent)
	for _, c := range r.Content {
		n += len(c)
	}
	return n
}

type tooLargeError struct{ size, limit int }

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("The result has %d bytes; at most %d are allowed. Ask for less, or in parts.", e.size, e.limit)
}

// truncate keeps blocks while there is room, cuts the first text that does not fit to its head and
// tail, and says what was left out. Structured content cannot be cut and goes. Beyond the limit
// there are only these notes, however many blocks there were.
func truncate(r *events.ToolResult, limit int) {
	r.Meta.Truncated, r.StructuredContent = true, nil
	var (
		kept        []events.Content
		room        = limit
		blocks, out int  // left out
		cut         bool // a text was cut
	)
	for _, c := range r.Content {
		s, isText := c.Text()
		switch {
		case len(c) <= room:
			kept, room = append(kept, c), room-len(c)
		case isText && !cut:
			kept, room, cut = append(kept, events.Text(headTail(s, room))), 0, true
		default:
			blocks, out = blocks+1, out+len(c)
		}
	}
	if blocks > 0 {
		kept = append(kept, events.Text(fmt.Sprintf("[%d more content blocks of %d bytes left out]", blocks, out)))
	}
	r.Content = kept
}

// headTail keeps as much of the start and of the end of s as fits into room once it is written as
// JSON, whole characters only, and says between them what was left out.
func headTail(s string, room int) string {
	half := room / 2
	i := 0
	for n := 0; i < len(s); {
		r, width := utf8.DecodeRuneInString(s[i:])
		if n += written(r); n > half {
			break
		}
		i += width
	}
	j := len(s)
	for n := 0; j > i; {
		r, width := utf8.DecodeLastRuneInString(s[i:j])
		if n += written(r); n > half {
			break
		}
		j -= width
	}
	return fmt.Sprintf("%s\n[… %d bytes left out …]\n%s", s[:i], j-i, s[j:])
}

// written is the length of a character in a JSON string, at most.
func written(r rune) int {
	switch {
	case r < 0x20:
		return len(`\u0000`)
	case r == '"', r == '\\':
		return 2
	}
	return utf8.RuneLen(r) // U+FFFD for what is no UTF-8
}
