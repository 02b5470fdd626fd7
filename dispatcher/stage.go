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

// planStage decides about the calls of the present stage that nothing was decided about, or that somebody
// answered: out is what follows, asks are the places of new questions, which the record holds by then.
func (d *Dispatcher) planStage(ctx context.Context, t *turn, s *stagedTurn, heard map[int]*events.Decided, now time.Time) (out []decision, asks []int, err error) {
	var due []events.Call // to be decided about
	t.granted = map[events.CallID]*grant{}
	for _, i := range s.open() {
		c, call := &s.Calls[i], t.body.Calls[i]
		switch {
		case c.State == "":
			due = append(due, call)
		case heard[i] != nil:
			ends, next := d.hearOne(t, c, call, heard[i], now)
			switch next {
			case nextEnd:
				out = append(out, ends)
			case nextDecide:
				due = append(due, call)
			case nextRung:
				if err := d.escalate(ctx, t, c, call, now); err != nil {
					return nil, nil, err
				}
				asks = append(asks, i)
			}
		}
	}
	if len(due) == 0 {
		return out, asks, nil
	}
	b, err := d.basisOf(ctx, t, due)
	if errors.Is(err, errForeign) {
		return append(out, foreign(due)...), asks, d.trespass(ctx, t)
	}
	if err != nil {
		return nil, nil, err
	}
	for _, dec := range decide(t, due, b) {
		i := t.place(dec.call.ID)
		switch {
		case dec.ask == "":
			out = append(out, dec)
			continue
		case dec.ask == events.KindConfirm && !dec.permit.Immune && d.covered(t, s, b, i, &dec):
			continue // it waits for the answer to an earlier one
		}
		secret, err := d.secret(ctx)
		if err != nil {
			return nil, nil, err
		}
		s.Calls[i] = callRecord{State: events.CallAsking, Ask: newAsk(secret, t, &dec, b.reg, s.Calls[i].Ask, now)}
		asks = append(asks, i)
	}
	slices.Sort(asks)
	return out, asks, nil
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
			request: c.Ask.Request, digest: h.InputDigest, input: h.Input, by: voters(h), parked: max(0, now.Sub(c.Ask.AskedAt)),
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
