package toolkit

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/toolwire/toolwire/events"
)

// GroupBasic is the reserved group that is always on. Tools in no other group are in it.
const GroupBasic = "basic"

// Scope says who switches a group.
type Scope string

// The scopes of a group (agentscope-spec §3.1).
const (
	ScopeMeta     Scope = "meta"     // the agent, through reset_tools; the default
	ScopeExternal Scope = "external" // application code only
)

// UnmarshalText reads a scope; "session" is AgentScope's other word for meta.
func (s *Scope) UnmarshalText(b []byte) error {
	switch v := Scope(b); v {
	case "", "session", ScopeMeta:
		*s = ScopeMeta
	case ScopeExternal:
		*s = v
	default:
		return fmt.Errorf("scope %q is none of meta, external", b)
	}
	return nil
}

// Group is a named set of tools that is switched as one, per session.
type Group struct {
	Name         string   `json:"name"`                  // 1–64 of letters, digits, '_' and '-'
	Description  string   `json:"description,omitempty"` // for the model: what the group is good for
	Instructions string   `json:"instructions,omitempty"`
	Scope        Scope    `json:"scope,omitempty"`   // "": meta
	Active       bool     `json:"active,omitempty"`  // on in a new session
	Tools        []string `json:"tools,omitempty"`   // names, or patterns that end in *, e.g. mcp__github__*
	Servers      []string `json:"servers,omitempty"` // MCP servers, all of whose tools are in it
	Skills       []string `json:"skills,omitempty"`
	Skill        string   `json:"skill,omitempty"` // loading this skill switches the group on
}

// Managed says whether the agent may switch the group itself.
func (g Group) Managed() bool { return g.Scope != ScopeExternal }

// Tuning is how an installation wants a tool run that was written elsewhere. It travels with the
// call; zero fields leave what the definition says.
type Tuning struct {
	Timeout  Duration          `json:"timeout,omitzero"`
	Attempts int               `json:"attempts,omitempty"`
	Presets  map[string]Preset `json:"presets,omitempty"`  // by parameter: hidden from the model, and stronger
	Extended json.RawMessage   `json:"extended,omitempty"` // a JSON Schema object: further properties to show and to validate
}

// Preset is the value of a parameter: exactly one of a literal, an environment variable of the
// worker, and a file in the worker's directory of secrets. The last two become strings, a file without the
// newline at its end; an empty one counts as missing. The worker must have been told that it may give
// them away.
type Preset struct {
	Value json.RawMessage `json:"value,omitempty"`
	Env   string          `json:"env,omitempty"`
	File  string          `json:"file,omitempty"`
}

// Override is what an installation changes about one tool.
type Override struct {
	Tuning
	Group                string   `json:"group,omitempty"` // in the place of the definition's
	MaxInFlight          int      `json:"maxInFlight,omitempty"`
	Strict               *bool    `json:"strict,omitempty"`
	DangerousFiles       []string `json:"dangerousFiles,omitempty"`       // in the place of the definition's
	DangerousDirectories []string `json:"dangerousDirectories,omitempty"` // in the place of the definition's
}

// Config is the declared configuration of an installation (design §8): one document, stored on
// the bus, the same for every dispatcher.
type Config struct {
	Groups []Group                      `json:"groups,omitempty"`
	Tools  map[events.ToolName]Override `json:"tools,omitempty"`
	// NoMetaTool keeps reset_tools from being offered though there are groups that an agent may switch.
	NoMetaTool bool `json:"noMetaTool,omitempty"`
}

// ErrConfig is returned when a configuration cannot be used; its text says where and why.
var ErrConfig = errors.New("toolkit: bad configuration")

var validPattern = regexp.MustCompile(`^[a-zA-Z0-9_-]{0,64}\*?$`)

// Check says everything that is wrong with a configuration, one line each; nil: nothing.
func (c Config) Check() error {
	var all []error
	bad := func(where, format string, args ...any) {
		all = append(all, fmt.Errorf("%w: %s: %s", ErrConfig, where, fmt.Sprintf(format, args...)))
	}
	seen := make(map[string]bool, len(c.Groups))
	for i, g := range c.Groups {
		where := fmt.Sprintf("groups[%d] %q", i, g.Name)
		g.check(func(format string, args ...any) { bad(where, format, args...) })
		if seen[g.Name] {
			bad(where, "the name appears twice")
		}
		seen[g.Name] = true
	}
	for name, o := range c.Tools {
		where := "tools." + string(name)
		if !validName.MatchString(string(name)) {
			bad(where, "the name must be 1 to 64 letters, digits, '_' or '-'")
		}
		o.check(func(format string, args ...any) { bad(where, format, args...) })
	}
	slices.SortFunc(all, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) }) // maps have no order
	return errors.Join(all...)
}

func (g Group) check(bad func(format string, args ...any)) {
	switch {
	case g.Name == GroupBasic:
		bad("the name is reserved: that group is always there, and always on")
	case !validName.MatchString(g.Name):
		bad("the name must be 1 to 64 letters, digits, '_' or '-'")
	}
	if g.Scope != "" && g.Scope != ScopeMeta && g.Scope != ScopeExternal {
		bad("scope %q is none of meta, external", g.Scope)
	}
	for _, member := range g.Tools {
		if member == "" || !validPattern.MatchString(member) {
			bad("tool %q is neither a name nor a pattern that ends in *", member)
		}
	}
}

func (o Override) check(bad func(format string, args ...any)) {
	if o.Timeout < 0 || o.Attempts < 0 || o.MaxInFlight < 0 {
		bad("timeout, attempts or maxInFlight is negative")
	}
	if o.Group != "" && !validName.MatchString(o.Group) {
		bad("group %q must be 1 to 64 letters, digits, '_' or '-'", o.Group)
	}
	for param, p := range o.Presets {
		given := 0
		for _, is := range []bool{len(p.Value) > 0, p.Env != "", p.File != ""} {
			if is {
				given++
			}
		}
		if given != 1 {
			bad("presets.%s: give one of value, env, file", param)
		}
		if len(p.Value) > 0 && events.CheckJSON(p.Value) != nil {
			bad("presets.%s: the value is no JSON", param)
		}
	}
	if len(o.Extended) > 0 {
		if _, err := compile(o.Extended); err != nil {
			bad("extended: %v", err)
		}
	}
}
