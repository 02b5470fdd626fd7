package config

import (
	"encoding/json"
	"regexp"

	"go.yaml.in/yaml/v3"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// kind is what a key takes, as the JSON Schema for editors says it.
type kind int

const (
	kindText kind = iota
	kindTexts
	kindFlag
	kindCount
	kindDuration
	kindScope
	kindMode
	kindExpiry
	kindRule
	kindPresets
	kindSchema
	kindValue
	kindGroups
	kindTools
	kindToolPresets
	kindPermissions
	kindRules
	kindRoles
	kindApprovals
	kindRungs
	kindExternal
)

// field is a key that may stand in an object, and how its value is taken into a T.
type field[T any] struct {
	name string
	kind kind
	read func(r *reader, p path, n *yaml.Node, into *T)
}

// object reads an object by the table of its keys. more is added to what is said of an unknown key.
func object[T any](r *reader, p path, n *yaml.Node, table []field[T], into *T, more string) {
	names := make([]string, len(table))
	for i, f := range table {
		names[i] = f.name
	}
	r.members(p, n, func(p path, key, value *yaml.Node) {
		for _, f := range table {
			if f.name == key.Value {
				f.read(r, p, value, into)
				return
			}
		}
		r.bad(p, key, "%s%s", unknown("key", key.Value, names), more)
	})
}

func text[T any](name string, into func(*T) *string) field[T] {
	return field[T]{name, kindText, func(r *reader, p path, n *yaml.Node, t *T) { *into(t), _ = r.text(p, n) }}
}

func texts[T any](name string, into func(*T) *[]string) field[T] {
	return field[T]{name, kindTexts, func(r *reader, p path, n *yaml.Node, t *T) { *into(t) = r.texts(p, n) }}
}

// someTexts is a list that says something: an empty one would be read as no list at all.
func someTexts[T any](name string, into func(*T) *[]string) field[T] {
	return field[T]{name, kindTexts, func(r *reader, p path, n *yaml.Node, t *T) { *into(t) = r.someTexts(p, n) }}
}

func boolean[T any](name string, into func(*T) *bool) field[T] {
	return field[T]{name, kindFlag, func(r *reader, p path, n *yaml.Node, t *T) { *into(t) = r.flag(p, n) }}
}

func duration[T any](name string, into func(*T) *toolkit.Duration) field[T] {
	return field[T]{name, kindDuration, func(r *reader, p path, n *yaml.Node, t *T) { *into(t) = r.duration(p, n) }}
}

func schemaOf[T any](name string, into func(*T) *json.RawMessage) field[T] {
	return field[T]{name, kindSchema, func(r *reader, p path, n *yaml.Node, t *T) { *into(t) = r.schema(p, n) }}
}

func count[T any](name string, into func(*T) *int) field[T] {
	return field[T]{name, kindCount, func(r *reader, p path, n *yaml.Node, t *T) { *into(t) = r.count(p, n) }}
}

// draft is a file that is being read.
type draft struct {
	toolkit.Config
	presets map[events.ToolName]map[string]toolkit.Preset // of the key presets
}

func fileFields() []field[draft] {
	return []field[draft]{
		{"groups", kindGroups, func(r *reader, p path, n *yaml.Node, d *draft) {
			r.items(p, n, func(p path, item *yaml.Node) {
				var g toolkit.Group
				object(r, p, item, groupFields(), &g, "")
				d.Groups = append(d.Groups, g)
			})
		}},
		{"tools", kindTools, func(r *reader, p path, n *yaml.Node, d *draft) {
			r.members(p, n, func(p path, key, value *yaml.Node) {
				var o toolkit.Override
				object(r, p, value, overrideFields(), &o, "")
				d.Tools[events.ToolName(key.Value)] = o
			})
		}},
		{"presets", kindToolPresets, func(r *reader, p path, n *yaml.Node, d *draft) {
			r.members(p, n, func(p path, key, value *yaml.Node) {
				d.presets[events.ToolName(key.Value)] = r.presets(p, value)
			})
		}},
		{"metaTool", kindFlag, func(r *reader, p path, n *yaml.Node, d *draft) { d.NoMetaTool = !r.flag(p, n) }},
		{"permissions", kindPermissions, func(r *reader, p path, n *yaml.Node, d *draft) { d.Permissions = r.permissions(p, n) }},
		{"roles", kindRoles, func(r *reader, p path, n *yaml.Node, d *draft) {
			d.Roles = make(map[string][]string)
			r.members(p, n, func(p path, key, value *yaml.Node) { d.Roles[key.Value] = r.someTexts(p, value) })
		}},
		{"approvals", kindApprovals, func(r *reader, p path, n *yaml.Node, d *draft) {
			r.items(p, n, func(p path, item *yaml.Node) {
				var a toolkit.Approval
				object(r, p, item, approvalFields(), &a, "")
				d.Approvals = append(d.Approvals, a)
			})
		}},
		{"external", kindExternal, func(r *reader, p path, n *yaml.Node, d *draft) {
			r.items(p, n, func(p path, item *yaml.Node) { d.External = append(d.External, r.external(p, item)) })
		}},
		boolean("askUser", func(d *draft) *bool { return &d.AskUser }),
	}
}

func groupFields() []field[toolkit.Group] {
	type group = toolkit.Group
	return []field[group]{
		text("name", func(g *group) *string { return &g.Name }),
		text("description", func(g *group) *string { return &g.Description }),
		text("instructions", func(g *group) *string { return &g.Instructions }),
		{"scope", kindScope, func(r *reader, p path, n *yaml.Node, g *group) { g.Scope = r.scope(p, n) }},
		boolean("active", func(g *group) *bool { return &g.Active }),
		texts("tools", func(g *group) *[]string { return &g.Tools }),
		texts("servers", func(g *group) *[]string { return &g.Servers }),
		texts("skills", func(g *group) *[]string { return &g.Skills }),
		text("skill", func(g *group) *string { return &g.Skill }),
	}
}

func overrideFields() []field[toolkit.Override] {
	type override = toolkit.Override
	return []field[override]{
		text("group", func(o *override) *string { return &o.Group }),
		duration("timeout", func(o *override) *toolkit.Duration { return &o.Timeout }),
		count("attempts", func(o *override) *int { return &o.Attempts }),
		count("maxInFlight", func(o *override) *int { return &o.MaxInFlight }),
		{"strict", kindFlag, func(r *reader, p path, n *yaml.Node, o *override) { o.Strict = new(r.flag(p, n)) }},
		texts("dangerousFiles", func(o *override) *[]string { return &o.DangerousFiles }),
		texts("dangerousDirectories", func(o *override) *[]string { return &o.DangerousDirectories }),
		{"presets", kindPresets, func(r *reader, p path, n *yaml.Node, o *override) { o.Presets = r.presets(p, n) }},
		schemaOf("extended", func(o *override) *json.RawMessage { return &o.Extended }),
	}
}

func presetFields() []field[toolkit.Preset] {
	type preset = toolkit.Preset
	return []field[preset]{
		{"env", kindText, func(r *reader, p path, n *yaml.Node, to *preset) { to.Env = r.variable(p, n) }},
		text("file", func(to *preset) *string { return &to.File }),
		{"value", kindValue, func(r *reader, p path, n *yaml.Node, to *preset) { to.Value = r.value(p, n) }},
	}
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (r *reader) variable(p path, n *yaml.Node) string {
	name, ok := r.text(p, n)
	if ok && !variableName.MatchString(name) {
		r.bad(p, n, "env takes the name of an environment variable, of letters, digits and _, without $")
	}
	return name
}

// schema reads a JSON Schema, which is an object.
func (r *reader) schema(p path, n *yaml.Node) json.RawMessage {
	if n.Kind != yaml.MappingNode && r.plain(p, n) {
		r.bad(p, n, "%s must be a JSON Schema with properties, not %s", p.last(), describe(n))
		return nil
	}
	return r.value(p, n)
}

// presets reads parameters and their values. They are never part of a message.
func (r *reader) presets(p path, n *yaml.Node) map[string]toolkit.Preset {
	all := make(map[string]toolkit.Preset)
	r.members(p, n, func(p path, key, value *yaml.Node) { all[key.Value] = r.preset(p, value) })
	return all
}

func (r *reader) preset(p path, n *yaml.Node) (preset toolkit.Preset) {
	before := len(r.problems)
	defer func() {
		if len(r.problems) > before { // whatever is missing now is no news
			r.failed[p.key()] = true
		}
	}()
	if n.Kind != yaml.MappingNode {
		if n.Kind == yaml.ScalarNode && n.Tag == "!!str" && n.Value != "" && secretive(p[len(p)-1]) {
			r.warnings = append(r.warnings, Problem{
				r.file, n.Line, n.Column,
				"the value of " + p.last() + " looks like a secret, and is stored as it stands here; write {env: NAME} or {file: NAME} to have the worker read it",
			})
		}
		preset.Value = r.value(p, n)
		return preset
	}
	object(r, p, n, presetFields(), &preset, "; a value that is an object itself is written {value: {…}}")
	if len(n.Content) != 2 && len(r.problems) == before {
		r.bad(p, n, "%s takes one of env, file and value", p.last())
	}
	return preset
}
