package toolkit_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// schemaMaker makes random schemas, and values that mostly fit them.
type schemaMaker struct {
	*rand.Rand
	root bool // combining words at the root
}

func (m schemaMaker) pick(of ...string) string { return of[m.IntN(len(of))] }

// or returns a value, or now and then one of another kind.
func (m schemaMaker) or(value string) string {
	if m.IntN(12) == 0 {
		return m.pick(`null`, `7`, `"seven"`, `[]`, `{}`)
	}
	return value
}

// schema returns a schema and a way to make values of it.
func (m schemaMaker) schema(depth int) (schema string, value func() string) {
	if m.IntN(8) == 0 {
		return m.pick(`{"$ref":"#/$defs/word"}`, `{"$ref":"#/$defs/word","description":"d"}`, `{"allOf":[{"$ref":"#/$defs/word"}]}`),
			func() string { return m.pick(`"up"`, `"down"`) }
	}
	switch kind := m.IntN(8); {
	case kind == 0:
		return `{"type":"string","minLength":1,"examples":["x"]}`, func() string { return m.pick(`"x"`, `"long"`, `""`) }
	case kind == 1:
		return `{"type":"integer","maximum":9007199254740993}`, func() string { return m.pick(`1`, `9007199254740993`, `9007199254740994`) }
	case kind == 2:
		return m.pick(`{"enum":["a","b"]}`, `{"type":["string","null"],"enum":["a","b",null]}`), func() string { return m.pick(`"a"`, `"b"`, `null`, `"c"`) }
	case kind == 3:
		return `{"const":1}`, func() string { return m.pick(`1`, `2`) }
	case kind == 4 && depth > 0:
		one, v := m.schema(depth - 1)
		other, w := m.schema(depth - 1)
		return `{"` + m.pick("anyOf", "oneOf") + `":[` + one + `,` + other + `]}`, func() string {
			if m.IntN(2) == 0 {
				return v()
			}
			return w()
		}
	case kind == 5 && depth > 0:
		items, v := m.schema(depth - 1)
		return m.pick(`{"type":"array","items":`+items+`}`, `{"type":"array"}`), func() string {
			return `[` + strings.TrimSuffix(strings.Repeat(v()+`,`, m.IntN(3)), `,`) + `]`
		}
	case kind >= 6 && depth > 0:
		return m.object(depth-1, "")
	}
	return `{"type":"boolean"}`, func() string { return m.pick(`true`, `false`, `0`) }
}

func (m schemaMaker) object(depth int, more string) (schema string, value func() string) {
	var props, required []string
	values := map[string]func() string{}
	for _, name := range []string{"a", "b", "c", "d é"} {
		if m.IntN(3) == 0 {
			continue
		}
		sub, v := m.schema(depth)
		props = append(props, fmt.Sprintf("%q:%s", name, sub))
		values[name] = v
		if m.IntN(2) == 0 {
			required = append(required, fmt.Sprintf("%q", name))
		}
	}
	closed := m.pick(``, `,"additionalProperties":false`, `,"additionalProperties":true`)
	schema = `{"type":"object","properties":{` + strings.Join(props, ",") + `},"required":[` + strings.Join(required, ",") + `]` + closed + more + `}`
	return schema, func() string {
		var members []string
		for _, name := range []string{"a", "b", "c", "d é"} {
			if v := values[name]; v != nil && m.IntN(5) > 0 {
				members = append(members, fmt.Sprintf("%q:%s", name, m.or(v())))
			}
		}
		if m.IntN(6) == 0 {
			members = append(members, `"other":1`)
		}
		return `{` + strings.Join(members, ",") + `}`
	}
}

// definition makes a tool and a way to make arguments of it.
func (m schemaMaker) definition(i int) (toolkit.Definition, func() string) {
	more := `,"$defs":{"word":{"type":"string","enum":["up","down"]}}`
	if m.root && m.IntN(2) == 0 {
		one, _ := m.object(1, "")
		other, _ := m.object(1, "")
		more += `,"` + m.pick("anyOf", "oneOf", "allOf") + `":[` + one + `,` + other + `]`
	}
	schema, value := m.object(2, more)
	strict := m.IntN(2) == 0
	name := m.pick("tool", "1", "-") + strconv.Itoa(i)
	return toolkit.Definition{Name: events.ToolName(name), InputSchema: json.RawMessage(schema), Strict: &strict}, value
}

// Names are unique, within limits, and lead back; schemas are schemas. Where an export says nothing of
// a tool, what fits the exported schema fits the stored one, nulls counting as absent; and where the tool is
// not strict, the reverse is true too.
func TestExportPromises(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		m := schemaMaker{rand.New(rand.NewPCG(seed, 1)), seed%3 == 0}
		var defs []toolkit.Definition
		values := map[events.ToolName]func() string{}
		for i := range 6 {
			d, v := m.definition(i)
			if err := d.Check(); err != nil {
				t.Fatalf("seed %d: %v: %s", seed, err, d.InputSchema)
			}
			defs, values[d.Name] = append(defs, d), v
		}
		for api, export := range exports() {
			got := export(defs)
			checkExport(t, api, defs, got)
			for _, raw := range got.Tools {
				e := readExported(t, raw)
				at := slices.IndexFunc(defs, func(d toolkit.Definition) bool { return d.Name == got.Resolve(e.Name) })
				if !slices.ContainsFunc(got.Remarks, func(r toolkit.Remark) bool {
					return r.Tool == defs[at].Name && !strings.HasPrefix(r.Text, "not strict")
				}) {
					compareSchemas(t, api, defs[at], e, values[defs[at].Name])
				}
			}
		}
	}
}

func compareSchemas(t *testing.T, api string, d toolkit.Definition, e exported, value func() string) {
	t.Helper()
	shown := toolkit.Definition{Name: d.Name, InputSchema: e.schema()}
	var schemas toolkit.Schemas
	stored, err := schemas.Of("stored", d)
	if err != nil {
		t.Fatal(err)
	}
	exported, err := schemas.Of("exported", shown)
	if err != nil {
		t.Fatal(err)
	}
	strict := e.Strict != nil && *e.Strict
	for range 20 {
		args := json.RawMessage(value())
		_, _, there := stored.Prepare(args)
		_, _, here := exported.Prepare(args)
		if here == nil && there != nil && !weaker(api, string(d.InputSchema)) || !strict && (here == nil) != (there == nil) {
			t.Fatalf("%s\nstored   %s: %v\nexported %s: %v", args, d.InputSchema, there, shown.InputSchema, here)
		}
	}
}

// weaker says whether a strict schema may take more: those APIs know no oneOf, and Anthropic no bounds.
func weaker(api, schema string) bool {
	bounded := strings.Contains(schema, "minLength") || strings.Contains(schema, "maximum")
	return strings.Contains(schema, "oneOf") || api == "anthropic" && bounded
}

// Whatever a definition holds, an export ends, and is a list of what it could say.
func FuzzExport(f *testing.F) {
	for _, d := range exportDefinitions(f) {
		f.Add(string(d.Name), d.Description, []byte(d.InputSchema), []byte(d.OutputSchema), d.Strict != nil)
	}
	f.Add("a", "\xff", []byte(`{"type":"object","properties":[],"required":{},"$defs":3,"anyOf":{}}`), []byte(`{`), true)
	f.Fuzz(func(t *testing.T, name, description string, input, output []byte, strict bool) {
		d := toolkit.Definition{Name: events.ToolName(name), Description: description, InputSchema: input, OutputSchema: output, Strict: &strict}
		before := string(input)
		defs := []toolkit.Definition{d, {Name: "other", InputSchema: json.RawMessage(`{"type":"object"}`)}}
		for api, export := range exports() {
			checkExport(t, api, defs, export(defs))
		}
		if string(input) != before {
			t.Error("the schema was changed")
		}
	})
}
