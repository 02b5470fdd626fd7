package config

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/permission"
)

func permissionFields() []field[permission.Context] {
	type context = permission.Context
	return []field[context]{
		{"mode", kindMode, func(r *reader, p path, n *yaml.Node, c *context) { c.Mode = word(r, p, n, "mode", modes()...) }},
		{"rules", kindRules, func(r *reader, p path, n *yaml.Node, c *context) { c.Rules = r.rules(p, n) }},
		{"workingDirectories", kindTexts, func(r *reader, p path, n *yaml.Node, c *context) { c.WorkingDirectories = r.directories(p, n) }},
		{"home", kindText, func(r *reader, p path, n *yaml.Node, c *context) {
			if home, ok := r.text(p, n); ok && r.fits(p, n, permission.Context{Home: home}.Check()) {
				c.Home = home
			}
		}},
		someTexts("trustedServers", func(c *context) *[]string { return &c.TrustedServers }),
	}
}

func modes() []permission.Mode {
	return []permission.Mode{permission.Default, permission.AcceptEdits, permission.Explore, permission.Bypass, permission.DontAsk}
}

// permissions reads what every session begins with. One that says nothing is refused, for without any
// permissions nobody is asked.
func (r *reader) permissions(p path, n *yaml.Node) (c permission.Context) {
	if n.Kind == yaml.MappingNode && len(n.Content) == 0 && r.plain(p, n) {
		r.bad(p, n, "%s is empty; leave it out to ask nobody, or write mode: default", p.last())
		return c
	}
	object(r, p, n, permissionFields(), &c, "")
	return c
}

// fits notes what the permissions themselves have against a value.
func (r *reader) fits(p path, n *yaml.Node, err error) bool {
	if err == nil {
		return true
	}
	text := strings.TrimPrefix(err.Error(), permission.ErrRule.Error())
	r.bad(p, n, "%s", strings.TrimLeft(text, ": "))
	return false
}

// directories reads absolute directories.
func (r *reader) directories(p path, n *yaml.Node) (all []string) {
	for i, dir := range r.someTexts(p, n) {
		p, n := p.child(strconv.Itoa(i)), n.Content[i]
		if dir != "" && r.fits(p, n, permission.Context{WorkingDirectories: []string{dir}}.Check()) {
			all = append(all, dir)
		}
	}
	return all
}

// ruleFields are the ways to write a rule: by what happens to the calls.
func ruleFields() []field[permission.Rule] {
	var table []field[permission.Rule]
	for _, b := range []permission.Behavior{permission.Allow, permission.Deny, permission.Ask} {
		table = append(table, field[permission.Rule]{string(b), kindRule, func(r *reader, p path, n *yaml.Node, rule *permission.Rule) {
			text, ok := r.text(p, n)
			if !ok {
				return
			}
			read, err := permission.ParseRule(text)
			if r.fits(p, n, err) {
				*rule = read
				rule.Behavior = b
			}
		}})
	}
	return table
}

// rules reads rules, one an entry.
func (r *reader) rules(p path, n *yaml.Node) (all []permission.Rule) {
	r.items(p, n, func(p path, item *yaml.Node) {
		if rule := r.rule(p, item); rule.Behavior != "" {
			all = append(all, rule)
		}
	})
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		r.bad(p, n, "%s is empty; leave it out, or write something", p.last())
	}
	return all
}

func (r *reader) rule(p path, n *yaml.Node) (rule permission.Rule) {
	if n.Kind != yaml.MappingNode && r.plain(p, n) {
		r.bad(p, n, "%s must say what happens to which calls, such as deny: execute_shell_command(rm:*), not %s", p.last(), describe(n))
		return rule
	}
	before := len(r.problems)
	object(r, p, n, ruleFields(), &rule, "")
	if len(n.Content) != 2 && len(r.problems) == before {
		r.bad(p, n, "%s takes one of allow, deny and ask", p.last())
		return permission.Rule{}
	}
	return rule
}

func approvalFields() []field[toolkit.Approval] {
	type approval = toolkit.Approval
	return []field[approval]{
		someTexts("tools", func(a *approval) *[]string { return &a.Tools }),
		someTexts("roles", func(a *approval) *[]string { return &a.Roles }),
		count("quorum", func(a *approval) *int { return &a.Quorum }),
		duration("expires", func(a *approval) *toolkit.Duration { return &a.Expires }),
		{"onExpiry", kindExpiry, func(r *reader, p path, n *yaml.Node, a *approval) {
			a.OnExpiry = word(r, p, n, "word", toolkit.ExpiryDeny, toolkit.ExpiryPark, toolkit.ExpiryEscalate)
		}},
		{"rungs", kindRungs, func(r *reader, p path, n *yaml.Node, a *approval) {
			r.items(p, n, func(p path, item *yaml.Node) {
				var rung toolkit.Rung
				object(r, p, item, rungFields(), &rung, "")
				a.Rungs = append(a.Rungs, rung)
			})
		}},
		{"last", kindExpiry, func(r *reader, p path, n *yaml.Node, a *approval) {
			a.Last = word(r, p, n, "word", toolkit.ExpiryDeny, toolkit.ExpiryPark)
		}},
	}
}

func rungFields() []field[toolkit.Rung] {
	type rung = toolkit.Rung
	return []field[rung]{
		someTexts("roles", func(g *rung) *[]string { return &g.Roles }),
		count("quorum", func(g *rung) *int { return &g.Quorum }),
		duration("expires", func(g *rung) *toolkit.Duration { return &g.Expires }),
	}
}

// checkRoles says which roles were meant where there are none of that name.
func (r *reader) checkRoles(d *draft) {
	if r.failed[path{"roles"}.key()] || r.failed[""] {
		return
	}
	for i, a := range d.Approvals {
		p := path{"approvals", strconv.Itoa(i)}
		r.checkRolesOf(p, a.Roles, d.Roles)
		for j, rung := range a.Rungs {
			r.checkRolesOf(p.child("rungs").child(strconv.Itoa(j)), rung.Roles, d.Roles)
		}
	}
}

func (r *reader) checkRolesOf(p path, roles []string, known map[string][]string) {
	for i, role := range roles {
		at := p.child("roles").child(strconv.Itoa(i))
		n := r.at[at.key()]
		if _, ok := known[role]; ok || n == nil || r.failed[at.key()] {
			continue
		}
		if len(known) == 0 {
			r.bad(at, n, "there is no role %q; say who has it under roles", role)
		} else {
			r.bad(at, n, "%s", unknown("role", role, slices.Sorted(maps.Keys(known))))
		}
		r.failed[p.child("quorum").key()] = true // who is in it is not known
	}
}

// externalFields are what a definition may say of a tool that is never run here.
func externalFields() []field[toolkit.Definition] {
	type definition = toolkit.Definition
	return []field[definition]{
		{"name", kindText, func(r *reader, p path, n *yaml.Node, d *definition) {
			name, _ := r.text(p, n)
			d.Name = events.ToolName(name)
		}},
		text("title", func(d *definition) *string { return &d.Title }),
		text("description", func(d *definition) *string { return &d.Description }),
		schemaOf("inputSchema", func(d *definition) *json.RawMessage { return &d.InputSchema }),
		schemaOf("outputSchema", func(d *definition) *json.RawMessage { return &d.OutputSchema }),
		boolean("readOnly", func(d *definition) *bool { return &d.ReadOnly }),
		boolean("concurrencySafe", func(d *definition) *bool { return &d.ConcurrencySafe }),
		{"strict", kindFlag, func(r *reader, p path, n *yaml.Node, d *definition) { d.Strict = new(r.flag(p, n)) }},
		text("group", func(d *definition) *string { return &d.Group }),
		text("matcher", func(d *definition) *string { return &d.Matcher }),
		texts("dangerousFiles", func(d *definition) *[]string { return &d.DangerousFiles }),
		texts("dangerousDirectories", func(d *definition) *[]string { return &d.DangerousDirectories }),
	}
}

// external reads a tool that other systems answer. Each field is checked where it is written.
func (r *reader) external(p path, n *yaml.Node) (def toolkit.Definition) {
	before := len(r.problems)
	object(r, p, n, externalFields(), &def, "")
	for _, key := range []string{"name", "inputSchema"} {
		if n.Kind == yaml.MappingNode && r.at[p.child(key).key()] == nil {
			r.bad(p, n, "%s needs %s", p.last(), key)
		}
	}
	anything := json.RawMessage(`{"type":"object"}`)
	for key, alone := range map[string]toolkit.Definition{
		"name":         {Name: def.Name, InputSchema: anything},
		"inputSchema":  {Name: "x", InputSchema: def.InputSchema},
		"outputSchema": {Name: "x", InputSchema: anything, OutputSchema: def.OutputSchema},
		"group":        {Name: "x", InputSchema: anything, Group: def.Group},
	} {
		p := p.child(key)
		at := r.at[p.key()]
		if at == nil || r.failed[p.key()] {
			continue
		}
		if err := alone.Check(); err != nil {
			_, why, _ := strings.Cut(err.Error(), `": `)
			r.bad(p, at, "%s", why)
		}
	}
	if m := p.child("matcher"); permission.NeedsCheck(def.Permission()) && !r.failed[m.key()] {
		r.bad(m, r.at[m.key()], "matcher %q is none of path, path:NAMES, shell, shell:NAME, field:NAME", def.Matcher)
	}
	if len(r.problems) > before {
		r.failed[p.key()] = true // all that is wrong with it was said
	}
	return def
}
