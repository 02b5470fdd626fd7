package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
)

// Unmarshal reads JSON into v, strictly: a duplicate key at any depth, a key in the wrong
// case, trailing data, bad UTF-8, nesting beyond [MaxDepth] or more than [MaxSize] bytes is
// [ErrMalformed], and the error says what is wrong, at which byte and under which path.
// Unknown keys are ignored, so that a later version may add some; null where something may be
// left out counts as left out.
//
// The data types of this package (ToolCalls …) are read in one pass, and their raw JSON
// (arguments, content blocks) shares the bytes of data, which must not change afterwards.
// Any other type is read by encoding/json after the same checks.
func Unmarshal(data []byte, v any) error {
	o, own := ownType(v)
	if !own {
		return unmarshalOther(data, v)
	}
	p := reflect.ValueOf(v)
	if p.IsNil() {
		return fmt.Errorf("events: unmarshal into a nil %T", v)
	}
	p.Elem().SetZero()
	s := scanner{data: data}
	if s.begin() {
		s.object(o)
	}
	return s.end()
}

// ownType says whether v reads itself. A struct that embeds one that does is another matter.
func ownType(v any) (object, bool) {
	switch v := v.(type) {
	case *ToolCalls:
		return v, true
	case *ToolWork:
		return v, true
	case *ToolResultStart:
		return v, true
	case *ToolResult:
		return v, true
	case *ToolResultDelta:
		return v, true
	case *CancelCalls:
		return v, true
	case *Announce:
		return v, true
	}
	return nil, false
}

func unmarshalOther(data []byte, v any) error {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.IsNil() {
		return fmt.Errorf("events: unmarshal into %T, which is no pointer or a nil one", v)
	}
	s := scanner{data: data, depth: depthOf(v)}
	if s.begin() {
		s.shaped(p.Type().Elem())
	}
	if err := s.end(); err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	withoutNulls(v)
	return nil
}

// CheckJSON says whether data is one JSON value as [Unmarshal] would have it. Numbers of any
// size are fine, and so are surrogate escapes without their other half: raw JSON is
// passed on as it is, never decoded. The error is [ErrMalformed].
func CheckJSON(data []byte) error {
	s := scanner{data: data}
	return s.check()
}

// check checks the whole text.
func (s *scanner) check() error {
	if s.begin() {
		s.value()
	}
	return s.end()
}

// Marshal renders v as JSON. In the data types of this package (ToolCalls …) raw JSON is
// checked as by [CheckJSON], and copied byte for byte, inner white space included. What would not
// read back is an error, [ErrMalformed]: raw JSON that is none, or text that is not UTF-8.
// A nil Content is an empty list, an input of nothing but white space is left out.
// Any other type goes through encoding/json, without escaping for HTML.
func Marshal(v any) ([]byte, error) {
	w := writer{depth: depthOf(v)}
	switch v := v.(type) {
	case ToolCalls:
		w.toolCalls(&v)
	case ToolWork:
		w.toolWork(&v)
	case ToolResultStart:
		w.toolResultStart(&v)
	case ToolResult:
		w.toolResult(&v)
	case ToolResultDelta:
		w.toolResultDelta(&v)
	case CancelCalls:
		w.cancelCalls(&v)
	case Announce:
		w.announce(&v)
	default:
		if w.questions(v) {
			return w.done()
		}
		if p := reflect.ValueOf(v); p.Kind() == reflect.Pointer && !p.IsNil() {
			return Marshal(p.Elem().Interface())
		}
		return marshalOther(v)
	}
	return w.done()
}

func marshalOther(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
