package config_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/config"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/permission"
)

func parse(tb testing.TB, text string) config.File {
	tb.Helper()
	f, err := config.Parse("t.yaml", []byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// wire is a configuration as it is stored.
func wire(tb testing.TB, c toolkit.Config) string {
	tb.Helper()
	b, err := events.Marshal(c)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

func TestParse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, want string }{
		"groups": {
			"groups:\n  - name: db\n    description: Data\n    instructions: |\n      Two\n      lines\n    active: true\n    tools: [db_*, look]\n    servers: [pg]\n    skills: [sql]\n    skill: sql\n  - {name: admin, scope: external}\n  - {name: mine, scope: session}\n",
			`{"groups":[{"name":"db","description":"Data","instructions":"Two\nlines\n","active":true,"tools":["db_*","look"],"servers":["pg"],"skills":["sql"],"skill":"sql"},{"name":"admin","scope":"external"},{"name":"mine","scope":"meta"}]}`,
		},
		"tools": {
			"tools:\n  x:\n    group: db\n    timeout: 1m30s\n    attempts: 3\n    maxInFlight: 4\n    strict: false\n    dangerousFiles: []\n    dangerousDirectories: [/etc]\n",
			`{"tools":{"x":{"timeout":"1m30s","attempts":3,"group":"db","maxInFlight":4,"strict":false,"dangerousFiles":[],"dangerousDirectories":["/etc"]}}}`,
		},
		"presets": {
			"tools:\n  x:\n    presets: {a: 1, b: text, c: {env: TOKEN}}\npresets:\n  x: {d: {file: dir/token}, e: {value: {deep: [1, null]}}, f: [true, ~]}\n  y: {g: null}\n",
			`{"tools":{"x":{"presets":{"a":{"value":1},"b":{"value":"text"},"c":{"env":"TOKEN"},"d":{"file":"dir/token"},"e":{"value":{"deep":[1,null]}},"f":{"value":[true,null]}}},"y":{"presets":{"g":{"value":null}}}}}`,
		},
		"numbers and order": {
			"tools:\n  x:\n    extended:\n      properties:\n        zeta: {type: integer, maximum: 123456789012345678901234567890}\n        alpha: {type: number, minimum: -1.50, default: 1e400, enum: [1e3, \"1\", 2001-02-03, yes, True]}\n      required: [zeta]\n",
			`{"tools":{"x":{"extended":{"properties":{"zeta":{"type":"integer","maximum":123456789012345678901234567890},"alpha":{"type":"number","minimum":-1.50,"default":1e400,"enum":[1e3,"1","2001-02-03","yes",true]}},"required":["zeta"]}}}}`,
		},
		"meta tool":   {"metaTool: false", `{"noMetaTool":true}`},
		"nothing":     {"groups: []\nmetaTool: true", `{}`},
		"byte order":  {"\ufeffmetaTool: false\r\n", `{"noMetaTool":true}`},
		"JSON":        {`{"groups": [{"name": "a", "description": "\u00fc"}]}`, `{"groups":[{"name":"a","description":"ü"}]}`},
		"end markers": {"---\nmetaTool: false\n...\n", `{"noMetaTool":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := parse(t, c.file)
			if d := cmp.Diff(c.want, wire(t, f.Config)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if len(f.Warnings) > 0 {
				t.Errorf("warned: %v", f.Warnings)
			}
		})
	}
}

// Each error says where it is, and what is allowed there.
func TestParseErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, want string }{
		{"", "1:1: there is nothing in the file; to remove the whole configuration, write `groups: []`"},
		{"# only this\n", "1:1: there is nothing in the file"},
		{"---\n...\n", "2:1: there is nothing in the file"},
		{"- a\n", `1:1: the file must be an object of keys and values, not a list`},
		{"x", `1:1: the file must be an object of keys and values, not text`},
		{"metaTool: true\n---\nmetaTool: true\n", "2:1: a second document begins here"},
		{"groups:\n  - name: \xff\n", "2:11: byte 0xff is not UTF-8"},
		{"\xff\xfeg\x00", "1:1: byte 0xff is not UTF-8"},
		{"groups: \"ü\x00\"\n", "1:11: character U+0000 cannot be in YAML"},
		{"groups:\n\t- name: x\n", "2:1: a tab in the indentation; indent with spaces"},
		{"groups:\n  - name: [x\nmetaTool: true\n", "2:3: not YAML: did not find expected ',' or ']'"},
		{"metaTool: true\n  x: 1\n", "2:3: not YAML: mapping values are not allowed in this context"},
		{"group: []\n", `1:1: unknown key "group"; did you mean "groups"? allowed here: groups, tools, presets, metaTool`},
		{"metatool: true\n", `1:1: unknown key "metatool"; did you mean "metaTool"? allowed here`},
		{"whatever: 1\n", `1:1: unknown key "whatever"; allowed here: groups`},
		{"groups:\n  - name: a\n    desription: x\n", `3:5: unknown key "desription"; did you mean "description"?`},
		{"metaTool: true\nmetaTool: false\n", `2:1: key "metaTool" appears twice; first in line 1`},
		{"tools: {x: {}, x: {}}\n", `1:16: key "x" appears twice; first in line 1`},
		{"tools:\n  x: {extended: {properties: {a: {}, a: {}}}}\n", `2:38: key "a" appears twice`},
		{"metaTool: yes\n", `1:11: "metaTool" must be true or false, not text`},
		{"groups:\n", `1:8: "groups" must be a list, not nothing`},
		{"groups: {}\n", `1:9: "groups" must be a list, not an object`},
		{"groups: [a]\n", `1:10: entry 1 of "groups" must be an object of keys and values, not text`},
		{"groups: [{name: 5}]\n", `1:17: "name" must be text, not a number; put it in quotes`},
		{"groups: [{name: }]\n", `1:17: "name" has no value; it must be text`},
		{"groups: [{name: ''}]\n", `1:17: "name" is empty; leave it out, or write something`},
		{"groups:\n  - description: x\n", `2:5: the name must be 1 to 64 letters, digits, '_' or '-'`},
		{"groups:\n  - name: basic\n", `2:11: the name is reserved`},
		{"groups:\n  - name: a\n  - name: a\n", `3:11: the name appears twice`},
		{"groups: [{name: a, tools: x}]\n", `1:27: "tools" must be a list, not text`},
		{"groups: [{name: a, tools: [b, 5]}]\n", `1:31: entry 2 of "tools" must be text, not a number`},
		{"groups: [{name: a, tools: [b, a*b]}]\n", `1:31: tool "a*b" is neither a name nor a pattern`},
		{"groups: [{name: a, scope: extrenal}]\n", `1:27: unknown scope "extrenal"; did you mean "external"? allowed here: meta, session, external`},
		{"tools:\n  1: {}\n", "2:3: a key must be a string, not a number; put it in quotes"},
		{"tools:\n  ? [a]\n  : {}\n", "2:5: a key must be a string, not a list"},
		{"tools:\n  a b:\n    attempts: 1\n", "2:3: the name must be 1 to 64"},
		{"tools:\n  x:\n", `2:5: "x" must be an object of keys and values, not nothing`},
		{"tools:\n  x: {timeout: 30}\n", `2:16: "timeout" must be a duration with its unit, such as 500ms, 30s or 1h30m`},
		{"tools:\n  x: {timeout: soon}\n", `2:16: "timeout" must be a duration with its unit`},
		{"tools:\n  x: {timeout: -1s}\n", `2:16: "timeout" must be more than 0; leave it out`},
		{"tools:\n  x: {attempts: 0}\n", `2:17: "attempts" must be a whole number from 1 to 2147483647`},
		{"tools:\n  x: {attempts: 99999999999}\n", `2:17: "attempts" must be a whole number`},
		{"tools:\n  x: {attempts: 1.5}\n", `2:17: "attempts" must be a whole number`},
		{"tools:\n  x: {group: 'a b'}\n", `2:14: group "a b" must be 1 to 64`},
		{"tools:\n  x: {extended: [1]}\n", `2:17: "extended" must be a JSON Schema with properties, not a list`},
		{"tools:\n  x: {extended: {city: {type: string}}}\n", `2:7: extended: "city" cannot be merged; give properties, required and $defs`},
		{"tools:\n  x: {extended: {properties: {a: {type: 5}}}}\n", `2:7: extended: /properties/a/type: `},
		{"tools:\n  x: {presets: {a: 0x10}}\n", `2:20: "a" is no number as JSON has them`},
		{"tools:\n  x: {presets: {a: .inf}}\n", `2:20: "a" is no number as JSON has them`},
		{"tools:\n  x: {presets: {a: 007}}\n", `2:20: "a" is no number as JSON has them`},
		{"tools:\n  x: {presets: {a: 1e999999999}}\n", `2:20: the value is no JSON, or has a number beyond all bounds`},
		{"tools:\n  x:\n    presets:\n      a:\n", `4:9: "a" has no value; write null if that is meant`},
		{"tools:\n  x: {presets: {a: {b: 1}}}\n", `2:21: unknown key "b"; allowed here: env, file, value; a value that is an object itself is written {value: {…}}`},
		{"tools:\n  x: {presets: {a: {}}}\n", `2:20: "a" takes one of env, file and value`},
		{"tools:\n  x: {presets: {a: {env: A, file: b}}}\n", `2:20: "a" takes one of env, file and value`},
		{"tools:\n  x: {presets: {a: {env: $A}}}\n", `2:26: env takes the name of an environment variable, of letters, digits and _, without $`},
		{"tools:\n  x: {presets: {a: {file: ../b}}}\n", `2:17: file "../b" is not a path within`},
		{"presets: {x: {a: 1}}\ntools: {x: {presets: {a: 2}}}\n", `2:26: "a" of tool x is preset twice; first in line 1`},
		{"presets:\n  a b: {p: 1}\n", `2:3: the name must be 1 to 64`},
		{"presets:\n  x: {p: {value: [1, &a 2]}}\n", "2:22: anchors, aliases and merge keys are not allowed"},
		{"groups: &g []\n", "1:9: anchors, aliases and merge keys are not allowed"},
		{"groups: &g []\ntools: *g\n", "1:9: anchors, aliases and merge keys are not allowed; write it out\nt.yaml:2:8: anchors"},
		{"groups:\n  - *nope\n", "2:5: anchors, aliases and merge keys are not allowed"},
		{"tools:\n  x:\n    <<: {attempts: 1}\n", "3:5: anchors, aliases and merge keys are not allowed"},
		{"metaTool: !!bool true\n", "1:11: the tag !!bool is not allowed"},
		{"tools: !x {}\n", "1:8: the tag !x is not allowed"},
		{"tools: {x: {presets: {p: !!binary aGk=}}}\n", "1:26: the tag !!binary is not allowed"},
		{"tools: {x: {presets: {p: {value: " + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}}}}\n", ": nested deeper than 112 levels"},
	} {
		f, err := config.Parse("t.yaml", []byte(c.file))
		if err == nil {
			t.Errorf("%q: got %s, want an error", c.file, wire(t, f.Config))
			continue
		}
		if got := err.Error(); !strings.HasPrefix(got, "t.yaml:"+c.want) && (c.want[0] != ':' || !strings.Contains(got, c.want)) {
			t.Errorf("%q:\n got %s\nwant %s", c.file, got, c.want)
		} else if n := strings.Count(c.want, "\n"); strings.Count(got, "\n") != n {
			t.Errorf("%q: more than one error:\n%s", c.file, got)
		}
	}
}

// All errors of a file are told at once, from top to bottom, those of the YAML and those of its sense.
func TestParseTellsAll(t *testing.T) {
	t.Parallel()
	_, err := config.Parse("t.yaml", []byte(`groups:
  - name: basic
    actve: true
  - name: [x]
  - {}
tools:
  x: {timeout: 5, attempts: -1, extended: {nope: 1}}
  "y z": {presets: {a: {file: /b}}}
presets:
  x: {q: .5}
meta: 1
`))
	var got []int
	all, ok := errors.AsType[*config.ParseError](err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	for _, p := range all.Problems {
		got = append(got, p.Line)
	}
	if d := cmp.Diff([]int{2, 3, 4, 5, 7, 7, 7, 8, 8, 10, 11}, got); d != "" {
		t.Errorf("-want +got:\n%s\n%v", d, err)
	}
}

// The deepest value that is taken can be stored.
func TestParseDeep(t *testing.T) {
	t.Parallel()
	const most = 112
	f := parse(t, "presets: {x: {p: {value: "+strings.Repeat("[", most)+strings.Repeat("]", most)+"}}}")
	raw, err := events.Marshal(events.ConfigSet{Config: []byte(wire(t, f.Config))})
	if err == nil {
		err = events.Unmarshal(raw, &events.ConfigSet{})
	}
	if err != nil {
		t.Error(err)
	}
}

// No message has the value of a preset in it.
func TestParseQuotesNoPreset(t *testing.T) {
	t.Parallel()
	for _, file := range []string{
		"tools: {x: {presets: {a: !t s3cret}}}", "tools: {x: {presets: {a: 0o4711}}}", "tools: {x: {presets: {a: {value: {b: &s3cret 1}}}}}",
		"presets: {x: {a: [s3cret], a: s3cret}}", "presets: {x: {a: s3cret}}\ntools: {x: {presets: {a: s3cret}}}", "presets: {x: s3cret}",
		"presets: {x: {api_key: s3cret}}", "presets: {x: {a: 4711e999999999}}",
	} {
		f, err := config.Parse("t.yaml", []byte(file))
		if err == nil && len(f.Warnings) == 0 {
			t.Errorf("%s: nothing is said", file)
		}
		if text := fmt.Sprint(f.Warnings) + errorText(err); strings.Contains(text, "s3cret") || strings.Contains(text, "4711") {
			t.Errorf("%s: told: %s", file, text)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A secret in the file is worth a warning; what only sounds like one is not.
func TestParseWarnsOfSecrets(t *testing.T) {
	t.Parallel()
	f := parse(t, `
presets:
  x: {api_key: abc, apiKey: abc, "X-Auth-Token": abc, dbPassword: abc, secret: abc, key: abc}
  y: {monkey: abc, max_tokens: 5, tokens: abc, token: {env: T}, password: {file: f}, secretary: abc, keyboard: abc}
`)
	if len(f.Warnings) != 6 {
		t.Errorf("%d warnings:\n%v", len(f.Warnings), f.Warnings)
	}
	want := `t.yaml:3:16: the value of "api_key" looks like a secret, and is stored as it stands here; write {env: NAME} or {file: NAME} to have the worker read it`
	if got := f.Warnings[0].String(); got != want {
		t.Errorf("got %s", got)
	}
}

// What parses is a configuration that can be stored, and says the same when it is written as JSON.
func FuzzParse(f *testing.F) {
	f.Add("groups:\n  - {name: a, tools: [b, c*], scope: session, active: true}\n")
	f.Add("tools:\n  x: {timeout: 30s, strict: true, dangerousFiles: [], extended: {properties: {a: {type: string}}}}\npresets: {x: {p: [1, ~, {q: 1e3}], \"\\u2028\": {env: A}}}\n")
	f.Add("groups: &a\n\t- *a\n---\n<<: !!x\n")
	f.Add("metaTool: false # c\n")
	f.Add(policy)
	f.Add("permissions: {rules: [{deny: 'sh(a)b)'}, {ask: ' * '}], home: /}\nroles: {\"\\u2028\": [\"\\u00e9\"]}\n")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := config.Parse("f", []byte(text))
		all, ok := errors.AsType[*config.ParseError](err)
		switch {
		case ok:
			for _, p := range all.Problems {
				if p.Line < 1 || p.Column < 1 || p.Text == "" || !utf8.ValidString(p.Text) {
					t.Errorf("%+v", p)
				}
			}
			return
		case err != nil:
			t.Fatalf("got %T", err)
		}
		if err := file.Config.Check(); err != nil {
			t.Fatal(err)
		}
		stored := wire(t, file.Config)
		var back toolkit.Config
		if err := events.Unmarshal([]byte(stored), &back); err != nil {
			t.Fatalf("%s: %v", stored, err)
		}
		again := parse(t, written(t, back))
		if d := cmp.Diff(stored, wire(t, again.Config)); d != "" {
			t.Errorf("-want +got:\n%s", d)
		}
		if changes, err := config.Plan(file.Config, again.Config); err != nil || len(changes) > 0 {
			t.Errorf("changes %v, %v", changes, err)
		}
	})
}

// writtenPermissions are permissions with their rules as a file has them.
func writtenPermissions(tb testing.TB, stored []byte) map[string]any {
	tb.Helper()
	var file map[string]any
	var c permission.Context
	for _, into := range []any{&file, &c} {
		if err := events.Unmarshal(stored, into); err != nil {
			tb.Fatal(err)
		}
	}
	var rules []map[string]string
	for _, r := range c.Rules {
		rules = append(rules, map[string]string{string(r.Behavior): r.String()})
	}
	if file["rules"] = rules; rules == nil {
		delete(file, "rules")
	}
	return file
}

// written is a configuration as a file, in JSON, which is YAML if characters that do not print are escaped.
func written(tb testing.TB, c toolkit.Config) string {
	tb.Helper()
	file := map[string]any{"metaTool": !c.NoMetaTool}
	if c.Groups != nil {
		file["groups"] = c.Groups
	}
	if c.Tools != nil {
		file["tools"] = c.Tools
	}
	for key, part := range map[string]any{"roles": c.Roles, "approvals": c.Approvals, "external": c.External} {
		if !reflect.ValueOf(part).IsNil() {
			file[key] = part
		}
	}
	if b, err := events.Marshal(c.Permissions); err != nil || string(b) != "{}" {
		file["permissions"] = writtenPermissions(tb, b)
	}
	file["askUser"] = c.AskUser
	b, err := events.Marshal(file)
	if err != nil {
		tb.Fatal(err)
	}
	var out strings.Builder
	for _, r := range string(b) {
		switch {
		case r >= ' ' && r < 0x7f:
			out.WriteRune(r)
		case r > 0xffff:
			out.WriteRune(r) // always printable to YAML; JSON would escape it as two halves
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}
