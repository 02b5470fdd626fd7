package toolkit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/toolkittest"
)

type celsius float64

type named string

func (c celsius) ToolResult() (toolkit.Result, error) {
	return toolkit.Result{Content: []events.Content{events.Text("warm")}}, nil
}

func TestConvert(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		in         any
		text       string
		structured string
	}{
		"a string":     {"a <b> & \"c\"", "a <b> & \"c\"", ""},
		"a struct":     {struct{ A string }{"<b>"}, `{"A":"<b>"}`, `{"A":"<b>"}`},
		"raw JSON":     {json.RawMessage(`{ "a" : 1 }`), `{ "a" : 1 }`, `{ "a" : 1 }`},
		"a list":       {[]int{1}, "[1]", ""},
		"a named text": {named("plain <b>"), "plain <b>", ""},
		"a text at *":  {new("plain"), "plain", ""},
		"a number":     {json.Number("12345678901234567890"), "12345678901234567890", ""},
		"a time":       {time.Unix(0, 0).UTC(), `"1970-01-01T00:00:00Z"`, ""},
		"no raw JSON":  {json.RawMessage(nil), "null", ""},
		"nil at *":     {(*celsius)(nil), "null", ""},
		"nil":          {nil, "null", ""},
		"a nil result": {(*toolkit.Result)(nil), "null", ""},
		"its own way":  {celsius(20), "warm", ""},
		"content":      {events.Text("x"), "x", ""},
		"content list": {[]events.Content{events.Text("x"), events.Text("y")}, "x\ny", ""},
	} {
		r, err := toolkit.Convert(c.in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := (events.ToolResult{Content: r.Content}).Text(); got != c.text || string(r.Structured) != c.structured {
			t.Errorf("%s: got %q, structured %q", name, got, r.Structured)
		}
	}
	for name, v := range map[string]any{"a function": func() {}, "broken JSON": json.RawMessage(`{"a":`), "no JSON": json.RawMessage{}, "NaN": math.NaN()} {
		if _, err := toolkit.Convert(v); err == nil || toolkit.Classify(err).Retry {
			t.Errorf("%s: got %v, want a final error", name, err)
		}
	}
}

type (
	byPointer  struct{ N int }
	unwilling  struct{}
	marshaller struct{}
	textual    struct{ A, B int }
	tagged     struct {
		Name string            `json:"name"`
		Left string            `json:"left,omitempty"`
		Skip string            `json:"-"`
		More map[string]string `json:"more"`
	}
)

func (p *byPointer) ToolResult() (toolkit.Result, error) {
	return toolkit.Result{Content: []events.Content{events.Text("by pointer")}, IsError: p.N == 0}, nil
}

func (unwilling) ToolResult() (toolkit.Result, error) {
	return toolkit.Result{}, errors.New("not today")
}
func (marshaller) MarshalJSON() ([]byte, error) { return []byte(`{ "own" : "<form>" }`), nil }
func (x textual) MarshalText() ([]byte, error)  { return fmt.Appendf(nil, "%d<%d", x.A, x.B), nil }

// What each kind of returned value becomes: text for the model, structured content where it is an object.
func TestConvertKinds(t *testing.T) {
	t.Parallel()
	image := events.Image("image/png", []byte{1})
	for name, c := range map[string]struct {
		in         any
		text       string
		structured string
	}{
		"an empty string":   {"", "", ""},
		"a string of JSON":  {`{"a":1}`, `{"a":1}`, ""}, // text stays text
		"a quoted string":   {`"sunny"`, `"sunny"`, ""},
		"NUL and newline":   {"a\x00\n", "a\x00\n", ""},
		"no UTF-8":          {"a\xff", "a\ufffd", ""},
		"a bool":            {true, "true", ""},
		"an integer":        {int64(9223372036854775807), "9223372036854775807", ""},
		"a large unsigned":  {uint64(18446744073709551615), "18446744073709551615", ""},
		"a float":           {0.1, "0.1", ""},
		"a json.Number":     {json.Number("12345678901234567890"), "12345678901234567890", ""},
		"HTML":              {[]string{"<a href='x'>&</a>"}, `["<a href='x'>&</a>"]`, ""},
		"a map":             {map[string]any{"b": "<&>", "a": nil}, `{"a":null,"b":"<&>"}`, `{"a":null,"b":"<&>"}`},
		"a nil map":         {map[string]any(nil), "null", ""},
		"a nil slice":       {[]string(nil), "null", ""},
		"an empty map":      {map[string]any{}, "{}", "{}"},
		"a struct":          {tagged{Name: "<n>", Skip: "s"}, `{"name":"<n>","more":null}`, `{"name":"<n>","more":null}`},
		"a pointer":         {&tagged{Name: "n", Left: "l"}, `{"name":"n","left":"l","more":null}`, `{"name":"n","left":"l","more":null}`},
		"a nil pointer":     {(*tagged)(nil), "null", ""},
		"structs":           {[]tagged{{}}, `[{"name":"","more":null}]`, ""},
		"bytes":             {[]byte("hi"), `"aGk="`, ""},
		"a time":            {time.Unix(0, 0).UTC(), `"1970-01-01T00:00:00Z"`, ""},
		"a marshaller":      {marshaller{}, `{"own":"<form>"}`, `{"own":"<form>"}`},
		"a text marshaller": {textual{1, 2}, `"1<2"`, ""},
		"raw object":        {json.RawMessage(" {\"a\" : \"\\u003c\", \"n\":1.0}\n"), " {\"a\" : \"\\u003c\", \"n\":1.0}\n", " {\"a\" : \"\\u003c\", \"n\":1.0}\n"},
		"raw list":          {json.RawMessage(`[ {} ]`), `[ {} ]`, ""},
		"raw string":        {json.RawMessage(`"a"`), `"a"`, ""},
		"by its pointer":    {&byPointer{1}, "by pointer", ""},
		"a nil converter":   {(*byPointer)(nil), "null", ""},
		"a Result":          {toolkit.Result{Content: []events.Content{events.Text("r")}, Structured: json.RawMessage(`{ "r":1}`)}, "r", `{ "r":1}`},
		"a *Result":         {&toolkit.Result{Content: []events.Content{events.Text("p")}}, "p", ""},
		"an empty Result":   {toolkit.Result{}, "", ""},
		"no content":        {[]events.Content{}, "", ""},
	} {
		r, err := toolkit.Convert(c.in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := (events.ToolResult{Content: r.Content}).Text(); got != c.text || string(r.Structured) != c.structured || r.IsError {
			t.Errorf("%s: got %q, structured %q, isError %v", name, got, r.Structured, r.IsError)
		}
	}
	for _, in := range []any{image, []events.Content{image}, toolkit.Result{Content: []events.Content{image}}} { // T-120: stays a block
		if r, err := toolkit.Convert(in); err != nil || len(r.Content) != 1 || string(r.Content[0]) != string(image) || r.Structured != nil {
			t.Errorf("an image as %T: got %s, %v", in, r.Content, err)
		}
	}
	if r, err := toolkit.Convert(&byPointer{}); err != nil || !r.IsError {
		t.Errorf("isError of a converter: got %v, %v", r.IsError, err)
	}
}

// A value without a JSON form is an error that no retry mends; a converter's own error is its own.
func TestConvertFails(t *testing.T) {
	t.Parallel()
	type loop struct{ Next *loop }
	round := &loop{}
	round.Next = round
	for name, v := range map[string]any{
		"NaN": math.NaN(), "infinite": math.Inf(-1), "a channel": make(chan int), "a function": func() {}, "complex": 1i,
		"within": map[string]any{"a": []any{func() {}}}, "a circle": round, "keys": map[bool]int{true: 1},
	} {
		r, err := toolkit.Convert(v)
		if err == nil || !strings.Contains(err.Error(), "has no JSON form") || len(r.Content) != 0 {
			t.Errorf("%s: got %s, %v", name, r.Content, err)
		}
		if f := toolkit.Classify(err); f.Retry || f.Reason != events.ReasonToolError {
			t.Errorf("%s: got %+v", name, f)
		}
	}
	if _, err := toolkit.Convert(unwilling{}); err == nil || err.Error() != "not today" {
		t.Errorf("got %v", err)
	}
}

// A tool's own converter gets the value as it was returned.
func TestOwnConverter(t *testing.T) {
	t.Parallel()
	tool := toolkit.MustDefine("probe", "d", func(context.Context, none) (int, error) { return 7, nil },
		&toolkit.Options{Convert: func(v any) (toolkit.Result, error) { return toolkit.Convert(fmt.Sprintf("%T %v", v, v)) }})
	if got := toolkittest.Run(t, tool, "", nil).Result.Text(); got != "int 7" {
		t.Errorf("got %q", got)
	}
}
