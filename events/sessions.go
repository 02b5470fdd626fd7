package events

import (
	"encoding/json"
	"time"
)

// Operations of the API about sessions, groups and the declared configuration. An agent may
// ask about and change its own sessions; operators those of all.
const (
	OpSessions    = "sessions"     // SessionsRequest → SessionsReply; operators see all, agents their own
	OpSession     = "session"      // SessionRequest → SessionInfo
	OpSessionSet  = "session-set"  // SessionSet → SessionInfo
	OpSessionDrop = "session-drop" // SessionRequest → {}; the next turn begins with the defaults again
	OpGroups      = "groups"       // GroupsRequest → GroupsReply
	OpState       = "state"        // StateRequest → StateReply
	OpConfig      = "config"       // {} → ConfigReply; operators only
	OpConfigSet   = "config-set"   // ConfigSet → ConfigReply; operators only
)

// SessionRequest names a session.
type SessionRequest struct {
	Session SessionID `json:"session"`
}

// SessionInfo is the record of a session: what its model sees, and what may run.
type SessionInfo struct {
	Session   SessionID `json:"session"`
	Agent     AgentID   `json:"agent"`    // whose it is: who touched it first
	Revision  uint64    `json:"revision"` // of the record; grows with every change
	Active    []string  `json:"active"`   // groups that are on, beside those that always are
	CreatedAt time.Time `json:"createdAt"`
	ChangedAt time.Time `json:"changedAt"`

	Mode  string        `json:"mode,omitempty"`  // permission mode; empty: the installation's
	Rules []SessionRule `json:"rules,omitempty"` // permission rules, on top of the installation's
}

// SessionRule is a permission rule of one session.
type SessionRule struct {
	Rule
	Definition string    `json:"definition,omitempty"` // only while the tool has this definition (hash)
	By         string    `json:"by"`                   // who added it
	At         time.Time `json:"at"`
}

// SessionsRequest asks for the sessions, a page at a time.
type SessionsRequest struct {
	After SessionID `json:"after,omitempty"` // the last one of the page before
	Limit int       `json:"limit,omitempty"` // 0: 100
}

// SessionsReply is one page, sorted by the sessions' names as they stand in subjects.
type SessionsReply struct {
	Sessions []SessionInfo `json:"sessions"`
	More     bool          `json:"more,omitempty"`
}

// SessionSet changes which groups of a session are on. A session that is not there is created, for
// the caller or for Agent. Nothing changes if any group is unknown.
type SessionSet struct {
	Session  SessionID `json:"session"`
	Agent    AgentID   `json:"agent,omitempty"`    // operators only: whose session it is, if it is new
	Revision uint64    `json:"revision,omitempty"` // refused if the record has another; 0: any
	Active   *[]string `json:"active,omitempty"`   // exactly these are on; nil: those that were
	On       []string  `json:"on,omitempty"`       // then these too
	Off      []string  `json:"off,omitempty"`      // and these not

	// Operators only: no agent may widen what it may do.
	Mode  *string `json:"mode,omitempty"`  // "": the installation's
	Rules []Rule  `json:"rules,omitempty"` // to be added
	Drop  []Rule  `json:"drop,omitempty"`  // to be removed, by tool, content and behavior
}

// GroupsRequest asks for the groups there are, and how they stand for a session if one is named.
type GroupsRequest struct {
	Session SessionID `json:"session,omitempty"`
}

// GroupsReply lists the groups by name. Group basic is not among them: it is always on.
type GroupsReply struct {
	SessionRevision uint64      `json:"sessionRevision,omitempty"`
	ConfigRevision  uint64      `json:"configRevision,omitempty"`
	Groups          []GroupInfo `json:"groups"`
}

// GroupInfo is a group and how it stands.
type GroupInfo struct {
	Name         string   `json:"name"`
	Description  string   `json:"description,omitempty"`
	Instructions string   `json:"instructions,omitempty"`
	Scope        string   `json:"scope"`             // meta or external
	Initial      bool     `json:"initial,omitempty"` // on in a new session
	Declared     bool     `json:"declared"`          // by the configuration; else only by definitions of tools
	Active       bool     `json:"active"`            // in the session asked about
	Members      []string `json:"members,omitempty"` // as declared
	Tools        int      `json:"tools"`             // registered tools in it
}

// StateRequest asks for a document that a tool keeps for a session.
type StateRequest struct {
	Session SessionID `json:"session"`
	Name    string    `json:"name"`
}

// StateReply is such a document; Revision 0: there is none.
type StateReply struct {
	Revision uint64          `json:"revision"`
	Document json.RawMessage `json:"document,omitempty"`
}

// ConfigReply is the declared configuration (a toolkit.Config).
type ConfigReply struct {
	Revision uint64          `json:"revision"` // 0: none was declared
	Config   json.RawMessage `json:"config,omitempty"`
}

// ConfigSet declares a configuration in the place of the one at Revision (0: none must be there).
type ConfigSet struct {
	Revision uint64          `json:"revision"`
	Config   json.RawMessage `json:"config"`
}
