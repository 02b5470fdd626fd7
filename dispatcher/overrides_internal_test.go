package dispatcher

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

const searchSchema = `{"type":"object","properties":{"query":{"type":"string"},"apiKey":{"type":"string"},"limit":{"type":"integer"}},"required":["query","apiKey"],"additionalProperties":false}`

// tuned is tool search as a configuration has it.
func tuned(t *testing.T, o toolkit.Override, change ...func(*toolkit.Definition)) (*snapshot, *tool) {
	t.Helper()
	def := toolkit.Definition{Name: "search", InputSchema: json.RawMessage(searchSchema)}
	for _, c := range change {
		c(&def)
	}
	reg := groupsOf(toolkit.Config{Tools: map[events.ToolName]toolkit.Override{"search": o}}, def)
	return reg, reg.tool("search")
}

func decided(reg *snapshot, input string) decision {
	tn := &turn{began: time.Now()}
	return decideCall(tn, events.Call{ID: "c", Name: "search", Input: json.RawMessage(input)}, basis{reg: reg, rec: newRecord("a", nil), now: tn.began})
}

// Presets are not shown, not asked for, and travel to the worker (T9).
func TestPresetsAreHidden(t *testing.T) {
	t.Parallel()
	reg, tl := tuned(t, toolkit.Override{Tuning: toolkit.Tuning{Presets: map[string]toolkit.Preset{"apiKey": {Env: "KEY"}, "limit": {Value: json.RawMessage("12345678901234567890")}}}})
	if tl.broken != nil {
		t.Fatal(tl.broken)
	}
	if s := string(tl.raw); strings.Contains(s, "apiKey") || strings.Contains(s, "limit") || strings.Contains(s, "KEY") {
		t.Errorf("shown: %s", s)
	}
	got := decided(reg, `{"query":"x"}`)
	if got.work == nil {
		t.Fatalf("got %+v", got)
	}
	if s := string(got.work.Tuning); !strings.Contains(s, `"env":"KEY"`) || !strings.Contains(s, "12345678901234567890") {
		t.Errorf("travels: %s", s)
	}
	if string(got.work.Call.Input) != `{"query":"x"}` {
		t.Errorf("input: %s", got.work.Call.Input)
	}
	if got := decided(reg, `{"query":"x","apiKey":"stolen"}`); got.reason != events.ReasonInvalidInput {
		t.Errorf("a model that sets a preset of a closed schema: %+v", got)
	}
}

// Extended properties are shown and validated.
func TestExtendedProperties(t *testing.T) {
	t.Parallel()
	ext := json.RawMessage(`{"type":"object","properties":{"reason":{"type":"string","minLength":3}},"required":["reason"]}`)
	reg, tl := tuned(t, toolkit.Override{Tuning: toolkit.Tuning{Extended: ext}})
	if tl.broken != nil || !strings.Contains(string(tl.raw), `"reason"`) {
		t.Fatalf("%v: %s", tl.broken, tl.raw)
	}
	for input, want := range map[string]events.Reason{
		`{"query":"x","apiKey":"k"}`:                 events.ReasonInvalidInput,
		`{"query":"x","apiKey":"k","reason":"no"}`:   events.ReasonInvalidInput,
		`{"query":"x","apiKey":"k","reason":"why"}`:  "",
		`{"query":"x","apiKey":"k","other":"thing"}`: events.ReasonInvalidInput,
	} {
		if got := decided(reg, input); got.reason != want {
			t.Errorf("%s: got %s %s, want %q", input, got.reason, got.text, want)
		}
	}
}

// A configuration that does not fit a tool takes that tool out, visibly, and no other.
func TestOverrideThatDoesNotFit(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]toolkit.Override{
		"unknown preset":   {Tuning: toolkit.Tuning{Presets: map[string]toolkit.Preset{"nope": {Env: "X"}}}},
		"extended clashes": {Tuning: toolkit.Tuning{Extended: json.RawMessage(`{"properties":{"query":{"type":"integer"}}}`)}},
	} {
		reg, tl := tuned(t, o)
		if tl.broken == nil {
			t.Errorf("%s: taken as %s", name, tl.raw)
		}
		if got := decided(reg, `{"query":"x","apiKey":"k"}`); got.reason != events.ReasonUnavailable {
			t.Errorf("%s: got %+v", name, got)
		}
		if got := names(reg, newRecord("a", nil)); len(got) != 0 {
			t.Errorf("%s: listed %v", name, got)
		}
	}
}

// What an installation changes about a tool is in force and shown.
func TestOverrides(t *testing.T) {
	t.Parallel()
	strict := true
	_, tl := tuned(t, toolkit.Override{
		Tuning: toolkit.Tuning{Timeout: toolkit.Duration(time.Minute), Attempts: 3}, Group: "web", Strict: &strict,
		DangerousFiles: []string{}, DangerousDirectories: []string{"secrets"}, MaxInFlight: 2,
	}, func(d *toolkit.Definition) { d.Group, d.MaxInFlight, d.DangerousFiles = "old", 9, []string{"x"} })
	d := tl.def
	if d.AttemptTimeout() != time.Minute || d.Attempts != 3 || len(tl.groups) != 1 || tl.groups[0].Name != "web" || d.Strict == nil || !*d.Strict ||
		len(d.DangerousFiles) != 0 || len(d.DangerousDirectories) != 1 || d.MaxInFlight != 2 {
		t.Errorf("got %+v in %v", d, tl.groups)
	}
	if !strings.Contains(string(tl.tuning), `"timeout":"1m0s"`) || !strings.Contains(string(tl.tuning), `"attempts":3`) {
		t.Errorf("travels: %s", tl.tuning)
	}
	if want := (toolkit.Definition{Name: "search", InputSchema: json.RawMessage(searchSchema), Group: "old", MaxInFlight: 9, DangerousFiles: []string{"x"}}).Hash(); tl.hash != want {
		t.Errorf("hash %s, want that of what was announced, %s", tl.hash, want)
	}
}

// A limit for a tool that has none has no effect, and that is said.
func TestLimitWithoutALane(t *testing.T) {
	t.Parallel()
	if _, tl := tuned(t, toolkit.Override{MaxInFlight: 2}); tl.def.MaxInFlight != 0 || !strings.Contains(tl.note, "no effect") || tl.broken != nil {
		t.Errorf("got %+v, %q, %v", tl.def, tl.note, tl.broken)
	}
}

// Presets never leave for a tool that is answered elsewhere.
func TestNoPresetsForExternalTools(t *testing.T) {
	t.Parallel()
	_, tl := tuned(t, toolkit.Override{Tuning: toolkit.Tuning{Presets: map[string]toolkit.Preset{"apiKey": {Env: "KEY"}}}},
		func(d *toolkit.Definition) { d.External = true })
	if strings.Contains(string(tl.tuning), "KEY") || !strings.Contains(string(tl.raw), "apiKey") {
		t.Errorf("shown %s, travels %s", tl.raw, tl.tuning)
	}
}
