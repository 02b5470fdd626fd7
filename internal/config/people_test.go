package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/internal/config"
)

const policy = `
permissions:
  mode: accept_edits
  rules:
    - deny: execute_shell_command(rm:*)
    - ask: deploy
    - allow: mcp__github__*
  workingDirectories: [/srv/work, /tmp]
  home: /home/agent
  trustedServers: [files]
roles: {ops: [alice, bob], leads: [carol]}
approvals:
  - tools: [deploy, "mcp__*"]
    roles: [ops]
    quorum: 2
    expires: 1h
    onExpiry: escalate
    rungs: [{roles: [leads], expires: 30m}]
    last: deny
  - {tools: ["*"], onExpiry: park}
external:
  - name: HumanApproval
    title: Approval
    description: Asks a person
    inputSchema: {type: object, properties: {action: {type: string}}}
    outputSchema: {type: object}
    readOnly: true
    concurrencySafe: true
    strict: false
    group: people
    matcher: field:action
    dangerousFiles: []
    dangerousDirectories: ["!defaults", /etc]
askUser: true
`

func TestParsePeople(t *testing.T) {
	t.Parallel()
	const want = `{"permissions":{"mode":"accept_edits","workingDirectories":["/srv/work","/tmp"],"home":"/home/agent","trustedServers":["files"],` +
		`"rules":[{"tool":"execute_shell_command","content":"rm:*","behavior":"deny"},{"tool":"deploy","behavior":"ask"},{"tool":"mcp__github__*","behavior":"allow"}]},` +
		`"approvals":[{"tools":["deploy","mcp__*"],"roles":["ops"],"quorum":2,"expires":"1h0m0s","onExpiry":"escalate","rungs":[{"roles":["leads"],"expires":"30m0s"}],"last":"deny"},` +
		`{"tools":["*"],"onExpiry":"park"}],"roles":{"leads":["carol"],"ops":["alice","bob"]},` +
		`"external":[{"name":"HumanApproval","title":"Approval","description":"Asks a person","inputSchema":{"type":"object","properties":{"action":{"type":"string"}}},"outputSchema":{"type":"object"},` +
		`"readOnly":true,"concurrencySafe":true,"strict":false,"group":"people","matcher":"field:action","dangerousFiles":[],"dangerousDirectories":["!defaults","/etc"]}],"askUser":true}`
	if d := cmp.Diff(want, wire(t, parse(t, policy).Config)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// A policy with a mistake in it does not load, and says where the mistake is and what is allowed there.
func TestParsePeopleErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ file, want string }{
		{"permissions:\n", `1:13: "permissions" must be an object of keys and values, not nothing`},
		{"permissions: {}\n", `1:14: "permissions" is empty; leave it out to ask nobody, or write mode: default`},
		{"permissions: default\n", `1:14: "permissions" must be an object`},
		{"permissions:\n  mode: denyy\n", `2:9: unknown mode "denyy"; allowed here: default, accept_edits, explore, bypass, dont_ask`},
		{"permissions:\n  mode: explor\n", `2:9: unknown mode "explor"; did you mean "explore"? allowed here: default,`},
		{"permissions:\n  mode: BYPASS\n", `2:9: unknown mode "BYPASS"; did you mean "bypass"?`},
		{"permissions:\n  mode: ''\n", `2:9: "mode" is empty; leave it out, or write something`},
		{"permissions:\n  mode: [default]\n", `2:9: "mode" must be text, not a list`},
		{"permissions:\n  mdoe: default\n", `2:3: unknown key "mdoe"; did you mean "mode"? allowed here: mode, rules, workingDirectories, home, trustedServers`},
		{"permissions:\n  rules: {deny: x}\n", `2:10: "rules" must be a list, not an object`},
		{"permissions:\n  rules: []\n", `2:10: "rules" is empty; leave it out, or write something`},
		{"permissions:\n  rules:\n    - deploy\n", `3:7: entry 1 of "rules" must say what happens to which calls, such as deny: execute_shell_command(rm:*), not text`},
		{"permissions:\n  rules:\n    - {}\n", `3:7: entry 1 of "rules" takes one of allow, deny and ask`},
		{"permissions:\n  rules:\n    - allow: a\n    - {allow: b, deny: c}\n", `4:7: entry 2 of "rules" takes one of allow, deny and ask`},
		{"permissions:\n  rules:\n    - denyy: a\n", `3:7: unknown key "denyy"; did you mean "deny"? allowed here: allow, deny, ask`},
		{"permissions:\n  rules:\n    - passthrough: a\n", `3:7: unknown key "passthrough"; allowed here: allow, deny, ask`},
		{"permissions:\n  rules:\n    - deny: true\n", `3:13: "deny" must be text, not true; put it in quotes`},
		{"permissions:\n  rules:\n    - deny:\n", `3:12: "deny" has no value; it must be text`},
		{"permissions:\n  rules:\n    - deny: sh(rm:*\n", `3:13: "sh(rm:*": the closing parenthesis is missing`},
		{"permissions:\n  rules:\n    - deny: sh()\n", `3:13: "sh()": nothing between the parentheses; for every call, write sh`},
		{"permissions:\n  rules:\n    - deny: rm -rf\n", `3:13: tool "rm -rf" must be 1 to 128 letters, digits, '_', '-' or '*'`},
		{"permissions:\n  rules:\n    - deny: \"sh(a\\tb)\"\n", `3:13: content "a\tb" has control characters`},
		{"permissions:\n  workingDirectories: [/srv, work]\n", `2:30: working directory "work" must be an absolute path in its shortest form`},
		{"permissions:\n  workingDirectories: [/srv/../etc]\n", `2:24: working directory "/srv/../etc" must be`},
		{"permissions:\n  workingDirectories: []\n", `2:23: "workingDirectories" is empty`},
		{"permissions:\n  home: ~\n", `2:9: "home" has no value; it must be text`},
		{"permissions:\n  home: agent\n", `2:9: home "agent" must be an absolute path`},
		{"roles: [a]\n", `1:8: "roles" must be an object`},
		{"roles:\n  ops: alice\n", `2:8: "ops" must be a list, not text`},
		{"roles:\n  ops: []\n", `2:8: "ops" is empty`},
		{"roles:\n  ops: [1]\n", `2:9: entry 1 of "ops" must be text, not a number; put it in quotes`},
		{"roles:\n  ops: [" + strings.Repeat("x", 129) + "]\n", `2:9: events: identifier unfit for a subject: person takes 129 bytes`},
		{"approvals:\n  tools: [a]\n", `2:3: "approvals" must be a list, not an object`},
		{"approvals:\n  - roles: [ops]\nroles: {ops: [a]}\n", `2:5: tools names none`},
		{"approvals:\n  - tools: ['a.*']\n", `2:13: tool "a.*" is neither a name nor a pattern with *`},
		{"approvals:\n  - tools: [a]\n    roles: [opps]\nroles: {ops: [a], leads: [b]}\n", `3:13: unknown role "opps"; did you mean "ops"? allowed here: leads, ops`},
		{"approvals:\n  - tools: [a]\n    roles: [ops]\n    quorum: 2\n", `3:13: there is no role "ops"; say who has it under roles`},
		{"roles: {ops: [a, b]}\napprovals:\n  - tools: [a]\n    roles: [ops]\n    quorum: 3\n", `5:13: quorum 3 is more than the 2 people of these roles`},
		{"approvals:\n  - {tools: [a], quorum: 0}\n", `2:26: "quorum" must be a whole number from 1`},
		{"approvals:\n  - {tools: [a], expires: 60}\n", `2:27: "expires" must be a duration with its unit`},
		{"approvals:\n  - {tools: [a], expires: 0s}\n", `2:27: "expires" must be more than 0; leave it out for the default`},
		{"approvals:\n  - {tools: [a], onExpiry: denyy}\n", `2:28: unknown word "denyy"; did you mean "deny"? allowed here: deny, park, escalate`},
		{"approvals:\n  - {tools: [a], onExpiry: escalate, last: escalate, rungs: [{roles: [ops]}]}\nroles: {ops: [a]}\n", `2:44: unknown word "escalate"; allowed here: deny, park`},
		{"approvals:\n  - {tools: [a], onExpiry: escalate, last: deny}\n", `2:5: escalate needs rungs: who is asked next`},
		{"approvals:\n  - {tools: [a], onExpiry: escalate, rungs: [{roles: [ops]}]}\nroles: {ops: [a]}\n", `2:5: say what happens after the last rung: last: deny, or last: park`},
		{"approvals:\n  - {tools: [a], last: park}\n", `2:5: rungs and last are for onExpiry: escalate`},
		{"approvals:\n  - {tools: [a], onExpiry: escalate, last: deny, rungs: [{roles: [ops, led]}]}\nroles: {ops: [a], lead: [b]}\n", `2:72: unknown role "led"; did you mean "lead"?`},
		{"external:\n  - name: x\n", `2:5: entry 1 of "external" needs inputSchema`},
		{"external:\n  - inputSchema: {}\n", `2:5: entry 1 of "external" needs name`},
		{"external:\n  - {name: a b, inputSchema: {}}\n", `2:12: the name must be 1 to 64 letters, digits, '_' or '-'`},
		{"external:\n  - {name: a, inputSchema: {type: string}}\n", `2:15: inputSchema: its type must be object, for arguments are one`},
		{"external:\n  - name: a\n    inputSchema: {type: 5}\n", `3:5: inputSchema: /type: `},
		{"external:\n  - name: a\n    inputSchema: {}\n    outputSchema: {properties: 1}\n", `4:5: outputSchema: /properties: `},
		{"external:\n  - {name: a, inputSchema: true}\n", `2:28: "inputSchema" must be a JSON Schema with properties, not true`},
		{"external:\n  - {name: a, inputSchema: {}, group: a b}\n", `2:39: the group must be 1 to 64`},
		{"external:\n  - {name: a, inputSchema: {}, matcher: own}\n", `2:41: matcher "own" is none of path, path:NAMES, shell, shell:NAME, field:NAME`},
		{"external:\n  - {name: a, inputSchema: {}, timeout: 1m}\n", `2:32: unknown key "timeout"; allowed here: name, title, description, inputSchema, outputSchema, readOnly, concurrencySafe, strict, group, matcher, dangerousFiles, dangerousDirectories`},
		{"external:\n  - {name: a, inputSchema: {}}\n  - {name: a, inputSchema: {}}\n", `3:12: the name appears twice`},
		{"askUser: true\nexternal:\n  - {name: ask_user, inputSchema: {}}\n", `3:12: the name appears twice`},
		{"askUser: yes\n", `1:10: "askUser" must be true or false, not text`},
	} {
		f, err := config.Parse("t.yaml", []byte(c.file))
		if err == nil {
			t.Errorf("%q: got %s, want an error", c.file, wire(t, f.Config))
			continue
		}
		if got := err.Error(); !strings.HasPrefix(got, "t.yaml:"+c.want) || strings.Contains(got, "\n") {
			t.Errorf("%q:\n got %s\nwant %s", c.file, got, c.want)
		}
	}
}

func TestPlanPeople(t *testing.T) {
	t.Parallel()
	const none = "groups: []"
	for name, c := range map[string]struct{ from, to, want string }{
		"all new": {none, policy, `+ external HumanApproval: title Approval; description "Asks a person"; inputSchema set; outputSchema set; readOnly true; concurrencySafe true; strict false; group people; matcher "field:action"; dangerousFiles []; dangerousDirectories "!defaults" /etc
+ role leads: people carol
+ role ops: people alice bob
+ approval *: onExpiry park
+ approval deploy mcp__*: roles ops; quorum 2; expires 1h; onExpiry escalate; rungs leads for 30m; last deny
+ rule allow mcp__github__*
+ rule ask deploy
+ rule deny execute_shell_command(rm:*)
~ setting: askUser false → true
~ setting: permissions.mode unset → accept_edits
~ setting: permissions.workingDirectories unset → /srv/work /tmp
~ setting: permissions.home unset → /home/agent
~ setting: permissions.trustedServers +files`},
		"rules": {
			"permissions: {rules: [{deny: a}, {ask: b}, {allow: 'sh(git log:*)'}]}", "permissions: {rules: [{allow: 'sh(git:*)'}, {deny: b}, {deny: a}, {deny: a}]}",
			"- rule allow sh(git log:*)\n+ rule allow sh(git:*)\n- rule ask b\n+ rule deny b",
		},
		"all gone":       {"permissions: {rules: [{deny: a}], mode: default}", none, "- rule deny a\n~ setting: permissions.mode default → unset"},
		"mode by itself": {"permissions: {mode: default}", "permissions: {rules: [{deny: a}]}", "+ rule deny a"},
		"odd rule":       {none, "permissions: {mode: bypass, rules: [{deny: \"sh(\u202e \\\"x\\\")\"}]}", `+ rule "deny sh(\u202e \"x\")"` + "\n~ setting: permissions.mode unset → bypass"},
		"long rule":      {none, "permissions: {mode: bypass, rules: [{allow: sh(" + strings.Repeat("x", 99) + ")}]}", "+ rule allow sh(" + strings.Repeat("x", 99) + ")\n~ setting: permissions.mode unset → bypass"},
		"directories": {
			"permissions: {workingDirectories: [/a, /b], trustedServers: [x, y], home: /a}", "permissions: {workingDirectories: [/b, /a], trustedServers: [y, x], home: /b}",
			"~ setting: permissions.workingDirectories /a /b → /b /a\n~ setting: permissions.home /a → /b",
		},
		"roles": {"roles: {ops: [a, b], x: [y]}", "roles: {ops: [c, b]}", "~ role ops: people +c -a\n- role x"},
		"approvals": {
			"roles: {r: [a]}\napprovals: [{tools: [x]}, {tools: [y], expires: 1h}]", "roles: {r: [a]}\napprovals: [{tools: [x], onExpiry: deny}, {tools: [y], roles: [r], expires: 2h, onExpiry: escalate, rungs: [{roles: [r], quorum: 1}, {roles: [r]}], last: park}]",
			"~ approval y: roles +r; expires 1h → 2h; onExpiry deny → escalate; rungs unset → r, then r; last unset → park",
		},
		"their order": {"approvals: [{tools: [x]}, {tools: ['*']}]", "approvals: [{tools: ['*']}, {tools: [x]}]", `~ setting: approvals.order x * → * x`},
		"in between":  {"approvals: [{tools: [x]}, {tools: ['*']}]", "approvals: [{tools: [x]}, {tools: [y]}, {tools: ['*']}]", "+ approval y: onExpiry deny\n~ setting: approvals.order x * → x y *"},
		"twice":       {"approvals: [{tools: [x]}]", "approvals: [{tools: [x]}, {tools: [x], onExpiry: park}]", "+ approval x (2): onExpiry park"},
		"external":    {"external: [{name: x, inputSchema: {}}, {name: y, inputSchema: {}}]", "external: [{name: x, inputSchema: {type: object}, dangerousFiles: []}]", "~ external x: inputSchema changed; dangerousFiles unset → []\n- external y"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lines []string
			for _, change := range plan(t, c.from, c.to) {
				lines = append(lines, change.String())
			}
			if d := cmp.Diff(c.want, strings.Join(lines, "\n")); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if again := plan(t, c.to, c.to); len(again) > 0 {
				t.Errorf("changes of nothing: %v", again)
			}
		})
	}
}
