package events

import (
	"encoding/json"
	"time"
)

// The operations of the dispatcher's micro service, on toolwire.api.<actor>.<operation>.
// Requests and answers are JSON; an error is the micro headers Nats-Service-Error-Code and
// Nats-Service-Error, with the HTTP status of the table of reasons.
const (
	OpTools     = "tools"      // ToolsRequest → ToolsReply
	OpTool      = "tool"       // ToolRequest → ToolInfo
	OpToolDrop  = "tool-drop"  // ToolRequest → {}; operators only
	OpTurn      = "turn"       // TurnRequest → TurnReply
	OpResult    = "result"     // ResultRequest → the stored ToolResult event itself, headers and body
	OpCancel    = "cancel"     // CancelRequest → CancelReply
	OpDead      = "dead"       // DeadRequest → DeadReply
	OpDeadShow  = "dead-show"  // DeadRef → DeadLetter, with Data
	OpDeadRetry = "dead-retry" // DeadRef → {}
	OpDeadDrop  = "dead-drop"  // DeadRef → {}
)

// ToolsRequest asks for the tools of a session, a page at a time.
type ToolsRequest struct {
	Session SessionID `json:"session,omitempty"`
	After   ToolName  `json:"after,omitempty"` // the last name of the page before
	Limit   int       `json:"limit,omitempty"` // 0: 100
}

// ToolsReply is one page, sorted by name. With a session: the tools that it may call at these
// revisions, as its model is to see them.
type ToolsReply struct {
	SessionRevision uint64     `json:"sessionRevision,omitempty"`
	ConfigRevision  uint64     `json:"configRevision,omitempty"`
	Tools           []ToolInfo `json:"tools"`
	More            bool       `json:"more,omitempty"`
}

// ToolRequest asks for one tool.
type ToolRequest struct {
	Name ToolName `json:"name"`
}

// ToolInfo is a registered tool and what is known of it now.
type ToolInfo struct {
	Definition json.RawMessage `json:"definition"` // a toolkit.Definition; presets and extended properties as in force
	Hash       string          `json:"hash"`       // of the definition as its worker announced it
	Groups     []string        `json:"groups,omitempty"`
	Pool       string          `json:"pool"`    // whose workers run it: a pool, or a lane of its own
	Source     string          `json:"source"`  // worker program that announced it
	Workers    int             `json:"workers"` // processes alive that run it
	Backlog    uint64          `json:"backlog"` // waiting calls, of the whole pool
	InFlight   uint64          `json:"inFlight"`
	Unhealthy  []string        `json:"unhealthy,omitempty"`
}

// TurnRequest asks how a turn stands.
type TurnRequest struct {
	Session SessionID `json:"session"`
	Turn    TurnID    `json:"turn"`
}

// TurnReply says how each call of a turn stands, in the order of the turn.
type TurnReply struct {
	Agent      AgentID      `json:"agent"`
	AcceptedAt time.Time    `json:"acceptedAt"`
	EventID    string       `json:"eventId"` // CloudEvents id of the stored ToolCalls: made of its content by an agent
	Calls      []CallStatus `json:"calls"`
}

// CallState is AgentScope's ToolCallState.
type CallState string

// The states of a call on its way.
const (
	CallPending   CallState = "pending"   // accepted, not yet dispatched
	CallAsking    CallState = "asking"    // waits for a person or another system
	CallAllowed   CallState = "allowed"   // may run, waits for its place in the turn
	CallSubmitted CallState = "submitted" // queued for or running on a worker
	CallFinished  CallState = "finished"  // has its result
)

// CallStatus is how one call stands.
type CallStatus struct {
	CallID    CallID     `json:"callId"`
	Name      ToolName   `json:"name"`
	State     CallState  `json:"state"`
	StartedAt *time.Time `json:"startedAt,omitempty"` // when a worker won its fence
	Worker    string     `json:"worker,omitempty"`
	Request   string     `json:"request,omitempty"` // asking only: the open question
	Result    State      `json:"result,omitempty"`  // finished only
	Reason    Reason     `json:"reason,omitempty"`  // finished only
}

// ResultRequest asks for the result of one call.
type ResultRequest struct {
	Session SessionID `json:"session"`
	Turn    TurnID    `json:"turn"`
	Call    CallID    `json:"call"`
}

// CancelRequest asks to cancel calls of a turn and to hear what became of each.
type CancelRequest struct {
	Session SessionID `json:"session"`
	Turn    TurnID    `json:"turn"`
	CancelCalls
}

// CancelReply says per call what the cancellation did.
type CancelReply struct {
	Calls []CancelOutcome `json:"calls"`
}

// CancelOutcome is one of: cancelled (settled without running), stopping (it runs; its worker
// was told), too_late (it had its result).
type CancelOutcome struct {
	CallID  CallID `json:"callId"`
	Outcome string `json:"outcome"`
}

// DeadRequest asks for dead letters, newest first.
type DeadRequest struct {
	Before uint64 `json:"before,omitempty"` // only those with a smaller Seq; 0: from the newest
	Limit  int    `json:"limit,omitempty"`  // 0: 50
}

// DeadReply is one page of dead letters.
type DeadReply struct {
	Letters []DeadLetter `json:"letters"`
	More    bool         `json:"more,omitempty"`
}

// DeadRef names one dead letter.
type DeadRef struct {
	Seq uint64 `json:"seq"`
}

// DeadLetter is a message that could not be handled, kept with the reason.
type DeadLetter struct {
	Seq     uint64              `json:"seq"`
	At      time.Time           `json:"at"`
	Subject string              `json:"subject"` // where it was published
	Reason  string              `json:"reason"`
	Size    int                 `json:"size"`
	Header  map[string][]string `json:"header,omitempty"` // shown only
	Data    []byte              `json:"data,omitempty"`   // shown only
}

// AliveRequest asks one worker process whether it still runs a call.
type AliveRequest struct {
	Session SessionID `json:"session"`
	Turn    TurnID    `json:"turn"`
	Call    CallID    `json:"call"`
	Nonce   string    `json:"nonce"` // of its start
}

// AliveReply is the answer.
type AliveReply struct {
	Running bool `json:"running"`
}

// Headers of a dead letter, beside those of the message itself.
const (
	HeaderDeadReason  = "Toolwire-Dead-Reason"
	HeaderDeadSubject = "Toolwire-Dead-Subject"
)
