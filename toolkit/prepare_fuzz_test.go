package toolkit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dlclark/regexp2/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// Whatever comes, Prepare says no with an InputError or yields a JSON object that is what came, but
// for the two exceptions. Pruning only ever widens: what the validator alone takes is taken, and
// without nulls nothing else is.
func FuzzPrepareBesideTheValidator(f *testing.F) {
	for _, in := range []string{
		``, ` `, `null`, `""`, `" "`, `[`, `[]`, `"text"`, `{"name":"a","filter":{"q":null}}`, `"{\"name\":\"a\"}"`, `"\"{}\""`,
		`{"name":"a","age":1e400}`, `{"name":"a","age":1e1000001}`, `{"name":"null","age":9223372036854775807}`, `{"name":"a","tags":["null",null]}`,
		`{"name":"a","filter":{"q":"null","deep":{"q":"x","deep":null}},"either":null}`, `{"name":null}`, `{"name":"a","site":"a.b","x":{"y":null}}`,
	} {
		f.Add(in)
	}
	s, alone := schemaOf(f, person), validatorOf(f, person)
	f.Fuzz(func(t *testing.T, in string) {
		clean, repaired, err := s.Prepare(json.RawMessage(in))
		if err != nil {
			if _, ok := errors.AsType[*toolkit.InputError](err); !ok || clean != nil || repaired {
				t.Errorf("%q: got %s, %v, want an InputError alone", in, clean, err)
			}
			if doc, ok := sane(in); ok && alone.Validate(doc) == nil {
				t.Errorf("%q fits and was refused: %v", in, err)
			}
			return
		}
		if err := events.CheckJSON(clean); err != nil || !bytes.HasPrefix(bytes.TrimSpace(clean), []byte("{")) {
			t.Errorf("%q became %q, which is no object: %v", in, clean, err)
		}
		if !repaired && string(clean) != in && string(clean) != "{}" {
			t.Errorf("%q became %q", in, clean)
		}
		if again, twice, err := s.Prepare(clean); err != nil || twice || !bytes.Equal(again, clean) {
			t.Errorf("%q became %q, then %q, %v", in, clean, again, err)
		}
		if doc, ok := sane(string(clean)); ok && !hasNull(doc) && alone.Validate(doc) != nil {
			t.Errorf("%q has no null, does not fit, and was taken", in)
		}
	})
}

// validatorOf is the validator without anything of ours around it.
func validatorOf(tb testing.TB, schema string) *jsonschema.Schema {
	tb.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		tb.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.UseRegexpEngine(func(s string) (jsonschema.Regexp, error) {
		re, err := regexp2.Compile(s, regexp2.ECMAScript)
		return lookahead{re}, err
	})
	if err := c.AddResource("mem:///schema", doc); err != nil {
		tb.Fatal(err)
	}
	return c.MustCompile("mem:///schema")
}

type lookahead struct{ *regexp2.Regexp }

func (l lookahead) MatchString(s string) bool {
	ok, err := l.Regexp.MatchString(s)
	return ok && err == nil
}

// sane reads an object that the validator alone can be trusted with.
func sane(in string) (any, bool) {
	if events.CheckJSON([]byte(in)) != nil || len(in) > 4096 || strings.ContainsAny(in, "eE") && bigExponent.MatchString(in) {
		return nil, false
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(in))
	_, object := doc.(map[string]any)
	return doc, err == nil && object
}

var bigExponent = regexp.MustCompile(`[eE][+-]?0*[0-9]{4,}`)

func hasNull(doc any) bool {
	switch doc := doc.(type) {
	case nil:
		return true
	case []any:
		return slices.ContainsFunc(doc, hasNull)
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(doc)), hasNull)
	}
	return false
}

// Six fields, as a tool has them.
func BenchmarkPrepareSixFields(b *testing.B) {
	const six = `{"type":"object","properties":{
		"path":{"type":"string","minLength":1},"query":{"type":"string","maxLength":200},"limit":{"type":"integer","minimum":1,"maximum":100},
		"deep":{"type":"boolean"},"kinds":{"type":"array","items":{"enum":["file","folder"]}},"since":{"type":"string","format":"date-time"}},
		"required":["path","query"],"additionalProperties":false}`
	for name, c := range map[string]struct {
		schema, in string
		fits       bool
	}{
		"six":         {six, `{"path":"/srv","query":"needle","limit":20,"deep":true,"kinds":["file"],"since":"2026-01-02T03:04:05Z"}`, true},
		"six-null":    {six, `{"path":"/srv","query":"needle","limit":20,"deep":null,"kinds":null,"since":"2026-01-02T03:04:05Z"}`, true},
		"six-refused": {six, `{"path":"/srv","query":"needle","limit":"20","deep":true,"kinds":["file"],"since":"2026-01-02T03:04:05Z"}`, false},
		"references":  {person, `{"name":"Ada Lovelace","age":36,"filter":{"q":"engines"},"tags":["a","b"],"site":"example.org","either":"x"}`, true},
	} {
		b.Run(name, func(b *testing.B) {
			s := schemaOf(b, c.schema)
			b.SetBytes(int64(len(c.in)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := s.Prepare(json.RawMessage(c.in)); (err == nil) != c.fits {
					b.Fatal(err)
				}
			}
		})
	}
}
