package permission_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/toolkit/permission"
)

func pathTool() permission.Tool {
	return permission.Tool{
		Name: "t", Matcher: "path",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"file_path":{"type":"string"},"path":{"type":"string"}}}`),
	}
}

func pathInput(tb testing.TB, p string) json.RawMessage {
	tb.Helper()
	b, err := json.Marshal(map[string]string{"file_path": p})
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestPathRules(t *testing.T) {
	t.Parallel()
	work := permission.Context{Mode: permission.Default, WorkingDirectories: []string{"/work"}, Home: "/home/u"}
	bare := permission.Context{Mode: permission.Default}
	const other = "ask: mode default"
	for _, tc := range []struct {
		c                permission.Context
		rule, path, want string
	}{
		{work, "allow t(/srv/**)", "/srv/a/b", "allow: rule t(/srv/**)"},
		{work, "allow t(/srv/**)", "/srv/a/../../etc/passwd", other}, // P7
		{work, "allow t(/srv/**)", "/SRV/a", other},
		{work, "allow t(/srv/**)", "/srvx/a", other},
		{work, "allow t(/srv/*)", "/srv/a/b", other},
		{work, "allow t(src/**)", "src/a", "allow: rule t(src/**)"},
		{work, "allow t(src/**)", "/work/src/a", "allow: rule t(src/**)"},
		{work, "allow t(/work/**)", "src/../../x", other},
		{work, "allow t(/work/**)", "./src//a", "allow: rule t(/work/**)"},
		{work, "allow t(*.md)", "a.md", "allow: rule t(*.md)"},
		{work, "allow t(*.md)", "/etc/a.md", other},
		{work, "allow t(**)", "~bob/x", other},
		{work, "allow t(~/x/**)", "/home/u/x/y", "allow: rule t(~/x/**)"},
		{work, "allow t(/home/u/**)", "~/x", "allow: rule t(/home/u/**)"},
		{work, "deny t(/etc/**)", "~/../../etc/passwd", "deny: rule t(/etc/**)"},
		{work, "deny t(/etc/**)", "../etc/passwd", "deny: rule t(/etc/**)"},
		{work, "deny t(/etc/**)", "/ETC/passwd", "deny: rule t(/etc/**)"},
		{work, "deny t(/etc/**)", "//etc/./passwd", "deny: rule t(/etc/**)"},
		{work, "deny t(/etc/**)", "/etc", "deny: rule t(/etc/**)"},
		{work, "deny t(/etc/**)", "/", "ask: safety: rule t(/etc/**)"}, // what is done to / may reach /etc
		{work, "deny t(/etc/**)", "src", other},
		{work, "deny t(/etc/**)", `C:\etc\passwd`, "ask: safety: rule t(/etc/**)"},
		{work, "deny t(/etc/**)", "file:///etc/passwd", "ask: safety: rule t(/etc/**)"},
		{work, "deny t(/etc/**)", "/x\x00/etc", "ask: safety: rule t(/etc/**)"},
		{work, "deny t(*.pem)", "/a/b.PEM", "deny: rule t(*.pem)"},
		{work, "deny t(secret)", "/a/secret/b", "deny: rule t(secret)"},
		{work, "deny t(**/*.pem)", "/a/b.pem", "deny: rule t(**/*.pem)"},
		{work, "deny t({a,b}/{a,b}/{a,b}/{a,b})", "/a", "ask: safety: rule t({a,b}/{a,b}/{a,b}/{a,b})"}, // too many to try
		{work, "deny t(/{a,b}/{a,b})", "/b/a", "deny: rule t(/{a,b}/{a,b})"},
		{work, "deny t([)", "/a", "ask: safety: rule t([)"},
		{work, "allow t([)", "/a", other},
		{bare, "deny t(/etc/**)", "passwd", "ask: safety: rule t(/etc/**)"}, // from an unknown directory
		{bare, "deny t(/etc/**)", "~/x", "ask: safety: rule t(/etc/**)"},
		{bare, "deny t(~/x/**)", "~/x/y", "deny: rule t(~/x/**)"},
		{bare, "deny t(~/x/**)", "~/z/../x/y", "deny: rule t(~/x/**)"},
		{bare, "deny t(~/x/**)", "~/y", other},
		{bare, "deny t(src/**)", "src/a", "deny: rule t(src/**)"},
		{bare, "deny t(src/**)", "lib/a", other},
		{bare, "deny t(src/**)", "../a", "ask: safety: rule t(src/**)"},
		{bare, "allow t(**)", "../a", other},
		{bare, "allow t(**)", "~/../a", other},
		{bare, "allow t(~/../a)", "~/../a", other},
		{bare, "allow t(src/**)", "src/../../a", other},
		{bare, "allow t(src/**)", "src/a/../b", "allow: rule t(src/**)"},
	} {
		c := tc.c
		c.Rules = rules(t, tc.rule)
		if d := permission.Evaluate(c, pathTool(), pathInput(t, tc.path), nil); d.String() != tc.want {
			t.Errorf("%s of %q with %v: %q, want %q", tc.rule, tc.path, tc.c.WorkingDirectories, d, tc.want)
		}
	}
}

func TestPathArguments(t *testing.T) {
	t.Parallel()
	c := permission.Context{WorkingDirectories: []string{"/work"}, Rules: rules(t, "deny t(/etc/**)", "allow t(/work/**)")}
	const doubt, fine, other = "ask: safety: rule t(/etc/**)", "allow: rule t(/work/**)", "ask: mode default"
	named := pathTool()
	named.Matcher = "path:target,sources"
	foreign := permission.Tool{Name: "t", Matcher: "path", InputSchema: json.RawMessage(`{"properties":{"target":{}}}`)}
	for _, tc := range []struct {
		def         permission.Tool
		input, want string
	}{
		{pathTool(), `{}`, fine}, // where the tool is
		{pathTool(), `{"file_path":null}`, fine},
		{pathTool(), `{"file_path":1}`, doubt},
		{pathTool(), `{"File_Path":"/etc/x"}`, doubt},
		{pathTool(), `{"file_path":"a","path":"/etc/x"}`, "deny: rule t(/etc/**)"},
		{pathTool(), `{"file_path":"a","path":"/x"}`, other}, // every path must be covered
		{pathTool(), `{"paths":["a","/etc/x"]}`, "deny: rule t(/etc/**)"},
		{pathTool(), `{"paths":["a",null]}`, doubt},
		{pathTool(), `"x"`, doubt},
		{named, `{"target":"/etc/x"}`, "deny: rule t(/etc/**)"},
		{named, `{"sources":["a","b"],"target":"c"}`, fine},
		{foreign, `{"target":"/etc/x"}`, doubt}, // no argument known as a path
	} {
		if d := permission.Evaluate(c, tc.def, json.RawMessage(tc.input), nil); d.String() != tc.want {
			t.Errorf("%s of %s: %q, want %q", tc.input, tc.def.Matcher, d, tc.want)
		}
	}
}

func TestDangerousPaths(t *testing.T) { // P7
	t.Parallel()
	none, more, only := pathTool(), pathTool(), pathTool()
	none.DangerousFiles, none.DangerousDirectories = []string{}, []string{}
	more.DangerousFiles, more.DangerousDirectories = []string{"secret.txt", "conf/key"}, []string{"/etc", "my/dir"}
	only.DangerousFiles, only.DangerousDirectories = []string{"!defaults", "secret.txt"}, []string{"!defaults"}
	for _, tc := range []struct {
		def  permission.Tool
		path string
		want bool
	}{
		{pathTool(), "/work/a", false},
		{pathTool(), "/work/.env", true},
		{pathTool(), "/work/.env.example", false},
		{pathTool(), "/work/x.env", false},
		{pathTool(), "/work/.ENV", true},
		{pathTool(), "/work/.env.", true},
		{pathTool(), "/work/.env:stream", true},
		{pathTool(), "/work/.g\u200cit/config", true},
		{pathTool(), "/work/.\u017fsh/x", true}, // long s
		{pathTool(), "/work/x/../.git/hooks/pre-commit", true},
		{pathTool(), "/work/.git/../x", false},
		{pathTool(), "/work/.gitignore", false},
		{pathTool(), "~/.ssh/config", true},
		{pathTool(), "~/.bashrc", true},
		{pathTool(), "~bob/.bashrc", true},
		{pathTool(), `C:\Users\x\.ssh\config`, true},
		{pathTool(), "../../.git", true},
		{none, "/work/.git/config", false},
		{none, "/work/.env", false},
		{more, "/work/.env", true},
		{more, "/work/secret.txt", true},
		{more, "/work/conf/key", true},
		{more, "/work/key", false},
		{more, "/etc/passwd", true},
		{more, "/x/etc/passwd", false},
		{more, "/x/my/dir/y", true},
		{only, "/work/.env", false},
		{only, "/work/.git/x", false},
		{only, "/work/secret.txt", true},
	} {
		for _, mode := range []permission.Mode{permission.Bypass, permission.AcceptEdits} {
			c := permission.Context{Mode: mode, WorkingDirectories: []string{"/work"}, Rules: rules(t, "allow t")}
			d := permission.Evaluate(c, tc.def, pathInput(t, tc.path), nil)
			if got := d.String() == "ask: safety: tool check" && d.Immune; got != tc.want {
				t.Errorf("%s: %q in %s, dangerous should be %v", tc.path, d, mode, tc.want)
			}
		}
	}
}

func TestPathEdits(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ path, want string }{
		{"/work/a", "allow: tool check"},
		{"/work", "allow: tool check"},
		{"a/../b", "allow: tool check"},
		{"/workspace/a", "ask: mode accept_edits"},
		{"/work/../etc/x", "ask: mode accept_edits"},
		{"../x", "ask: mode accept_edits"},
		{"~/x", "ask: mode accept_edits"},
		{"/WORK/a", "ask: mode accept_edits"},
		{"/second/a", "allow: tool check"},
		{".git/config", "ask: safety: tool check"},
	} {
		c := permission.Context{Mode: permission.AcceptEdits, WorkingDirectories: []string{"/work", "/second"}}
		if d := permission.Evaluate(c, pathTool(), pathInput(t, tc.path), nil); d.String() != tc.want {
			t.Errorf("%s: %q, want %q", tc.path, d, tc.want)
		}
		c.Mode = permission.Default
		if d := permission.Evaluate(c, pathTool(), pathInput(t, tc.path), nil); d.Behavior != ask {
			t.Errorf("%s in default: %q", tc.path, d)
		}
	}
	d := permission.Evaluate(permission.Context{Mode: permission.AcceptEdits}, pathTool(), pathInput(t, "a"), nil)
	if d.Behavior != ask {
		t.Errorf("without working directories: %q", d)
	}
}

func TestPathSuggestions(t *testing.T) { // P8
	t.Parallel()
	c := permission.Context{Mode: permission.Default, WorkingDirectories: []string{"/work"}}
	for path, want := range map[string][]string{
		"/srv/a/b.txt":  {"/srv/a/**"},
		"/srv/a":        {"/srv/a"}, // never a directory below the root
		"/etc":          {"/etc"},
		"/":             {"/"},
		"src/x":         {"/work/src/**"},
		".":             {"/work/**"},
		"a*b/c[/d":      {`/work/a\*b/c\[/**`},
		"~/x":           {"~/x"},
		"~/x/y":         {"~/x/**"},
		"/work/.git/a":  nil, // would not help
		"../../../../x": {"/x"},
		"a\\b":          nil,
	} {
		d := permission.Evaluate(c, pathTool(), pathInput(t, path), nil)
		var got []string
		for _, r := range d.Suggestions {
			got = append(got, r.Content)
			if !permission.Covers(c, r, pathTool(), pathInput(t, path), nil) {
				t.Errorf("%s: %s does not cover it", path, r)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	r := rules(t, "allow t(/work/src/**)")[0]
	if permission.Covers(c, r, pathTool(), pathInput(t, "lib/x"), nil) || permission.Covers(c, r, plain("u"), nil, nil) {
		t.Error("a suggestion covers another call")
	}
}
