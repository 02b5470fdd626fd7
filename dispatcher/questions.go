package dispatcher

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

// maxLooked is how many stored messages one page of a listing looks at, so that it is answered in time
// whatever lies between.
const maxLooked = 2000

// opQuestions lists open questions, oldest first: QUESTIONS holds nothing else.
func (d *Dispatcher) opQuestions(ctx context.Context, r *request) (any, error) {
	var q events.QuestionsRequest
	if err := r.read(&q); err != nil {
		return nil, err
	}
	if q.Limit <= 0 || q.Limit > 500 {
		q.Limit = 100
	}
	out := events.QuestionsReply{Questions: []events.OpenQuestion{}, After: q.After}
	filter, size := d.bus.RequireAbout(q.Kind, q.Tool, q.Session), 0
	for looked := 0; looked < maxLooked; {
		stored, err := d.bus.Batch(ctx, d.bus.QuestionsStream(), filter, out.After, q.Limit-len(out.Questions)+1)
		if err != nil || len(stored) == 0 {
			return out, err
		}
		looked += len(stored)
		for _, m := range stored {
			open, ok, err := d.openQuestion(ctx, r.actor, m)
			if err != nil {
				return nil, err
			}
			if ok = ok && d.shows(r.actor, q.All, &open); ok {
				size += len(m.Event.Data)
			}
			if len(out.Questions) == q.Limit || size > pageBytes && len(out.Questions) > 0 {
				out.More = true
				return out, nil
			}
			if out.After = m.Seq; ok {
				out.Questions = append(out.Questions, open)
			}
		}
	}
	out.More = true
	return out, nil
}

// shows says whether a question is in an actor's listing: those that it may answer; with all, also those
// that its own calls ask, and to operators every one.
func (d *Dispatcher) shows(actor string, all bool, open *events.OpenQuestion) bool {
	return open.MayAnswer || all && (d.operator(actor) || string(open.Question.Requester) == actor)
}

// openQuestion reads a stored question for an actor; not ok: it cannot be read, or is not for its eyes.
func (d *Dispatcher) openQuestion(ctx context.Context, actor string, m *jet.Stored) (open events.OpenQuestion, ok bool, err error) {
	_, _, k, _, err := d.bus.ParseRequire(m.Subject)
	if err != nil || m.Err != nil {
		if errors.Is(m.Err, jet.ErrBody) && ctx.Err() != nil {
			return open, false, m.Err
		}
		d.log.Warn().Str("subject", m.Subject).Msg("stored question cannot be read")
		return open, false, nil
	}
	open = events.OpenQuestion{Seq: m.Seq, Session: k.Session, Turn: k.Turn, ReplyID: m.Event.ReplyID, Parent: m.Event.Parent}
	if err := events.Unmarshal(m.Event.Data, &open.Question); err != nil {
		return open, false, nil //nolint:nilerr // dispatchers alone write there
	}
	open.Missing = open.Question.Quorum
	d.mayAnswer(actor, &open)
	if open.Question.Quorum > 1 {
		s, _, _, err := d.stagedTurn(ctx, k.Session, k.Turn)
		if err != nil && !errors.Is(err, jet.ErrNone) {
			return open, false, err
		}
		if s != nil {
			if place := s.asking(open.Question.RequestID); place >= 0 {
				open.Votes = s.Calls[place].Ask.Votes
				open.Missing = max(0, open.Question.Quorum-len(open.Votes))
			}
		}
	}
	return open, true, nil
}

// mayAnswer says whether an actor may answer a question, and why not.
func (d *Dispatcher) mayAnswer(actor string, open *events.OpenQuestion) {
	roles := d.registry.snapshot().RolesOf(actor)
	switch q := &open.Question; {
	case string(q.Requester) == actor:
		open.WhyNot = "you asked for this call"
	case len(q.Roles) > 0 && !slices.ContainsFunc(q.Roles, func(r string) bool { return slices.Contains(roles, r) }):
		open.WhyNot = "only people of the roles " + strings.Join(q.Roles, ", ") + " may answer"
	default:
		open.MayAnswer = true
	}
}

// opQuestion returns a question, open or decided.
func (d *Dispatcher) opQuestion(ctx context.Context, r *request) (any, error) {
	var q events.QuestionRequest
	if err := r.read(&q); err != nil {
		return nil, err
	}
	if err := events.CheckID("request", q.RequestID); err != nil {
		return nil, refused(http.StatusBadRequest, "%v", err)
	}
	m, err := d.bus.Next(ctx, d.bus.QuestionsStream(), 1, d.bus.RequireOf(q.RequestID))
	if err == nil {
		if open, ok, err := d.openQuestion(ctx, r.actor, m); err != nil || ok {
			if err != nil {
				return nil, err
			}
			reply := events.QuestionReply{OpenQuestion: open}
			k := events.CallKey{Session: open.Session, Turn: open.Turn, Call: open.Question.Call.ID}
			reply.Decided, err = d.decidedAs(ctx, k, q.RequestID)
			return reply, err
		}
	}
	if err != nil && !errors.Is(err, jet.ErrNone) {
		return nil, err
	}
	m, err = d.bus.Next(ctx, d.bus.JournalStream(), 1, d.bus.DecidedOf(q.RequestID))
	if errors.Is(err, jet.ErrNone) {
		m, err = d.pastDecision(ctx, q.RequestID)
	}
	if errors.Is(err, jet.ErrNone) {
		return nil, refused(http.StatusNotFound, "no question %q is known", q.RequestID)
	}
	if err != nil {
		return nil, err
	}
	h, err := d.decision(m)
	if err != nil {
		return nil, refused(http.StatusNotFound, "the question cannot be read: %v", err)
	}
	reply := events.QuestionReply{Decided: &h.Decided, OpenQuestion: events.OpenQuestion{
		Session: h.Session, Turn: h.Turn, ReplyID: m.Event.ReplyID, Parent: m.Event.Parent,
		Question: h.Decided.Question, WhyNot: "it is decided",
	}}
	return reply, nil
}

// decision reads a stored decision.
func (d *Dispatcher) decision(m *jet.Stored) (events.Decision, error) {
	k, _, err := d.bus.ParseDecided(m.Subject)
	out := events.Decision{Session: k.Session, Turn: k.Turn}
	if err == nil {
		err = m.Err
	}
	if err == nil {
		err = events.Unmarshal(m.Event.Data, &out.Decided)
	}
	return out, err
}

// opJudged says what became of an answer of the caller.
func (d *Dispatcher) opJudged(ctx context.Context, r *request) (any, error) {
	var q events.JudgedRequest
	if err := r.read(&q); err != nil {
		return nil, err
	}
	k := events.CallKey{Session: q.Session, Turn: q.Turn, Call: q.CallID}
	m, err := d.bus.Fact(ctx, d.bus.Judged(k, q.RequestID, r.actor, q.Seq))
	if errors.Is(err, jet.ErrNone) {
		return nil, refused(http.StatusNotFound, "the answer is not judged yet, or was judged long ago")
	}
	if err != nil {
		return nil, err
	}
	var j events.AnswerJudged
	if m.Err != nil || events.Unmarshal(m.Event.Data, &j) != nil {
		return nil, refused(http.StatusNotFound, "what became of the answer cannot be read")
	}
	return j, nil
}

// opDecisions lists past decisions, newest first: from the history, or what JOURNAL still has of them.
func (d *Dispatcher) opDecisions(ctx context.Context, r *request) (any, error) {
	var q events.DecisionsRequest
	if err := r.read(&q); err != nil {
		return nil, err
	}
	if q.Limit <= 0 || q.Limit > 200 {
		q.Limit = 50
	}
	out := events.DecisionsReply{Decisions: []events.Decision{}}
	size := 0
	last, err := d.backwards(ctx, q.Before, func(m *jet.Stored) bool {
		h, err := d.decision(m)
		if err != nil || !d.sees(r.actor, &h.Decided) {
			return false
		}
		out.Decisions = append(out.Decisions, h)
		size += len(m.Event.Data)
		return len(out.Decisions) == q.Limit || size > pageBytes
	})
	out.Before = last
	return out, err
}

// sees says whether an actor may see a decision: who took part in it, or could have.
func (d *Dispatcher) sees(actor string, h *events.Decided) bool {
	if d.operator(actor) || string(h.Question.Requester) == actor || h.Actor == actor {
		return true
	}
	open := events.OpenQuestion{Question: h.Question}
	d.mayAnswer(actor, &open)
	return open.MayAnswer
}
