package toolkit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit/permission"
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
	DangerousFiles       []string `json:"dangerousFiles,omitzero"`       // in the place of the definition's, if empty too
	DangerousDirectories []string `json:"dangerousDirectories,omitzero"` // in the place of the definition's, if empty too
}

// Config is the declared configuration of an installation (design §8): one document, stored on
// the bus, the same for every dispatcher.
type Config struct {
	Groups []Group                      `json:"groups,omitempty"`
	Tools  map[events.ToolName]Override `json:"tools,omitempty"`
	// NoMetaTool keeps reset_tools from being offered though there are groups that an agent may switch.
	NoMetaTool bool `json:"noMetaTool,omitempty"`
	// Permissions are what every session begins with; its own rules come on top.
	Permissions permission.Context  `json:"permissions,omitzero"`
	Approvals   []Approval          `json:"approvals,omitempty"`
	Roles       map[string][]string `json:"roles,omitempty"` // people by role
	// External are tools that other systems answer; no worker has to announce them.
	External []Definition `json:"external,omitempty"`
	AskUser  bool         `json:"askUser,omitempty"` // offer [AskUser]
}

// ErrConfig is returned when a configuration cannot be used; its text says where and why.
var ErrConfig = errors.New("toolkit: bad configuration")

var validPattern = regexp.MustCompile(`^[a-zA-Z0-9_-]{0,64}\*?$`)

// ConfigError is one thing that is wrong with a configuration. It is [ErrConfig].
type ConfigError struct {
	Path []string // the keys that lead to it, such as groups, 0, name
	Why  string

	where string // the path for people
}

// Error says where and why.
func (e *ConfigError) Error() string { return fmt.Sprintf("%v: %s: %s", ErrConfig, e.where, e.Why) }

// Unwrap makes it [ErrConfig].
func (e *ConfigError) Unwrap() error { return ErrConfig }

// place is a part of a configuration that is checked.
type place struct {
	path  []string
	where string
	all   *[]error
}

// bad notes what is wrong with a member of the part, or with all of it if no member is named.
func (p place) bad(member, format string, args ...any) {
	e := &ConfigError{Path: p.path, Why: fmt.Sprintf(format, args...), where: p.where}
	if member != "" {
		e.Path = append(slices.Clone(p.path), member)
	}
	*p.all = append(*p.all, e)
}

// in is a part of the part.
func (p place) in(member string) place {
	return place{append(slices.Clone(p.path), member), p.where + "." + member, p.all}
}

// Check says everything that is wrong with a configuration: a [ConfigError] each, joined; nil: nothing.
func (c Config) Check() error {
	var all []error
	seen := make(map[string]bool, len(c.Groups))
	for i, g := range c.Groups {
		p := place{[]string{"groups", strconv.Itoa(i)}, fmt.Sprintf("groups[%d] %q", i, g.Name), &all}
		g.check(p)
		if seen[g.Name] && g.Name != "" {
			p.bad("name", "the name appears twice")
		}
		seen[g.Name] = true
	}
	for name, o := range c.Tools {
		p := place{[]string{"tools", string(name)}, "tools." + string(name), &all}
		if !validName.MatchString(string(name)) {
			p.bad("", "the name must be 1 to 64 letters, digits, '_' or '-'")
		}
		o.check(p)
	}
	c.checkPeople(&all)
	slices.SortFunc(all, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) }) // maps have no order
	return errors.Join(all...)
}

func (g Group) check(p place) {
	switch {
	case g.Name == GroupBasic:
		p.bad("name", "the name is reserved: that group is always there, and always on")
	case !validName.MatchString(g.Name):
		p.bad("name", "the name must be 1 to 64 letters, digits, '_' or '-'")
	}
	if g.Scope != "" && g.Scope != ScopeMeta && g.Scope != ScopeExternal {
		p.bad("scope", "scope %q is none of meta, external", g.Scope)
	}
	members := place{append(slices.Clone(p.path), "tools"), p.where, p.all}
	for i, member := range g.Tools {
		if member == "" || !validPattern.MatchString(member) {
			members.bad(strconv.Itoa(i), "tool %q is neither a name nor a pattern that ends in *", member)
		}
	}
}

func (o Override) check(p place) {
	for name, n := range map[string]int64{"timeout": int64(o.Timeout), "attempts": int64(o.Attempts), "maxInFlight": int64(o.MaxInFlight)} {
		if n < 0 {
			p.bad(name, "%s is negative", name)
		}
	}
	if o.Group != "" && !validName.MatchString(o.Group) {
		p.bad("group", "group %q must be 1 to 64 letters, digits, '_' or '-'", o.Group)
	}
	for param, preset := range o.Presets {
		preset.check(p.in("presets").in(param))
	}
	if len(o.Extended) > 0 {
		if err := checkExtended(o.Extended); err != nil {
			p.bad("extended", "extended: %v", err)
		}
	}
}

func (p Preset) check(at place) {
	given := 0
	for _, is := range []bool{len(p.Value) > 0, p.Env != "", p.File != ""} {
		if is {
			given++
		}
	}
	if given != 1 {
		at.bad("", "give one of value, env, file")
	}
	if len(p.Value) > 0 {
		if doc, err := events.ReadJSON(p.Value); err != nil || checkNumbers(doc) != nil {
			at.bad("", "the value is no JSON, or has a number beyond all bounds") // and is not told
		}
	}
	if p.File != "" && !fs.ValidPath(p.File) {
		at.bad("", "file %q is not a path within a directory of secrets", p.File)
	}
}

// checkExtended says whether a schema can be merged into that of a tool, as far as can be told without the tool.
func checkExtended(schema json.RawMessage) error {
	if _, err := compile(schema); err != nil {
		return errors.New(badSchema(err))
	}
	_, err := Definition{InputSchema: json.RawMessage(`{"type":"object"}`)}.extended(schema)
	if err != nil {
		_, why, _ := strings.Cut(err.Error(), "extended: ")
		return errors.New(why)
	}
	return nil
}
