package config

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/permission"
)

var update = flag.Bool("update", false, "rewrite docs/toolwire.schema.json")

const (
	schemaFile  = "../../docs/toolwire.schema.json"
	exampleFile = "../../examples/toolwire.yaml"
)

// The schema for editors is made of the tables that the parser reads by.
func TestSchemaFile(t *testing.T) {
	want := schema(t)
	if *update {
		if err := os.WriteFile(schemaFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("-want +got; run with -update:\n%s", d)
	}
}

// The tables have a key for each field of the Go types, and no other.
func TestFieldsAreThoseOfTheTypes(t *testing.T) {
	for name, c := range map[string]struct{ table, typed []string }{
		"group":    {namesOf(groupFields()), jsonNames(reflect.TypeFor[toolkit.Group]())},
		"override": {namesOf(overrideFields()), jsonNames(reflect.TypeFor[toolkit.Override]())},
		"preset":   {namesOf(presetFields()), jsonNames(reflect.TypeFor[toolkit.Preset]())},
		"context":  {namesOf(permissionFields()), jsonNames(reflect.TypeFor[permission.Context]())},
		"approval": {namesOf(approvalFields()), jsonNames(reflect.TypeFor[toolkit.Approval]())},
		"rung":     {namesOf(rungFields()), jsonNames(reflect.TypeFor[toolkit.Rung]())},
		"external": {append(namesOf(externalFields()), notExternal()...), jsonNames(reflect.TypeFor[toolkit.Definition]())},
		"file":     {slices.DeleteFunc(namesOf(fileFields()), func(s string) bool { return s == "presets" || s == "metaTool" }), slices.DeleteFunc(jsonNames(reflect.TypeFor[toolkit.Config]()), func(s string) bool { return s == "noMetaTool" })},
	} {
		slices.Sort(c.table)
		slices.Sort(c.typed)
		if d := cmp.Diff(c.typed, c.table); d != "" {
			t.Errorf("%s: -type +table:\n%s", name, d)
		}
	}
}

// notExternal are the fields of a definition that say how a worker runs the tool, or where it is from.
func notExternal() []string {
	return []string{
		"external", "idempotent", "stateInjected", "timeout", "queueTimeout", "attempts", "backoff", "maxInFlight", "maxResult", "oversize", "mcpServer",
	}
}

func namesOf[T any](table []field[T]) (names []string) {
	for _, f := range table {
		names = append(names, f.name)
	}
	return names
}

func jsonNames(typ reflect.Type) (names []string) {
	for _, f := range reflect.VisibleFields(typ) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// The example parses without a warning, has every key in it, and editors find nothing wrong with it.
func TestExample(t *testing.T) {
	text, err := os.ReadFile(exampleFile)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse(exampleFile, text)
	if err != nil || len(f.Warnings) > 0 {
		t.Fatalf("%v\n%v", err, f.Warnings)
	}
	for key := range shown {
		if !bytes.Contains(text, []byte(key[strings.LastIndex(key, ".")+1:]+":")) {
			t.Errorf("the example has no %s", key)
		}
	}
	if !bytes.HasPrefix(text, []byte("# yaml-language-server: $schema=../docs/toolwire.schema.json\n")) {
		t.Error("the example does not name its schema for editors")
	}
	if err := validate(t, text); err != nil {
		t.Error(err)
	}
}

// What editors underline is what the parser refuses, as far as a schema can say it.
func TestSchemaAgreesWithTheParser(t *testing.T) {
	for _, text := range []string{
		"groups: []", "metaTool: false", "groups: [{name: a, scope: session, active: true}]", "groups: [{name: a, tools: [x, 'y*']}]",
		"tools: {x: {timeout: 1.5h, strict: false, dangerousFiles: []}}", "presets: {x: {a: 1, b: [1], c: {env: E}, d: {file: a/b}, e: {value: {}}, f: null}}",
		"tools: {x: {extended: {properties: {a: {type: string}}, required: [a]}}}",
		"permissions: {mode: explore}", "permissions: {rules: [{deny: 'x(rm:*)'}, {ask: '*'}], workingDirectories: [/srv], home: /home/a, trustedServers: [s]}",
		"roles: {'a b': [bob]}", "roles: {}", "approvals: []", "approvals: [{tools: ['a*b'], expires: 1h, onExpiry: park}]",
		"roles: {a: [b, c]}\napprovals: [{tools: [x], roles: [a], quorum: 2, onExpiry: escalate, rungs: [{roles: [a], expires: 1m}], last: park}]",
		"external: []", "external: [{name: x, inputSchema: {type: object}, outputSchema: {}, readOnly: true, matcher: 'field:a', dangerousFiles: []}]", "askUser: true",

		"{}", "[]", "group: []", "groups: {}", "groups: null", "groups: [{}]", "groups: [{name: basic}]", "groups: [{name: a b}]", "groups: [{name: 5}]",
		"groups: [{name: a, scope: nobody}]", "groups: [{name: a, tools: x}]", "groups: [{name: a, tools: ['a*b']}]", "groups: [{name: a, tools: ['']}]",
		"groups: [{name: a, description: ''}]", "tools: {a b: {}}", "tools: {x: {timeout: 5}}", "tools: {x: {timeout: soon}}", "tools: {x: {attempts: 0}}",
		"tools: {x: {attempts: 1.5}}", "tools: {x: {nope: 1}}", "tools: {x: {extended: []}}", "tools: {x: {extended: {city: {}}}}", "metaTool: 'yes'",
		"permissions: {}", "permissions: null", "permissions: []", "permissions: {mode: denyy}", "permissions: {mode: ''}", "permissions: {mdoe: explore}",
		"permissions: {rules: []}", "permissions: {rules: [x]}", "permissions: {rules: [{}]}", "permissions: {rules: [{deny: x, ask: x}]}", "permissions: {rules: [{pass: x}]}",
		"permissions: {rules: [{deny: 'x('}]}", "permissions: {rules: [{deny: 'x()'}]}", "permissions: {rules: [{deny: 'a b'}]}", "permissions: {rules: [{deny: 5}]}",
		"permissions: {workingDirectories: [srv]}", "permissions: {workingDirectories: []}", "permissions: {home: '~'}", "permissions: {trustedServers: x}",
		"roles: []", "roles: {a: []}", "roles: {a: bob}", "roles: {a: [5]}", "approvals: {}", "approvals: [{}]", "approvals: [{tools: []}]", "approvals: [{tools: ['a.b']}]",
		"approvals: [{tools: [x], quorum: 0}]", "approvals: [{tools: [x], onExpiry: later}]", "approvals: [{tools: [x], last: escalate}]", "approvals: [{tools: [x], last: deny}]",
		"approvals: [{tools: [x], onExpiry: escalate}]", "approvals: [{tools: [x], onExpiry: escalate, rungs: [], last: deny}]", "approvals: [{tools: [x], rungs: [{}]}]",
		"external: [{name: x}]", "external: [{inputSchema: {}}]", "external: [{name: a b, inputSchema: {}}]", "external: [{name: x, inputSchema: true}]",
		"external: [{name: x, inputSchema: {}, matcher: own}]", "external: [{name: x, inputSchema: {}, timeout: 1m}]", "askUser: 1",
		"presets: {x: {a: {}}}", "presets: {x: {a: {b: 1}}}", "presets: {x: {a: {env: A, file: b}}}", "presets: {x: {a: {env: $A}}}", "presets: {x: 1}",
	} {
		_, parsed := Parse("t", []byte(text))
		valid := validate(t, []byte(text))
		if text == "{}" { // says nothing: fine for both
			parsed, valid = nil, nil
		}
		if (parsed == nil) != (valid == nil) {
			t.Errorf("%s:\nthe parser says: %v\nthe schema says: %v", text, parsed, valid)
		}
	}
}

func validate(t *testing.T, text []byte) error {
	t.Helper()
	var doc any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	own, err := jsonschema.UnmarshalJSON(bytes.NewReader(schema(t)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("toolwire.schema.json", own); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("toolwire.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(value)
}

// object of JSON that keeps its order.
type ordering []any // name, value, name, value …

func (o ordering) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i := 0; i < len(o); i += 2 {
		if i > 0 {
			b = append(b, ',')
		}
		name, err := events.Marshal(o[i])
		if err != nil {
			return nil, err
		}
		value, err := events.Marshal(o[i+1])
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, name...), ':'), value...)
	}
	return append(b, '}'), nil
}

const (
	namePattern     = "^[a-zA-Z0-9_-]{1,64}$"
	memberPattern   = `^([a-zA-Z0-9_-]{1,64}|[a-zA-Z0-9_-]{0,64}\*)$`
	toolsPattern    = "^[a-zA-Z0-9_*-]{1,64}$"
	rulePattern     = `^\s*[a-zA-Z0-9_*-]{1,128}(\(.+\))?\s*$`
	matcherPattern  = "^(path(:.*)?|shell(:.*)?|field:.+)$"
	absolutePattern = "^/"
	durationPattern = `^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`
)

// schema makes the JSON Schema of the file from the tables of the parser.
func schema(t *testing.T) []byte {
	t.Helper()
	used := make(map[string]bool)
	root := ordering{
		"$schema", "https://json-schema.org/draft/2020-12/schema",
		"title", "toolwire.yaml",
		"description", "The declared configuration of a Toolwire installation, for `toolwire apply -f`.",
	}
	root = append(root, tableSchema(t, used, "", fileFields())...)
	root = append(root, "$defs", ordering{
		"group", append(tableSchema(t, used, "groups.", groupFields()), "required", []string{"name"}),
		"tool", tableSchema(t, used, "tools.", overrideFields()),
		"presets",
		ordering{"type", "object", "additionalProperties", ordering{"anyOf", []any{
			ordering{"type", []string{"string", "number", "boolean", "null", "array"}},
			append(tableSchema(t, used, "presets.", presetFields()), "minProperties", 1, "maxProperties", 1),
		}}},
		"permissions", append(tableSchema(t, used, "permissions.", permissionFields()), "minProperties", 1),
		"rule", append(tableSchema(t, used, "rules.", ruleFields()), "minProperties", 1, "maxProperties", 1),
		"approval",
		append(tableSchema(t, used, "approvals.", approvalFields()), "required", []string{"tools"},
			"if", ordering{"properties", ordering{"onExpiry", ordering{"const", toolkit.ExpiryEscalate}}, "required", []string{"onExpiry"}},
			"then", ordering{"required", []string{"rungs", "last"}},
			"else", ordering{"properties", ordering{"rungs", false, "last", false}}),
		"rung", append(tableSchema(t, used, "rungs.", rungFields()), "required", []string{"roles"}),
		"external", append(tableSchema(t, used, "external.", externalFields()), "required", []string{"name", "inputSchema"}),
	})
	if d := cmp.Diff(slices.Sorted(maps.Keys(shown)), slices.Sorted(maps.Keys(used))); d != "" {
		t.Errorf("what editors show: -said +there:\n%s", d)
	}
	b, err := events.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		t.Fatal(err)
	}
	return append(out.Bytes(), '\n')
}

func tableSchema[T any](t *testing.T, used map[string]bool, prefix string, table []field[T]) ordering {
	t.Helper()
	var properties ordering
	for _, f := range table {
		used[prefix+f.name] = true
		properties = append(properties, f.name, append(ordering{"description", shown[prefix+f.name]}, kindSchemaOf(t, prefix+f.name, f.kind)...))
	}
	return ordering{"type", "object", "properties", properties, "additionalProperties", false}
}

func kindSchemaOf(t *testing.T, key string, k kind) ordering {
	t.Helper()
	byName := func(value any) ordering {
		return ordering{"type", "object", "propertyNames", ordering{"pattern", namePattern}, "additionalProperties", value}
	}
	switch k {
	case kindText:
		switch key {
		case "groups.name":
			return ordering{"type", "string", "pattern", namePattern, "not", ordering{"const", toolkit.GroupBasic}}
		case "tools.group":
			return ordering{"type", "string", "pattern", namePattern}
		case "presets.env":
			return ordering{"type", "string", "pattern", variableName.String()}
		case "external.name", "external.group":
			return ordering{"type", "string", "pattern", namePattern}
		case "external.matcher":
			return ordering{"type", "string", "pattern", matcherPattern}
		case "permissions.home":
			return ordering{"type", "string", "pattern", absolutePattern}
		}
		return ordering{"type", "string", "minLength", 1}
	case kindTexts:
		list := func(item ordering) ordering { return ordering{"type", "array", "items", item} }
		switch key {
		case "groups.tools":
			return list(ordering{"type", "string", "pattern", memberPattern})
		case "approvals.tools":
			return append(list(ordering{"type", "string", "pattern", toolsPattern}), "minItems", 1)
		case "permissions.workingDirectories":
			return append(list(ordering{"type", "string", "pattern", absolutePattern}), "minItems", 1)
		case "permissions.trustedServers", "approvals.roles", "rungs.roles":
			return append(list(ordering{"type", "string", "minLength", 1}), "minItems", 1)
		}
		return list(ordering{"type", "string", "minLength", 1})
	case kindFlag:
		return ordering{"type", "boolean"}
	case kindCount:
		return ordering{"type", "integer", "minimum", 1}
	case kindDuration:
		return ordering{"type", "string", "pattern", durationPattern}
	case kindScope:
		return ordering{"enum", []string{string(toolkit.ScopeMeta), "session", string(toolkit.ScopeExternal)}}
	case kindMode:
		return ordering{"enum", modes()}
	case kindExpiry:
		words := []toolkit.OnExpiry{toolkit.ExpiryDeny, toolkit.ExpiryPark}
		if key == "approvals.onExpiry" {
			words = append(words, toolkit.ExpiryEscalate)
		}
		return ordering{"enum", words}
	case kindRule:
		return ordering{"type", "string", "pattern", rulePattern}
	case kindPresets:
		return ordering{"$ref", "#/$defs/presets"}
	case kindSchema:
		if strings.HasPrefix(key, "external.") {
			return ordering{"type", "object", "$ref", "https://json-schema.org/draft/2020-12/schema"}
		}
		return ordering{
			"$ref", "https://json-schema.org/draft/2020-12/schema",
			"propertyNames",
			ordering{"enum", []string{
				"type", "properties", "required", "$defs", "definitions", "additionalProperties",
				"$schema", "$id", "$comment", "title", "description", "examples", "default",
			}},
		}
	case kindValue:
		return ordering{}
	case kindGroups:
		return ordering{"type", "array", "items", ordering{"$ref", "#/$defs/group"}}
	case kindTools:
		return byName(ordering{"$ref", "#/$defs/tool"})
	case kindToolPresets:
		return byName(ordering{"$ref", "#/$defs/presets"})
	case kindPermissions:
		return ordering{"$ref", "#/$defs/permissions"}
	case kindRules:
		return ordering{"type", "array", "items", ordering{"$ref", "#/$defs/rule"}, "minItems", 1}
	case kindRoles:
		people := ordering{"type", "array", "items", ordering{"type", "string", "minLength", 1}, "minItems", 1}
		return ordering{"type", "object", "additionalProperties", people}
	case kindApprovals:
		return ordering{"type", "array", "items", ordering{"$ref", "#/$defs/approval"}}
	case kindRungs:
		return ordering{"type", "array", "items", ordering{"$ref", "#/$defs/rung"}, "minItems", 1}
	case kindExternal:
		return ordering{"type", "array", "items", ordering{"$ref", "#/$defs/external"}}
	}
	t.Fatalf("no schema for kind %d", k)
	return nil
}
