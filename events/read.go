package events

import (
	"encoding/json"
	"reflect"
	"strconv"
	"time"
	"unicode/utf8"
)

// object is a struct that reads itself: field reads the value of a key it knows, or returns false.
type object interface {
	field(s *scanner, key []byte) bool
}

// object reads an object into o. Unknown keys are skipped, unless they differ from
// a known one in case only.
func (s *scanner) object(o object) {
	if !s.open('{', '}') {
		return
	}
	base := len(s.keys)
	var set map[string]struct{}
	for {
		s.peek()
		off := s.pos
		key, ok := s.key(base, &set)
		if !ok {
			return
		}
		if !o.field(s, key) && s.err == nil {
			s.rightCase(reflect.TypeOf(o).Elem(), key, off)
			s.value()
		}
		if !s.more('}') {
			s.keys = s.keys[:base]
			return
		}
	}
}

// array calls element for each element of an array; null is an empty one.
func (s *scanner) array(element func()) {
	if s.null() || !s.open('[', ']') {
		return
	}
	for {
		element()
		if !s.more(']') {
			return
		}
	}
}

// members calls member for each member of an object whose keys are free text; null is an empty one.
func (s *scanner) members(member func(key string)) {
	if s.null() || !s.open('{', '}') {
		return
	}
	base := len(s.keys)
	var set map[string]struct{}
	for {
		s.peek()
		off := s.pos
		key, ok := s.key(base, &set)
		if !ok {
			return
		}
		if !utf8.Valid(key) {
			s.fail(off, "a surrogate without its other half in a key")
			return
		}
		member(string(key))
		if !s.more('}') {
			s.keys = s.keys[:base]
			return
		}
	}
}

// null moves behind a null, and says whether there was one.
func (s *scanner) null() bool {
	return s.err == nil && s.peek() == 'n' && s.literal("null")
}

// raw reads a value of any kind and keeps it byte for byte; the bytes are shared with the text.
func (s *scanner) raw() json.RawMessage {
	s.peek()
	start := s.pos
	if s.err != nil || !s.value() {
		return nil
	}
	return s.data[start:s.pos:s.pos]
}

// textBytes reads a string; null is the empty one.
func (s *scanner) textBytes() []byte {
	if s.err != nil || s.null() {
		return nil
	}
	if s.peek() != '"' {
		s.unexpected("a string")
		return nil
	}
	off := s.pos
	inner, escaped, ok := s.str()
	if ok && escaped {
		if inner, ok = unescape(inner); !ok {
			s.fail(off, "a surrogate without its other half in a string")
		}
	}
	return inner
}

func (s *scanner) text() string { return string(s.textBytes()) }

func (s *scanner) time() (t time.Time) {
	s.peek()
	off := s.pos
	if b := s.textBytes(); b != nil && t.UnmarshalText(b) != nil {
		s.fail(off, "%s is no RFC 3339 time", quote(b))
	}
	return t
}

func (s *scanner) optionalTime() *time.Time {
	if s.null() {
		return nil
	}
	t := s.time()
	return &t
}

// digits reads a number as it is written.
func (s *scanner) digits() (lit string, off int) {
	if s.err != nil || s.null() {
		return "0", s.pos
	}
	if c := s.peek(); c != '-' && (c < '0' || c > '9') {
		s.unexpected("a number")
		return "0", s.pos
	}
	off = s.pos
	if !s.number() {
		return "0", off
	}
	return string(s.data[off:s.pos]), off
}

func (s *scanner) uint() uint64 {
	lit, off := s.digits()
	n, err := strconv.ParseUint(lit, 10, 64)
	if err != nil {
		s.fail(off, "%s is no whole number from 0 to 2^64-1", quote([]byte(lit)))
	}
	return n
}

func (s *scanner) int() int {
	lit, off := s.digits()
	n, err := strconv.Atoi(lit)
	if err != nil {
		s.fail(off, "%s is no whole number of 64 bits", quote([]byte(lit)))
	}
	return n
}

func (s *scanner) float() *float64 {
	if s.null() {
		return nil
	}
	lit, off := s.digits()
	f, err := strconv.ParseFloat(lit, 64)
	if err != nil {
		s.fail(off, "%s is beyond a 64-bit float", quote([]byte(lit)))
	}
	return &f
}

func (s *scanner) bool() bool {
	if s.err != nil || s.null() {
		return false
	}
	switch s.peek() {
	case 't':
		return s.literal("true")
	case 'f':
		s.literal("false")
	default:
		s.unexpected("true or false")
	}
	return false
}
