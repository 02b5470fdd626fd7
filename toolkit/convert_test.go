package toolkit_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
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
