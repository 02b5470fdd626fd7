package toolkit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

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

// Exact fractions of far exponents take the validator for ever, so they are refused before it.
func TestFarExponentsAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	s := schemaOf(t, `{"type":"object","properties":{"l":{"items":{"type":"integer"}},"n":{"type":"number","multipleOf":0.1}}}`)
	begin := time.Now()
	for _, in := range []string{
		`{"l":[` + strings.Repeat("1e999999,", 20_000) + `1]}`, `{"n":1e-999999}`, `{"n":-1E+1001}`,
		`{"n":1e99999999999999999999}`, `{"other":{"deep":[1e5000]}}`,
	} {
		if _, _, err := s.Prepare(json.RawMessage(in)); err == nil || !strings.Contains(err.Error(), "exponent") {
			t.Errorf("%.40s: got %v", in, err)
		}
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	if _, _, err := s.Prepare(json.RawMessage(`{"l":[1e3,1E300],"n":2e-1}`)); err != nil {
		t.Error(err)
	}
	// Nor can a definition, which anybody may announce, or a result bring the validator down.
	def := toolkit.Definition{Name: "probe", InputSchema: json.RawMessage(`{"properties":{"n":{"multipleOf":1e1000001}}}`)}
	if err := def.Check(); !errors.Is(err, toolkit.ErrDefinition) {
		t.Errorf("got %v, want ErrDefinition", err)
	}
	type out struct {
		N json.Number `json:"n" maximum:"10"`
	}
	tool := toolkit.MustDefine("probe", "d", func(context.Context, none) (out, error) { return out{"1e1000001"}, nil }, nil)
	if r := toolkittest.Run(t, tool, "", nil).Result; r.Reason != events.ReasonToolError || !strings.Contains(r.Text(), "exponent") {
		t.Errorf("got %s, %.200s", r.Reason, r.Text())
	}
}

// T-90, T-91: a null that the schema allows counts as given; only one that it refuses counts as absent.
func TestAllowedNullsAreValues(t *testing.T) {
	t.Parallel()
	for schema, in := range map[string]string{
		`{"properties":{"k":{"type":["string","null"]}},"minProperties":1}`:                   `{"k":null}`,
		`{"properties":{"k":{"const":null},"z":{}},"dependentRequired":{"z":["k"]}}`:          `{"z":1,"k":null}`,
		`{"properties":{"k":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["k"]}`: `{"k":null}`,
		`{"properties":{"k":{"type":"string"}},"maxProperties":1}`:                            `{"k":null,"x":1}`,
	} {
		if got, _, err := schemaOf(t, schema).Prepare(json.RawMessage(in)); err != nil || string(got) != in {
			t.Errorf("%s: got %s, %v", schema, got, err)
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
