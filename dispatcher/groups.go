package dispatcher

import (
	"slices"
	"strings"

	"github.com/toolwire/toolwire/toolkit"
)

// group is a group of tools as it stands in a snapshot.
type group struct {
	toolkit.Group
	declared bool // by the configuration; else only by definitions of tools
	size     int  // registered tools in it
}

// scope is the word of the API for who switches the group.
func (g *group) scope() string {
	if g.Managed() {
		return string(toolkit.ScopeMeta)
	}
	return string(toolkit.ScopeExternal)
}

// membership finds the groups that name a tool. Looking one up costs the same however many tools
// and groups there are.
type membership struct {
	names    map[string][]*group
	prefixes map[string][]*group // patterns less their *
	lengths  []int               // of the prefixes, each once
	servers  map[string][]*group
}

func newMembership(groups map[string]*group) membership {
	m := membership{names: make(map[string][]*group), prefixes: make(map[string][]*group), servers: make(map[string][]*group)}
	for _, g := range groups {
		for _, member := range g.Tools {
			if prefix, ok := strings.CutSuffix(member, "*"); ok {
				m.prefixes[prefix] = append(m.prefixes[prefix], g)
				if !slices.Contains(m.lengths, len(prefix)) {
					m.lengths = append(m.lengths, len(prefix))
				}
				continue
			}
			m.names[member] = append(m.names[member], g)
		}
		for _, server := range g.Servers {
			m.servers[server] = append(m.servers[server], g)
		}
	}
	return m
}

// of returns the groups that name a tool, its own or its server's name.
func (m membership) of(def toolkit.Definition) []*group {
	var out []*group
	out = append(out, m.names[string(def.Name)]...)
	for _, n := range m.lengths {
		if n <= len(def.Name) {
			out = append(out, m.prefixes[string(def.Name[:n])]...)
		}
	}
	if def.MCPServer != "" {
		out = append(out, m.servers[def.MCPServer]...)
	}
	return out
}

// uniqueGroups are the groups without repetition, by name.
func uniqueGroups(groups []*group) []*group {
	slices.SortFunc(groups, func(a, b *group) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(groups, func(a, b *group) bool { return a.Name == b.Name })
}

// callable says whether a session may call a tool. It is the one place that says so: what a model
// is shown and what may run are the same.
func (r *record) callable(t *tool) bool {
	if t.broken != nil {
		return false
	}
	if len(t.groups) == 0 {
		return true
	}
	for _, g := range t.groups {
		if r.active[g.Name] {
			return true
		}
	}
	return false
}

// initial are the groups that are on in a new session.
func (s *snapshot) initial() []string {
	var on []string
	for _, g := range s.sorted {
		if g.Active {
			on = append(on, g.Name)
		}
	}
	return on
}

// switched is what a session's groups come to after a change: final, then on, then off. unknown
// names the groups there are not; then nothing is to change.
func (s *snapshot) switched(now []string, final *[]string, on, off []string) (active, unknown []string) {
	if final != nil {
		now = *final
	}
	keep := make(map[string]bool, len(now))
	for _, name := range now {
		if s.groups[name] != nil {
			keep[name] = true
		}
	}
	named := slices.Concat(on, off)
	if final != nil {
		named = slices.Concat(*final, named)
	}
	for _, name := range named {
		if s.groups[name] == nil && !slices.Contains(unknown, name) {
			unknown = append(unknown, name)
		}
	}
	for _, name := range on {
		keep[name] = true
	}
	for _, name := range off {
		delete(keep, name)
	}
	for _, g := range s.sorted {
		if keep[g.Name] {
			active = append(active, g.Name)
		}
	}
	return active, unknown
}
