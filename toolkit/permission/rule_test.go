package permission_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/toolwire/toolwire/toolkit/permission"
)

func TestParseRule(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]permission.Rule{
		"execute_shell_command(git commit:*)": {Tool: "execute_shell_command", Content: "git commit:*"},
		"mcp__github__*":                      {Tool: "mcp__github__*"},
		"*":                                   {Tool: "*"},
		" t(a) ":                              {Tool: "t", Content: "a"},
		"t( a (b) )":                          {Tool: "t", Content: " a (b) "},
		"t())":                                {Tool: "t", Content: ")"},
		"t(ä*)":                               {Tool: "t", Content: "ä*"},
	} {
		got, err := permission.ParseRule(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if back, err := permission.ParseRule(got.String()); err != nil || back != got {
			t.Errorf("%q does not come back: %+v, %v", text, back, err)
		}
	}
	for _, text := range []string{
		"", "t()", "t(", "t(a", "t)", "(a)", "t (a)", "t.x", "ü", "t(\x00)", "t(a\nb)", "t(\xff)",
		strings.Repeat("t", 200), "t(" + strings.Repeat("a", 5000) + ")",
	} {
		if r, err := permission.ParseRule(text); !errors.Is(err, permission.ErrRule) {
			t.Errorf("%q is the rule %+v, %v", text, r, err)
		}
	}
}

func TestContextJSON(t *testing.T) {
	t.Parallel()
	var c permission.Context
	if err := json.Unmarshal([]byte(`{"mode":"Dont_Ask","rules":[{"tool":"t","behavior":"DENY"}]}`), &c); err != nil {
		t.Fatal(err)
	}
	if b, err := json.Marshal(c); err != nil || string(b) != `{"mode":"dont_ask","rules":[{"tool":"t","behavior":"deny"}]}` {
		t.Errorf("%s, %v", b, err)
	}
	for _, text := range []string{
		`{"mode":"yolo"}`, `{"mode":""}`, `{"rules":[{"tool":"t","behavior":"maybe"}]}`, `{"rules":[{"tool":"t","behavior":""}]}`,
	} {
		if err := json.Unmarshal([]byte(text), &c); !errors.Is(err, permission.ErrWord) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestContextCheck(t *testing.T) {
	t.Parallel()
	good := permission.Context{Mode: permission.Explore, WorkingDirectories: []string{"/", "/w"}, Home: "/root", Rules: rules(t, "deny t")}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for _, c := range []permission.Context{
		{Mode: "yolo"},
		{WorkingDirectories: []string{"w"}},
		{WorkingDirectories: []string{"/w/"}},
		{Home: "~"},
		{Rules: []permission.Rule{{Tool: "t"}}},
		{Rules: []permission.Rule{{Tool: "t", Behavior: permission.Pass}}},
		{Rules: []permission.Rule{{Behavior: allow}}},
	} {
		if err := c.Check(); err == nil {
			t.Errorf("%+v is fine", c)
		}
	}
}

func FuzzParseRule(f *testing.F) {
	for _, s := range []string{"t", "t(a)", "mcp__*", "t(a(b))", "t()", "t(\x00)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := permission.ParseRule(text)
		if err != nil {
			return
		}
		if back, err := permission.ParseRule(r.String()); err != nil || back != r {
			t.Errorf("%q: %+v comes back as %+v, %v", text, r, back, err)
		}
	})
}
