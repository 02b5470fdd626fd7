package dispatcher

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// tool is one entry of the registry, as the configuration has it. It never changes; a new entry
// replaces it.
type tool struct {
	def       toolkit.Definition // as its worker announced it, but for what an override says
	raw       json.RawMessage    // the definition as it is shown
	hash      string             // of the definition as it was announced
	pool      string             // pool or lane whose consumer gets its work
	source    string             // worker program that owns the name
	startedAt time.Time
	revision  uint64
	groups    []*group                        // none: it is in basic
	tuning    json.RawMessage                 // for its workers
	schema    func() (*toolkit.Schema, error) // compiled at first use
	broken    error                           // the configuration does not fit the tool
	note      string                          // what of the configuration has no effect on it
}

// settings is the declared configuration at one revision.
type settings struct {
	toolkit.Config
	revision uint64
}

// snapshot is all tools and groups at one moment. It is never written after it is published, so
// readers take no lock.
type snapshot struct {
	settings
	tools    map[events.ToolName]*tool
	order    []*tool                   // by name
	late     map[events.ToolName]*tool // more tools, which the mirror had not heard of yet
	groups   map[string]*group
	sorted   []*group      // by name
	meta     *tool         // reset_tools; nil: it is not offered
	members  membership    // of the configured groups
	minQueue time.Duration // the shortest time a call may queue
}

// newSnapshot resolves what workers registered by what the installation declares.
func newSnapshot(registered map[events.ToolName]*tool, set settings) *snapshot {
	s := &snapshot{
		settings: set, groups: make(map[string]*group, len(set.Groups)),
		tools: make(map[events.ToolName]*tool, len(registered)), order: make([]*tool, 0, len(registered)),
		minQueue: toolkit.DefaultQueueTimeout,
	}
	for _, g := range set.Groups {
		s.groups[g.Name] = &group{Group: g, declared: true}
	}
	s.members = newMembership(s.groups)
	for name, t := range s.withExternal(registered) {
		t = s.resolve(t)
		for _, g := range t.groups {
			g.size++
		}
		s.tools[name] = t
		s.order = append(s.order, t)
		s.minQueue = min(s.minQueue, t.def.QueueLimit())
	}
	slices.SortFunc(s.order, func(a, b *tool) int { return cmp.Compare(a.def.Name, b.def.Name) })
	s.sorted = slices.SortedFunc(maps.Values(s.groups), func(a, b *group) int { return cmp.Compare(a.Name, b.Name) })
	if !set.NoMetaTool && slices.ContainsFunc(s.sorted, func(g *group) bool { return g.Managed() }) {
		def := s.resetDefinition()
		s.meta = &tool{def: def, raw: def.JSON(), hash: def.Hash(), source: "toolwire"}
	}
	return s
}

// withExternal are the tools that workers registered, and those that the installation declares as
// answered by others. Where both have a name, it is the workers'.
func (s *snapshot) withExternal(registered map[events.ToolName]*tool) map[events.ToolName]*tool {
	declared := s.External
	if s.AskUser {
		declared = append(slices.Clip(declared), toolkit.AskUserDefinition())
	}
	if len(declared) == 0 {
		return registered
	}
	all := maps.Clone(registered)
	for _, def := range declared {
		if all[def.Name] != nil {
			continue
		}
		def.External = true
		t := &tool{def: def, raw: def.JSON(), hash: def.Hash(), source: "configuration", revision: s.revision}
		t.schema = sync.OnceValues(func() (*toolkit.Schema, error) { return new(toolkit.Schemas).Of(t.hash, def) })
		all[def.Name] = t
	}
	return all
}

// listed are the tools by name, after a name: those that a session may call, or all (nil).
func (s *snapshot) listed(rec *record, after events.ToolName) iter.Seq[*tool] {
	return func(yield func(*tool) bool) {
		from, _ := slices.BinarySearchFunc(s.order, after, func(t *tool, name events.ToolName) int {
			return cmp.Or(cmp.Compare(t.def.Name, name), -1) // behind the name itself
		})
		meta := s.meta
		if meta != nil && meta.def.Name <= after {
			meta = nil
		}
		for _, t := range s.order[from:] {
			if meta != nil && meta.def.Name < t.def.Name {
				if !yield(meta) {
					return
				}
				meta = nil
			}
			if (rec == nil || rec.callable(t)) && !yield(t) {
				return
			}
		}
		if meta != nil {
			yield(meta)
		}
	}
}

// tool returns a tool by name; nil: there is none.
func (s *snapshot) tool(name events.ToolName) *tool {
	if t := s.tools[name]; t != nil {
		return t
	}
	return s.late[name]
}

// and is the snapshot with more tools in it. It costs what they cost, however many there are already.
func (s *snapshot) and(late map[events.ToolName]*tool) *snapshot {
	more := *s
	more.late = make(map[events.ToolName]*tool, len(late))
	for name, t := range late {
		more.late[name] = more.resolve(t)
	}
	return &more
}

// resolve gives a registered tool its groups and what the installation changes about it.
func (s *snapshot) resolve(t *tool) *tool {
	o, overridden := s.Tools[t.def.Name]
	name := t.def.Group
	if o.Group != "" {
		name = o.Group
	}
	groups := s.members.of(t.def)
	switch name {
	case "":
	case toolkit.GroupBasic: // always on, whatever other groups name the tool
		groups = nil
	default:
		groups = append(groups, s.named(name))
	}
	if len(groups) == 0 && !overridden {
		return t
	}
	out := *t
	out.groups = uniqueGroups(groups)
	if overridden {
		out.override(o)
	}
	return &out
}

// named returns a group that a definition names, and makes it if nothing declares it.
func (s *snapshot) named(name string) *group {
	g := s.groups[name]
	if g == nil {
		g = &group{Group: toolkit.Group{Name: name}}
		if s.late == nil { // a published snapshot is never written
			s.groups[name] = g
		}
	}
	return g
}

// override applies what the installation changes about a tool.
func (t *tool) override(o toolkit.Override) {
	def := t.def
	if o.Strict != nil {
		def.Strict = o.Strict
	}
	if o.DangerousFiles != nil {
		def.DangerousFiles = o.DangerousFiles
	}
	if o.DangerousDirectories != nil {
		def.DangerousDirectories = o.DangerousDirectories
	}
	if o.Group != "" {
		def.Group = o.Group
	}
	if o.Timeout > 0 {
		def.Timeout = o.Timeout
	}
	if o.Attempts > 0 {
		def.Attempts = o.Attempts
	}
	switch { // a tool without a limit has no lane, which its workers would have to know of
	case o.MaxInFlight > 0 && def.MaxInFlight > 0:
		def.MaxInFlight = o.MaxInFlight
	case o.MaxInFlight > 0:
		t.note = "maxInFlight of the configuration has no effect: the definition of the tool sets no limit that could be changed"
	}
	tuning := o.Tuning
	if def.External {
		tuning.Presets = nil // they never leave the installation
	}
	shown, err := def.Shown(tuning)
	if err != nil {
		t.broken = fmt.Errorf("the configuration does not fit: %w", err)
		return
	}
	t.def, t.raw = shown, shown.JSON()
	if b, err := json.Marshal(tuning); err == nil && string(b) != "{}" {
		t.tuning = b
	}
	t.schema = sync.OnceValues(func() (*toolkit.Schema, error) { return new(toolkit.Schemas).Of(t.hash, shown) })
}

// pools returns each pool or lane with its limit of calls in flight (0: none).
func (s *snapshot) pools() map[string]int {
	out := make(map[string]int)
	for _, t := range s.order {
		if t.pool != "" {
			out[t.pool] = t.def.MaxInFlight
		}
	}
	return out
}

// maxCompared is the most names that an unknown one is compared with.
const maxCompared = 500

// closest returns the names nearest to name, by edit distance without regard to case, best first.
func (s *snapshot) closest(name string, shown func(*tool) bool) []string {
	type candidate struct {
		name string
		far  int
	}
	name = strings.ToLower(name)
	limit := max(2, len(name)/2)
	var near []candidate
	compared := 0
	for _, t := range s.order {
		n := string(t.def.Name)
		within := len(n)-len(name) <= limit && len(name)-len(n) <= limit
		if compared == maxCompared || !shown(t) {
			continue
		}
		other := strings.ToLower(n)
		contained := strings.Contains(other, name) || strings.Contains(name, other)
		if !within && !contained {
			continue
		}
		compared++
		far := 2
		if !contained || within {
			far = distance(name, other)
		}
		if contained {
			far = min(far, 2)
		}
		if far <= limit {
			near = append(near, candidate{n, far})
		}
	}
	slices.SortFunc(near, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.far, b.far), strings.Compare(a.name, b.name))
	})
	near = near[:min(len(near), maxClose)]
	out := make([]string, len(near))
	for i, c := range near {
		out[i] = c.name
	}
	return out
}
