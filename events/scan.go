package events

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unicode/utf8"
)

// Limits of one JSON document on the wire; beyond them it is [ErrMalformed].
const (
	MaxDepth = 128      // nested arrays and objects
	MaxSize  = 16 << 20 // bytes
)

// linearKeys is up to how many keys of one object are compared one by one; beyond, by a set.
const linearKeys = 16

// scanner reads JSON text once, strictly, from left to right. The first error sticks in err,
// and whatever is read after it means nothing.
type scanner struct {
	data  []byte
	pos   int
	depth int
	err   error
	keys  []span           // keys read so far, of all objects that are open
	room  [linearKeys]span // where keys begins
}

// span is where the inside of a key lies in the text.
type span struct {
	from, to uint32
	escaped  bool
}

// fail records what is wrong at byte off, and returns false.
func (s *scanner) fail(off int, format string, args ...any) bool {
	if s.err == nil {
		s.err = fmt.Errorf("%w: %s at byte %d, in %s", ErrMalformed, fmt.Sprintf(format, args...), off, pathAt(s.data, off))
	}
	return false
}

// begin checks what can be told beforehand.
func (s *scanner) begin() bool {
	if len(s.data) > MaxSize {
		return s.fail(0, "%d bytes of JSON, at most %d are allowed", len(s.data), MaxSize)
	}
	return true
}

// end says that nothing but white space may follow.
func (s *scanner) end() error {
	if s.err == nil && (s.peek() != 0 || s.pos < len(s.data)) {
		s.fail(s.pos, "trailing data after the JSON value")
	}
	return s.err
}

// peek skips white space and returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	for s.pos < len(s.data) {
		c := s.data[s.pos]
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
		s.pos++
	}
	return 0
}

// value checks the next value of any kind and moves behind it.
func (s *scanner) value() bool {
	switch c := s.peek(); c {
	case '{':
		return s.skipObject()
	case '[':
		return s.skipArray()
	case '"':
		_, _, ok := s.str()
		return ok
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return s.number()
	}
	return s.unexpected("a value")
}

func (s *scanner) skipObject() bool {
	if !s.open('{', '}') {
		return s.err == nil
	}
	base := len(s.keys)
	var set map[string]struct{}
	for {
		if _, ok := s.key(base, &set); !ok || !s.value() {
			return false
		}
		if !s.more('}') {
			s.keys = s.keys[:base]
			return s.err == nil
		}
	}
}

func (s *scanner) skipArray() bool {
	if !s.open('[', ']') {
		return s.err == nil
	}
	for {
		if !s.value() {
			return false
		}
		if !s.more(']') {
			return s.err == nil
		}
	}
}

// open moves into an object or array; false when it is empty (and so left again) or on error.
func (s *scanner) open(open, shut byte) bool {
	if s.peek() != open {
		what := "an object"
		if open == '[' {
			what = "an array"
		}
		return s.unexpected(what)
	}
	if s.depth++; s.depth > MaxDepth {
		return s.fail(s.pos, "JSON nested deeper than %d levels", MaxDepth)
	}
	s.pos++
	if s.peek() != shut {
		return true
	}
	s.pos++
	s.depth--
	return false
}

// more moves behind the comma or the closing bracket after a member; false when that was the
// last one, or on error.
func (s *scanner) more(shut byte) bool {
	if s.err != nil {
		return false
	}
	switch s.peek() {
	case ',':
		s.pos++
		return true
	case shut:
		s.pos++
		s.depth--
		return false
	}
	return s.unexpected("',' or '" + string(rune(shut)) + "'")
}

// key reads a key and its colon. The keys of this object start at base in s.keys; set holds
// them instead once they are many.
func (s *scanner) key(base int, set *map[string]struct{}) ([]byte, bool) {
	if s.peek() != '"' {
		return nil, s.unexpected("a key")
	}
	off := s.pos
	key, escaped, ok := s.str()
	if !ok {
		return nil, false
	}
	at := span{uint32(off + 1), uint32(s.pos - 1), escaped} // at most MaxSize
	if escaped {
		key, _ = unescape(key)
	}
	if s.seen(key, at, base, set) {
		return nil, s.fail(off, "key %s appears twice", quote(key))
	}
	if s.peek() != ':' {
		return nil, s.unexpected("':'")
	}
	s.pos++
	return key, true
}

// seen notes key, which lies at, and says whether its object had it before.
func (s *scanner) seen(key []byte, at span, base int, set *map[string]struct{}) bool {
	own := s.keys[base:]
	if len(own) < linearKeys {
		for _, k := range own {
			if bytes.Equal(s.keyAt(k), key) {
				return true
			}
		}
		if s.keys == nil {
			s.keys = s.room[:0]
		}
		s.keys = append(s.keys, at)
		return false
	}
	if *set == nil {
		*set = make(map[string]struct{}, 4*linearKeys)
		for _, k := range own {
			(*set)[string(s.keyAt(k))] = struct{}{}
		}
	}
	if _, dup := (*set)[string(key)]; dup {
		return true
	}
	(*set)[string(key)] = struct{}{}
	return false
}

// keyAt returns a key that was read before.
func (s *scanner) keyAt(k span) []byte {
	key := s.data[k.from:k.to]
	if k.escaped {
		key, _ = unescape(key)
	}
	return key
}

// str reads a string literal and returns what is between the quotes, and whether that holds
// escapes. Escapes are checked here, surrogate pairs are not: see [unescape].
func (s *scanner) str() (inner []byte, escaped, ok bool) {
	start := s.pos + 1
	for i := start; i < len(s.data); {
		if i+8 <= len(s.data) && plain8(s.data[i:]) {
			i += 8
			continue
		}
		c := s.data[i]
		switch {
		case c == '"':
			s.pos = i + 1
			return s.data[start:i:i], escaped, true
		case c == '\\':
			n := escapeLen(s.data[i:])
			if n == 0 {
				return nil, false, s.fail(i, "a bad escape in a string")
			}
			escaped = true
			i += n
		case c < 0x20:
			return nil, false, s.fail(i, "the control character U+%04X in a string", c)
		case c < utf8.RuneSelf:
			i++
		default:
			r, n := utf8.DecodeRune(s.data[i:])
			if r == utf8.RuneError && n == 1 {
				return nil, false, s.fail(i, "invalid UTF-8 in a string")
			}
			i += n
		}
	}
	return nil, false, s.fail(len(s.data), "the text ends within a string")
}

// plain8 says whether the first eight bytes are ASCII that stands for itself in a string:
// no byte has its high bit set, nor gets it when 0x20 (control characters), or, of what
// differs from '"' and from '\\', 1 is subtracted.
func plain8(b []byte) bool {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	x := binary.LittleEndian.Uint64(b)
	return (x|(x-0x20*ones)|((x^'"'*ones)-ones)|((x^'\\'*ones)-ones))&high == 0
}

func (s *scanner) number() bool {
	start, d := s.pos, s.data
	i := start
	digits := func() bool {
		from := i
		for i < len(d) && '0' <= d[i] && d[i] <= '9' {
			i++
		}
		return i > from
	}
	if d[i] == '-' {
		i++
	}
	first := i
	ok := digits() && (d[first] != '0' || i == first+1)
	if ok && i < len(d) && d[i] == '.' {
		i++
		ok = digits()
	}
	if ok && i < len(d) && (d[i] == 'e' || d[i] == 'E') {
		i++
		if i < len(d) && (d[i] == '+' || d[i] == '-') {
			i++
		}
		ok = digits()
	}
	if !ok {
		return s.fail(start, "a malformed number")
	}
	s.pos = i
	return true
}

func (s *scanner) literal(word string) bool {
	end := s.pos + len(word)
	if end > len(s.data) || string(s.data[s.pos:end]) != word {
		return s.unexpected("a value")
	}
	s.pos = end
	return true
}

// unexpected fails at the current position, where what was due.
func (s *scanner) unexpected(what string) bool {
	if s.pos >= len(s.data) {
		return s.fail(s.pos, "the text ends where %s is due", what)
	}
	r, _ := utf8.DecodeRune(s.data[s.pos:])
	return s.fail(s.pos, "%q where %s is due", r, what)
}
