package permission_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/toolwire/toolwire/toolkit/permission"
)

// FuzzEvaluate gives anything to everything: no panic, a decision that is one and says why, the same
// twice, and never a weaker one for one more deny rule.
func FuzzEvaluate(f *testing.F) {
	f.Add("default", "shell", `{"command":"ls; rm -rf /"}`, "rm:*", "allow", "ask")
	f.Add("accept_edits", "path", `{"file_path":"~/../.git"}`, "/srv/**", "deny", "passthrough")
	f.Add("bypass", "field:x", `{"x":"\u0000"}`, "*", "ask", "deny")
	f.Add("nope", "own", `[`, "", "", "")
	f.Add("dont_ask", "path:a,b", `{"a":["x",null],"b":{}}`, "[", "allow", "allow")
	f.Fuzz(func(t *testing.T, mode, matcher, input, content, behavior, own string) {
		def := permission.Tool{Name: "t", Matcher: matcher}
		c := permission.Context{
			Mode: permission.Mode(mode), WorkingDirectories: []string{"/work"},
			Rules: []permission.Rule{{Tool: "t", Content: content, Behavior: permission.Behavior(behavior)}},
		}
		check := &permission.Check{Behavior: permission.Behavior(own), Message: own, Suggestions: []string{content}}
		d := permission.Evaluate(c, def, json.RawMessage(input), check)
		switch d.Behavior {
		case allow, deny, ask:
		default:
			t.Fatalf("no decision: %+v", d)
		}
		if d.Rule == "" || d.Message == "" || len(d.Suggestions) > 5 {
			t.Fatalf("%+v", d)
		}
		if again := permission.Evaluate(c, def, json.RawMessage(input), check); again.String() != d.String() {
			t.Fatalf("%q, then %q", d, again)
		}
		for _, s := range d.Suggestions {
			if s.Check() != nil || s.Behavior != allow {
				t.Fatalf("suggestion %+v", s)
			}
		}
		c.Rules = append(c.Rules, permission.Rule{Tool: "t", Behavior: deny})
		if d := permission.Evaluate(c, def, json.RawMessage(input), check); d.Behavior != deny {
			t.Fatalf("not denied: %+v", d)
		}
	})
}

// FuzzShell: whatever stands before it, a denied command on a line of its own is not run, and nothing
// that writes is taken for read-only. A suggestion that is accepted answers the ask.
func FuzzShell(f *testing.F) {
	for _, s := range []string{
		"ls", "git log | cat &", "echo $(x)", "a && b || c; d", "{ x; }", "for i in a; do b; done", "env A=b c", "x=(1 2)", "cat <a >b", "find . -exec x {} +",
		"sudo -u x y", "bash -c 'ls'", "sed -n 1p x", "rm -r x", "git branch -a", "é", "a{b,c}", "[[ a ]]", "((1))", "make -j2 x", "python x.py",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, command string) {
		if !json.Valid(shellInput(t, command)) {
			return
		}
		c := shellContext()
		d := permission.Evaluate(c, shellTool(), shellInput(t, command), nil)
		// A command that is too long for a rule, or has control characters, has no suggestion.
		if n := len(d.Suggestions); !d.Immune && n > 0 && n < 5 && len(command) < 1000 && !strings.ContainsFunc(command, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			accepted := c
			accepted.Rules = d.Suggestions
			if again := permission.Evaluate(accepted, shellTool(), shellInput(t, command), nil); again.Behavior != allow {
				t.Errorf("%q asks again: %q, %v", command, again, d.Suggestions)
			}
		}
		if strings.ContainsAny(command, "'\"\\`<#") {
			return // what follows may not be on a line of its own
		}
		for _, c := range []permission.Context{
			{Mode: permission.Bypass, Rules: rules(t, "deny sh(nuke:*)")},
			{Mode: permission.Explore},
			{Mode: permission.AcceptEdits, WorkingDirectories: []string{"/work"}, Rules: rules(t, "allow sh(git:*)", "allow sh(ls:*)")},
		} {
			if d := permission.Evaluate(c, shellTool(), shellInput(t, command+"\nnuke it > /x"), nil); d.Behavior == allow {
				t.Errorf("%q and a command that may not run: %q", command, d)
			}
		}
	})
}

// FuzzPath: a path is inside of a directory if and only if no reading of it leads out.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"a", "/work/a", "../x", "~/x", "/work/../x", "a//b/./c", "/WORK", "a*[b]{c}", `a\b`, "\x00", "~x", ".git", "/work/.GIT/x"} {
		f.Add(s, "/work/**")
	}
	f.Fuzz(func(t *testing.T, p, pattern string) {
		c := permission.Context{Mode: permission.AcceptEdits, WorkingDirectories: []string{"/work"}}
		d := permission.Evaluate(c, pathTool(), pathInput(t, p), nil)
		if d.Behavior == allow && (depth(p) < 0 || strings.HasPrefix(p, "~")) {
			t.Errorf("%q is inside: %q", p, d)
		}
		for _, r := range d.Suggestions {
			if !permission.Covers(c, r, pathTool(), pathInput(t, p), nil) {
				t.Errorf("%q: %s does not cover it", p, r)
			}
		}
		rule := permission.Rule{Tool: "t", Content: pattern, Behavior: deny}
		if rule.Check() != nil || pattern == "" {
			return
		}
		covered := permission.Covers(c, rule, pathTool(), pathInput(t, p), nil)
		c.Rules = []permission.Rule{rule}
		if d := permission.Evaluate(c, pathTool(), pathInput(t, p), nil); covered && d.Behavior != deny {
			t.Errorf("%q: allow %q covers it, deny says %q", p, pattern, d)
		}
	})
}

// depth is how far below /work a path ends, negative if not; by walking it.
func depth(p string) int {
	at := []string{"work"}
	if strings.HasPrefix(p, "/") {
		at = nil
	}
	for s := range strings.SplitSeq(p, "/") {
		switch s {
		case "", ".":
		case "..":
			at = at[:max(len(at)-1, 0)]
		default:
			at = append(at, s)
		}
	}
	if len(at) == 0 || !slices.Equal(at[:1], []string{"work"}) {
		return -1
	}
	return len(at) - 1
}
