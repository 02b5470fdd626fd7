package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
)

// answerSlots is how many answers one dispatcher handles at once.
const answerSlots = 256

// takeAnswers handles answers until ctx ends.
func (d *Dispatcher) takeAnswers(ctx context.Context) error {
	return d.pull(ctx, d.bus.InboxStream(), jet.AnswerConsumer, answerSlots, func(del *jet.Delivery) {
		ctx, cancel := finishing(ctx)
		defer cancel()
		if err := d.handleAnswer(ctx, del); err != nil {
			d.giveBack(del, err)
		}
	})
}

// handleAnswer judges one answer, carries out what follows, says what became of it, and only then lets
// go of it. All of it may be done already, by an earlier delivery.
func (d *Dispatcher) handleAnswer(ctx context.Context, del *jet.Delivery) error {
	actor, k, request, err := d.bus.ParseAnswer(del.Subject)
	if err != nil {
		return d.buryAnswer(ctx, del, err)
	}
	a, err := d.readAnswer(ctx, del, actor)
	var v verdict
	switch {
	case errors.Is(err, jet.ErrBody) && del.Count < hopelessTries:
		return err
	case hopeless(err):
		if err := d.bury(ctx, letter{what: "answer", stream: d.bus.InboxStream(), del: del, why: err.Error()}); err != nil {
			return err
		}
		v = refuse(events.RefusedMalformed, "The answer cannot be read: %s.", bare(err))
	case err != nil:
		return err
	default:
		if v, err = d.rule(ctx, a, k, request, del.Count > 1); err != nil {
			return err
		}
	}
	if err := d.tellJudged(ctx, del, actor, k, request, v); err != nil {
		return err
	}
	d.metrics.answers.WithLabelValues(v.judgement).Inc()
	if err := d.at("answer.ack"); err != nil {
		return err
	}
	return del.Ack()
}

func (d *Dispatcher) buryAnswer(ctx context.Context, del *jet.Delivery, why error) error {
	if err := d.bury(ctx, letter{what: "answer", stream: d.bus.InboxStream(), del: del, why: why.Error()}); err != nil {
		return err
	}
	return del.Ack()
}

func (d *Dispatcher) readAnswer(ctx context.Context, del *jet.Delivery, actor string) (answer, error) {
	a := answer{actor: actor, at: del.Stored.UTC(), seq: del.Seq}
	e, err := d.bus.Open(ctx, del.Header, del.Data)
	if err != nil {
		return a, err
	}
	if e.Type == events.TypeUserConfirmResult {
		a.confirm = new(events.UserConfirmResult)
		return a, events.Unmarshal(e.Data, a.confirm)
	}
	if e.Type == events.TypeExternalExecutionResult {
		a.external = new(events.ExternalExecutionResult)
		return a, events.Unmarshal(e.Data, a.external)
	}
	return a, fmt.Errorf("%w: type %q is neither %s nor %s", events.ErrMalformed, e.Type, events.TypeUserConfirmResult, events.TypeExternalExecutionResult)
}

// rule finds out how a question stands, judges an answer to it, and carries out what follows. Whether the
// question is decided already is read first only if the answer came before, or another one was faster: to
// store a decision says it as well. Whatever decides nothing is judged by what is stored.
func (d *Dispatcher) rule(ctx context.Context, a answer, k events.CallKey, request string, again bool) (verdict, error) {
	for look := again; ; look = true {
		s, t, revision, err := d.stagedTurn(ctx, k.Session, k.Turn)
		if err != nil && !errors.Is(err, jet.ErrNone) {
			return verdict{}, err
		}
		st, place, err := d.standing(ctx, a, s, t, k, request, look)
		if err != nil {
			return verdict{}, err
		}
		v := judgeAnswer(a, st)
		if v.decided == nil && !look {
			continue
		}
		if st.forged {
			d.log.Error().Stringer("call", k).Str("request", request).Msg("stored call is not the one that was asked about")
			d.metrics.forged.Inc()
		}
		switch {
		case v.decided != nil:
			stored, err := d.decided(ctx, t, t.body.Calls[place], st.ask, v.decided)
			if err != nil {
				return verdict{}, err
			}
			if !stored { // somebody was faster
				continue
			}
			return v, d.follow(ctx, held{s, t, revision, place}, k, request, v.decided, again)
		case v.votes != nil:
			s.Calls[place].Ask.Votes = v.votes
			if _, err := d.keepTurn(ctx, k.Session, k.Turn, s, revision); errors.Is(err, jet.ErrConflict) {
				continue
			} else if err != nil {
				return verdict{}, err
			}
			return v, nil
		case st.decided != nil: // whoever decided may have died before it took effect
			return v, d.follow(ctx, held{t: t, place: -1}, k, request, st.decided, again)
		}
		return v, nil
	}
}

// standing reads what an answer is judged by: with look, also what decided the question. t and s are nil
// if the turn has no record.
func (d *Dispatcher) standing(ctx context.Context, a answer, s *stagedTurn, t *turn, k events.CallKey, request string, look bool) (standing, int, error) {
	var st standing
	place := -1
	if s != nil {
		if place = s.asking(request); place >= 0 && t.body.Calls[place].ID != k.Call {
			place = -1
		}
	}
	if look {
		var err error
		if st.decided, err = d.decidedAs(ctx, k, request); err != nil || st.decided != nil {
			return st, place, err
		}
	}
	if place < 0 {
		return st, place, nil
	}
	st.ask, st.requester = s.Calls[place].Ask, t.agent
	st.operator = d.operator(a.actor)
	call := t.body.Calls[place]
	b, err := d.basisOf(ctx, t, []events.Call{call})
	if errors.Is(err, errForeign) {
		st.requester = "" // the session is another agent's by now
		return st, place, nil
	}
	if err != nil {
		return st, place, err
	}
	st.roles = b.reg.RolesOf(a.actor)
	input, tool := subject(b.reg, call, st.ask)
	if intact(t, call, input, st.ask) != nil {
		// Other arguments may come of another definition: those that were asked about are in the question.
		st.forged = tool == nil || tool.hash == st.ask.Definition
	}
	st.tool = tool
	if a.external != nil {
		st.badness = checkResult(a.external, st.ask, tool)
		return st, place, nil
	}
	return st, place, d.rejudge(ctx, a, &st, t, call, b)
}

// rejudge decides again about a call that is being approved, by the policy now and with the arguments
// that are to run.
func (d *Dispatcher) rejudge(ctx context.Context, a answer, st *standing, t *turn, call events.Call, b basis) error {
	st.demanded = st.ask.sameDemand(&b.reg.settings, call.Name)
	st.enough = func(votes []events.Vote) bool { return enough(b.reg, call.Name, st.ask, votes) }
	if a.confirm == nil || st.tool == nil {
		return nil
	}
	if len(a.confirm.Input) > 0 {
		call.Input = a.confirm.Input
		var err error
		if b.own, err = d.checks(ctx, t, []events.Call{call}, b.reg, b.rec); err != nil {
			return err
		}
	}
	dec := decideCall(&turn{agent: t.agent, session: t.session, id: t.id, stored: t.stored, began: b.now, attrs: t.attrs}, call, b)
	st.permit = dec.permit
	if dec.reason == events.ReasonInvalidInput {
		st.invalid = dec.text
	}
	if dec.reason == events.ReasonUnavailable && len(b.own) == 0 {
		return fmt.Errorf("the permission check of tool %q gives no answer", call.Name) // judged once it does
	}
	st.digest = events.Digest(call.Name, st.tool.hash, dec.input, t.key(call.ID), st.ask.Request)
	return nil
}

// enough says whether those who approved are as many, and of the roles, as are to be asked by now.
func enough(reg *snapshot, tool events.ToolName, a *asked, votes []events.Vote) bool {
	now := *a
	now.demand(reg.ApprovalFor(tool))
	n := 0
	for _, v := range votes {
		mine := reg.RolesOf(v.Actor)
		if len(now.Roles) == 0 || slices.ContainsFunc(now.Roles, func(r string) bool { return slices.Contains(mine, r) }) {
			n++
		}
	}
	return n >= now.Quorum
}

// decided stores the one fact that ends a question. stored: it is this one, not another.
func (d *Dispatcher) decided(ctx context.Context, t *turn, c events.Call, a *asked, h *events.Decided) (stored bool, err error) {
	if err := d.at("answer.decided"); err != nil {
		return false, err
	}
	k := t.key(c.ID)
	if h.Question, err = d.asPut(ctx, t, c, a); err != nil {
		return false, err
	}
	typ := events.TypeUserConfirmResult
	switch {
	case h.Outcome == events.OutcomeAnswered:
		typ = events.TypeExternalExecutionResult
	case h.Actor == "":
		typ = events.TypeQuestionExpired
	}
	attrs := d.attributes(k, t.attrs, "decided/"+a.Request, typ, c.Name)
	attrs.Request, attrs.Actor, attrs.Time = a.Request, h.Actor, time.Now()
	e, err := events.New(attrs, *h)
	if err != nil {
		return false, err
	}
	_, err = d.bus.Store(ctx, jet.Out{Subject: d.bus.Decided(k, a.Request), Event: e})
	if errors.Is(err, jet.ErrExists) {
		return false, nil
	}
	if err == nil {
		d.metrics.decided.WithLabelValues(h.Outcome).Inc()
	}
	return err == nil, err
}

// asPut is the question as it was put. Where the record does not say it all, it is read.
func (d *Dispatcher) asPut(ctx context.Context, t *turn, c events.Call, a *asked) (events.Question, error) {
	q, exact, err := d.question(ctx, t, c, a)
	if exact || err != nil {
		return q, err
	}
	m, err := d.bus.Fact(ctx, d.bus.Require(a.Kind, c.Name, t.key(c.ID), a.Request))
	switch {
	case errors.Is(err, jet.ErrNone), err == nil && m.Err != nil: // it was not put yet
		return q, nil //nolint:nilerr // what is put is made of the record then
	case err != nil:
		return q, err
	}
	var put events.Question
	return put, events.Unmarshal(m.Event.Data, &put)
}

// follow carries out a decision: rules that came with it, what becomes of the call, and the question goes.
// again: the turn may have been left anywhere on the way.
func (d *Dispatcher) follow(ctx context.Context, q held, k events.CallKey, request string, h *events.Decided, again bool) error {
	if err := d.at("answer.follow"); err != nil {
		return err
	}
	if q.t != nil && len(h.Rules) > 0 && h.Outcome == events.OutcomeApproved {
		if err := d.adoptRules(ctx, q.t, h); err != nil {
			return err
		}
	}
	if q.place >= 0 && !again {
		if done, err := d.resume(ctx, q, h); done || err != nil {
			return err
		}
	}
	if q.t != nil {
		if err := d.step(ctx, k.Session, k.Turn, again); err != nil {
			return err
		}
	}
	return d.close(ctx, k, h.Question.Call.Name, &asked{Kind: h.Question.Kind, Request: request})
}

// adoptRules keeps the rules of an approval. Kept twice, they are there once.
func (d *Dispatcher) adoptRules(ctx context.Context, t *turn, h *events.Decided) error {
	if h.Scope == events.ScopeInstallation {
		return d.adoptRulesForAll(ctx, h)
	}
	for {
		rec, err := d.session(ctx, t, d.registry.snapshot())
		if err != nil {
			return err
		}
		_, err = d.sessions.put(ctx, t.session, rec, func(next *record) {
			next.allow(h.Rules, h.Question.Definition, h.Actor, h.At)
		})
		if !errors.Is(err, jet.ErrConflict) {
			return err
		}
	}
}

// adoptRulesForAll adds rules to the declared configuration.
func (d *Dispatcher) adoptRulesForAll(ctx context.Context, h *events.Decided) error {
	for {
		var c toolkit.Config
		var revision uint64
		r, err := d.bus.Record(ctx, d.bus.SettingsBucket(), settingsKey)
		switch {
		case err == nil:
			revision = r.Revision
			err = events.Unmarshal(r.Data, &c)
		case errors.Is(err, jet.ErrNone):
			err = nil
		}
		if err != nil {
			return err
		}
		before := len(c.Permissions.Rules)
		for _, rule := range h.Rules {
			rule.Source = "approval by " + h.Actor
			if !slices.ContainsFunc(asRules(c.Permissions.Rules), func(have events.Rule) bool { return sameRule(have, rule) }) {
				c.Permissions.Rules = append(c.Permissions.Rules, asRule(rule))
			}
		}
		if len(c.Permissions.Rules) == before {
			return nil
		}
		data, err := events.Marshal(c)
		if err != nil {
			return err
		}
		revision, err = d.bus.PutRecord(ctx, d.bus.SettingsBucket(), settingsKey, data, revision)
		if err == nil {
			return d.registry.caughtUp(ctx, revision)
		}
		if !errors.Is(err, jet.ErrConflict) {
			return err
		}
	}
}

// tellJudged records what became of an answer. It may be recorded already.
func (d *Dispatcher) tellJudged(ctx context.Context, del *jet.Delivery, actor string, k events.CallKey, request string, v verdict) error {
	if err := d.at("answer.judged"); err != nil {
		return err
	}
	j := events.AnswerJudged{
		RequestID: request, Judgement: v.judgement, Code: v.code, Text: jet.OneLine(strings.ReplaceAll(v.text, "\n", " ")), Missing: v.missing,
		Actor: actor, At: del.Stored.UTC(), Winner: v.winner,
	}
	attrs := d.attributes(k, events.Attributes{}, fmt.Sprintf("judged/%d", del.Seq), events.TypeAnswerJudged, "")
	attrs.Request, attrs.Actor, attrs.Time = request, actor, time.Now()
	e, err := events.New(attrs, j)
	if err != nil {
		return err
	}
	_, err = d.bus.Store(ctx, jet.Out{Subject: d.bus.Judged(k, request, actor, del.Seq), Event: e})
	if errors.Is(err, jet.ErrExists) {
		return nil
	}
	return err
}
