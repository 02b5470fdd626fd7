package events

import (
	"fmt"
	"strconv"
	"strings"
)

// DefaultPrefix is the first token of every subject, and names streams and buckets.
const DefaultPrefix = "toolwire"

// Subjects builds and parses every subject of the contract (design §2). Nothing else
// in the project knows how tokens are laid out. The zero value uses [DefaultPrefix].
type Subjects struct{ prefix string }

// NewSubjects returns the subjects under prefix; empty means [DefaultPrefix].
// The prefix is one token of letters, digits, '-' and '_'; anything else is [ErrToken].
func NewSubjects(prefix string) (Subjects, error) {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	if err := CheckID("prefix", prefix); err != nil {
		return Subjects{}, err
	}
	if Token(prefix) != prefix {
		return Subjects{}, fmt.Errorf("%w: prefix %q: only letters, digits, '-' and '_'", ErrToken, prefix)
	}
	return Subjects{prefix: prefix}, nil
}

// Prefix returns the first token.
func (s Subjects) Prefix() string {
	if s.prefix == "" {
		return DefaultPrefix
	}
	return s.prefix
}

// Under returns the pattern for all subjects of one kind, prefix.kind.> as a pattern.
func (s Subjects) Under(kind string) string { return s.join(kind, ">") }

// Calls is where an agent publishes one turn's ToolCalls.
func (s Subjects) Calls(a AgentID, session SessionID, turn TurnID) string {
	return s.join("call", Token(a), Token(session), Token(turn))
}

// Work is where the dispatcher publishes one call for the workers of a pool.
func (s Subjects) Work(pool string, tool ToolName, k CallKey) string {
	return s.join("work", Token(pool), Token(tool), Token(k.Session), Token(k.Turn), Token(k.Call))
}

// WorkPool is the pattern of all work of a pool.
func (s Subjects) WorkPool(pool string) string { return s.join("work", Token(pool), ">") }

// CallsOfTurn is the pattern of a turn, whichever agent it is of.
func (s Subjects) CallsOfTurn(session SessionID, turn TurnID) string {
	return s.join("call", "*", Token(session), Token(turn))
}

// WorkOfCall is the pattern of the work of a call, in whatever pool and of whatever tool it is.
func (s Subjects) WorkOfCall(k CallKey) string {
	return s.join("work", "*", "*", Token(k.Session), Token(k.Turn), Token(k.Call))
}

// APIs is an operation of the micro service, whoever asks for it.
func (s Subjects) APIs(operation string) string { return s.join("api", "*", operation) }

// Start is the fence of a call.
func (s Subjects) Start(k CallKey) string {
	return s.join("start", Token(k.Session), Token(k.Turn), Token(k.Call))
}

// Result is where the one ToolResult of a call is stored.
func (s Subjects) Result(k CallKey) string {
	return s.join("result", Token(k.Session), Token(k.Turn), Token(k.Call))
}

// ResultsOfTurn matches the results of a turn.
func (s Subjects) ResultsOfTurn(session SessionID, turn TurnID) string {
	return s.join("result", Token(session), Token(turn), "*")
}

// Cancel is where an agent asks to cancel a turn.
func (s Subjects) Cancel(a AgentID, session SessionID, turn TurnID) string {
	return s.join("cancel", Token(a), Token(session), Token(turn))
}

// Step is where it is said that a staged turn may move on.
func (s Subjects) Step(session SessionID, turn TurnID) string {
	return s.join("step", Token(session), Token(turn))
}

// ParseStep is the inverse of Step.
func (s Subjects) ParseStep(subject string) (session SessionID, turn TurnID, err error) {
	t, err := s.split("step", subject, 2)
	if err != nil {
		return "", "", err
	}
	if session, err = Untoken[SessionID](t[0]); err != nil {
		return "", "", err
	}
	turn, err = Untoken[TurnID](t[1])
	return session, turn, err
}

// State is the subject of a document that a tool keeps for a session.
func (s Subjects) State(session SessionID, name string) string {
	return s.join("state", Token(session), Token(name))
}

// Delta carries progress of a running call (core NATS).
func (s Subjects) Delta(k CallKey) string {
	return s.join("delta", Token(k.Session), Token(k.Turn), Token(k.Call))
}

// DeltasOfTurn is the pattern of all deltas of a turn.
func (s Subjects) DeltasOfTurn(session SessionID, turn TurnID) string {
	return s.join("delta", Token(session), Token(turn), "*")
}

// Stop tells workers to stop a running call (core NATS).
func (s Subjects) Stop(k CallKey) string {
	return s.join("stop", Token(k.Session), Token(k.Turn), Token(k.Call))
}

// Live is the republished copy of what JOURNAL or QUESTIONS stored under subject.
func (s Subjects) Live(subject string) string {
	return s.join("live", strings.TrimPrefix(subject, s.Prefix()+"."))
}

// LiveResults is the pattern of all results of a session as they are stored.
func (s Subjects) LiveResults(session SessionID) string {
	return s.join("live", "result", Token(session), ">")
}

// Announce is where a worker says that it runs a tool (core NATS).
func (s Subjects) Announce(worker string, tool ToolName) string {
	return s.join("announce", Token(worker), Token(tool))
}

// Alive is where one worker process answers "do you still run call X?" (core request).
func (s Subjects) Alive(instance string) string { return s.join("alive", Token(instance)) }

// Changed tells of a change of what: tool, group, skill, session, worker (core NATS).
func (s Subjects) Changed(what string) string { return s.join("changed", Token(what)) }

// API is an operation of the dispatcher's micro service as actor asks for it.
func (s Subjects) API(actor, operation string) string {
	return s.join("api", Token(actor), operation)
}

// Timer is a message schedule; it fires onto the Due subject of the same name.
func (s Subjects) Timer(name ...string) string { return s.join("timer", tokens(name)) }

// Due is where a Timer fires.
func (s Subjects) Due(name ...string) string { return s.join("due", tokens(name)) }

// Body is one chunk of a body too large for an event.
func (s Subjects) Body(id string, chunk int) string {
	return s.join("body", Token(id), strconv.Itoa(chunk))
}

// Dead is where the copy of a message goes that could not be handled; subject is its own.
func (s Subjects) Dead(what, subject string) string {
	return s.join("dead", Token(what), strings.TrimPrefix(subject, s.Prefix()+"."))
}

// History is where a session's calls and facts are kept for replay.
func (s Subjects) History(session SessionID) string { return s.join("history", Token(session)) }

// ParseCalls reads a subject made by [Subjects.Calls].
func (s Subjects) ParseCalls(subject string) (AgentID, SessionID, TurnID, error) {
	return s.parseTurn("call", subject)
}

// ParseCancel reads a subject made by [Subjects.Cancel].
func (s Subjects) ParseCancel(subject string) (AgentID, SessionID, TurnID, error) {
	return s.parseTurn("cancel", subject)
}

// ParseWork reads a subject made by [Subjects.Work].
func (s Subjects) ParseWork(subject string) (pool string, tool ToolName, k CallKey, err error) {
	t, err := s.split("work", subject, 5)
	if err != nil {
		return "", "", CallKey{}, err
	}
	pool, err = Untoken[string](t[0])
	if err == nil {
		tool, err = Untoken[ToolName](t[1])
	}
	if err == nil {
		k, err = parseKey(t[2:])
	}
	return pool, tool, k, err
}

// ParseCall reads the call key of a start, result, delta or stop subject, live copies included.
func (s Subjects) ParseCall(kind, subject string) (CallKey, error) {
	t, err := s.split(kind, s.stored(subject), 3)
	if err != nil {
		return CallKey{}, err
	}
	return parseKey(t)
}

// stored is the subject that a live copy is of.
func (s Subjects) stored(subject string) string {
	if rest, ok := strings.CutPrefix(subject, s.Prefix()+".live."); ok {
		return s.Prefix() + "." + rest
	}
	return subject
}

func (s Subjects) parseTurn(kind, subject string) (a AgentID, session SessionID, turn TurnID, err error) {
	t, err := s.split(kind, subject, 3)
	if err != nil {
		return "", "", "", err
	}
	a, err = Untoken[AgentID](t[0])
	if err == nil {
		session, err = Untoken[SessionID](t[1])
	}
	if err == nil {
		turn, err = Untoken[TurnID](t[2])
	}
	return a, session, turn, err
}

func (s Subjects) split(kind, subject string, n int) ([]string, error) {
	rest, ok := strings.CutPrefix(subject, s.Prefix()+"."+kind+".")
	t := strings.Split(rest, ".")
	if !ok || len(t) != n {
		return nil, fmt.Errorf("%w: subject %q is no %s.%s subject of %d identifiers", ErrToken, subject, s.Prefix(), kind, n)
	}
	return t, nil
}

func (s Subjects) join(kind string, rest ...string) string {
	n := len(s.Prefix()) + 1 + len(kind)
	for _, r := range rest {
		n += 1 + len(r)
	}
	var b strings.Builder
	b.Grow(n)
	b.WriteString(s.Prefix())
	b.WriteByte('.')
	b.WriteString(kind)
	for _, r := range rest {
		b.WriteByte('.')
		b.WriteString(r)
	}
	return b.String()
}

func parseKey(t []string) (k CallKey, err error) {
	k.Session, err = Untoken[SessionID](t[0])
	if err == nil {
		k.Turn, err = Untoken[TurnID](t[1])
	}
	if err == nil {
		k.Call, err = Untoken[CallID](t[2])
	}
	return k, err
}

func tokens(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = Token(n)
	}
	return strings.Join(out, ".")
}
