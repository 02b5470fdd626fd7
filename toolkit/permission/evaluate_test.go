package permission_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit/permission"
)

const (
	allow = permission.Allow
	deny  = permission.Deny
	ask   = permission.Ask
)

// rules reads lines such as "deny shell(rm:*)".
func rules(tb testing.TB, lines ...string) []permission.Rule {
	tb.Helper()
	var out []permission.Rule
	for _, line := range lines {
		var word, text string
		for i := range line {
			if line[i] == ' ' {
				word, text = line[:i], line[i+1:]
				break
			}
		}
		r, err := permission.ParseRule(text)
		if err != nil {
			tb.Fatal(err)
		}
		if err := r.Behavior.UnmarshalText([]byte(word)); err != nil {
			tb.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

func plain(name events.ToolName) permission.Tool { return permission.Tool{Name: name} }

// TestTable is agentscope-spec §6.2, every mode with every kind of call, without rules, with an allow
// rule, an ask rule and a deny rule (P1, P2).
func TestTable(t *testing.T) {
	t.Parallel()
	kinds := map[string]struct {
		def permission.Tool
		own *permission.Check
	}{
		"read-only": {permission.Tool{Name: "t", ReadOnly: true}, nil},
		"plain":     {plain("t"), nil},
		"ask":       {plain("t"), &permission.Check{Behavior: ask, Message: "m"}},
		"safety":    {plain("t"), &permission.Check{Behavior: ask, Immune: true, Message: "m"}},
		"deny":      {plain("t"), &permission.Check{Behavior: deny, Message: "m"}},
		"allow":     {plain("t"), &permission.Check{Behavior: allow, Message: "m"}},
	}
	type row struct{ none, allow, ask, deny string }
	const (
		readOnly, rule, asked, denied = "allow: read-only", "allow: rule t", "ask: rule t", "deny: rule t"
		safety, toolDeny, toolAllow   = "ask: safety: tool check", "deny: tool check", "allow: tool check"
		unattended                    = "deny: rule t, mode dont_ask"
	)
	table := map[permission.Mode]map[string]row{
		permission.Default: {
			"read-only": {readOnly, readOnly, asked, denied}, "plain": {"ask: mode default", rule, asked, denied},
			"ask": {"ask: tool check", rule, asked, denied}, "safety": {safety, safety, asked, denied},
			"deny": {toolDeny, toolDeny, asked, denied}, "allow": {toolAllow, toolAllow, asked, denied},
		},
		permission.AcceptEdits: {
			"read-only": {readOnly, readOnly, asked, denied}, "plain": {"ask: mode accept_edits", rule, asked, denied},
			"ask": {"ask: tool check", rule, asked, denied}, "safety": {safety, safety, asked, denied},
			"deny": {toolDeny, toolDeny, asked, denied}, "allow": {toolAllow, toolAllow, asked, denied},
		},
		permission.Explore: {
			"read-only": {readOnly, readOnly, asked, denied}, "plain": {"deny: mode explore", "deny: mode explore", asked, denied},
			"ask":    {"deny: mode explore", "deny: mode explore", asked, denied},
			"safety": {"deny: mode explore", "deny: mode explore", asked, denied},
			"deny":   {"deny: mode explore", "deny: mode explore", asked, denied},
			"allow":  {"deny: mode explore", "deny: mode explore", asked, denied},
		},
		permission.Bypass: {
			"read-only": {readOnly, readOnly, asked, denied}, "plain": {"allow: mode bypass", rule, asked, denied},
			"ask": {"allow: mode bypass", rule, asked, denied}, "safety": {safety, safety, asked, denied},
			"deny": {toolDeny, toolDeny, asked, denied}, "allow": {toolAllow, toolAllow, asked, denied},
		},
		permission.DontAsk: {
			"read-only": {readOnly, readOnly, unattended, denied}, "plain": {"deny: mode dont_ask", rule, unattended, denied},
			"ask":    {"deny: mode dont_ask", rule, unattended, denied},
			"safety": {"deny: safety: tool check, mode dont_ask", "deny: safety: tool check, mode dont_ask", unattended, denied},
			"deny":   {toolDeny, toolDeny, unattended, denied}, "allow": {toolAllow, toolAllow, unattended, denied},
		},
	}
	suggestion := []permission.Rule{{Tool: "t", Behavior: allow, Source: "suggestion"}}
	for mode, rows := range table {
		for kind, want := range rows {
			k := kinds[kind]
			for i, w := range []string{want.none, want.allow, want.ask, want.deny} {
				c := permission.Context{Mode: mode}
				switch i {
				case 1:
					c.Rules = rules(t, "allow t")
				case 2:
					c.Rules = rules(t, "allow t", "ask t")
				case 3:
					c.Rules = rules(t, "allow t", "ask t", "deny t")
				}
				d := permission.Evaluate(c, k.def, nil, k.own)
				if d.String() != w {
					t.Errorf("%s, %s, rules %v: %q, want %q", mode, kind, c.Rules, d, w)
				}
				unanswered := d.Behavior == ask || mode == permission.DontAsk && d.Behavior == deny && d.Rule != "tool check" && i != 3
				if got := d.Suggestions; unanswered != cmp.Equal(got, suggestion) || !unanswered && got != nil {
					t.Errorf("%s, %s, rules %v: %q suggests %v", mode, kind, c.Rules, d, got)
				}
				if d.Message == "" {
					t.Errorf("%s, %s: no message", mode, kind)
				}
			}
		}
	}
}

func TestNoConfigurationRunsWhatDoesNotObject(t *testing.T) {
	t.Parallel()
	untrusted := permission.Tool{Name: "mcp__s__t", MCPServer: "s", ReadOnly: true}
	for name, tc := range map[string]struct {
		c    permission.Context
		def  permission.Tool
		own  *permission.Check
		want string
	}{
		"plain":              {def: plain("t"), want: "allow: no configuration"},
		"asks":               {def: plain("t"), own: &permission.Check{Behavior: ask}, want: "ask: tool check"},
		"safety":             {def: plain("t"), own: &permission.Check{Behavior: ask, Immune: true}, want: "ask: safety: tool check"},
		"denies":             {def: plain("t"), own: &permission.Check{Behavior: deny}, want: "deny: tool check"},
		"no answer":          {def: permission.Tool{Name: "t", Matcher: "own"}, want: "ask: safety: tool check"},
		"answer":             {def: permission.Tool{Name: "t", Matcher: "own"}, own: &permission.Check{}, want: "allow: no configuration"},
		"unknown word":       {def: plain("t"), own: &permission.Check{Behavior: "yes"}, want: "yes"},
		"T-143 untrusted":    {def: untrusted, want: "ask: tool check"},
		"T-143 says allow":   {def: untrusted, own: &permission.Check{Behavior: allow, ReadOnly: true}, want: "ask: tool check"},
		"T-143 trusted":      {c: permission.Context{TrustedServers: []string{"s"}}, def: untrusted, want: "allow: no configuration"},
		"T-143 another one":  {c: permission.Context{TrustedServers: []string{"S", "s2"}}, def: untrusted, want: "ask: tool check"},
		"a mode is a choice": {c: permission.Context{Mode: permission.Default}, def: plain("t"), want: "ask: mode default"},
		"directories are":    {c: permission.Context{WorkingDirectories: []string{"/w"}}, def: plain("t"), want: "ask: mode default"},
		"T-143 mode":         {c: permission.Context{Mode: permission.Explore}, def: untrusted, want: "deny: mode explore"},
		"T-143 with rule":    {c: permission.Context{Rules: rules(t, "allow mcp__s__*")}, def: untrusted, want: "allow: rule mcp__s__*"},
		"T-143 no rule":      {c: permission.Context{Rules: rules(t, "allow mcp__x__*")}, def: untrusted, want: "ask: tool check"},
		"T-143 trusted mode": {c: permission.Context{Mode: permission.Explore, TrustedServers: []string{"s"}}, def: untrusted, want: "allow: read-only"},
		"unknown mode":       {c: permission.Context{Mode: "yolo"}, def: plain("t"), want: "ask: unknown mode"},
		"unknown mode reads": {c: permission.Context{Mode: "yolo"}, def: permission.Tool{Name: "t", ReadOnly: true}, want: "ask: unknown mode"},
		"unknown behavior":   {c: permission.Context{Mode: permission.Bypass, Rules: []permission.Rule{{Tool: "t", Behavior: "nope"}}}, def: plain("t"), want: "ask: safety: rule t"},
		"another tool":       {c: permission.Context{Mode: permission.Bypass, Rules: []permission.Rule{{Tool: "u", Behavior: "nope"}}}, def: plain("t"), want: "allow: mode bypass"},
	} {
		if name == "unknown word" {
			if d := permission.Evaluate(tc.c, tc.def, nil, tc.own); d.Behavior != ask || !d.Immune {
				t.Errorf("a check with an unknown word: %+v", d)
			}
			continue
		}
		if d := permission.Evaluate(tc.c, tc.def, nil, tc.own); d.String() != tc.want {
			t.Errorf("%s: %q, want %q", name, d, tc.want)
		}
	}
}

func TestContentOfToolsWithoutMatcher(t *testing.T) {
	t.Parallel()
	own := &permission.Check{Matches: map[string]bool{"yes": true, "no": false}, Suggestions: []string{"a", "a", "b", "c", "d", "e", "f", "\x00"}}
	for _, tc := range []struct {
		rule string
		own  *permission.Check
		want string
	}{
		{"deny t(yes)", own, "deny: rule t(yes)"},
		{"deny t(no)", own, "allow: mode bypass"},
		{"deny t(missing)", own, "ask: safety: rule t(missing)"},
		{"deny t(yes)", nil, "ask: safety: rule t(yes)"},
		{"ask t(yes)", own, "ask: rule t(yes)"},
		{"ask t(yes)", nil, "ask: safety: rule t(yes)"},
		{"allow t(yes)", own, "allow: rule t(yes)"},
		{"allow t(no)", own, "allow: mode bypass"},
		{"allow t(yes)", nil, "allow: mode bypass"},
		{"deny *(missing)", own, "ask: safety: rule *(missing)"},
		{"deny x*(missing)", own, "allow: mode bypass"},
	} {
		c := permission.Context{Mode: permission.Bypass, Rules: rules(t, tc.rule)}
		d := permission.Evaluate(c, plain("t"), nil, tc.own)
		if d.String() != tc.want {
			t.Errorf("%s: %q, want %q", tc.rule, d, tc.want)
		}
		if d.Behavior == ask && tc.own != nil && len(d.Suggestions) != 5 {
			t.Errorf("suggestions %v, want the first five", d.Suggestions)
		}
	}
}

// A certain deny wins over doubt and over asks, wherever it stands; doubt wins over an ask.
func TestDenyWins(t *testing.T) {
	t.Parallel()
	def := permission.Tool{Name: "t", Matcher: "field:a"}
	input := json.RawMessage(`{"a":"x"}`)
	c := permission.Context{Rules: rules(t, "allow t", "ask t(x)", "deny t(*)")}
	if d := permission.Evaluate(c, def, input, nil); d.String() != "deny: rule t(*)" {
		t.Errorf("%q", d)
	}
	if d := permission.Evaluate(c, def, json.RawMessage(`{"A":"x"}`), nil); d.String() != "ask: safety: rule t(x)" {
		t.Errorf("%q", d)
	}
}

func TestField(t *testing.T) {
	t.Parallel()
	def := permission.Tool{
		Name: "t", Matcher: "field:env",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"env":{"type":"string","default":"prod"},"x":true}}`),
	}
	for _, tc := range []struct{ rule, input, want string }{
		{"allow t(test-*)", `{"env":"test-1"}`, "allow: rule t(test-*)"},
		{"allow t(test-*)", `{"env":"TEST-1"}`, "ask: mode default"},
		{"deny t(prod)", `{"env":"PROD"}`, "deny: rule t(prod)"},
		{"deny t(prod)", `{}`, "deny: rule t(prod)"}, // the schema's default
		{"deny t(prod)", ``, "deny: rule t(prod)"},
		{"deny t(prod)", `{"env":null}`, "ask: mode default"},
		{"deny t(prod)", `{"env":["prod"]}`, "ask: safety: rule t(prod)"}, // T-87
		{"deny t(prod)", `{"ENV":"prod","env":"x"}`, "ask: safety: rule t(prod)"},
		{"deny t(prod)", `[]`, "ask: safety: rule t(prod)"},
		{"deny t(prod)", `null`, "ask: safety: rule t(prod)"},
		{"deny t(prod)", `{"env":`, "ask: safety: rule t(prod)"},
		{"deny t(prod)", `{"env":"x","env":"prod"}`, "ask: safety: rule t(prod)"},
		{"deny t(prod)", `{"env":NaN}`, "ask: safety: rule t(prod)"},
		{"allow t(*)", `{"env":1}`, "ask: mode default"},
		{"allow t(*)", `{"env":null}`, "ask: mode default"},
		{`allow t(a\*b)`, `{"env":"a*b"}`, `allow: rule t(a\*b)`},
		{`allow t(a\*b)`, `{"env":"axb"}`, "ask: mode default"},
		{`allow t(a*b*c)`, `{"env":"a1b2b3c"}`, "allow: rule t(a*b*c)"},
		{`allow t(a*b*c)`, `{"env":"a1b2b3d"}`, "ask: mode default"},
	} {
		d := permission.Evaluate(permission.Context{Rules: rules(t, tc.rule)}, def, json.RawMessage(tc.input), nil)
		if d.String() != tc.want {
			t.Errorf("%s of %s: %q, want %q", tc.rule, tc.input, d, tc.want)
		}
	}
	d := permission.Evaluate(permission.Context{Mode: permission.Default}, def, json.RawMessage(`{"env":"a*\\"}`), nil)
	if len(d.Suggestions) != 1 || d.Suggestions[0].Content != `a\*\\` {
		t.Errorf("suggestions %v", d.Suggestions)
	}
	if !permission.Covers(permission.Context{}, d.Suggestions[0], def, json.RawMessage(`{"env":"a*\\"}`), nil) {
		t.Error("a suggestion does not cover its call")
	}
	if permission.Covers(permission.Context{}, d.Suggestions[0], def, json.RawMessage(`{"env":"ab\\"}`), nil) {
		t.Error("a suggestion covers another call")
	}
}

// TestEvaluateLeavesRulesAlone: evaluation must not change what it reads.
func TestEvaluateLeavesRulesAlone(t *testing.T) {
	t.Parallel()
	c := permission.Context{Rules: rules(t, "allow a*", "ask t(x)", "deny b")}
	before := append([]permission.Rule{}, c.Rules...)
	d := permission.Evaluate(c, plain("t"), json.RawMessage(`{}`), nil)
	d.Rules[0].Content = "changed"
	permission.Covers(c, before[0], plain("t"), nil, nil)
	if diff := cmp.Diff(before, c.Rules); diff != "" {
		t.Error(diff)
	}
}
