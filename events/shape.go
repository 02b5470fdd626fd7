package events

import (
	"encoding/json"
	"reflect"
	"strings"
)

// rightCase fails if key differs from a field of t in case only.
func (s *scanner) rightCase(t reflect.Type, key []byte, off int) {
	for name := range jsonFields(t) {
		if strings.EqualFold(name, string(key)) && name != string(key) {
			s.fail(off, "key %s is in the wrong case, write %q", quote(key), name)
			return
		}
	}
}

// shaped checks the next value against the shape of t, which encoding/json is going to fill:
// the keys of structs in their right case, at every level. The types of this package read
// themselves; this is for those of others.
func (s *scanner) shaped(t reflect.Type) {
	for t.Kind() == reflect.Pointer && !reads(t) {
		t = t.Elem()
	}
	c := s.peek()
	switch kind := t.Kind(); {
	case reads(t):
		s.value()
	case kind == reflect.Struct && c == '{':
		s.shapedObject(t, jsonFields(t))
	case kind == reflect.Map && c == '{':
		s.shapedObject(t, nil)
	case (kind == reflect.Slice || kind == reflect.Array) && c == '[':
		s.shapedArray(t.Elem())
	default:
		s.value()
	}
}

func (s *scanner) shapedObject(t reflect.Type, fields map[string]reflect.Type) {
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
		switch field, known := fields[string(key)]; {
		case known:
			s.shaped(field)
		case fields == nil:
			s.shaped(t.Elem())
		default:
			s.rightCase(t, key, off)
			s.value()
		}
		if !s.more('}') {
			s.keys = s.keys[:base]
			return
		}
	}
}

func (s *scanner) shapedArray(element reflect.Type) {
	if !s.open('[', ']') {
		return
	}
	for {
		s.shaped(element)
		if !s.more(']') {
			return
		}
	}
}

// reads says whether t decodes itself, so that its keys are its own affair.
func reads(t reflect.Type) bool {
	u := reflect.TypeFor[json.Unmarshaler]()
	return t.Implements(u) || reflect.PointerTo(t).Implements(u)
}

// jsonFields returns the JSON fields of a struct by name, those of embedded structs included.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	fields := make(map[string]reflect.Type, t.NumField())
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		embedded := f.Type
		if embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		switch {
		case name == "-":
		case f.Anonymous && name == "" && embedded.Kind() == reflect.Struct:
			for n, t := range jsonFields(embedded) {
				if _, outer := fields[n]; !outer {
					fields[n] = t
				}
			}
		case !f.IsExported():
		case name == "":
			fields[f.Name] = f.Type
		default:
			fields[name] = f.Type
		}
	}
	return fields
}
