package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/config"
	"github.com/toolwire/toolwire/toolkit"
)

func plan(tb testing.TB, from, to string) []config.Change {
	tb.Helper()
	changes, err := config.Plan(parse(tb, from).Config, parse(tb, to).Config)
	if err != nil {
		tb.Fatal(err)
	}
	return changes
}

func TestPlan(t *testing.T) {
	t.Parallel()
	const none = "groups: []"
	for name, c := range map[string]struct{ from, to, want string }{
		"nothing":       {none, "metaTool: true\ntools: {}", ""},
		"meaning alike": {"groups: [{name: a, tools: [x, y]}, {name: b}]", "groups: [{name: b, scope: session}, {name: a, scope: meta, tools: [y, x], active: false}]", ""},
		"new":           {none, "groups: [{name: a, description: For all, tools: [x, y*], active: true}]\ntools: {x: {timeout: 60s}}", "+ group a: description \"For all\"; scope meta; active true; tools x y*\n+ tool x: timeout 1m"},
		"gone":          {"groups: [{name: a}]\ntools: {x: {timeout: 60s}}", none, "- group a\n- tool x"},
		"group":         {"groups: [{name: a, tools: [x, y], description: old}]", "groups: [{name: a, tools: [y, z], active: true, scope: external}]", "~ group a: scope meta → external; active unset → true; tools +z -x; description old → unset"},
		"tool": {
			"tools: {x: {timeout: 1h30m, attempts: 2, strict: false}}", "tools: {x: {timeout: 2h, maxInFlight: 3, strict: true, dangerousFiles: []}}",
			"~ tool x: timeout 1h30m → 2h; maxInFlight unset → 3; strict false → true; dangerousFiles unset → []; attempts 2 → unset",
		},
		"extended": {
			"tools: {x: {extended: {properties: {a: {}}}}, y: {extended: {properties: {a: {}, b: {}}}}}", "tools: {x: {extended: {properties: {a: {}}}}, y: {extended: {properties: {b: {}, a: {}}}}}",
			"~ tool y: extended changed",
		},
		"presets": {
			"presets: {x: {a: 4711, b: {env: 'S4711'}, c: 4711}}", "presets: {x: {a: 4712, b: {env: 'S4711'}, d: 4711}, y: {e: 4711}}",
			"~ tool x: presets.a changed; presets.d set; presets.c removed\n+ tool y: presets.e set",
		},
		"meta tool":    {none, "metaTool: false", "~ setting: metaTool true → false"},
		"odd text":     {none, "groups: [{name: a, description: \"\\e[2J\\u202e\"}]", `+ group a: description "\x1b[2J\u202e"; scope meta`},
		"long text":    {none, "groups: [{name: a, description: " + strings.Repeat("x", 99) + "}]", `+ group a: description "` + strings.Repeat("x", 59) + `…"; scope meta`},
		"null presets": {"presets: {x: {a: null}}", "presets: {x: {a: []}}", "~ tool x: presets.a changed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changes := plan(t, c.from, c.to)
			lines := make([]string, len(changes))
			for i, change := range changes {
				lines[i] = change.String()
			}
			if d := cmp.Diff(c.want, strings.Join(lines, "\n")); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			b, err := events.Marshal(changes)
			if err != nil || strings.Contains(string(b), "471") {
				t.Errorf("%s, %v: a preset is told", b, err)
			}
		})
	}
}

func TestPlanJSON(t *testing.T) {
	t.Parallel()
	b, err := events.Marshal(plan(t, "tools: {x: {timeout: 1m, presets: {p: 1}}}", "tools: {x: {timeout: 2m}}\ngroups: [{name: a}]"))
	const want = `[{"op":"add","kind":"group","name":"a","fields":[{"op":"add","field":"scope","new":"meta"}]},` +
		`{"op":"change","kind":"tool","name":"x","fields":[{"op":"change","field":"timeout","old":"1m0s","new":"2m0s"},{"op":"remove","field":"presets.p"}]}]`
	if d := cmp.Diff(want, string(b)); err != nil || d != "" {
		t.Errorf("%v\n-want +got:\n%s", err, d)
	}
	if _, err := config.Plan(toolkit.Config{}, toolkit.Config{Tools: map[events.ToolName]toolkit.Override{"x": {Tuning: toolkit.Tuning{Extended: []byte("{")}}}}); err == nil {
		t.Error("JSON that is none is planned")
	}
}
