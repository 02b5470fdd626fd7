package events

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// escapeLen returns the length of the escape that b starts with, 0 if it is none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if hex4(b) >= 0 {
			return 6
		}
	}
	return 0
}

// hex4 returns the code unit of the \uXXXX escape that b starts with, -1 if it is none.
func hex4(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// unescape decodes the inside of a checked string literal. A surrogate without its other half
// has no UTF-8: it becomes the three bytes that UTF-8 would give it (so that different ones stay
// different), and paired is false.
func unescape(inner []byte) (text []byte, paired bool) {
	out, paired := make([]byte, 0, len(inner)), true
	for i := 0; i < len(inner); {
		if inner[i] != '\\' {
			out = append(out, inner[i])
			i++
			continue
		}
		if inner[i+1] != 'u' {
			out = append(out, plainEscape(inner[i+1]))
			i += 2
			continue
		}
		r := hex4(inner[i:])
		i += 6
		if !utf16.IsSurrogate(r) {
			out = utf8.AppendRune(out, r)
			continue
		}
		if both := utf16.DecodeRune(r, hex4(inner[i:])); both != utf8.RuneError {
			out = utf8.AppendRune(out, both)
			i += 6
			continue
		}
		paired = false
		out = append(out, 0xE0|byte(r>>12), 0x80|byte(r>>6&0x3F), 0x80|byte(r&0x3F))
	}
	return out, paired
}

func plainEscape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

// quote shows a key in an error, shortened.
func quote(key []byte) string {
	const most = 40
	if len(key) > most {
		return strconv.Quote(string(key[:most])) + "…"
	}
	return strconv.Quote(string(key))
}

// pathAt says where byte off of data lies, as a JSON path such as $.calls[0].input.
// What precedes off must be well-formed; it is only called once an error is known.
func pathAt(data []byte, off int) string {
	type frame struct {
		key   []byte
		index int
		array bool
		named bool
	}
	var open []frame
	for i := 0; i < off && i < len(data); i++ {
		var top *frame
		if len(open) > 0 {
			top = &open[len(open)-1]
		}
		switch data[i] {
		case '{', '[':
			open = append(open, frame{array: data[i] == '['})
		case '}', ']':
			open = open[:max(0, len(open)-1)]
		case ',':
			if top != nil {
				top.index++
				top.named = false
			}
		case '"':
			from := i + 1
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
			if top != nil && !top.array && !top.named && i < off {
				top.key, top.named = data[from:min(i, len(data))], true
			}
		}
	}
	var b strings.Builder
	b.WriteByte('$')
	for _, f := range open {
		switch {
		case b.Len() > 200:
			b.WriteString("…")
			return b.String()
		case f.array:
			b.WriteString("[" + strconv.Itoa(f.index) + "]")
		case f.named && isName(f.key):
			b.WriteString("." + string(f.key))
		case f.named:
			b.WriteString("[" + quote(f.key) + "]")
		}
	}
	return b.String()
}

func isName(key []byte) bool {
	for _, c := range key {
		if !tokenByte(c) || c == '-' {
			return false
		}
	}
	return len(key) > 0 && len(key) <= 40
}
