package toolkit

import (
	"fmt"
	"unicode/utf8"

	"github.com/toolwire/toolwire/events"
)

// limit applies the tool's cap on results. Up to it a result travels whole, by reference if it is
// large; beyond it the policy says what happens, and the result tells that it did.
func (t *Tool) limit(r *events.ToolResult) error {
	limit := t.def.MaxResult
	if limit == 0 {
		limit = DefaultMaxResult
	}
	size := len(r.StructuredContent)
	for _, c := range r.Content {
		size += len(c)
	}
	if size <= limit {
		return nil
	}
	if t.def.Oversize != OversizeTruncate {
		return &tooLargeError{size: size, limit: limit}
	}
	truncate(r, limit)
	return nil
}

type tooLargeError struct{ size, limit int }

func (e *tooLargeError) Error() string {
	return fmt.Sprintf("The result has %d bytes; at most %d are allowed. Ask for less, or in parts.", e.size, e.limit)
}

// truncate keeps text blocks while there is room, cuts the one that does not fit to its head and
// tail, and names what was left out. Structured content cannot be cut and goes.
func truncate(r *events.ToolResult, limit int) {
	r.Meta.Truncated, r.StructuredContent = true, nil
	room := limit
	kept := r.Content[:0:0]
	for i, c := range r.Content {
		if len(c) <= room {
			kept, room = append(kept, c), room-len(c)
			continue
		}
		s, isText := c.Text()
		if !isText {
			kept = append(kept, events.Text(fmt.Sprintf("[%d bytes of other content left out]", len(c))))
			continue
		}
		kept = append(kept, events.Text(headTail(s, room)))
		if left := len(r.Content) - i - 1; left > 0 {
			kept = append(kept, events.Text(fmt.Sprintf("[%d more content blocks left out]", left)))
		}
		break
	}
	r.Content = kept
}

func headTail(s string, room int) string {
	half := max(room/2, 0)
	head, tail := s[:half], s[len(s)-half:]
	for len(head) > 0 && !utf8.ValidString(head) && len(head) > half-utf8.UTFMax {
		head = head[:len(head)-1]
	}
	for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
		tail = tail[1:]
	}
	return fmt.Sprintf("%s\n[… %d bytes left out …]\n%s", head, len(s)-len(head)-len(tail), tail)
}
