package dispatcher

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit/permission"
)

// plan is what a step is to do.
type plan struct {
	out     []decision // what follows for calls of the present stage, and for others that have ended
	asks    []int      // places of new questions, which the record holds by now
	changed bool       // the record says something new
}

// planStage decides about the calls of the present stage that nothing was decided about, or that somebody
// answered, and whether anybody is to be asked about later ones.
func (d *Dispatcher) planStage(ctx context.Context, t *turn, s *stagedTurn, heard map[int]*events.Decided, now time.Time) (p plan, err error) {
	t.granted = map[events.CallID]*grant{}
	due, err := d.listen(ctx, t, s, heard, now, &p)
	if err != nil {
		return p, err
	}
	present := s.open()
	for _, i := range present {
		c := &s.Calls[i]
		if c.State == events.CallAllowed {
			t.granted[t.body.Calls[i].ID] = c.grant()
		}
		if c.State == "" || c.State == events.CallAllowed {
			due = append(due, i)
		}
	}
	due = append(due, s.ahead(t.body.Calls)...)
	if len(due) == 0 {
		return p, nil
	}
	slices.Sort(due)
	calls := make([]events.Call, len(due))
	for n, i := range due {
		calls[n] = t.body.Calls[i]
	}
	b, err := d.basisOf(ctx, t, calls)
	if errors.Is(err, errForeign) {
		p.out = append(p.out, foreign(calls)...)
		return p, d.trespass(ctx, t)
	}
	if err != nil {
		return p, err
	}
	for n, dec := range decide(t, calls, b) {
		i := due[n]
		switch later := !slices.Contains(present, i); {
		case dec.ask == events.KindConfirm && !dec.permit.Immune && d.covered(t, s, b, i, &dec):
			s.Calls[i].State = "" // it waits for the answer to an earlier one
			continue
		case later && dec.ask != events.KindConfirm:
			s.Calls[i].State = "" // it waits for its place
			continue
		case dec.ask == "":
			p.out = append(p.out, dec)
			continue
		}
		secret, err := d.secret(ctx)
		if err != nil {
			return p, err
		}
		s.Calls[i] = callRecord{State: events.CallAsking, Ask: newAsk(secret, t, &dec, b.reg, s.Calls[i].Ask, now)}
		p.asks = append(p.asks, i)
	}
	slices.Sort(p.asks)
	return p, nil
}

// listen applies what decided questions about calls. due are the places of those to be decided about again.
func (d *Dispatcher) listen(ctx context.Context, t *turn, s *stagedTurn, heard map[int]*events.Decided, now time.Time, p *plan) (due []int, err error) {
	present := s.open()
	for i := range s.Calls {
		c, call := &s.Calls[i], t.body.Calls[i]
		if heard[i] == nil || c.State != events.CallAsking {
			continue
		}
		p.changed = true
		if slices.Contains(present, i) {
			s.Waiting = max(s.Waiting, c.Ask.parked(s.Began, now))
		}
		ends, next := d.hearOne(t, c, call, heard[i], now)
		switch {
		case next == nextEnd:
			p.out = append(p.out, ends)
		case next == nextRung:
			if err := d.escalate(ctx, t, c, call, now); err != nil {
				return nil, err
			}
			p.asks = append(p.asks, i)
		case t.granted[call.ID] != nil && !slices.Contains(present, i):
			c.allow(t.granted[call.ID])
		default:
			due = append(due, i)
		}
	}
	return due, nil
}

// next is what follows from a decided question.
type next int

const (
	nextEnd    next = iota // the call has its end
	nextDecide             // it is decided about again: people have approved it, or the policy has changed
	nextRung               // others are asked
)

// hearOne applies what decided the question about a call.
func (d *Dispatcher) hearOne(t *turn, c *callRecord, call events.Call, h *events.Decided, now time.Time) (ends decision, what next) {
	e := decision{call: call, answer: h.Result, asked: true, yielded: c.Ask.Suspended, tool: d.registry.snapshot().tool(call.Name)}
	e.judged = h.Outcome + byWhom(h)
	end := func(r events.Reason, text string) (decision, next) {
		e.reason, e.text = r, text
		return e, nextEnd
	}
	switch h.Outcome {
	case events.OutcomeApproved:
		t.granted[call.ID] = &grant{
			request: c.Ask.Request, digest: h.InputDigest, input: h.Input, by: voters(h), parked: c.Ask.parked(t.began, now),
		}
		return e, nextDecide
	case events.OutcomeAnswered:
		return end(answerReason(h.Result), "")
	case events.OutcomeDenied:
		if h.Actor == "" {
			return end(events.ReasonDeniedByRule, "Permission denied: "+h.Reason)
		}
		return end(events.ReasonDeniedByUser, deniedByText(h.Reason))
	case events.OutcomeCancelled:
		return end(events.ReasonCancelled, "")
	case events.OutcomeSuperseded:
		return e, nextDecide
	case events.OutcomeEscalated:
		return e, nextRung
	}
	if c.Ask.Kind == events.KindExternal {
		return end(events.ReasonExternalExpired, "Nobody answered the call in time. It has no result. Go on without it, or try again later.")
	}
	return end(events.ReasonApprovalExpired, "Nobody approved the call in time. It did not run. Go on without it, or try again later.")
}

func byWhom(h *events.Decided) string {
	if h.Actor == "" {
		return ""
	}
	return " by " + voters(h)
}

// escalate asks the next ones about a call.
func (d *Dispatcher) escalate(ctx context.Context, t *turn, c *callRecord, call events.Call, now time.Time) error {
	secret, err := d.secret(ctx)
	if err != nil {
		return err
	}
	reg, err := d.registry.covering(ctx, []events.Call{call})
	if err != nil {
		return err
	}
	input, _ := subject(reg, call, c.Ask)
	c.Ask = c.Ask.escalated(secret, t, call, input, reg, now)
	return nil
}

func deniedByText(reason string) string {
	if reason == "" {
		return "Permission denied by user. Do not try the same call again."
	}
	return "Permission denied by user: " + reason
}

// voters names who approved.
func voters(h *events.Decided) string {
	who := h.Actor
	for _, v := range h.Votes {
		if v.Actor != h.Actor {
			who = v.Actor + ", " + who
		}
	}
	return who
}

// covered says whether a suggestion of a call that is being asked about, and stands earlier in the turn,
// would let a call run: its answer may be the answer to this one too (agentscope-spec §6.3).
func (d *Dispatcher) covered(t *turn, s *stagedTurn, b basis, place int, dec *decision) bool {
	for i := range place {
		c := &s.Calls[i]
		if c.State != events.CallAsking || c.Ask.Kind != events.KindConfirm {
			continue
		}
		earlier := decideCall(t, t.body.Calls[i], b)
		if earlier.ask != events.KindConfirm {
			continue
		}
		policy := b.reg.policy(b.rec, dec.tool)
		for _, r := range helpful(earlier.permit) {
			if permission.Covers(policy, r, dec.tool.def.Permission(), dec.input, b.own[dec.call.ID]) {
				return true
			}
		}
	}
	return false
}

// hear reads what decided questions of the turn that the record has open, by their places.
func (d *Dispatcher) hear(ctx context.Context, t *turn, s *stagedTurn) (map[int]*events.Decided, error) {
	if !s.asks() {
		return nil, nil
	}
	subjects, err := d.bus.Subjects(ctx, d.bus.JournalStream(), d.bus.DecidedOfTurn(t.session, t.id))
	if err != nil {
		return nil, err
	}
	out := make(map[int]*events.Decided)
	for _, subject := range subjects {
		k, request, err := d.bus.ParseDecided(subject)
		if err != nil {
			continue
		}
		i := s.asking(request)
		if i < 0 || t.body.Calls[i].ID != k.Call {
			continue
		}
		if out[i], err = d.decidedAs(ctx, k, request); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// decidedAs reads how a question was decided; nil: it was not.
func (d *Dispatcher) decidedAs(ctx context.Context, k events.CallKey, request string) (*events.Decided, error) {
	m, err := d.bus.Fact(ctx, d.bus.Decided(k, request))
	if errors.Is(err, jet.ErrNone) {
		return nil, nil //nolint:nilnil // not decided is an answer
	}
	if err == nil {
		err = m.Err
	}
	if err != nil {
		return nil, err
	}
	var h events.Decided
	return &h, events.Unmarshal(m.Event.Data, &h)
}

// unanswered are the places of open questions that nothing decided.
func (s *stagedTurn) unanswered(heard map[int]*events.Decided) []int {
	var out []int
	for i := range s.Calls {
		if s.Calls[i].State == events.CallAsking && heard[i] == nil {
			out = append(out, i)
		}
	}
	return out
}

// answerReason is the reason of a result that came from outside.
func answerReason(r *events.ExternalExecutionResult) events.Reason {
	switch {
	case r == nil:
		return events.ReasonToolError
	case r.State == events.StateDenied:
		return events.ReasonDeniedByUser
	case r.State == events.StateInterrupted:
		return events.ReasonCancelled
	case r.State == events.StateError, r.IsError:
		return events.ReasonToolError
	}
	return events.ReasonOK
}
