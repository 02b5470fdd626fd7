package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/show"
)

const (
	foldText  = 400  // bytes of a text that is shown without being unfolded
	foldExact = 4000 // of arguments as they are
	maxNodes  = 2000 // of the pretty view; more is shown exactly, and not prettily
	maxNested = 40
)

// node is a JSON value to be looked at.
type node struct {
	Key      string // in an object
	Named    bool   // it has a key
	Index    int    // in an array, else
	Kind     string // object, array, string, number, literal
	Text     string // of a string, decoded; of a number or literal, as written
	Children []node
}

// Fold says whether a text is long.
func (n node) Fold() bool { return len(n.Text) > foldText }

// Begin is the beginning of a long text, on one line.
func (n node) Begin() string { return beginning(n.Text, 40) }

// Size is that of a text.
func (n node) Size() string { return size(len(n.Text)) }

func beginning(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func size(n int) string {
	if n == 1 {
		return "1 byte"
	}
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits + " bytes"
}

// document is JSON that came from outside, ready to be shown.
type document struct {
	Raw    string // byte for byte
	Bad    string // why it is no JSON; "": it is
	Tree   *node  // nil: it is no JSON, or too much to be laid out
	Object bool
}

// Size is how large it is.
func (d document) Size() string { return size(len(d.Raw)) }

// Fold says whether it is long.
func (d document) Fold() bool { return len(d.Raw) > foldExact }

// Empty says whether there is nothing.
func (d document) Empty() bool { return d.Raw == "" }

func newDocument(raw []byte) document {
	d := document{Raw: string(raw)}
	if len(raw) == 0 {
		return d
	}
	if err := events.CheckJSON(raw); err != nil {
		d.Bad = strings.TrimPrefix(err.Error(), events.ErrMalformed.Error()+": ")
		return d
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	left := maxNodes
	if n, ok := readNode(dec, &left, 0); ok {
		d.Tree = &n
	}
	d.Object = bytes.HasPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte("{"))
	return d
}

// readNode reads one value in the order in which it is written; not ok: there is too much of it.
func readNode(dec *json.Decoder, left *int, depth int) (n node, ok bool) {
	if *left--; *left < 0 || depth > maxNested {
		return n, false
	}
	token, err := dec.Token()
	if err != nil {
		return n, false
	}
	switch t := token.(type) {
	case json.Delim:
		n.Kind = "array"
		if t == '{' {
			n.Kind = "object"
		}
		for i := 0; dec.More(); i++ {
			var key string
			if n.Kind == "object" {
				k, err := dec.Token()
				if err != nil {
					return n, false
				}
				key, _ = k.(string)
			}
			child, ok := readNode(dec, left, depth+1)
			if !ok {
				return n, false
			}
			child.Key, child.Named, child.Index = key, n.Kind == "object", i+1
			n.Children = append(n.Children, child)
		}
		_, err := dec.Token()
		return n, err == nil
	case string:
		n.Kind, n.Text = "string", t
	case json.Number:
		n.Kind, n.Text = "number", t.String()
	case bool:
		n.Kind, n.Text = "literal", strconv.FormatBool(t)
	case nil:
		n.Kind, n.Text = "literal", "null"
	}
	return n, true
}

// editable is JSON for a text area: byte for byte, but for characters in strings that would not show, which
// are written as escapes of JSON and mean the same. How many of these there are is said beside it.
func editable(raw string) (text string, hidden int) {
	var b strings.Builder
	for _, p := range show.Pieces(raw) {
		if !p.Escaped {
			b.WriteString(p.Text)
			continue
		}
		if p.Text == `\u000d` { // white space between values; a text area makes it a new line anyhow
			b.WriteByte('\r')
			continue
		}
		hidden++
		var r rune
		switch {
		case strings.HasPrefix(p.Text, `\U`):
			_, _ = fmt.Sscanf(p.Text, `\U%08x`, &r)
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		default:
			b.WriteString(p.Text)
		}
	}
	return b.String(), hidden
}

// typed is what came back from a text area, in which every new line is \r\n.
func typed(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}
