package events

import (
	"encoding/json"
	"time"
)

// The events of calls that a person or another system must answer (design §7).
const (
	TypeRequireUserConfirm       Type = "io.toolwire.v1.RequireUserConfirm"
	TypeRequireExternalExecution Type = "io.toolwire.v1.RequireExternalExecution"
	TypeUserConfirmResult        Type = "io.toolwire.v1.UserConfirmResult"
	TypeExternalExecutionResult  Type = "io.toolwire.v1.ExternalExecutionResult"
	TypeQuestionExpired          Type = "io.toolwire.v1.QuestionExpired"
	TypeAnswerJudged             Type = "io.toolwire.v1.AnswerJudged"
	TypeSuspendCall              Type = "io.toolwire.v1.SuspendCall"
)

// Kind says what a question asks for.
type Kind string

// The kinds of questions.
const (
	KindConfirm  Kind = "confirm"  // may this call run?
	KindExternal Kind = "external" // what is the result of this call?
)

// Rule is a permission rule as it travels: `tool(content)` with a behavior.
type Rule struct {
	Tool     string `json:"tool"`              // a name, or a pattern in which * is any text
	Content  string `json:"content,omitempty"` // for the tool's matcher; "": every call
	Behavior string `json:"behavior"`          // allow, deny or ask
	Source   string `json:"source,omitempty"`  // where it comes from, for people
}

// String writes the rule without its behavior: `tool` or `tool(content)`.
func (r Rule) String() string {
	if r.Content == "" {
		return r.Tool
	}
	return r.Tool + "(" + r.Content + ")"
}

// Question is the data of RequireUserConfirm and RequireExternalExecution: one call, and all that
// whoever answers needs to know. It never changes; a later round is another question.
type Question struct {
	RequestID   string    `json:"requestId"`
	Round       int       `json:"round"`              // of this call: 1, 2, …
	Previous    string    `json:"previous,omitempty"` // request that this round follows
	Kind        Kind      `json:"kind"`
	Call        Call      `json:"call"` // what will run, byte for byte
	Title       string    `json:"title,omitempty"`
	Description string    `json:"description,omitempty"` // of the tool; not to be trusted
	Requester   AgentID   `json:"requester"`             // may not answer
	Definition  string    `json:"definition"`            // hash of the tool's definition
	Digest      string    `json:"digest"`                // of what is asked; an answer repeats it
	Why         string    `json:"why"`                   // for people, a sentence
	Rule        string    `json:"rule,omitempty"`        // what asks
	Safety      bool      `json:"safety,omitempty"`      // no allow rule answers it
	Suggestions []Rule    `json:"suggestions,omitempty"` // allow rules that would have let it run
	Roles       []string  `json:"roles,omitempty"`       // one of which whoever answers has; none: anyone
	Quorum      int       `json:"quorum"`                // people who have to approve
	AskedAt     time.Time `json:"askedAt"`

	ExpiresAt *time.Time `json:"expiresAt,omitempty"` // nil: never
	OnExpiry  string     `json:"onExpiry,omitempty"`  // deny, error or escalate

	ConfigRevision  uint64          `json:"configRevision,omitempty"` // of the policy by which it was asked, as evidence
	SessionRevision uint64          `json:"sessionRevision,omitempty"`
	ResultSchema    json.RawMessage `json:"resultSchema,omitempty"` // external: of the structured content of its result
	Suspended       bool            `json:"suspended,omitempty"`    // external: the tool ran, and asks for its result
}

// Decisions of a [UserConfirmResult].
const (
	Approve = "approve"
	Refuse  = "deny"
)

// Scopes of the rules of a [UserConfirmResult].
const (
	ScopeSession      = "session"
	ScopeInstallation = "installation" // operators only
)

// UserConfirmResult answers whether a call may run.
type UserConfirmResult struct {
	Digest   string          `json:"digest"`           // of the question
	Decision string          `json:"decision"`         // approve or deny
	Reason   string          `json:"reason,omitempty"` // of a denial, read by the model
	Input    json.RawMessage `json:"input,omitempty"`  // approve: run the call with these arguments in place of its own
	Rules    []Rule          `json:"rules,omitempty"`  // approve: from now on, for this tool
	Scope    string          `json:"scope,omitempty"`  // of the rules: session (default) or installation
}

// ExternalExecutionResult answers what the result of a call is.
type ExternalExecutionResult struct {
	Digest            string          `json:"digest"`          // of the question
	State             State           `json:"state,omitempty"` // default: success, or error if IsError
	Content           []Content       `json:"content,omitempty"`
	StructuredContent json.RawMessage `json:"structuredContent,omitempty"`
	IsError           bool            `json:"isError,omitempty"`
}

// Vote is one answer that counts.
type Vote struct {
	Actor string    `json:"actor"`
	At    time.Time `json:"at"`              // when INBOX stored it
	Seq   uint64    `json:"seq"`             // under which INBOX stored it
	Input string    `json:"input,omitempty"` // hash of the arguments it approves, if they were changed
}

// The outcomes of a question.
const (
	OutcomeApproved   = "approved"
	OutcomeDenied     = "denied"
	OutcomeAnswered   = "answered"
	OutcomeExpired    = "expired"
	OutcomeEscalated  = "escalated"  // the next round asks others
	OutcomeSuperseded = "superseded" // the next round asks under another policy
	OutcomeCancelled  = "cancelled"
)

// Decided is the one fact that ends a question: the accepted answer or, as QuestionExpired, why there
// is none. It repeats the question, whose own message is gone by then.
type Decided struct {
	Outcome string    `json:"outcome"`
	At      time.Time `json:"at"`              // of the answer, or of its deadline
	Seq     uint64    `json:"seq,omitempty"`   // under which INBOX stored the answer; 0: none
	Actor   string    `json:"actor,omitempty"` // who answered last; empty: policy
	Votes   []Vote    `json:"votes,omitempty"` // all who approved
	Reason  string    `json:"reason,omitempty"`

	Input       json.RawMessage `json:"input,omitempty"`       // approved with changed arguments
	InputDigest string          `json:"inputDigest,omitempty"` // of what is to run, if approved
	Rules       []Rule          `json:"rules,omitempty"`
	Scope       string          `json:"scope,omitempty"`

	Result   *ExternalExecutionResult `json:"result,omitempty"` // answered
	Question Question                 `json:"question"`
}

// Judgements of an answer.
const (
	JudgedAccepted  = "accepted"  // it decided the question
	JudgedCounted   = "counted"   // others have to approve as well
	JudgedDuplicate = "duplicate" // the same was said and counted before
	JudgedRefused   = "refused"   // see Code
)

// Codes of a refused answer.
const (
	RefusedNotPending  = "not_pending" // no such question is open
	RefusedDecided     = "already_decided"
	RefusedExpired     = "expired"
	RefusedDigest      = "digest_mismatch" // it answers something else than was asked
	RefusedSelf        = "own_call"        // the requester may not answer
	RefusedRole        = "role_missing"
	RefusedMalformed   = "malformed"
	RefusedInput       = "invalid_input" // changed arguments that do not fit the tool
	RefusedResult      = "invalid_result"
	RefusedByRule      = "denied_by_rule" // the policy denies the call by now
	RefusedNewRound    = "asked_again"    // the policy demands more by now
	RefusedRules       = "rules_refused"  // attached rules that this actor may not add
	RefusedNoRequester = "requester_unknown"
)

// AnswerJudged says what became of an answer.
type AnswerJudged struct {
	RequestID string    `json:"requestId"`
	Judgement string    `json:"judgement"`
	Code      string    `json:"code,omitempty"`    // of a refused one
	Text      string    `json:"text"`              // for whoever answered
	Missing   int       `json:"missing,omitempty"` // counted: people still needed
	Actor     string    `json:"actor"`
	At        time.Time `json:"at"`               // when INBOX stored the answer
	Winner    string    `json:"winner,omitempty"` // already_decided: by whom; empty: by policy
}

// SuspendCall is how a running tool asks to be answered outside. It has all that is to be known of the
// call, for the work is gone by then.
type SuspendCall struct {
	Call       Call            `json:"call"` // as it ran
	Agent      AgentID         `json:"agent"`
	Definition string          `json:"definition"` // hash
	Decision   string          `json:"decision,omitempty"`
	Message    string          `json:"message,omitempty"` // for whoever answers
	Schema     json.RawMessage `json:"schema,omitempty"`  // of the structured content of the answer
	Nonce      string          `json:"nonce"`             // of the start under which it ran
}

// CheckRequest asks the workers of a tool what its own permission check makes of a call; the answer is a
// permission.Check.
type CheckRequest struct {
	Session    SessionID `json:"session"`
	Agent      AgentID   `json:"agent"`
	Call       Call      `json:"call"`
	Definition string    `json:"definition"`         // hash by which the arguments were validated
	Mode       string    `json:"mode,omitempty"`     // permission mode of the session
	Contents   []string  `json:"contents,omitempty"` // of rules about the tool, to be matched
}
