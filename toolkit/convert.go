package toolkit

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/toolwire/toolwire/events"
)

// Converter is a value that knows how it becomes a result.
type Converter interface {
	ToolResult() (Result, error)
}

// Convert makes the result of a returned value: nil is the text null, a string of any type stays
// raw unless the type writes its own JSON, [Result] and content pass through, [Converter] converts
// itself; anything else is JSON text, and structured content too where it is an object.
func Convert(v any) (Result, error) {
	if p := reflect.ValueOf(v); !p.IsValid() || p.Kind() == reflect.Pointer && p.IsNil() {
		return text("null"), nil
	}
	switch v := v.(type) {
	case Result:
		return v, nil
	case *Result:
		return *v, nil
	case Converter:
		return v.ToolResult()
	case events.Content:
		return Result{Content: []events.Content{v}}, nil
	case []events.Content:
		return Result{Content: v}, nil
	case string:
		return text(v), nil
	case json.Marshaler, encoding.TextMarshaler: // as they say, below
	default:
		if s := reflect.Indirect(reflect.ValueOf(v)); s.Kind() == reflect.String {
			return text(s.String()), nil
		}
	}
	b, err := marshal(v)
	if err == nil {
		err = events.CheckJSON(b)
	}
	if err != nil {
		return Result{}, Fatal(fmt.Errorf("the tool's result has no JSON form: %w", err))
	}
	r := text(string(b))
	if t := bytes.TrimLeft(b, " \t\r\n"); t[0] == '{' {
		r.Structured = b
	}
	return r, nil
}

// marshal is JSON without the escapes that HTML needs; raw JSON stays as it is.
func marshal(v any) ([]byte, error) {
	if raw, ok := v.(json.RawMessage); ok && raw != nil {
		return raw, nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func text(s string) Result { return Result{Content: []events.Content{events.Text(s)}} }
