package events

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// writer appends JSON. The first error sticks in err.
type writer struct {
	b     []byte
	depth int
	keys  []span // room for the scanner of raw JSON
	err   error
}

func (w *writer) done() ([]byte, error) {
	if w.err == nil && len(w.b) > MaxSize {
		w.err = fmt.Errorf("%w: %d bytes of JSON, at most %d are allowed", ErrMalformed, len(w.b), MaxSize)
	}
	if w.err != nil {
		return nil, w.err
	}
	return w.b, nil
}

func (w *writer) fail(field, what string) {
	if w.err == nil {
		w.err = fmt.Errorf("%w: %s %s", ErrMalformed, field, what)
	}
}

// open and shut write the brackets of an object or array.
func (w *writer) open(c byte) {
	w.b = append(w.b, c)
	w.depth++
}

func (w *writer) shut(c byte) {
	w.b = append(w.b, c)
	w.depth--
}

// comma separates what comes next from what precedes it in its object or array.
func (w *writer) comma() {
	if c := w.b[len(w.b)-1]; c != '{' && c != '[' {
		w.b = append(w.b, ',')
	}
}

// key writes a key that needs no escapes.
func (w *writer) key(name string) {
	w.comma()
	w.b = append(w.b, '"')
	w.b = append(w.b, name...)
	w.b = append(w.b, '"', ':')
}

// text writes a field that is always there.
func (w *writer) text(name, s string) {
	w.key(name)
	w.str(name, s)
}

// optional writes a field that is left out when empty.
func (w *writer) optional(name, s string) {
	if s != "" {
		w.text(name, s)
	}
}

// str writes a string; field names it in the error.
func (w *writer) str(field, s string) {
	w.b = append(w.b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				w.fail(field, "is not UTF-8")
			}
			i += n
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		w.b = append(w.b, s[from:i]...)
		w.escape(c)
		i++
		from = i
	}
	w.b = append(w.b, s[from:]...)
	w.b = append(w.b, '"')
}

func (w *writer) escape(c byte) {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		w.b = append(w.b, '\\', c)
	case '\b':
		w.b = append(w.b, `\b`...)
	case '\f':
		w.b = append(w.b, `\f`...)
	case '\n':
		w.b = append(w.b, `\n`...)
	case '\r':
		w.b = append(w.b, `\r`...)
	case '\t':
		w.b = append(w.b, `\t`...)
	default:
		w.b = append(w.b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
	}
}

// raw writes JSON as it is, without the white space around it.
func (w *writer) raw(field string, raw []byte) {
	raw = trimJSON(raw)
	s := scanner{data: raw, depth: w.depth, keys: w.keys}
	if err := s.check(); err != nil && w.err == nil {
		w.err = fmt.Errorf("%s: %w", field, err)
	}
	w.keys = s.keys[:0]
	w.b = append(w.b, raw...)
}

// optionalRaw writes a field that is left out when there is nothing but white space.
func (w *writer) optionalRaw(name string, raw []byte) {
	if len(trimJSON(raw)) > 0 {
		w.key(name)
		w.raw(name, raw)
	}
}

// content writes one block, which is an object.
func (w *writer) content(block Content) {
	if b := trimJSON(block); len(b) == 0 || b[0] != '{' {
		w.fail("content", "block is no JSON object")
	}
	w.raw("content", block)
}

func (w *writer) time(name string, t time.Time) {
	w.key(name)
	w.b = append(w.b, '"')
	b, err := t.AppendText(w.b)
	if err != nil {
		w.fail(name, "is no time of RFC 3339")
		return
	}
	w.b = append(b, '"')
}

func (w *writer) optionalTime(name string, t *time.Time) {
	if t != nil {
		w.time(name, *t)
	}
}

func (w *writer) uint(name string, n uint64) {
	w.key(name)
	w.b = strconv.AppendUint(w.b, n, 10)
}

func (w *writer) int(name string, n int) {
	w.key(name)
	w.b = strconv.AppendInt(w.b, int64(n), 10)
}

func (w *writer) optionalFloat(name string, f *float64) {
	if f == nil {
		return
	}
	b, err := json.Marshal(*f)
	if err != nil {
		w.fail(name, "is no finite number")
	}
	w.key(name)
	w.b = append(w.b, b...)
}

func (w *writer) bool(name string, v bool) {
	w.key(name)
	w.b = strconv.AppendBool(w.b, v)
}

// sorted returns the keys of m in order, so that equal values give equal bytes.
func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// trimJSON cuts the white space around a JSON value.
func trimJSON(b []byte) []byte {
	space := func(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }
	for len(b) > 0 && space(b[0]) {
		b = b[1:]
	}
	for len(b) > 0 && space(b[len(b)-1]) {
		b = b[:len(b)-1]
	}
	return b
}
