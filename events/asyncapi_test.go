package events_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// contract is docs/asyncapi.yaml.
type contract struct {
	doc      map[string]any
	compiler *jsonschema.Compiler
}

func readContract(tb testing.TB) contract {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join("..", "docs", "asyncapi.yaml"))
	if err != nil {
		tb.Fatal(err)
	}
	var doc any
	if err := yaml.Unmarshal(b, &doc); err != nil {
		tb.Fatal(err)
	}
	if b, err = json.Marshal(doc); err != nil { // refuses keys that JSON does not have
		tb.Fatal(err)
	}
	if doc, err = jsonschema.UnmarshalJSON(strings.NewReader(string(b))); err != nil {
		tb.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft7)
	c.AssertFormat()
	if err := c.AddResource("asyncapi.json", doc); err != nil {
		tb.Fatal(err)
	}
	return contract{as[map[string]any](tb, doc), c}
}

// as is v as a T, which it has to be.
func as[T any](tb testing.TB, v any) T {
	tb.Helper()
	x, ok := v.(T)
	if !ok {
		tb.Fatalf("docs/asyncapi.yaml: %v is no %T", v, x)
	}
	return x
}

// at returns what lies under a path of keys.
func (c contract) at(tb testing.TB, path ...string) any {
	tb.Helper()
	var v any = c.doc
	for i, key := range path {
		var ok bool
		if v, ok = as[map[string]any](tb, v)[key]; !ok {
			tb.Fatalf("docs/asyncapi.yaml has no %s", strings.Join(path[:i+1], "/"))
		}
	}
	return v
}

func (c contract) schema(tb testing.TB, pointer string) *jsonschema.Schema {
	tb.Helper()
	s, err := c.compiler.Compile("asyncapi.json#" + pointer)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// resolve follows references, and an allOf of one.
func (c contract) resolve(tb testing.TB, v any) map[string]any {
	tb.Helper()
	m := as[map[string]any](tb, v)
	if ref, ok := m["$ref"].(string); ok {
		return c.resolve(tb, c.at(tb, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...))
	}
	if all, ok := m["allOf"].([]any); ok && len(all) == 1 {
		return c.resolve(tb, all[0])
	}
	return m
}

func TestAsyncAPIIsValid(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(filepath.Join("testdata", "asyncapi", "3.0.0.json"))
	if err != nil {
		t.Fatal(err)
	}
	meta, err := jsonschema.UnmarshalJSON(strings.NewReader(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("http://asyncapi.com/definitions/3.0.0/asyncapi.json", meta); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("http://asyncapi.com/definitions/3.0.0/asyncapi.json")
	if err != nil {
		t.Fatal(err)
	}
	c := readContract(t)
	if err := schema.Validate(c.doc); err != nil {
		t.Errorf("docs/asyncapi.yaml: %v", err)
	}
	as[map[string]any](t, c.at(t, "operations", "submitTurn"))["action"] = "publish"
	if schema.Validate(c.doc) == nil {
		t.Error("the schema takes a document of AsyncAPI 2: it checks nothing")
	}
}

func TestAsyncAPIReferences(t *testing.T) {
	t.Parallel()
	c := readContract(t)
	used := map[string]bool{}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				used[ref] = true
				c.at(t, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
			}
			for k, x := range v {
				if x == nil && k != "address" {
					t.Errorf("%q has no value; is it text with a comma that wants quotes?", k)
				}
				walk(x)
			}
		case []any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(c.doc)
	for _, kind := range []string{"schemas", "messages", "parameters"} {
		for name := range as[map[string]any](t, c.at(t, "components", kind)) {
			if ref := "#/components/" + kind + "/" + name; !used[ref] {
				t.Errorf("nothing refers to %s", ref)
			}
		}
	}
	for name := range as[map[string]any](t, c.at(t, "channels")) {
		if !used["#/channels/"+name] {
			t.Errorf("no operation is on channel %s", name)
		}
	}
}

// Channels are where [events.Subjects] says.
func TestAsyncAPIChannels(t *testing.T) {
	t.Parallel()
	s := events.Subjects{}
	key := events.CallKey{Session: "SESSION", Turn: "TURN", Call: "CALL"}
	want := map[string]string{
		"call": s.Calls("AGENT", key.Session, key.Turn), "work": s.Work("POOL", "TOOL", key), "start": s.Start(key), "result": s.Result(key),
		"liveResult": s.Live(s.Result(key)), "liveStart": s.Live(s.Start(key)), "delta": s.Delta(key), "stop": s.Stop(key),
		"cancel": s.Cancel("AGENT", key.Session, key.Turn), "announce": s.Announce("WORKER", "TOOL"), "alive": s.Alive("INSTANCE"),
		"changed": s.Changed("WHAT"), "body": strings.Replace(s.Body("ID", 0), "0", "CHUNK", 1), "definition": "", "inbox": "",
		"step": s.Step(key.Session, key.Turn), "changedSession": s.Changed("session"),
		"require": s.Require("KIND", "TOOL", key, "REQUEST"), "liveRequire": s.Live(s.Require("KIND", "TOOL", key, "REQUEST")),
		"answer": s.Answer("ACTOR", key, "REQUEST"), "decided": s.Decided(key, "REQUEST"), "liveDecided": s.Live(s.Decided(key, "REQUEST")),
		"judged":     strings.Replace(s.Judged(key, "REQUEST", "ACTOR", 0), "0", "SEQ", 1),
		"liveJudged": strings.Replace(s.Live(s.Judged(key, "REQUEST", "ACTOR", 0)), "0", "SEQ", 1),
		"suspend":    s.Suspend(key), "check": s.Check("POOL", "TOOL"),
	}
	for _, op := range []string{
		events.OpTools, events.OpTool, events.OpToolDrop, events.OpTurn, events.OpResult, events.OpCancel,
		events.OpSessions, events.OpSession, events.OpSessionSet, events.OpSessionDrop, events.OpGroups, events.OpState,
		events.OpConfig, events.OpConfigSet, events.OpDead, events.OpDeadShow, events.OpDeadRetry, events.OpDeadDrop,
		events.OpQuestions, events.OpQuestion, events.OpJudged, events.OpDecisions, events.OpLife, events.OpPermit, events.OpPermitReplay,
	} {
		var name strings.Builder
		for word := range strings.SplitSeq(op, "-") {
			name.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
		want["api"+name.String()] = s.API("ACTOR", op)
	}
	got := map[string]string{}
	for name, ch := range as[map[string]any](t, readContract(t).at(t, "channels")) {
		address, _ := ch.(map[string]any)["address"].(string)
		var b strings.Builder
		for part := range strings.SplitSeq(address, "{") {
			param, rest, ok := strings.Cut(part, "}")
			if !ok {
				b.WriteString(part)
				continue
			}
			b.WriteString(strings.ToUpper(param) + rest)
		}
		got[name] = b.String()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAsyncAPIMatchesGoTypes(t *testing.T) {
	t.Parallel()
	c := readContract(t)
	for name, typ := range wireTypes() {
		schema := c.resolve(t, c.at(t, "components", "schemas", name))
		properties, _ := schema["properties"].(map[string]any)
		var wantFields, wantRequired, gotFields, gotRequired []string
		for _, f := range reflect.VisibleFields(typ) {
			tag, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
			if tag == "" || tag == "-" {
				continue
			}
			wantFields = append(wantFields, tag)
			if !strings.Contains(opts, "omit") {
				wantRequired = append(wantRequired, tag)
			}
			if p, ok := properties[tag]; ok {
				c.matches(t, name+"."+tag, f.Type, p)
			}
		}
		for p := range properties {
			gotFields = append(gotFields, p)
		}
		required, _ := schema["required"].([]any)
		for _, r := range required {
			gotRequired = append(gotRequired, as[string](t, r))
		}
		for _, l := range [][]string{wantFields, wantRequired, gotFields, gotRequired} {
			slices.Sort(l)
		}
		if diff := cmp.Diff(wantFields, gotFields); diff != "" {
			t.Errorf("%s: fields (- Go, + document): %s", name, diff)
		}
		if diff := cmp.Diff(wantRequired, gotRequired); diff != "" {
			t.Errorf("%s: required (- Go, + document): %s", name, diff)
		}
	}
}

// matches checks that a schema describes what Go writes for typ.
func (c contract) matches(t *testing.T, what string, typ reflect.Type, schema any) {
	t.Helper()
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	s := c.resolve(t, schema)
	want := ""
	switch {
	case typ == reflect.TypeFor[json.RawMessage]():
		return // anything
	case typ == reflect.TypeFor[time.Time]():
		want = "string"
		if s["format"] != "date-time" {
			t.Errorf("%s is no date-time", what)
		}
	case typ == reflect.TypeFor[events.Content]():
		want = "object"
	case typ == reflect.TypeFor[[]byte](), typ == reflect.TypeFor[toolkit.Duration]():
		want = "string"
	case wireTypes()[typ.Name()] != nil:
		if ref, _ := schema.(map[string]any)["$ref"].(string); ref != "#/components/schemas/"+typ.Name() {
			t.Errorf("%s refers to %q, want the schema of %s", what, ref, typ.Name())
		}
		return
	default:
		switch typ.Kind() {
		case reflect.String:
			if _, enum := s["enum"]; enum && s["type"] == nil {
				return
			}
			want = "string"
		case reflect.Bool:
			want = "boolean"
		case reflect.Int:
			want = "integer"
		case reflect.Uint64:
			want = "integer"
			if s["minimum"] == nil {
				t.Errorf("%s may be negative", what)
			}
		case reflect.Float64:
			want = "number"
		case reflect.Slice:
			want = "array"
			c.matches(t, what+"[]", typ.Elem(), s["items"])
		case reflect.Map:
			want = "object"
			if values, ok := s["additionalProperties"].(map[string]any); ok {
				c.matches(t, what+"{}", typ.Elem(), values)
			} else if typ.Elem() != reflect.TypeFor[json.RawMessage]() {
				t.Errorf("%s does not say what its values are", what)
			}
		default:
			t.Errorf("%s: no rule for %s", what, typ)
		}
	}
	if s["type"] != want {
		t.Errorf("%s has the type %v, want %s", what, s["type"], want)
	}
}

func TestAsyncAPIEnums(t *testing.T) {
	t.Parallel()
	c := readContract(t)
	for name, file := range map[string]string{"State": "reason.go", "Reason": "reason.go", "CallState": "api.go", "Kind": "questions.go"} {
		var got []string
		for _, v := range as[[]any](t, c.at(t, "components", "schemas", name, "enum")) {
			got = append(got, as[string](t, v))
		}
		if diff := cmp.Diff(constants(t, file, name), got); diff != "" {
			t.Errorf("%s (- Go, + document): %s", name, diff)
		}
	}
	for _, name := range []string{"Outcome", "Judged", "Refused"} {
		var got []string
		for _, v := range as[[]any](t, c.at(t, "components", "schemas", name, "enum")) {
			got = append(got, as[string](t, v))
		}
		if diff := cmp.Diff(constantsNamed(t, "questions.go", name), got); diff != "" {
			t.Errorf("%s (- Go, + document): %s", name, diff)
		}
	}
	messages := as[map[string]any](t, c.at(t, "components", "messages"))
	for _, typ := range allTypes(t) {
		name := string(typ[strings.LastIndexByte(string(typ), '.')+1:])
		m, ok := messages[name].(map[string]any)
		if !ok {
			t.Errorf("no message %s", name)
			continue
		}
		if b, _ := json.Marshal(m["headers"]); !strings.Contains(string(b), `"const":"`+string(typ)+`"`) {
			t.Errorf("the headers of message %s do not have the type %s", name, typ)
		}
	}
}

// The golden vectors are what the document describes: headers and bodies.
func TestAsyncAPITakesGoldenVectors(t *testing.T) {
	t.Parallel()
	c := readContract(t)
	for _, v := range vectors() {
		name := v.messageName()
		g := readGolden(t, v.file("binary"))
		header := map[string]any{}
		for k, value := range g.Header {
			header[k] = value
		}
		if err := c.schema(t, "/components/messages/"+name+"/headers").Validate(header); err != nil {
			t.Errorf("%s: headers: %v", v.name, err)
		}
		header["ce-type"] = "other"
		if c.schema(t, "/components/messages/"+name+"/headers").Validate(header) == nil {
			t.Errorf("%s: headers of another type are taken", v.name)
		}
		if v.data == nil {
			continue
		}
		body, err := jsonschema.UnmarshalJSON(strings.NewReader(g.Body))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.schema(t, "/components/messages/"+name+"/payload").Validate(body); err != nil {
			t.Errorf("%s: body: %v", v.name, err)
		}
	}
}
