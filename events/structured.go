package events

import (
	"encoding/base64"
	"strconv"
)

// EncodeStructured renders e for NATS in structured mode: the whole event as one JSON body,
// for clients that cannot read headers. Data that is no JSON is [ErrMalformed].
func EncodeStructured(e Event) (header map[string][]string, body []byte, err error) {
	w := writer{b: make([]byte, 0, 768+len(e.Data))}
	w.open('{')
	e.attributes(func(header, value string) { w.text(header[len(prefixHeader):], value) })
	w.optionalRaw("data", e.Data)
	w.shut('}')
	body, err = w.done()
	return map[string][]string{contentTypeField: {structuredType}}, body, err
}

// structured is an event in structured mode as it is read.
type structured struct {
	attributeReader

	data []byte
}

func decodeStructured(body []byte) (Event, error) {
	r := structured{attributeReader: attributeReader{where: "attribute "}}
	s := scanner{data: body}
	if s.begin() {
		s.object(&r)
	}
	if err := s.end(); err != nil {
		return Event{}, err
	}
	if r.spec == "" && r.err == nil {
		r.fail("specversion", "missing (neither a ce-specversion header nor in the body)")
	}
	return r.event(r.data)
}

func (r *structured) field(s *scanner, key []byte) bool {
	switch string(key) {
	case "data":
		if !s.null() {
			r.take(s, s.raw())
		}
	case "data_base64":
		if !s.null() {
			r.base64(s)
		}
	default:
		r.attribute(s, string(key))
	}
	return true
}

func (r *structured) take(s *scanner, data []byte) {
	if r.data != nil {
		s.fail(s.pos, "both data and data_base64")
	}
	r.data = data
}

func (r *structured) base64(s *scanner) {
	s.peek()
	off := s.pos
	data, err := base64.StdEncoding.DecodeString(s.text())
	if err == nil {
		err = CheckJSON(data)
	}
	if err != nil {
		s.fail(off, "data_base64 holds no JSON (%v), and only JSON is read", err)
		return
	}
	r.take(s, data)
}

// attribute reads a value that CloudEvents allows for an attribute.
func (r *structured) attribute(s *scanner, name string) {
	switch c := s.peek(); {
	case c == '"':
		r.set(name, s.text())
	case s.null():
	case c == 't', c == 'f':
		r.set(name, strconv.FormatBool(s.bool()))
	case c == '-' || '0' <= c && c <= '9':
		r.set(name, strconv.Itoa(s.int()))
	default:
		s.unexpected("a string, number or boolean")
	}
}
