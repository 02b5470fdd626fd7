package toolkit_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/toolkit"
)

// A number that arithmetic cannot hold, or takes long over, is refused. (The validator would follow a nil pointer.)
func TestNumbersOutOfRangeAreRefused(t *testing.T) {
	t.Parallel()
	s := schemaOf(t, `{"type":"object","properties":{
		"n":{"type":"number","minimum":5,"maximum":10},"m":{"multipleOf":0.5},"l":{"type":"array","items":{"type":"integer"}}}}`)
	for _, n := range []string{"1e1000001", "-1E+5000", "1e-999999999", "1e99999999999999999999", strings.Repeat("9", 5000)} {
		for path, in := range map[string]string{"/n": `{"n":` + n + `}`, "/m": `{"m":` + n + `}`, "/l/1": `{"l":[1,` + n + `]}`, "/other": `{"other":` + n + `}`} {
			_, _, err := s.Prepare(json.RawMessage(in))
			input, ok := errors.AsType[*toolkit.InputError](err)
			if !ok || !strings.Contains(input.Text, path+": ") || len(input.Text) > 300 {
				t.Errorf("%.40s: got %v, want the path %s", in, err, path)
			}
		}
		for _, keyword := range []string{"maximum", "multipleOf", "const", "minLength"} {
			def := toolkit.Definition{Name: "probe", InputSchema: json.RawMessage(`{"properties":{"n":{"` + keyword + `":` + n + `}}}`)}
			if err := def.Check(); !errors.Is(err, toolkit.ErrDefinition) {
				t.Errorf("%s %.40s: got %v, want ErrDefinition", keyword, n, err)
			}
		}
	}
	for _, n := range []string{"5e0", "10", "9." + strings.Repeat("9", 1000), "500e-2", "0.1e2"} {
		if _, _, err := s.Prepare(json.RawMessage(`{"n":` + n + `}`)); err != nil {
			t.Errorf("%.40s: %v", n, err)
		}
	}
	out := toolkit.Definition{Name: "probe", InputSchema: json.RawMessage(`{}`), OutputSchema: json.RawMessage(`{"properties":{"n":{"minimum":1}}}`)}
	var cache toolkit.Schemas
	if s, err := cache.Of(out.Hash(), out); err != nil || s.Output(json.RawMessage(`{"n":1e1000001}`)) == nil {
		t.Errorf("an output out of range was taken: %v", err)
	}
}

// What fits the schema as it is, nulls included, is never refused for what pruning would make of it (T-90).
func TestNullsThatCountStay(t *testing.T) {
	t.Parallel()
	for schema, in := range map[string]string{
		`{"properties":{"k":{"type":["string","null"]}},"minProperties":1}`:                    `{"k":null}`,
		`{"properties":{"k":{"const":null},"z":{}},"dependentRequired":{"z":["k"]}}`:           `{"k":null,"z":1}`,
		`{"properties":{"k":{"type":["string","null"]}},"if":{"required":["k"]},"else":false}`: `{"k":null}`,
	} {
		got, _, err := schemaOf(t, schema).Prepare(json.RawMessage(in))
		if err != nil || string(got) != in {
			t.Errorf("%s: got %s, %v", schema, got, err)
		}
	}
}

// T-86, A-38: all spellings of no arguments are {}, and none counts as a repair.
func TestNoArgumentsAreAnEmptyObject(t *testing.T) {
	t.Parallel()
	s := schemaOf(t, `{"type":"object","properties":{}}`)
	for _, in := range []string{"", " ", "\t\r\n", `""`, ` "" `, `"  \n"`, "null", " null\n"} {
		got, repaired, err := s.Prepare(json.RawMessage(in))
		if err != nil || string(got) != "{}" || repaired {
			t.Errorf("%q: got %s, repaired %v, %v", in, got, repaired, err)
		}
	}
	if got, _, err := s.Prepare(nil); err != nil || string(got) != "{}" {
		t.Errorf("nil: got %s, %v", got, err)
	}
}

// T-83: an object written as a string is unwrapped once, at the root; strings that are wanted stay.
func TestObjectsWrittenAsStrings(t *testing.T) {
	t.Parallel()
	s := schemaOf(t, `{"properties":{"text":{"type":"string"},"object":{"type":"object"},"id":{"type":"integer"}}}`)
	for in, want := range map[string]string{
		`"{\"id\":9007199254740993}"`:         `{"id":9007199254740993}`,
		` "\n{ \"id\" : 1 }\t" `:              "\n{ \"id\" : 1 }\t", // nothing but the quotes goes
		`"{\"text\":\"\\u00e9\\n{}\"}"`:       `{"text":"\u00e9\n{}"}`,
		`"{\"text\":\"{\\\"object\\\":1}\"}"`: `{"text":"{\"object\":1}"}`, // what is wanted as a string
		`"\u007b\u007d"`:                      `{}`,
	} {
		got, repaired, err := s.Prepare(json.RawMessage(in))
		if err != nil || string(got) != want || !repaired {
			t.Errorf("%s: got %q, repaired %v, %v", in, got, repaired, err)
		}
	}
	for in, want := range map[string]string{
		`{"object":"{\"id\":1}"}`: "/object: got string, want object",
		`"{\"object\":\"{}\"}"`:   "/object: got string, want object",
		`"\"{\\\"id\\\":1}\""`:    "not a string", // twice
		`"[1]"`:                   "not a string",
		`"{\"id\":1} "x`:          "not valid JSON",
		`"{\"id\":1}{}"`:          "not valid JSON",
		`"{\"id\":1,\"id\":2}"`:   "not valid JSON",
		`"{\"id\":1e1000001}"`:    "/id: the exponent",
	} {
		if got, _, err := s.Prepare(json.RawMessage(in)); got != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %s, %v, want %q", in, got, err, want)
		}
	}
}

// T-85: values in quotes are refused, never changed; the text says what is wanted.
func TestValuesInQuotesAreRefused(t *testing.T) {
	t.Parallel()
	s := schemaOf(t, `{"properties":{"i":{"type":"integer"},"n":{"type":"number"},"b":{"type":"boolean"},"s":{"type":"string"},"l":{"type":"array"},"z":{"type":"null"}}}`)
	for in, want := range map[string]string{
		`{"i":"7"}`:     "/i: got string, want integer",
		`{"i":7.5}`:     "/i: got number, want integer",
		`{"n":"7.5"}`:   "/n: got string, want number",
		`{"b":"true"}`:  "/b: got string, want boolean",
		`{"b":1}`:       "/b: got number, want boolean",
		`{"s":7}`:       "/s: got number, want string",
		`{"l":"[1,2]"}`: "/l: got string, want array",
		`{"l":{}}`:      "/l: got object, want array",
		`{"z":"null"}`:  "/z: got string, want null",
	} {
		if _, _, err := s.Prepare(json.RawMessage(in)); err == nil || !strings.Contains(err.Error(), "\n"+want+"\n") {
			t.Errorf("%s: got %v, want the line %q", in, err, want)
		}
	}
}

// T-87: what is no JSON object is refused before anything looks at it.
func TestWhatIsNoObjectIsRefused(t *testing.T) {
	t.Parallel()
	s := schemaOf(t, `{}`)
	for in, want := range map[string]string{
		`{`: "not valid JSON", `{"a":}`: "not valid JSON", `{a:1}`: "not valid JSON", `{'a':1}`: "not valid JSON", `{"a":1,}`: "not valid JSON",
		`{"a":NaN}`: "not valid JSON", `{"a":Infinity}`: "not valid JSON", `{"a":-Infinity}`: "not valid JSON", `NaN`: "not valid JSON",
		`{"a":01}`: "not valid JSON", `{"a":+1}`: "not valid JSON", `{"a":.5}`: "not valid JSON", `{"a":"` + "\xff" + `"}`: "not valid JSON",
		`{"a":"` + "\n" + `"}`: "not valid JSON", "\ufeff{}": "not valid JSON", `{} // none`: "not valid JSON", "nul": "not valid JSON",
		`{"a":{"b":1,"b":1}}`: "not valid JSON", `{"a":1,"\u0061":2}`: "not valid JSON",
		`[{"a":1}]`: "an array", `true`: "a boolean", `-0`: "a number", `"null"`: "a string",
		strings.Repeat("[", 5000): "not valid JSON", strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000): "not valid JSON",
	} {
		got, _, err := s.Prepare(json.RawMessage(in))
		if _, ok := errors.AsType[*toolkit.InputError](err); !ok || got != nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 1000 {
			t.Errorf("%.40q: got %s, %v, want %q", in, got, err, want)
		}
	}
}

// an explicit null of an optional property counts as absent at any depth; of a required one it is refused.
func TestNullsOfOptionalProperties(t *testing.T) {
	t.Parallel()
	const leaf = `{"type":"object","properties":{"name":{"type":"string"},"id":{"type":"integer"}},"required":["id"]}`
	s := schemaOf(t, `{"properties":{
		"filter":`+leaf+`,"ref":{"$ref":"#/$defs/leaf"},"list":{"type":"array","items":{"$ref":"#/$defs/leaf"}},"top":{"type":"string"},
		"map":{"type":"object","additionalProperties":{"$ref":"#/$defs/leaf"}},"both":{"allOf":[{"$ref":"#/$defs/leaf"},{"required":["other"]}]},
		"any":{"anyOf":[{"$ref":"#/$defs/leaf"},{"type":"null"}]},"choice":{"enum":["a","b"]}},
		"$defs":{"leaf":`+leaf+`}}`)
	for _, in := range []string{
		`{"top":null}`, `{"filter":null,"list":null,"map":null,"choice":null,"any":null}`,
		`{"filter":{"id":1,"name":null}}`, `{"ref":{"id":1,"name":null}}`, `{"list":[{"id":1,"name":null},{"id":2}]}`,
		`{"map":{"x":{"id":1,"name":null}}}`, `{"both":{"id":1,"other":1,"name":null}}`, `{"any":{"id":1,"name":null}}`,
	} {
		if got, _, err := s.Prepare(json.RawMessage(in)); err != nil || string(got) != in {
			t.Errorf("%s: got %s, %v", in, got, err)
		}
	}
	for in, want := range map[string]string{
		`{"filter":{"id":null}}`:         "/filter/id: got null, want integer",
		`{"ref":{"id":null}}`:            "/ref/id: got null",
		`{"list":[{"id":1},null]}`:       "/list/1: got null, want object", // an element is no property
		`{"list":[{"id":null}]}`:         "/list/0/id: got null",
		`{"map":{"x":{"id":null}}}`:      "/map/x/id: got null",
		`{"map":{"x":null}}`:             "/map/x: got null",
		`{"both":{"id":null,"other":1}}`: "/both/id: got null",
	} {
		if _, _, err := s.Prepare(json.RawMessage(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", in, err, want)
		}
	}
}

// T-90, T-91: types with null, and anyOf with null, hold as they are written.
func TestNullableTypes(t *testing.T) {
	t.Parallel()
	s := schemaOf(t, `{"properties":{
		"n":{"type":["number","null"],"minimum":1},"a":{"anyOf":[{"type":"string","maxLength":2},{"type":"null"}]},
		"o":{"oneOf":[{"type":"integer"},{"type":"null"}],"default":null}},"required":["n","a","o"]}`)
	for in, want := range map[string]string{
		`{"n":null,"a":null,"o":null}`: "",
		`{"n":1,"a":"x","o":2}`:        "",
		`{"n":0,"a":"x","o":2}`:        "/n: minimum",
		`{"n":1,"a":"xyz","o":2}`:      "/a: maxLength",
		`{"n":1,"a":"x","o":"2"}`:      "/o: got string",
		`{"n":1,"a":"x"}`:              "/: missing property 'o'",
	} {
		_, _, err := s.Prepare(json.RawMessage(in))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", in, err, want)
		}
	}
}

// The text of a refusal, in its order of lines: the validator walks maps.
func TestFailureTexts(t *testing.T) {
	t.Parallel()
	s := schemaOf(t, `{"type":"object","properties":{
		"any":{"anyOf":[{"type":"string"},{"type":"object","required":["q"]}]},
		"one":{"oneOf":[{"type":"integer"},{"type":"number"}]},"not":{"not":{"type":"string"}},"never":false,
		"enum":{"enum":["x","y"]},"const":{"const":1},"len":{"type":"string","minLength":2},"size":{"maxItems":1},
		"mail":{"format":"email"},"like":{"pattern":"^a+$"},"deep":{"items":{"properties":{"n":{"type":"integer"}}}}},
		"required":["must","too"],"additionalProperties":false}`)
	_, _, err := s.Prepare(json.RawMessage(`{"any":1,"one":1,"not":"s","never":1,"enum":"z","const":2,"len":"a","size":[1,2],
		"mail":"a","like":"b","deep":[{},{"n":"1"}],"more":1}`))
	if err == nil {
		t.Fatal("it was accepted")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) < 3 || lines[0] != "Input validation failed for tool 'probe':" || lines[len(lines)-1] != "Correct the arguments and call again." {
		t.Fatalf("got %q", err)
	}
	got := slices.Sorted(slices.Values(lines[1 : len(lines)-1]))
	want := []string{
		"/: additional properties 'more' not allowed", "/: missing properties 'must', 'too'",
		"/any: got number, want object", "/any: got number, want string", "/const: value must be 1", "/deep/1/n: got string, want integer",
		"/enum: value must be one of 'x', 'y'", "/len: minLength: got 1, want 2", "/like: 'b' does not match pattern '^a+$'",
		"/mail: 'a' is not valid email: missing @", "/never: false schema", "/not: 'not' failed",
		"/one: 'oneOf' failed, subschemas 0, 1 matched", "/size: maxItems: got 2, want 1",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("lines (-want +got):\n%s", d)
	}
}

// A name cannot break its line, or pass for a path: paths are JSON pointers.
func TestPathsOfFailures(t *testing.T) {
	t.Parallel()
	s := schemaOf(t, `{"additionalProperties":{"type":"string"}}`)
	for name, want := range map[string]string{
		`a\nCorrect nothing`: `/a\nCorrect nothing: `, `a/b`: "/a~1b: ", `a~`: "/a~0: ", `é \"q\"`: `/é "q": `, `\u001b[31m`: `/\x1b[31m: `, ``: "/: ",
	} {
		for value, more := range map[string]string{"1": "got number", "1e5000": "the exponent"} {
			_, _, err := s.Prepare(json.RawMessage(`{"` + name + `":` + value + `}`))
			if err == nil || strings.Count(err.Error(), "\n") != 2 || !strings.Contains(err.Error(), "\n"+want+more) {
				t.Errorf("%s: got %q, want %q", name, err, want+more)
			}
		}
	}
}

// However much does not fit, the text stays of a size that a model can use.
func TestFailureTextsAreBounded(t *testing.T) {
	t.Parallel()
	s := schemaOf(t, `{"properties":{"l":{"items":{"type":"string"}}}}`)
	_, _, err := s.Prepare(json.RawMessage(`{"l":[` + strings.Repeat("1,", 10000) + `1]}`))
	if err == nil || strings.Count(err.Error(), "\n") > 30 || len(err.Error()) > 3000 {
		t.Errorf("got %v", err)
	}
}

// T-80, style L15: bytes of arguments that fit are handed on as they came.
func TestBytesStay(t *testing.T) {
	t.Parallel()
	s := schemaOf(t, `{"properties":{"n":{"type":"integer","maximum":18446744073709551615},"f":{"type":"number"},"s":{"type":"string"}}}`)
	for _, in := range []string{
		`{"n":9007199254740993}`, `{"n":9223372036854775807}`, `{"n":-9223372036854775808}`, `{"n":18446744073709551615}`, `{"n":1e3}`, `{"n":1.0}`,
		`{"f":0.1000000000000000055511151231257827}`, `{"f":1E400}`, `{"f":-0.0}`, `{"x":123456789012345678901234567890}`,
		"\r\n{ \"s\" :\t\"<&>\\u003c\\/\\ud800\\u2028\" }\n", "{\"s\":\"\u2028é世\"}", `{"b":1,"a":2,"":null}`,
	} {
		got, repaired, err := s.Prepare(json.RawMessage(in))
		if err != nil || string(got) != in || repaired {
			t.Errorf("%q: got %q, repaired %v, %v", in, got, repaired, err)
		}
	}
	if _, _, err := s.Prepare(json.RawMessage(`{"n":18446744073709551616}`)); err == nil {
		t.Error("a maximum of 2^64-1 was rounded")
	}
}
