package toolkit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/toolwire/toolwire/events"
)

// Converter is a value that knows how it becomes a result.
type Converter interface {
	ToolResult() (Result, error)
}

// Convert makes the result of a returned value: nil is the text null, a string stays raw, [Result]
// and content pass through, [Converter] converts itself; anything else is JSON text, and
// structured content too where it is an object.
func Convert(v any) (Result, error) {
	switch v := v.(type) {
	case nil:
		return text("null"), nil
	case Result:
		return v, nil
	case *Result:
		if v == nil {
			return text("null"), nil
		}
		return *v, nil
	case Converter:
		if r := reflect.ValueOf(v); r.Kind() == reflect.Pointer && r.IsNil() {
			return text("null"), nil
		}
		return v.ToolResult()
	case events.Content:
		return Result{Content: []events.Content{v}}, nil
	case []events.Content:
		return Result{Content: v}, nil
	case string:
		return text(v), nil
	case json.RawMessage:
		return fromJSON(v), nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return Result{}, Fatal(fmt.Errorf("the tool's result has no JSON form: %w", err))
	}
	return fromJSON(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

func text(s string) Result { return Result{Content: []events.Content{events.Text(s)}} }

func fromJSON(b json.RawMessage) Result {
	r := text(string(b))
	if t := bytes.TrimLeft(b, " \t\r\n"); len(t) > 0 && t[0] == '{' {
		r.Structured = b
	}
	return r
}
