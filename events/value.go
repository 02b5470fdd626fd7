package events

import (
	"encoding/json"
	"strings"
)

// ReadJSON reads one JSON value of any kind, as strictly as [Unmarshal], into what validators take:
// map[string]any, []any, string, bool, nil, and json.Number with the digits as they were written.
// A surrogate escape without its other half reads as U+FFFD. The error is [ErrMalformed].
func ReadJSON(data []byte) (any, error) {
	s := scanner{data: data}
	var v any
	if s.begin() {
		v = s.any()
	}
	return v, s.end()
}

// any reads the next value of any kind.
func (s *scanner) any() any {
	switch s.peek() {
	case '{':
		return s.anyObject()
	case '[':
		all := []any{}
		s.array(func() { all = append(all, s.any()) })
		return all
	case '"':
		return s.anyText()
	case 't':
		return s.literal("true")
	case 'f':
		s.literal("false")
		return false
	}
	start := s.pos
	if !s.value() || s.data[start] == 'n' {
		return nil
	}
	return json.Number(s.data[start:s.pos])
}

func (s *scanner) anyObject() map[string]any {
	all := map[string]any{}
	if !s.open('{', '}') {
		return all
	}
	base := len(s.keys)
	var set map[string]struct{}
	for {
		key, ok := s.key(base, &set)
		if !ok {
			return all
		}
		name := strings.ToValidUTF8(string(key), "\uFFFD")
		all[name] = s.any()
		if !s.more('}') {
			s.keys = s.keys[:base]
			return all
		}
	}
}

func (s *scanner) anyText() string {
	start := s.pos
	inner, escaped, ok := s.str()
	if !ok || !escaped {
		return string(inner)
	}
	text, paired := unescape(inner)
	if paired {
		return string(text)
	}
	var lossy string
	if err := json.Unmarshal(s.data[start:s.pos], &lossy); err != nil {
		s.fail(start, "a string that cannot be read: %s", err)
	}
	return lossy
}
