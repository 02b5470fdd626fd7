package events

import (
	"encoding/json"
	"time"
)

// Type is a CloudEvents type: io.toolwire.v1.<Name>.
type Type string

// The event types of the contract. Later versions add to them, and never change one.
const (
	TypeToolCalls       Type = "io.toolwire.v1.ToolCalls"
	TypeToolWork        Type = "io.toolwire.v1.ToolWork"
	TypeToolResultStart Type = "io.toolwire.v1.ToolResultStart"
	TypeToolResult      Type = "io.toolwire.v1.ToolResult"
	TypeToolResultDelta Type = "io.toolwire.v1.ToolResultDelta"
	TypeCancelCalls     Type = "io.toolwire.v1.CancelCalls"
	TypeAnnounce        Type = "io.toolwire.v1.Announce"
	TypeTurnStep        Type = "io.toolwire.v1.TurnStep"     // a call of a staged turn has its result; only attributes
	TypeToolsChanged    Type = "io.toolwire.v1.ToolsChanged" // the tools of a session changed; only attributes
)

// Attributes are the CloudEvents attributes that the contract uses, extensions included.
// Empty ones are not sent. Session, turn and call extensions repeat what the subject says.
type Attributes struct {
	ID      string    // deterministic for everything a process may publish twice
	Source  string    // URI reference of who sent it, e.g. "/agents/local"
	Type    Type      //
	Subject string    // CloudEvents subject; empty: left out
	Time    time.Time // zero: left out

	Session SessionID
	Turn    TurnID
	Call    CallID   // extension callid
	ReplyID string   // AgentScope's reply id, spans turns
	Tool    ToolName //
	Request string   // extension requestid
	Actor   string
	Parent  string // the call that started this session

	TraceParent string
	TraceState  string
	DataRef     string // where the data is if it was too large to go inline
}

// ToolCalls is one agent turn: 1..N calls.
type ToolCalls struct {
	Calls    []Call     `json:"calls"`
	Context  *Context   `json:"context,omitempty"`
	Deadline *time.Time `json:"deadline,omitempty"` // the agent's own; nil: none
}

// Call is one tool call as the model wrote it. Input is kept byte for byte.
type Call struct {
	ID    CallID          `json:"id"`
	Name  ToolName        `json:"name"`
	Input json.RawMessage `json:"input,omitempty"`
}

// Context is AgentScope's RuntimeContext: workers get it, models and approvers never see it.
type Context struct {
	User       string                     `json:"user,omitempty"`
	Attributes map[string]string          `json:"attributes,omitempty"`
	Values     map[string]json.RawMessage `json:"values,omitempty"`
}

// ToolWork is one call on its way to a worker, with how it was resolved.
type ToolWork struct {
	Call            Call       `json:"call"` // Input is what will run: {} for empty, unwrapped if it came as a string
	Agent           AgentID    `json:"agent"`
	Context         *Context   `json:"context,omitempty"`
	Definition      string     `json:"definition"` // hash of the definition the call was checked against
	SessionRevision uint64     `json:"sessionRevision,omitempty"`
	Decision        string     `json:"decision,omitempty"`     // permission decision and the rule that made it
	ArgsRepaired    bool       `json:"argsRepaired,omitempty"` // the arguments came as a JSON string and were unwrapped
	AcceptedAt      time.Time  `json:"acceptedAt"`             // when CALLS stored the turn (server time); of a later stage, when it began
	QueueUntil      time.Time  `json:"queueUntil"`             // not started by then: queue_expired
	Deadline        *time.Time `json:"deadline,omitempty"`     // the agent's own
	// Staged: other calls of the turn wait for this one. Whoever settles it, or finds it settled,
	// sends a TurnStep before letting go of the work.
	Staged bool `json:"staged,omitempty"`
	// Tuning is how the installation wants the tool run (a toolkit.Tuning); empty: as it is defined.
	Tuning json.RawMessage `json:"tuning,omitempty"`
	// Request and Digest are of the question by which people approved the call. A worker runs it only
	// if [Digest] of what it is about to run is the same.
	Request string `json:"request,omitempty"`
	Digest  string `json:"digest,omitempty"`
}

// ToolResultStart is the fence of a call: whoever stores it runs the call or settles it without running.
type ToolResultStart struct {
	CallID   CallID    `json:"callId"`
	Instance string    `json:"instance"`         // process that won the fence
	Nonce    string    `json:"nonce"`            // tells two attempts of one process apart
	Settle   Reason    `json:"settle,omitempty"` // empty: the call runs; else it is settled so, without running
	Worker   string    `json:"worker,omitempty"`
	At       time.Time `json:"at"`
}

// ToolResult is the one terminal answer of a call.
type ToolResult struct { //nolint:recvcheck // reads into itself by pointer; Text is for any copy
	CallID            CallID          `json:"callId"`
	Name              ToolName        `json:"name"`
	State             State           `json:"state"`
	Reason            Reason          `json:"reason"`
	Content           []Content       `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent,omitempty"`
	IsError           bool            `json:"isError"`
	Meta              ResultMeta      `json:"meta"`
}

// ResultMeta says how a result came to be.
type ResultMeta struct {
	Attempt         int        `json:"attempt,omitempty"` // 0: the tool never ran
	Worker          string     `json:"worker,omitempty"`
	StartedAt       *time.Time `json:"startedAt,omitempty"` // nil: the tool never ran
	FinishedAt      time.Time  `json:"finishedAt"`
	Definition      string     `json:"definition,omitempty"`
	SessionRevision uint64     `json:"sessionRevision,omitempty"`
	Decision        string     `json:"decision,omitempty"`
	ArgsRepaired    bool       `json:"argsRepaired,omitempty"`
	Truncated       bool       `json:"truncated,omitempty"` // content was cut to the tool's result cap
}

// ToolResultDelta is progress or partial output of a running call; never the result itself.
type ToolResultDelta struct {
	CallID   CallID   `json:"callId"`
	Seq      uint64   `json:"seq"` // 1, 2, … within one attempt
	Attempt  int      `json:"attempt"`
	Content  Content  `json:"content,omitempty"`  // a piece of output
	Progress *float64 `json:"progress,omitempty"` // done so far
	Total    *float64 `json:"total,omitempty"`    // of how much
	Message  string   `json:"message,omitempty"`
}

// CancelCalls asks to cancel calls of a turn; no ids means all.
type CancelCalls struct {
	Calls  []CallID `json:"calls,omitempty"`
	Reason string   `json:"reason,omitempty"`
}

// Announce says that a worker process runs a tool. Its reply subject answers with the definition.
type Announce struct {
	Worker     string    `json:"worker"`   // name of the worker program
	Instance   string    `json:"instance"` // this process
	Pool       string    `json:"pool"`     // whose consumer it pulls from
	Tool       ToolName  `json:"tool"`
	Definition string    `json:"definition"` // hash
	StartedAt  time.Time `json:"startedAt"`  // of the process
	Slots      int       `json:"slots"`
	Gone       bool      `json:"gone,omitempty"`      // the worker is draining
	Unhealthy  string    `json:"unhealthy,omitempty"` // why it should be looked at
}
