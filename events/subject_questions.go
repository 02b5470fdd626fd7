package events

import (
	"fmt"
	"strconv"
)

// Require is where a question about a call is stored while it is open.
func (s Subjects) Require(kind Kind, tool ToolName, k CallKey, request string) string {
	return s.join("require", Token(kind), Token(tool), Token(k.Session), Token(k.Turn), Token(k.Call), Token(request))
}

// RequireOf is the pattern of a question of whatever kind, tool and call.
func (s Subjects) RequireOf(request string) string {
	return s.join("require", "*", "*", "*", "*", "*", Token(request))
}

// RequireAbout is the pattern of open questions; what is empty may be anything.
func (s Subjects) RequireAbout(kind Kind, tool ToolName, session SessionID) string {
	orAny := func(token, raw string) string {
		if raw == "" {
			return "*"
		}
		return token
	}
	return s.join("require", orAny(Token(kind), string(kind)), orAny(Token(tool), string(tool)), orAny(Token(session), string(session)), "*", "*", "*")
}

// ParseRequire reads a subject made by [Subjects.Require], live copies included.
func (s Subjects) ParseRequire(subject string) (kind Kind, tool ToolName, k CallKey, request string, err error) {
	t, err := s.split("require", s.stored(subject), 6)
	if err == nil {
		kind, err = Untoken[Kind](t[0])
	}
	if err == nil {
		tool, err = Untoken[ToolName](t[1])
	}
	if err == nil {
		k, err = parseKey(t[2:5])
	}
	if err == nil {
		request, err = Untoken[string](t[5])
	}
	return kind, tool, k, request, err
}

// Answer is where an actor answers a question.
func (s Subjects) Answer(actor string, k CallKey, request string) string {
	return s.join("answer", Token(actor), Token(k.Session), Token(k.Turn), Token(k.Call), Token(request))
}

// AnswersTo is the pattern of the answers to a question, whoever gives them.
func (s Subjects) AnswersTo(k CallKey, request string) string {
	return s.join("answer", "*", Token(k.Session), Token(k.Turn), Token(k.Call), Token(request))
}

// ParseAnswer reads a subject made by [Subjects.Answer].
func (s Subjects) ParseAnswer(subject string) (actor string, k CallKey, request string, err error) {
	t, err := s.split("answer", subject, 5)
	if err == nil {
		actor, err = Untoken[string](t[0])
	}
	if err == nil {
		k, err = parseKey(t[1:4])
	}
	if err == nil {
		request, err = Untoken[string](t[4])
	}
	return actor, k, request, err
}

// Decided is the one fact that ends a question.
func (s Subjects) Decided(k CallKey, request string) string {
	return s.join("decided", Token(k.Session), Token(k.Turn), Token(k.Call), Token(request))
}

// DecidedOfTurn is the pattern of all decisions of a turn.
func (s Subjects) DecidedOfTurn(session SessionID, turn TurnID) string {
	return s.join("decided", Token(session), Token(turn), "*", "*")
}

// DecidedOf is the pattern of the decision of a question, of whatever call it is.
func (s Subjects) DecidedOf(request string) string {
	return s.join("decided", "*", "*", "*", Token(request))
}

// ParseDecided reads a subject made by [Subjects.Decided], live copies included.
func (s Subjects) ParseDecided(subject string) (k CallKey, request string, err error) {
	t, err := s.split("decided", s.stored(subject), 4)
	if err == nil {
		k, err = parseKey(t[:3])
	}
	if err == nil {
		request, err = Untoken[string](t[3])
	}
	return k, request, err
}

// Judged is where it is said what became of an answer; seq is its place in INBOX.
func (s Subjects) Judged(k CallKey, request, actor string, seq uint64) string {
	return s.join("judged", Token(k.Session), Token(k.Turn), Token(k.Call), Token(request), Token(actor), strconv.FormatUint(seq, 10))
}

// JudgedTo is the pattern of what became of the answers of an actor to a question.
func (s Subjects) JudgedTo(k CallKey, request, actor string) string {
	return s.join("judged", Token(k.Session), Token(k.Turn), Token(k.Call), Token(request), Token(actor), "*")
}

// ParseJudged reads a subject made by [Subjects.Judged], live copies included.
func (s Subjects) ParseJudged(subject string) (k CallKey, request, actor string, seq uint64, err error) {
	t, err := s.split("judged", s.stored(subject), 6)
	if err == nil {
		k, err = parseKey(t[:3])
	}
	if err == nil {
		request, err = Untoken[string](t[3])
	}
	if err == nil {
		actor, err = Untoken[string](t[4])
	}
	if err == nil {
		if seq, err = strconv.ParseUint(t[5], 10, 64); err != nil {
			err = fmt.Errorf("%w: subject %q: %w", ErrToken, subject, err)
		}
	}
	return k, request, actor, seq, err
}

// Suspend is where a running tool asks to be answered outside.
func (s Subjects) Suspend(k CallKey) string {
	return s.join("suspend", Token(k.Session), Token(k.Turn), Token(k.Call))
}

// Check is where workers say what a tool's own permission check makes of a call (core request).
func (s Subjects) Check(pool string, tool ToolName) string {
	return s.join("check", Token(pool), Token(tool))
}

// ParseAskDue reads the subject on which the timer of a question fires.
func (s Subjects) ParseAskDue(subject string) (k CallKey, request string, err error) {
	t, err := s.split("due.ask", subject, 4)
	if err == nil {
		k, err = parseKey(t[:3])
	}
	if err == nil {
		request, err = Untoken[string](t[3])
	}
	return k, request, err
}
