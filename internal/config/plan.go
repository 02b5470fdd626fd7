package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// Op is what happens to a part of the configuration.
type Op string

// The operations of a plan.
const (
	Add    Op = "add"
	Alter  Op = "change"
	Remove Op = "remove"
)

// Change is one difference between two configurations.
type Change struct {
	Op     Op       `json:"op"`
	Kind   string   `json:"kind"` // group, tool, external, role, approval, rule or setting
	Name   string   `json:"name"`
	Fields []Detail `json:"fields,omitempty"` // what is new or different, in the order of the type
}

// Detail is one field of a change. Of presets it says neither the old value nor the new.
type Detail struct {
	Op    Op              `json:"op"`
	Field string          `json:"field"`
	Old   json.RawMessage `json:"old,omitempty"`
	New   json.RawMessage `json:"new,omitempty"`
}

// presetField begins the name of a detail about a preset.
const presetField = "presets."

// Plan says what differs: groups, tools, the parts of permissions each on its own, and settings, each
// kind by name. What makes no difference to anyone, such as the order of groups, is none. The error is
// that of a configuration with JSON in it that is none.
func Plan(from, to toolkit.Config) ([]Change, error) {
	p := plan{}
	compare(&p, "group", groupsOf(from), groupsOf(to))
	compare(&p, "tool", from.Tools, to.Tools)
	compare(&p, "external", externalOf(from), externalOf(to))
	compare(&p, "role", rolesOf(from), rolesOf(to))
	oldApprovals, oldOrder := approvalsOf(from)
	nowApprovals, nowOrder := approvalsOf(to)
	compare(&p, "approval", oldApprovals, nowApprovals)
	p.order(oldOrder, nowOrder)
	compare(&p, "rule", rulesOf(from), rulesOf(to))
	p.settings(from, to)
	return p.changes, p.err
}

// plan is what was found to differ so far.
type plan struct {
	changes []Change
	err     error // the first
}

// compare adds what differs of one kind.
func compare[K ~string, V any](p *plan, kind string, from, to map[K]V) {
	for _, name := range names(from, to) {
		c, err := change(kind, name, from, to)
		if err != nil && p.err == nil {
			p.err = err
		}
		p.changes = append(p.changes, c...)
	}
}

func groupsOf(c toolkit.Config) map[string]toolkit.Group {
	all := make(map[string]toolkit.Group, len(c.Groups))
	for _, g := range c.Groups {
		if g.Scope == "" {
			g.Scope = toolkit.ScopeMeta
		}
		all[g.Name] = g
	}
	return all
}

func names[K ~string, V any](a, b map[K]V) []K {
	both := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(both)
	return slices.Compact(both)
}

// change compares the parts of one name, either of which may be missing.
func change[K ~string, V any](kind string, name K, from, to map[K]V) ([]Change, error) {
	c := Change{Op: Alter, Kind: kind, Name: string(name)}
	old, was := from[name]
	now, is := to[name]
	switch {
	case !was:
		c.Op = Add
	case !is:
		return []Change{{Op: Remove, Kind: kind, Name: string(name)}}, nil
	}
	oldFacts, err := facts(old)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", kind, name, err)
	}
	nowFacts, err := facts(now)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", kind, name, err)
	}
	if c.Fields = details(oldFacts, nowFacts); len(c.Fields) == 0 && c.Op == Alter {
		return nil, nil
	}
	return []Change{c}, nil
}

// fact is one field that is set, as JSON.
type fact struct {
	field string
	value json.RawMessage
}

// facts are the fields of a group, an override and so on. Each preset is one.
func facts(v any) ([]fact, error) {
	raw, err := events.Marshal(v)
	if err != nil {
		return nil, err
	}
	all, err := ordered(raw)
	if err != nil {
		return nil, err
	}
	var out []fact
	for _, f := range all {
		switch {
		case f.field == "name", string(f.value) == "null":
		case f.field == "presets":
			params, err := ordered(f.value)
			if err != nil {
				return nil, err
			}
			for _, p := range params {
				out = append(out, fact{presetField + p.field, p.value})
			}
		default:
			out = append(out, f)
		}
	}
	return out, nil
}

// ordered are the members of a JSON object in their order.
func ordered(raw json.RawMessage) ([]fact, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	var all []fact
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		f := fact{field: fmt.Sprint(name)}
		if err := dec.Decode(&f.value); err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

func details(from, to []fact) []Detail {
	find := func(in []fact, field string) json.RawMessage {
		if i := slices.IndexFunc(in, func(f fact) bool { return f.field == field }); i >= 0 {
			return in[i].value
		}
		return nil
	}
	var all []Detail
	for _, f := range to {
		switch old := find(from, f.field); {
		case old == nil:
			all = append(all, Detail{Add, f.field, nil, f.value})
		case !same(f.field, old, f.value):
			all = append(all, Detail{Alter, f.field, old, f.value})
		}
	}
	for _, f := range from {
		if find(to, f.field) == nil {
			all = append(all, Detail{Remove, f.field, f.value, nil})
		}
	}
	for i := range all {
		if strings.HasPrefix(all[i].Field, presetField) {
			all[i].Old, all[i].New = nil, nil
		}
	}
	return all
}

// same says whether two values mean the same: lists of names do in any order, unless the first one
// has a meaning of its own.
func same(field string, a, b json.RawMessage) bool {
	var from, to []string
	if !ordinal(field) && json.Unmarshal(a, &from) == nil && json.Unmarshal(b, &to) == nil {
		more, less := listDifference(from, to)
		return len(more)+len(less) == 0
	}
	return bytes.Equal(a, b)
}

// listDifference are the names that are only in one of two lists.
func listDifference(from, to []string) (more, less []string) {
	for _, name := range to {
		if !slices.Contains(from, name) {
			more = append(more, name)
		}
	}
	for _, name := range from {
		if !slices.Contains(to, name) {
			less = append(less, name)
		}
	}
	return more, less
}
