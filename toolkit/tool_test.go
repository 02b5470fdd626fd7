package toolkit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/toolkittest"
)

// Defaults are set where an argument is absent or null, and only there; what was given stays exact.
func TestDefaultsAreApplied(t *testing.T) {
	t.Parallel()
	type in struct {
		Unit string          `json:"unit" default:"celsius"`
		Days *int            `json:"days" default:"3"`
		ID   int64           `json:"id,omitempty" default:"9007199254740993"`
		Tags []string        `json:"tags" default:"[\"a\"]"`
		Raw  json.RawMessage `json:"raw,omitempty"`
	}
	tool := toolkit.MustDefine("probe", "d", func(_ context.Context, v in) (string, error) {
		return fmt.Sprint(v.Unit, " ", *v.Days, " ", v.ID, " ", v.Tags, " ", string(v.Raw)), nil
	}, nil)
	for given, want := range map[string]string{
		``:                                      "celsius 3 9007199254740993 [a] ",
		`{"unit":null,"days":null,"tags":null}`: "celsius 3 9007199254740993 [a] ",
		`{"unit":"","days":0,"id":0,"tags":[]}`: " 0 0 [] ",
		`{"id":9223372036854775807}`:            "celsius 3 9223372036854775807 [a] ",
		`{"raw":[12345678901234567890]}`:        "celsius 3 9007199254740993 [a] [12345678901234567890]",
	} {
		if r := toolkittest.Run(t, tool, given, nil).Result; r.Reason != events.ReasonOK || r.Text() != want {
			t.Errorf("%s: got %s %q, want %q", given, r.Reason, r.Text(), want)
		}
	}
}

// T-80: what the schema takes but the Go type cannot hold is an error to correct, never rounded.
func TestIntegersThatDoNotFit(t *testing.T) {
	t.Parallel()
	tool := toolkit.MustDefine("probe", "d", func(_ context.Context, v struct {
		ID int64 `json:"id"`
	},
	) (int64, error) {
		return v.ID, nil
	}, nil)
	for _, given := range []string{`{"id":9223372036854775808}`, `{"id":1e30}`, `{"id":12345678901234567890}`} {
		if r := toolkittest.Run(t, tool, given, nil).Result; r.Reason != events.ReasonInvalidInput {
			t.Errorf("%s: got %s %q, want invalid_input", given, r.Reason, r.Text())
		}
	}
}

// T-124: the schema of a result is inferred of structs alone, and errors are never held against it.
func TestInferredOutput(t *testing.T) {
	t.Parallel()
	type out struct {
		N    int    `json:"n" maximum:"5"`
		Unit string `json:"unit" enum:"a,b"`
	}
	for name, c := range map[string]struct {
		out    out
		err    error
		reason events.Reason
		text   string
	}{
		"fits":         {out{5, "a"}, nil, events.ReasonOK, `{"n":5,"unit":"a"}`},
		"does not fit": {out{6, "c"}, nil, events.ReasonToolError, "/n: maximum: got 6, want 5"},
		"fails":        {out{6, "c"}, errors.New("no such unit"), events.ReasonToolError, "no such unit"},
	} {
		tool := toolkit.MustDefine("probe", "d", func(context.Context, none) (*out, error) { return &c.out, c.err }, nil)
		r := toolkittest.Run(t, tool, "", nil).Result
		if r.Reason != c.reason || !strings.Contains(r.Text(), c.text) || (len(r.StructuredContent) > 0) != (c.reason == events.ReasonOK) {
			t.Errorf("%s: got %s %q", name, r.Reason, r.Text())
		}
	}
	result := func(schema json.RawMessage, err error) string { return string(schema) + fmt.Sprint(err) }
	for name, got := range map[string]string{
		"string": result(outputOf[string]()), "list": result(outputOf[[]out]()), "any": result(outputOf[any]()), "Result": result(outputOf[toolkit.Result]()),
		"*Result": result(outputOf[*toolkit.Result]()), "time": result(outputOf[time.Time]()), "converter": result(outputOf[celsius]()), "raw": result(outputOf[json.RawMessage]()),
		"content": result(outputOf[events.Content]()), "marshaller": result(outputOf[marshaller]()), "pointer converter": result(outputOf[*byPointer]()),
	} {
		if got != "<nil>" {
			t.Errorf("%s: got %s, want no schema", name, got)
		}
	}
}

func outputOf[Out any]() (json.RawMessage, error) {
	tool, err := toolkit.Define("probe", "d", func(context.Context, none) (o Out, err error) { return o, nil }, nil)
	if err != nil {
		return nil, err
	}
	return tool.Definition().OutputSchema, nil
}
