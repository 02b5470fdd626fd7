package toolkit

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/toolwire/toolwire/events"
)

func read(t *testing.T, doc string) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(doc)))
	if err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return v
}

// explicit nulls of optional members count as absent, wherever a schema names them.
func TestPrune(t *testing.T) {
	t.Parallel()
	const a = `{"type":"object","properties":{"a":{"type":"string"}}}`
	for name, c := range map[string]struct{ schema, doc, want string }{
		"optional":             {a, `{"a":null}`, `{}`},
		"required":             {`{"properties":{"a":{}},"required":["a"]}`, `{"a":null}`, `{"a":null}`},
		"unknown":              {a, `{"b":null}`, `{"b":null}`},
		"nested":               {`{"properties":{"f":` + a + `}}`, `{"f":{"a":null}}`, `{"f":{}}`},
		"items":                {`{"properties":{"l":{"items":` + a + `}}}`, `{"l":[{"a":null},null]}`, `{"l":[{},null]}`},
		"prefixItems":          {`{"properties":{"l":{"prefixItems":[true,` + a + `],"items":false}}}`, `{"l":[{"a":null},{"a":null}]}`, `{"l":[{"a":null},{}]}`},
		"items below anyOf":    {`{"properties":{"l":{"anyOf":[{"items":` + a + `},{"type":"null"}]}}}`, `{"l":[{"a":null}]}`, `{"l":[{}]}`},
		"additionalProperties": {`{"additionalProperties":` + a + `}`, `{"x":{"a":null},"y":null}`, `{"x":{},"y":null}`},
		"$ref beside anyOf":    {`{"$ref":"#/$defs/r","anyOf":[{"properties":{"b":{}}}],"$defs":{"r":` + a + `}}`, `{"a":null,"b":null}`, `{}`},
		"a branch requires it": {`{"properties":{"a":{},"b":{}},"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"a":null,"b":1}`, `{"a":null,"b":1}`},
		"$ref into a list":     {`{"anyOf":[` + a + `],"properties":{"f":{"$ref":"#/anyOf/0"}}}`, `{"f":{"a":null}}`, `{"f":{}}`},
		"escaped $ref":         {`{"properties":{"f":{"$ref":"#/$defs/a~1b%20c"}},"$defs":{"a/b c":` + a + `}}`, `{"f":{"a":null}}`, `{"f":{}}`},
		"$ref to nothing":      {`{"properties":{"f":{"$ref":"#/$defs/x/0"}}}`, `{"f":{"a":null}}`, `{"f":{"a":null}}`},
		"$ref to the root":     {`{"properties":{"a":{},"f":{"$ref":"#"}}}`, `{"f":{"f":{"a":null}}}`, `{"f":{"f":{}}}`},
	} {
		root := read(t, c.schema)
		if d := cmp.Diff(read(t, c.want), prune(read(t, c.doc), []any{root}, root)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// T-88: references in a circle end, at once. (Followed one by one they would be 2^128.)
func TestPruneEndsOnCircles(t *testing.T) {
	t.Parallel()
	root := read(t, `{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}],"properties":{"a":{"$ref":"#/$defs/b"}}},`+
		`"b":{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"},{"$ref":"#/$defs/b"}]}}}`)
	doc := read(t, strings.Repeat(`{"a":`, 500)+`null`+strings.Repeat(`}`, 500))
	begin := time.Now()
	prune(doc, []any{root}, root)
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
}

// Filling in defaults makes an object of an object, and touches nothing that was given.
func FuzzDefaults(f *testing.F) {
	for _, in := range []string{`{}`, `{"a":null}`, `{"l":[{},{"x":1}],"o":{"x":null}}`, `{ "a" : "<\u00e9>" , "z":[1, 2] }`, `{"m":{"k":{}}}`} {
		f.Add(in)
	}
	x := &defaults{own: map[string]json.RawMessage{"x": json.RawMessage(`7`)}}
	d := &defaults{own: map[string]json.RawMessage{"a": json.RawMessage(`"d"`)}, in: map[string]*defaults{"l": {each: x}, "o": x, "m": {each: x}}}
	f.Fuzz(func(t *testing.T, in string) {
		var given, full map[string]json.RawMessage
		if events.CheckJSON([]byte(in)) != nil || json.Unmarshal([]byte(in), &given) != nil || given == nil {
			return
		}
		out, err := d.fill(json.RawMessage(in))
		if err != nil || events.CheckJSON(out) != nil || json.Unmarshal(out, &full) != nil {
			t.Fatalf("%q became %q, %v", in, out, err)
		}
		if _, ok := full["a"]; !ok {
			t.Errorf("%q became %q, without the default", in, out)
		}
		for name, v := range given {
			if d.in[name] == nil && name != "a" && string(full[name]) != string(v) {
				t.Errorf("%q became %q", in, out)
			}
		}
		if again, err := d.fill(out); err != nil || string(again) != string(out) {
			t.Errorf("%q became %q and then %q", in, out, again)
		}
	})
}
