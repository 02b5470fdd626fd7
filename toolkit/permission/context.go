package permission

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Mode says what happens to calls that no rule decides.
type Mode string

// The modes.
const (
	Default     Mode = "default"      // ask
	AcceptEdits Mode = "accept_edits" // changes inside the working directories run, the rest asks
	Explore     Mode = "explore"      // only what reads
	Bypass      Mode = "bypass"       // run; rules and safety asks still hold
	DontAsk     Mode = "dont_ask"     // as accept_edits, but nobody is there: every ask is a deny
)

// UnmarshalText reads a mode in any case. An unknown or empty word is an [ErrWord].
func (m *Mode) UnmarshalText(text []byte) error {
	v := Mode(strings.ToLower(string(text)))
	if v == "" || !v.known() {
		return fmt.Errorf("%w: mode %q is none of default, accept_edits, explore, bypass, dont_ask", ErrWord, text)
	}
	*m = v
	return nil
}

func (m Mode) known() bool {
	switch m {
	case "", Default, AcceptEdits, Explore, Bypass, DontAsk:
		return true
	}
	return false
}

// edits says whether changes inside the working directories run unasked.
func (m Mode) edits() bool { return m == AcceptEdits || m == DontAsk }

// Context is everything that a decision depends on beside the call.
type Context struct {
	// Mode "" is default, if there are rules or working directories; else no permissions at all.
	Mode Mode `json:"mode,omitempty"`
	// WorkingDirectories are absolute. Relative paths of arguments count from the first.
	WorkingDirectories []string `json:"workingDirectories,omitempty"`
	// Home is the home directory of the workers, absolute; "" leaves `~` unresolved.
	Home string `json:"home,omitempty"`
	// TrustedServers are the MCP servers whose read-only hints count, and whose tools do not ask for
	// the sole reason that they are from elsewhere.
	TrustedServers []string `json:"trustedServers,omitempty"`
	Rules          []Rule   `json:"rules,omitempty"`
}

// Check says whether the context can be used: known mode, usable rules, absolute directories. One
// that cannot must not replace one that can. Evaluate fails closed on it all the same.
func (c Context) Check() error {
	if !c.Mode.known() {
		return fmt.Errorf("%w: mode %q", ErrWord, c.Mode)
	}
	for _, d := range c.WorkingDirectories {
		if !path.IsAbs(d) || path.Clean(d) != d {
			return fmt.Errorf("%w: working directory %q must be an absolute path in its shortest form", ErrRule, d)
		}
	}
	if c.Home != "" && (!path.IsAbs(c.Home) || path.Clean(c.Home) != c.Home) {
		return fmt.Errorf("%w: home %q must be an absolute path in its shortest form", ErrRule, c.Home)
	}
	for _, r := range c.Rules {
		if err := r.Check(); err != nil {
			return err
		}
	}
	return nil
}

// off says whether there is no permission configuration.
func (c Context) off() bool {
	return c.Mode == "" && len(c.Rules) == 0 && len(c.WorkingDirectories) == 0
}

// trusted says whether what the definition says of itself counts.
func (c Context) trusted(def Tool) bool {
	return def.MCPServer == "" || slices.Contains(c.TrustedServers, def.MCPServer)
}
