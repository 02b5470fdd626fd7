package events

import (
	"encoding/json"
	"time"
)

// Operations of the API about questions, decisions and permissions.
const (
	OpQuestions    = "questions"     // QuestionsRequest → QuestionsReply
	OpQuestion     = "question"      // QuestionRequest → QuestionReply
	OpJudged       = "judged"        // JudgedRequest → AnswerJudged; 404: not judged yet
	OpDecisions    = "decisions"     // DecisionsRequest → DecisionsReply
	OpLife         = "life"          // LifeRequest → LifeReply
	OpPermit       = "permit"        // PermitRequest → PermitReply
	OpPermitReplay = "permit-replay" // ReplayRequest → ReplayReply; operators only
)

// Operations are all operations of the API.
func Operations() []string {
	return []string{
		OpTools, OpTool, OpToolDrop, OpTurn, OpResult, OpCancel, OpDead, OpDeadShow, OpDeadRetry, OpDeadDrop,
		OpSessions, OpSession, OpSessionSet, OpSessionDrop, OpGroups, OpState, OpConfig, OpConfigSet,
		OpQuestions, OpQuestion, OpJudged, OpDecisions, OpLife, OpPermit, OpPermitReplay,
	}
}

// QuestionsRequest asks for open questions, oldest first, a page at a time.
type QuestionsRequest struct {
	Session SessionID `json:"session,omitempty"`
	Kind    Kind      `json:"kind,omitempty"`
	Tool    ToolName  `json:"tool,omitempty"`
	All     bool      `json:"all,omitempty"`   // those that the caller may not answer, too
	After   uint64    `json:"after,omitempty"` // Seq of the last one of the page before
	Limit   int       `json:"limit,omitempty"` // 0: 100
}

// QuestionsReply is one page.
type QuestionsReply struct {
	Questions []OpenQuestion `json:"questions"`
	After     uint64         `json:"after,omitempty"` // where the next page begins
	More      bool           `json:"more,omitempty"`
}

// OpenQuestion is a question with where it belongs.
type OpenQuestion struct {
	Seq       uint64    `json:"seq,omitempty"`
	Session   SessionID `json:"session"`
	Turn      TurnID    `json:"turn"`
	ReplyID   string    `json:"replyId,omitempty"`
	Parent    string    `json:"parent,omitempty"` // the call that started the session
	Question  Question  `json:"question"`
	Votes     []Vote    `json:"votes,omitempty"`  // approvals so far, of a quorum
	Missing   int       `json:"missing"`          // people still needed
	MayAnswer bool      `json:"mayAnswer"`        // whoever asked
	WhyNot    string    `json:"whyNot,omitempty"` // else
}

// QuestionRequest names a question.
type QuestionRequest struct {
	RequestID string `json:"requestId"`
}

// QuestionReply is a question, open or decided.
type QuestionReply struct {
	OpenQuestion
	Decided *Decided `json:"decided,omitempty"` // nil: it is open
}

// JudgedRequest asks what became of an answer of the caller.
type JudgedRequest struct {
	Session   SessionID `json:"session"`
	Turn      TurnID    `json:"turn"`
	CallID    CallID    `json:"callId"`
	RequestID string    `json:"requestId"`
	Seq       uint64    `json:"seq"` // under which INBOX stored the answer
}

// DecisionsRequest asks for past decisions, newest first.
type DecisionsRequest struct {
	Before uint64 `json:"before,omitempty"` // Seq of the last one of the page before; 0: from the newest
	Limit  int    `json:"limit,omitempty"`  // 0: 50
}

// DecisionsReply is one page.
type DecisionsReply struct {
	Decisions []Decision `json:"decisions"`
	Before    uint64     `json:"before,omitempty"` // where the next page begins; 0: there is none
}

// Decision is a decided question with where it belongs.
type Decision struct {
	Session SessionID `json:"session"`
	Turn    TurnID    `json:"turn"`
	Decided Decided   `json:"decided"`
}

// LifeRequest asks for all that is recorded of a session, of one turn or one call.
type LifeRequest struct {
	Session SessionID `json:"session"`
	Turn    TurnID    `json:"turn,omitempty"`
	Call    CallID    `json:"call,omitempty"`
	After   uint64    `json:"after,omitempty"` // Seq of the last one of the page before
}

// LifeReply is one page, oldest first.
type LifeReply struct {
	Events []LifeEvent `json:"events"`
	After  uint64      `json:"after,omitempty"` // where the next page begins; 0: there is none
}

// LifeEvent is a recorded event as it was stored.
type LifeEvent struct {
	Seq     uint64              `json:"seq"`
	Subject string              `json:"subject"`
	At      time.Time           `json:"at"` // when it was stored
	Header  map[string][]string `json:"header,omitempty"`
	Data    []byte              `json:"data,omitempty"`
}

// PermitRequest asks what would happen to a call, and why. Nothing happens.
type PermitRequest struct {
	Session SessionID       `json:"session,omitempty"`
	Tool    ToolName        `json:"tool"`
	Input   json.RawMessage `json:"input,omitempty"`
}

// PermitReply says it.
type PermitReply struct {
	Behavior    string   `json:"behavior"` // allow, deny or ask
	Message     string   `json:"message"`
	Rule        string   `json:"rule"` // what decided
	Safety      bool     `json:"safety,omitempty"`
	Suggestions []Rule   `json:"suggestions,omitempty"`
	Roles       []string `json:"roles,omitempty"` // ask: who may answer
	Quorum      int      `json:"quorum,omitempty"`
	Expiry      string   `json:"expiry,omitempty"`  // ask: when it expires and what happens then
	Invalid     string   `json:"invalid,omitempty"` // why the call would be refused before any rule
}

// ReplayRequest asks which recorded calls another policy would have decided otherwise.
type ReplayRequest struct {
	Config json.RawMessage `json:"config"` // the configuration to try; its permissions count
	After  uint64          `json:"after,omitempty"`
	Limit  int             `json:"limit,omitempty"` // turns looked at; 0: 500
}

// ReplayReply is one page.
type ReplayReply struct {
	Calls   int            `json:"calls"` // looked at
	Changes []ReplayChange `json:"changes,omitempty"`
	After   uint64         `json:"after,omitempty"` // where the next page begins; 0: there is none
}

// ReplayChange is a call that would be decided otherwise.
type ReplayChange struct {
	Session SessionID       `json:"session"`
	Turn    TurnID          `json:"turn"`
	CallID  CallID          `json:"callId"`
	Tool    ToolName        `json:"tool"`
	Input   json.RawMessage `json:"input,omitempty"`
	Now     string          `json:"now"`  // as the policy in force decides
	Then    string          `json:"then"` // as the other one would
}
