package toolkit_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/toolkittest"
)

type everything struct {
	City  string            `json:"city" description:"where" minLength:"1" maxLength:"20" pattern:"^[A-Z]"`
	Unit  string            `json:"unit" enum:"celsius,fahrenheit" default:"celsius"`
	Days  int               `json:"days,omitempty" minimum:"1" maximum:"7"`
	Tags  []string          `json:"tags,omitempty" enum:"a,b"`
	Since *time.Time        `json:"since" description:"from when"`
	Raw   json.RawMessage   `json:"raw,omitempty"`
	Notes map[string]string `json:"notes,omitempty"`
	Must  *int              `json:"must" required:"true"`
	Skip  string            `json:"-"`
	embedded
}

type embedded struct {
	Mail string `json:"mail,omitempty" format:"email"`
}

func TestSchemaOfAType(t *testing.T) {
	t.Parallel()
	tool, err := toolkit.Define("probe", "d", func(context.Context, everything) (string, error) { return "", nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got, want any
	if err := json.Unmarshal(tool.Definition().InputSchema, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(`{"type":"object","additionalProperties":false,"required":["city","must"],"properties":{
		"city":{"type":"string","description":"where","minLength":1,"maxLength":20,"pattern":"^[A-Z]"},
		"unit":{"type":"string","enum":["celsius","fahrenheit"],"default":"celsius"},
		"days":{"type":"integer","minimum":1,"maximum":7},
		"tags":{"type":"array","items":{"type":"string","enum":["a","b"]}},
		"since":{"type":"string","format":"date-time","description":"from when"},
		"raw":true,
		"notes":{"type":"object","additionalProperties":{"type":"string"}},
		"must":{"type":"integer"},
		"mail":{"type":"string","format":"email"}}}`), &want); err != nil {
		t.Fatal(err)
	}
	props := want.(map[string]any)["properties"].(map[string]any)                                                      //nolint:errcheck // written above
	if gotProps := got.(map[string]any)["properties"].(map[string]any); cmp.Equal(gotProps["raw"], map[string]any{}) { //nolint:errcheck // it is an object
		props["raw"] = map[string]any{}
	}
	sets := cmp.FilterPath(func(p cmp.Path) bool { return strings.Contains(p.GoString(), `"types"`) }, cmp.Ignore())
	if d := cmp.Diff(want, normal(got), sets); d != "" {
		t.Errorf("schema (-want +got):\n%s", d)
	}
}

// normal writes a nullable list or map, which a nil slice or map makes, as the plain type.
func normal(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	if types, ok := m["type"].([]any); ok && len(types) == 2 && types[0] == "null" {
		m["type"] = types[1]
	}
	for k := range m {
		m[k] = normal(m[k])
	}
	return m
}

func TestBadTypesAreRegistrationErrors(t *testing.T) {
	t.Parallel()
	type badEnum struct {
		N int `json:"n" enum:"1,x"`
	}
	type badMinimum struct {
		N int `json:"n" minimum:"low"`
	}
	type badDefault struct {
		N int `json:"n" default:"many"`
	}
	type badPattern struct {
		S string `json:"s" pattern:"("`
	}
	type badRequired struct {
		S string `json:"s" required:"maybe"`
	}
	type function struct {
		F func() `json:"f"`
	}
	type node struct {
		Next *node `json:"next"`
	}
	for name, err := range map[string]error{
		"N": defineErr[badEnum](), "minimum": defineErr[badMinimum](), "default": defineErr[badDefault](), "pattern": defineErr[badPattern](),
		"required": defineErr[badRequired](), "func": defineErr[function](), "node": defineErr[node](), "object": defineErr[string](),
	} {
		if !errors.Is(err, toolkit.ErrDefinition) || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want ErrDefinition naming %q", err, name)
		}
	}
	for _, bad := range []toolkit.Definition{
		{Name: "", InputSchema: json.RawMessage(`{}`)},
		{Name: "a.b", InputSchema: json.RawMessage(`{}`)},
		{Name: events.ToolName(strings.Repeat("x", 65)), InputSchema: json.RawMessage(`{}`)},
		{Name: "a"},
		{Name: "a", InputSchema: json.RawMessage(`true`)},
		{Name: "a", InputSchema: json.RawMessage(`{"type":"nonsense"}`)},
		{Name: "a", InputSchema: json.RawMessage(`{}`), OutputSchema: json.RawMessage(`[]`)},
		{Name: "a", InputSchema: json.RawMessage(`{}`), Timeout: -1},
		{Name: "a", InputSchema: json.RawMessage(`{}`), Attempts: -1},
		{Name: "a", InputSchema: json.RawMessage(`{}`), Oversize: "shrink"},
		{Name: "a", InputSchema: json.RawMessage(`{}`), Backoff: toolkit.Backoff{Multiplier: 0.5}},
		{Name: "a", InputSchema: json.RawMessage(`{}`), Backoff: toolkit.Backoff{Multiplier: math.NaN()}},
		{Name: "a", InputSchema: json.RawMessage(`{}`), Backoff: toolkit.Backoff{Multiplier: math.Inf(1)}},
	} {
		if err := bad.Check(); !errors.Is(err, toolkit.ErrDefinition) {
			t.Errorf("%+v: got %v, want ErrDefinition", bad, err)
		}
	}
}

func defineErr[In any]() error {
	_, err := toolkit.Define("probe", "d", func(context.Context, In) (string, error) { return "", nil }, nil)
	return err
}

// T-80: integers are exact in typed fields, in any, and in raw JSON.
func TestIntegersAreExact(t *testing.T) {
	t.Parallel()
	type in struct {
		ID  int64           `json:"id"`
		Big json.Number     `json:"big"`
		Raw json.RawMessage `json:"raw"`
	}
	typed := toolkit.MustDefine("typed", "d", func(_ context.Context, v in) (in, error) { return v, nil }, nil)
	loose := toolkit.MustDefine("loose", "d", func(_ context.Context, v map[string]any) (map[string]any, error) { return v, nil }, nil)
	const doc = `{"id":9223372036854775807,"big":12345678901234567890,"raw":{"n":-9007199254740993}}`
	for _, tool := range []*toolkit.Tool{typed, loose} {
		r := toolkittest.Run(t, tool, doc, nil).Result
		want, got := exact(t, doc), exact(t, r.Text())
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tool.Definition().Name, d)
		}
	}
}

// exact decodes JSON with its numbers as they are written.
func exact(t *testing.T, doc string) (v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(doc))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return v
}

// T-124: structured content is checked against the output schema on success, and never on errors.
func TestOutputSchema(t *testing.T) {
	t.Parallel()
	type out struct {
		N int `json:"n" minimum:"1"`
	}
	for n, want := range map[int]events.Reason{1: events.ReasonOK, 0: events.ReasonToolError} {
		tool := toolkit.MustDefine("probe", "d", func(context.Context, none) (out, error) { return out{n}, nil }, nil)
		if r := toolkittest.Run(t, tool, "", nil).Result; r.Reason != want || len(tool.Definition().OutputSchema) == 0 {
			t.Errorf("%d: got %s, want %s", n, r.Reason, want)
		}
	}
	failing := toolkit.MustDefine("probe", "d", func(context.Context, none) (toolkit.Result, error) {
		return toolkit.Result{IsError: true, Structured: json.RawMessage(`{"n":0}`), Content: []events.Content{events.Text("no")}}, nil
	}, &toolkit.Options{OutputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"minimum":1}}}`)})
	if r := toolkittest.Run(t, failing, "", nil).Result; r.Text() != "no" {
		t.Errorf("an error result was validated: %s", r.Text())
	}
}
