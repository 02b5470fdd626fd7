package toolkit_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
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

// full is a definition with every field set.
func full() toolkit.Definition {
	strict := true
	return toolkit.Definition{
		Name: "full_tool-1", Title: "Full", Description: "Has it all: <b> & é.",
		InputSchema:  json.RawMessage(`{"type":"object","properties":{"n":{"const":12345678901234567890}}}`),
		OutputSchema: json.RawMessage(`{"type":"object"}`),
		ReadOnly:     true, Idempotent: true, ConcurrencySafe: true, External: true, StateInjected: true, Strict: &strict,
		Timeout: toolkit.Duration(90 * time.Second), QueueTimeout: toolkit.Duration(time.Hour), Attempts: 3,
		Backoff:     toolkit.Backoff{Initial: toolkit.Duration(time.Millisecond), Max: toolkit.Duration(1500 * time.Millisecond), Multiplier: 1.5},
		MaxInFlight: 7, MaxResult: 1 << 20, Oversize: toolkit.OversizeTruncate, Group: "g", Matcher: "path",
		DangerousFiles: []string{".bashrc"}, DangerousDirectories: []string{".git"}, MCPServer: "files",
	}
}

// The bytes that are announced and hashed are frozen: another worker, of another release or in
// another language, must come to the same hash. Add to these vectors; never edit one.
func TestDefinitionJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		def        toolkit.Definition
		json, hash string
	}{
		{
			toolkit.Definition{Name: "a", Description: "d", InputSchema: json.RawMessage(`{"type":"object"}`)},
			`{"name":"a","description":"d","inputSchema":{"type":"object"}}`, "87112259a87f7ef857421dd5009cfa76",
		},
		{full(), `{"name":"full_tool-1","title":"Full","description":"Has it all: \u003cb\u003e \u0026 é.",` +
			`"inputSchema":{"type":"object","properties":{"n":{"const":12345678901234567890}}},"outputSchema":{"type":"object"},` +
			`"readOnly":true,"idempotent":true,"concurrencySafe":true,"external":true,"stateInjected":true,"strict":true,` +
			`"timeout":"1m30s","queueTimeout":"1h0m0s","attempts":3,"backoff":{"initial":"1ms","max":"1.5s","multiplier":1.5},` +
			`"maxInFlight":7,"maxResult":1048576,"oversize":"truncate","group":"g","matcher":"path",` +
			`"dangerousFiles":[".bashrc"],"dangerousDirectories":[".git"],"mcpServer":"files"}`, "82166cc314b28c14c775546cad0f36f0"},
	} {
		if d := cmp.Diff(c.json, string(c.def.JSON())); d != "" {
			t.Errorf("JSON (-want +got):\n%s", d)
		}
		if got := c.def.Hash(); got != c.hash || got != toolkit.HashOf([]byte(c.json)) {
			t.Errorf("%s: got hash %s, want %s", c.def.Name, got, c.hash)
		}
		var back toolkit.Definition
		if err := events.Unmarshal(c.def.JSON(), &back); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.def.JSON(), back.JSON()); d != "" || back.Hash() != c.hash || back.Check() != nil {
			t.Errorf("round trip (-want +got):\n%s", d)
		}
	}
	sum := sha256.Sum256([]byte("{}"))
	if got := toolkit.HashOf([]byte("{}")); got != hex.EncodeToString(sum[:])[:32] {
		t.Errorf("HashOf({}): got %s", got)
	}
}

// Every field of a definition is in its hash, the fields of its backoff too.
func TestEveryFieldChangesTheHash(t *testing.T) {
	t.Parallel()
	seen := map[string]string{full().Hash(): "none"}
	fields := reflect.VisibleFields(reflect.TypeFor[toolkit.Definition]())
	for _, f := range reflect.VisibleFields(reflect.TypeFor[toolkit.Backoff]()) {
		backoff, _ := reflect.TypeFor[toolkit.Definition]().FieldByName("Backoff")
		f.Index = append(slices.Clone(backoff.Index), f.Index...)
		fields = append(fields, f)
	}
	for _, f := range fields {
		d := full()
		v := reflect.ValueOf(&d).Elem().FieldByIndex(f.Index)
		if v.IsZero() {
			t.Fatalf("%s is not set in full()", f.Name)
		}
		v.SetZero()
		if f.Name == "InputSchema" {
			d.InputSchema = json.RawMessage(`{}`)
		}
		if other, ok := seen[d.Hash()]; ok {
			t.Errorf("without %s: the hash of %s", f.Name, other)
		}
		seen[d.Hash()] = "without " + f.Name
	}
	no, lists := false, full()
	lists.Strict = &no // unset, false and true are three
	if _, ok := seen[lists.Hash()]; ok {
		t.Error("strict false has the hash of another")
	}
}

// Check names the tool and what is wrong with it.
func TestCheck(t *testing.T) {
	t.Parallel()
	if err := full().Check(); err != nil {
		t.Errorf("a full definition: %v", err)
	}
	for _, name := range []events.ToolName{"a", "A-b_9", "mcp__files__read", events.ToolName(strings.Repeat("x", 64))} {
		if err := (toolkit.Definition{Name: name, InputSchema: json.RawMessage(`{}`)}).Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []events.ToolName{"", "a.b", "a b", "a*", ">", "é", "a\n", "a/b", "\x00", events.ToolName(strings.Repeat("x", 65))} {
		err := toolkit.Definition{Name: name, InputSchema: json.RawMessage(`{}`)}.Check()
		if !errors.Is(err, toolkit.ErrDefinition) || !strings.Contains(err.Error(), "name") {
			t.Errorf("%q: got %v, want ErrDefinition", name, err)
		}
	}
	for want, change := range map[string]func(*toolkit.Definition){
		"inputSchema":                      func(d *toolkit.Definition) { d.InputSchema = nil },
		"inputSchema: a schema must be a ": func(d *toolkit.Definition) { d.InputSchema = json.RawMessage(`true`) },
		"inputSchema: events: malformed":   func(d *toolkit.Definition) { d.InputSchema = json.RawMessage(`{"a":1,"a":2}`) },
		"/type":                            func(d *toolkit.Definition) { d.InputSchema = json.RawMessage(`{"type":"nonsense"}`) },
		"outputSchema":                     func(d *toolkit.Definition) { d.OutputSchema = json.RawMessage(`[]`) },
		`oversize "shrink"`:                func(d *toolkit.Definition) { d.Oversize = "shrink" },
		"timeout, queueTimeout or backoff": func(d *toolkit.Definition) { d.Timeout = -1 },
		"queueTimeout or backoff is neg":   func(d *toolkit.Definition) { d.QueueTimeout = -1 },
		"is negative":                      func(d *toolkit.Definition) { d.Backoff.Initial = -1 },
		"negative":                         func(d *toolkit.Definition) { d.Backoff.Max = -1 },
		"attempts":                         func(d *toolkit.Definition) { d.Attempts = -1 },
		"maxInFlight":                      func(d *toolkit.Definition) { d.MaxInFlight = -1 },
		"maxResult":                        func(d *toolkit.Definition) { d.MaxResult = -1 },
		"multiplier 0.5":                   func(d *toolkit.Definition) { d.Backoff.Multiplier = 0.5 },
		"multiplier -1":                    func(d *toolkit.Definition) { d.Backoff.Multiplier = -1 },
	} {
		d := full()
		change(&d)
		err := d.Check()
		if !errors.Is(err, toolkit.ErrDefinition) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"full_tool-1"`) {
			t.Errorf("got %v, want ErrDefinition with %q", err, want)
		}
		if _, rawErr := toolkit.Raw(d, nil); !errors.Is(rawErr, toolkit.ErrDefinition) {
			t.Errorf("Raw: got %v, want ErrDefinition", rawErr)
		}
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	second := toolkit.Duration(time.Second)
	for _, c := range []struct {
		b    toolkit.Backoff
		want []time.Duration // after attempts 1, 2, …
	}{
		{toolkit.Backoff{}, []time.Duration{1e9, 2e9, 4e9, 8e9, 10e9, 10e9}},
		{toolkit.Backoff{Initial: second, Multiplier: 1}, []time.Duration{1e9, 1e9, 1e9}},
		{toolkit.Backoff{Initial: second, Max: 5 * second, Multiplier: 3}, []time.Duration{1e9, 3e9, 5e9, 5e9}},
		{toolkit.Backoff{Initial: 60 * second}, []time.Duration{10e9, 10e9}},
		{toolkit.Backoff{Initial: 1, Max: 1 << 62, Multiplier: 1e300}, []time.Duration{1, 1 << 62, 1 << 62}},
	} {
		for i, want := range c.want {
			if got := c.b.Delay(i + 1); got != want {
				t.Errorf("%+v after attempt %d: got %v, want %v", c.b, i+1, got, want)
			}
		}
	}
	if got := (toolkit.Backoff{Initial: second}).Delay(1 << 20); got != 10*time.Second {
		t.Errorf("got %v", got)
	}
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]time.Duration{`"1m30s"`: 90 * time.Second, `"0s"`: 0, `"1.5h"`: 90 * time.Minute} {
		var d toolkit.Duration
		if err := json.Unmarshal([]byte(in), &d); err != nil || time.Duration(d) != want {
			t.Errorf("%s: got %v, %v", in, d, err)
		}
	}
	for _, in := range []string{`"1 day"`, `""`, `90`, `"90"`} {
		var d toolkit.Duration
		if json.Unmarshal([]byte(in), &d) == nil {
			t.Errorf("%s was taken for %v", in, time.Duration(d))
		}
	}
	d := toolkit.Definition{}
	if d.AttemptTimeout() != toolkit.DefaultTimeout || d.QueueLimit() != toolkit.DefaultQueueTimeout || !d.Fenced() {
		t.Error("the defaults of the zero definition are others than documented")
	}
	if d = full(); d.AttemptTimeout() != 90*time.Second || d.QueueLimit() != time.Hour || d.Fenced() {
		t.Error("what is set does not count")
	}
}

// No list of dangers and an empty one are not the same: the first leaves the defaults, the second none.
func TestDefinitionKeepsEmptyDangers(t *testing.T) {
	t.Parallel()
	def := toolkit.Definition{Name: "x", InputSchema: []byte(`{"type":"object"}`)}
	none := def
	none.DangerousFiles = []string{}
	if def.Hash() == none.Hash() {
		t.Error("the hash is the same")
	}
	var back toolkit.Definition
	if err := json.Unmarshal(none.JSON(), &back); err != nil {
		t.Fatal(err)
	}
	if back.DangerousFiles == nil || back.DangerousDirectories != nil {
		t.Errorf("%s became %#v", none.JSON(), back)
	}
}
