package toolkit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/toolkittest"
)

func schemasOf[In, Out any](t *testing.T) (in, out string) {
	t.Helper()
	tool, err := toolkit.Define("probe", "d", func(context.Context, In) (o Out, err error) { return o, nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := tool.Definition()
	return string(d.InputSchema), string(d.OutputSchema)
}

// Types are what encoding/json reads and writes, not what their fields look like.
func TestTypesWithAFormOfTheirOwn(t *testing.T) {
	t.Parallel()
	type in struct {
		Addr  netip.Addr       `json:"addr"`
		Big   *big.Int         `json:"big"`
		Every toolkit.Duration `json:"every" default:"1m"`
		Pause time.Duration    `json:"pause,omitempty"`
		Bytes []byte           `json:"bytes,omitempty"`
		Count int              `json:"count,string"`
		Small int8             `json:"small"`
		ByID  map[int]string   `json:"byId,omitempty"`
		Any   any              `json:"any,omitempty" description:"anything"`
		Block events.Content   `json:"block,omitempty"`
	}
	got, _ := schemasOf[in, string](t)
	want := `{"type":"object","properties":{` +
		`"addr":{"type":"string"},"big":{"type":"integer"},"every":{"type":"string","default":"1m"},` +
		`"pause":{"type":"integer","description":"nanoseconds"},"bytes":{"type":"string","contentEncoding":"base64"},` +
		`"count":{"type":"string"},"small":{"type":"integer","minimum":-128,"maximum":127},` +
		`"byId":{"type":"object","additionalProperties":{"type":"string"}},"any":{"description":"anything"},` +
		`"block":{"type":"object"}},"required":["addr","count","small"],"additionalProperties":false}`
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("schema (-want +got):\n%s", d)
	}
	tool := toolkit.MustDefine("probe", "d", func(_ context.Context, v in) (string, error) {
		return strings.TrimSpace(fmt.Sprintln(v.Addr, v.Big, time.Duration(v.Every), string(v.Bytes), v.Count, v.ByID, v.Any)), nil
	}, nil)
	r := toolkittest.Run(t, tool, `{"addr":"::1","big":12345678901234567890,"bytes":"aGV5","count":"5","small":1,"byId":{"7":"x"},"any":9007199254740993}`, nil).Result
	if want := "::1 12345678901234567890 1m0s hey 5 map[7:x] 9007199254740993"; r.Text() != want {
		t.Errorf("got %s %q, want %q", r.Reason, r.Text(), want)
	}
}

// What encoding/json writes fits the schema that was inferred, nil and empty values included.
func TestOutputsFitTheirSchemas(t *testing.T) {
	t.Parallel()
	type item struct {
		N int `json:"n"`
	}
	type out struct {
		List  []int           `json:"list"`
		Items []*item         `json:"items"`
		Map   map[string]item `json:"map"`
		One   *item           `json:"one"`
		Unit  *string         `json:"unit" enum:"a,b"`
		Bytes []byte          `json:"bytes"`
		Addr  netip.Addr      `json:"addr"`
		Big   *big.Int        `json:"big"`
		Text  int             `json:"text,string"`
		Any   fmt.Stringer    `json:"any"`
		Left  []int           `json:"left,omitempty"`
		Raw   json.RawMessage `json:"raw"`
		When  time.Time       `json:"when"`
	}
	for name, v := range map[string]out{
		"zero": {},
		"full": {
			List: []int{1}, Items: []*item{nil, {1}}, Map: map[string]item{"a": {2}}, One: &item{3}, Unit: new("b"),
			Bytes: []byte("x"), Addr: netip.MustParseAddr("::1"), Big: big.NewInt(1), Left: []int{}, Raw: json.RawMessage(`[1]`),
		},
	} {
		tool := toolkit.MustDefine("probe", "d", func(context.Context, none) (out, error) { return v, nil }, nil)
		r := toolkittest.Run(t, tool, "", nil).Result
		if r.Reason != events.ReasonOK || len(r.StructuredContent) == 0 {
			t.Errorf("%s: got %s, %s", name, r.Reason, r.Text())
		}
	}
	_, schema := schemasOf[none, out](t)
	for _, part := range []string{`"list":{"type":["null","array"],`, `"unit":{"type":["null","string"],"enum":["a","b",null]}`, `"left":{"type":"array",`} {
		if !strings.Contains(schema, part) {
			t.Errorf("%s not in %s", part, schema)
		}
	}
	if _, schema := schemasOf[none, struct{ hidden int }](t); schema != `{"type":"object","properties":{},"additionalProperties":false}` {
		t.Errorf("a struct without fields: %s", schema)
	}
	for _, schema := range []string{second(schemasOf[none, string](t)), second(schemasOf[none, time.Time](t)), second(schemasOf[none, []item](t)), second(schemasOf[none, celsius](t)), second(schemasOf[none, any](t))} {
		if schema != "" {
			t.Errorf("got %s for what is no object", schema)
		}
	}
}

func second(_, s string) string { return s }

// With a converter of its own, a tool does not promise the shape of the value it returns.
func TestNoOutputSchemaWithAConverter(t *testing.T) {
	t.Parallel()
	tool := toolkit.MustDefine("probe", "d", func(context.Context, none) (struct{ A int }, error) { return struct{ A int }{1}, nil },
		&toolkit.Options{Convert: func(v any) (toolkit.Result, error) { return toolkit.Convert(fmt.Sprint(v)) }})
	if r := toolkittest.Run(t, tool, "", nil).Result; r.Text() != "{1}" || tool.Definition().OutputSchema != nil {
		t.Errorf("got %q and schema %s", r.Text(), tool.Definition().OutputSchema)
	}
}

type (
	base struct {
		City string `json:"city" minLength:"3"`
		ID   string `json:"id"`
	}
	Named struct {
		City string `json:"city" minLength:"5"`
	}
	deep struct {
		base
		Named `json:"named"`
		ID    int `json:"id"` // hides base.ID
	}
)

// Embedded structs are as encoding/json has them: promoted, named, hidden; and json:"-" is not there.
func TestEmbeddedFields(t *testing.T) {
	t.Parallel()
	type in struct {
		deep
		Skip string `json:"-"`
		Dash string `json:"-,"` //nolint:staticcheck // the point of this test
	}
	got, _ := schemasOf[in, string](t)
	want := `{"type":"object","properties":{"city":{"type":"string","minLength":3},` +
		`"named":{"type":"object","properties":{"city":{"type":"string","minLength":5}},"required":["city"],"additionalProperties":false},` +
		`"id":{"type":"integer"},"-":{"type":"string"}},"required":["city","named","id","-"],"additionalProperties":false}`
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("schema (-want +got):\n%s", d)
	}
}

// Defaults are set at any depth, where a member is absent or null, and all that was given stays
// byte for byte.
func TestDefaults(t *testing.T) {
	t.Parallel()
	type inner struct {
		X int    `json:"x" default:"7"`
		S string `json:"s,omitempty"`
	}
	type in struct {
		In   inner            `json:"in"`
		List []inner          `json:"list,omitempty"`
		Map  map[string]inner `json:"map,omitempty"`
		Ptr  *inner           `json:"ptr"`
		Raw  json.RawMessage  `json:"raw,omitempty"`
		Tags []string         `json:"tags" default:"[\"a\"]"`
		On   bool             `json:"on" default:"true"`
	}
	tool := toolkit.MustDefine("probe", "d", func(_ context.Context, v in) (string, error) {
		p := "nil"
		if v.Ptr != nil {
			p = fmt.Sprint(*v.Ptr)
		}
		return strings.TrimSpace(fmt.Sprintln(v.In, v.List, v.Map, p, string(v.Raw), v.Tags, v.On)), nil
	}, nil)
	for given, want := range map[string]string{
		`{"in":{}}`: "{7 } [] map[] nil  [a] true",
		`{"in":{"x":null},"list":[{},{"x":1}],"map":{"k":{"s":"y"}},"ptr":{},"tags":null,"on":false}`: "{7 } [{7 } {1 }] map[k:{7 y}] {7 }  [a] false",
		`{"in":{"x":1,"s":"é\u0000"},"raw":{ "a" : "<b>" }}`:                                          "{1 é\x00} [] map[] nil { \"a\" : \"<b>\" } [a] true",
		`{"in":{"x":0},"tags":[],"on":true,"list":null}`:                                              "{0 } [] map[] nil  [] true",
	} {
		if r := toolkittest.Run(t, tool, given, nil).Result; r.Text() != want {
			t.Errorf("%s: got %q, want %q", given, r.Text(), want)
		}
	}
}

// A default that the schema refuses, a type that JSON cannot fill, arguments that are no object.
func TestMoreBadTypes(t *testing.T) {
	t.Parallel()
	type badChoice struct {
		U string `json:"u" enum:"a,b" default:"c"`
	}
	type tooSmall struct {
		N int `json:"n" minimum:"3" default:"1"`
	}
	type reader struct {
		R fmt.Stringer `json:"r"`
	}
	type keys struct {
		M map[bool]int `json:"m"`
	}
	type leaf struct {
		L []map[string]*keys `json:"l"`
	}
	for want, err := range map[string]error{
		"field U: tag default": defineErr[badChoice](), "field N: tag default": defineErr[tooSmall](),
		"interface": defineErr[reader](), "field L: field M": defineErr[leaf](), "contains itself": defineErr[struct{ T tree }](),
	} {
		if !errors.Is(err, toolkit.ErrDefinition) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ErrDefinition with %q", err, want)
		}
	}
	for _, schema := range []string{`{"type":"string"}`, `{"type":["array","null"]}`} {
		if err := (toolkit.Definition{Name: "a", InputSchema: json.RawMessage(schema)}).Check(); !errors.Is(err, toolkit.ErrDefinition) {
			t.Errorf("%s: got %v, want ErrDefinition", schema, err)
		}
	}
}

type tree []tree
