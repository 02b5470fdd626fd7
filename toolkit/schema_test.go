package toolkit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/toolkittest"
)

func schemaOf(tb testing.TB, input string) *toolkit.Schema {
	tb.Helper()
	def := toolkit.Definition{Name: "probe", InputSchema: json.RawMessage(input)}
	var cache toolkit.Schemas
	s, err := cache.Of(def.Hash(), def)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

const person = `{"type":"object","properties":{
	"name":{"type":"string"},"age":{"type":["integer","null"],"maximum":9223372036854775807},
	"filter":{"$ref":"#/$defs/filter"},"tags":{"type":"array","items":{"type":"string"}},
	"site":{"type":"string","pattern":"^(?!http)","format":"hostname"},
	"either":{"anyOf":[{"type":"string"},{"type":"null"}]}},
	"required":["name"],
	"$defs":{"filter":{"type":"object","properties":{"q":{"type":"string"},"deep":{"$ref":"#/$defs/filter"}},"required":["q"]}}}`

// What is accepted comes out byte for byte, with the three exceptions that are told.
func TestPrepareAccepts(t *testing.T) {
	t.Parallel()
	s := schemaOf(t, person)
	for in, want := range map[string]string{
		`{"name":"a"}`: `{"name":"a"}`,
		`{ "name" : "a" , "age" : 9223372036854775807 }`:        `{ "name" : "a" , "age" : 9223372036854775807 }`, // T-80
		`{"name":"a","age":null}`:                               `{"name":"a","age":null}`,                        // T-90
		`{"name":"a","filter":null,"tags":null}`:                `{"name":"a","filter":null,"tags":null}`,         // absent
		`{"name":"a","filter":{"q":"x","deep":null}}`:           `{"name":"a","filter":{"q":"x","deep":null}}`,
		`{"name":"a","filter":{"q":"x","deep":{"q":"y"}}}`:      `{"name":"a","filter":{"q":"x","deep":{"q":"y"}}}`, // T-88, A-39
		`{"name":"a","either":null}`:                            `{"name":"a","either":null}`,                       // T-91
		`{"name":"a\u0000\ud800","extra":12345678901234567890}`: `{"name":"a\u0000\ud800","extra":12345678901234567890}`,
		`{"name":"a","site":"example.org"}`:                     `{"name":"a","site":"example.org"}`,
		`"{\"name\":\"a\"}"`:                                    `{"name":"a"}`, // T-83
	} {
		got, repaired, err := s.Prepare(json.RawMessage(in))
		if err != nil || string(got) != want || repaired != strings.HasPrefix(in, `"`) {
			t.Errorf("%s: got %s, repaired %v, %v", in, got, repaired, err)
		}
	}
}

// What is refused says where and why, one per line, and that the model may try again.
func TestPrepareRefuses(t *testing.T) {
	t.Parallel()
	s := schemaOf(t, person)
	for in, want := range map[string]string{
		``:                                       "name",
		`[]`:                                     "not an array",
		`12`:                                     "not a number",
		`"text"`:                                 "not a string",
		`"{broken"`:                              "not valid JSON",
		`{"name":null}`:                          "/name: got null",   // required
		`{"name":1}`:                             "/name: got number", // T-85
		`{"name":"a","age":9223372036854775808}`: "/age: maximum",
		`{"name":"a","age":"7"}`:                 "/age: got string",
		`{"name":"a","filter":"{\"q\":1}"}`:      "/filter: got string", // T-83: at the root only
		`{"name":"a","filter":{"deep":{}}}`:      "/filter: missing",
		`{"name":"a","name":"b"}`:                "twice",
		`{"name":"a"} {}`:                        "trailing",
		`{"name":NaN}`:                           "not valid JSON", // T-87
		`{"name":"a","site":"http.example.org"}`: "/site",
		`{"name":"a","either":1}`:                "/either",
		strings.Repeat(`{"a":`, 5000) + `1` + strings.Repeat(`}`, 5000): "not valid JSON",
	} {
		_, _, err := s.Prepare(json.RawMessage(in))
		input, ok := errors.AsType[*toolkit.InputError](err)
		if !ok || !strings.Contains(input.Text, want) || !strings.Contains(input.Text, "call again") || !strings.Contains(input.Text, "'probe'") {
			t.Errorf("%.60s: got %v, want a text with %q", in, err, want)
		}
	}
}

// What a model reads of wrong arguments is short and always the same, whatever their size.
func TestFailuresAreShortAndInOrder(t *testing.T) {
	t.Parallel()
	s := schemaOf(t, `{"type":"object","additionalProperties":{"type":"integer"},"properties":{"p":{"pattern":"^a$"}}}`)
	var b strings.Builder
	b.WriteString(`{"p":"` + strings.Repeat("é", 100_000) + `"`)
	for i := range 100 {
		fmt.Fprintf(&b, `,"k%02d":"x"`, i)
	}
	b.WriteString(`}`)
	var first string
	for range 5 {
		_, _, err := s.Prepare(json.RawMessage(b.String()))
		if err == nil || len(err.Error()) > 10_000 || !utf8.ValidString(err.Error()) || !strings.Contains(err.Error(), "and 81 more") {
			t.Fatalf("got %.500v", err)
		}
		if first == "" {
			first = err.Error()
		}
		if err.Error() != first {
			t.Errorf("once\n%s\nand then\n%s", first, err)
		}
	}
}

// T-89: nothing outside of the schema is read, and nothing of a file gets into an error.
func TestForeignReferencesAreRefused(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret.json")
	if err := os.WriteFile(secret, []byte(`{"const":"hunter2"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"file://" + secret, secret, "http://169.254.169.254/latest", "https://example.org/schema.json", "other.json#/x"} {
		def := toolkit.Definition{Name: "probe", InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"` + ref + `"}}}`)}
		err := def.Check()
		if !errors.Is(err, toolkit.ErrDefinition) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, want ErrDefinition", ref, err)
		}
	}
}

// A pattern that backtracks is bounded; the value does not match rather than hang the dispatcher.
func TestPatternsAreBounded(t *testing.T) {
	t.Parallel()
	s := schemaOf(t, `{"type":"object","properties":{"a":{"type":"string","pattern":"^(?=a)(a+)+$"}}}`)
	begin := time.Now()
	_, _, err := s.Prepare(json.RawMessage(`{"a":"` + strings.Repeat("a", 40) + `!"}`))
	if err == nil || time.Since(begin) > 10*time.Second {
		t.Errorf("got %v after %v", err, time.Since(begin))
	}
}

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

// The hash is of the JSON as announced; it is stable over releases, and any field changes it.
func TestHash(t *testing.T) {
	t.Parallel()
	strict := false
	full := toolkit.Definition{
		Name: "a", Title: "A", Description: "d <&>", InputSchema: json.RawMessage(`{"type":"object"}`), OutputSchema: json.RawMessage(`{}`),
		ReadOnly: true, Idempotent: true, ConcurrencySafe: true, External: true, StateInjected: true, Strict: &strict,
		Timeout: toolkit.Duration(90 * time.Second), QueueTimeout: toolkit.Duration(time.Hour), Attempts: 3,
		Backoff:     toolkit.Backoff{Initial: toolkit.Duration(time.Second), Max: toolkit.Duration(time.Minute), Multiplier: 1.5},
		MaxInFlight: 2, MaxResult: 1000, Oversize: toolkit.OversizeTruncate, Group: "g", Matcher: "m",
		DangerousFiles: []string{"f"}, DangerousDirectories: []string{"d"}, MCPServer: "s",
	}
	const golden = `{"name":"a","title":"A","description":"d \u003c\u0026\u003e","inputSchema":{"type":"object"},"outputSchema":{},` +
		`"readOnly":true,"idempotent":true,"concurrencySafe":true,"external":true,"stateInjected":true,"strict":false,` +
		`"timeout":"1m30s","queueTimeout":"1h0m0s","attempts":3,"backoff":{"initial":"1s","max":"1m0s","multiplier":1.5},` +
		`"maxInFlight":2,"maxResult":1000,"oversize":"truncate","group":"g","matcher":"m",` +
		`"dangerousFiles":["f"],"dangerousDirectories":["d"],"mcpServer":"s"}`
	if d := cmp.Diff(golden, string(full.JSON())); d != "" {
		t.Errorf("JSON (-want +got):\n%s", d)
	}
	if got, want := full.Hash(), "2f6da6cb3a0800e46d41d017bc621bd0"; got != want || got != toolkit.HashOf([]byte(golden)) {
		t.Errorf("hash: got %s, want %s", got, want)
	}
	var back toolkit.Definition
	if err := json.Unmarshal(full.JSON(), &back); err != nil || !cmp.Equal(full, back) {
		t.Errorf("round trip: %v (-want +got):\n%s", err, cmp.Diff(full, back))
	}
	seen := map[string]string{full.Hash(): "nothing"}
	for i := range reflect.TypeFor[toolkit.Definition]().NumField() {
		c, name := full, reflect.TypeFor[toolkit.Definition]().Field(i).Name
		if f := reflect.ValueOf(&c).Elem().Field(i); name == "InputSchema" {
			c.InputSchema = json.RawMessage(`{"type":"object","title":"t"}`)
		} else {
			f.SetZero()
		}
		if other, ok := seen[c.Hash()]; ok {
			t.Errorf("a change of %s has the hash of a change of %s", name, other)
		}
		seen[c.Hash()] = name
	}
	one, two := full, full
	one.InputSchema, two.InputSchema = json.RawMessage(`{"a":1,"b":2}`), json.RawMessage(`{"b":2,"a":1}`)
	if one.Hash() == two.Hash() {
		t.Error("the order of a schema's keys does not count")
	}
}

// A-39, T-88, T-91: a schema given raw is passed on as it is: $defs stay at the root, nothing is
// added beside anyOf.
func TestRawSchemasPassAsTheyAre(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","properties":{"f":{"anyOf":[{"$ref":"#/$defs/f"},{"type":"null"}]}},"$defs":{"f":{"properties":{"next":{"$ref":"#/$defs/f"}}}},"definitions":{}}`
	d := toolkit.Definition{Name: "a", InputSchema: json.RawMessage(schema)}
	for _, shape := range []any{d, d.MCP(), d.OpenAI(), d.Anthropic()} {
		b, err := json.Marshal(shape)
		if err != nil || !strings.Contains(string(b), schema) {
			t.Errorf("got %s, %v", b, err)
		}
	}
}

func TestShapes(t *testing.T) {
	t.Parallel()
	strict := true
	d := toolkit.Definition{Name: "a", Description: "d", InputSchema: json.RawMessage(`{"type":"object"}`), ReadOnly: true, Strict: &strict}
	for want, shape := range map[string]any{
		`{"name":"a","description":"d","inputSchema":{"type":"object"},"annotations":{"destructiveHint":false,"idempotentHint":false,"readOnlyHint":true}}`: d.MCP(),
		`{"type":"function","name":"a","description":"d","parameters":{"type":"object"},"strict":true}`:                                                     d.OpenAI(),
		`{"name":"a","description":"d","input_schema":{"type":"object"},"strict":true}`:                                                                     d.Anthropic(),
	} {
		got, err := json.Marshal(shape)
		if err != nil || string(got) != want {
			t.Errorf("got %s, want %s (%v)", got, want, err)
		}
	}
}

func FuzzPrepare(f *testing.F) {
	for _, in := range []string{``, `null`, `""`, `{"name":"a","filter":{"q":null}}`, `"{\"name\":\"a\"}"`, `[`, `{"name":"a","age":1e400}`} {
		f.Add(in)
	}
	s := schemaOf(f, person)
	f.Fuzz(func(t *testing.T, in string) {
		clean, repaired, err := s.Prepare(json.RawMessage(in))
		if err != nil {
			if _, ok := errors.AsType[*toolkit.InputError](err); !ok {
				t.Errorf("%q: got %v, want an InputError", in, err)
			}
			return
		}
		var object map[string]json.RawMessage
		if err := json.Unmarshal(clean, &object); err != nil {
			t.Errorf("%q became %q, which is no object", in, clean)
		}
		if !repaired && string(clean) != in && string(clean) != "{}" {
			t.Errorf("%q became %q", in, clean)
		}
	})
}

func FuzzDefinition(f *testing.F) {
	f.Add([]byte(`{"name":"a","description":"d","inputSchema":{"type":"object"},"timeout":"5m"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var d toolkit.Definition
		if events.Unmarshal(raw, &d) != nil || d.Check() != nil {
			return
		}
		var back toolkit.Definition
		if err := events.Unmarshal(d.JSON(), &back); err != nil || back.Hash() != d.Hash() {
			t.Errorf("%s became %s: %v", raw, back.JSON(), err)
		}
	})
}

func BenchmarkPrepare(b *testing.B) {
	s := schemaOf(b, person)
	in := json.RawMessage(`{"name":"Ada Lovelace","age":36,"filter":{"q":"engines"},"tags":["a","b"],"site":"example.org","either":"x"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := s.Prepare(in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHash(b *testing.B) {
	d := toolkit.Definition{Name: "probe", Description: "A tool of a test.", InputSchema: json.RawMessage(person)}
	b.ReportAllocs()
	for b.Loop() {
		d.Hash()
	}
}
