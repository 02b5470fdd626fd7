package toolkit_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

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

func BenchmarkHash(b *testing.B) {
	d := toolkit.Definition{Name: "probe", Description: "A tool of a test.", InputSchema: json.RawMessage(person)}
	b.ReportAllocs()
	for b.Loop() {
		d.Hash()
	}
}

func FuzzBackoff(f *testing.F) {
	f.Add(int64(time.Second), int64(10*time.Second), 2.0, 3)
	f.Fuzz(func(t *testing.T, initial, most int64, multiplier float64, attempt int) {
		b := toolkit.Backoff{Initial: toolkit.Duration(max(initial, 0)), Max: toolkit.Duration(max(most, 0)), Multiplier: multiplier}
		top := time.Duration(b.Max)
		if top == 0 {
			top = 10 * time.Second
		}
		if d := b.Delay(attempt % 1000); d < 0 || d > top {
			t.Errorf("%+v, attempt %d: got %v", b, attempt, d)
		}
	})
}
