package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

const (
	cancelSlots = 64
	// unknownTries is how often a cancel is looked at whose turn is not stored: it may have
	// overtaken the turn.
	unknownTries = 5
	// stopTries is how often a running call is told to stop before that is given up; its own
	// deadline ends it.
	stopTries = 100
)

// errUnknownTurn is returned when no such turn is stored.
var errUnknownTurn = errors.New("dispatcher: no such turn")

// takeCancels handles CancelCalls events until ctx ends.
func (d *Dispatcher) takeCancels(ctx context.Context) error {
	return d.pull(ctx, d.bus.InboxStream(), jet.CancelConsumer, cancelSlots, func(del *jet.Delivery) {
		ctx, cancel := finishing(ctx)
		defer cancel()
		if err := d.handleCancel(ctx, del); err != nil {
			d.giveBack(del, err)
			return
		}
	})
}

// handleCancel settles what can be settled, and tells workers to stop what runs. The event
// stays until every call it names has its result, so that a call which a dying worker hands on
// to another is stopped there too; and until the turn is taken in, so that work which its
// intake stores after the call was settled is removed.
func (d *Dispatcher) handleCancel(ctx context.Context, del *jet.Delivery) error {
	t, req, err := d.readCancel(ctx, del)
	if err == nil {
		t, err = d.storedTurn(ctx, t.agent, t.session, t.id)
	}
	if err == nil {
		err = d.trespass(ctx, &t)
	}
	switch {
	case errors.Is(err, errUnknownTurn) && del.Count < unknownTries, errors.Is(err, jet.ErrBody) && del.Count < hopelessTries:
		return err
	case errors.Is(err, errUnknownTurn), hopeless(err):
		err := d.bury(ctx, letter{what: "cancel", stream: d.bus.InboxStream(), del: del, why: err.Error()})
		if err != nil {
			return err
		}
		return del.Ack()
	case err != nil:
		return err
	}
	taken, err := d.taken(ctx, &t)
	if err != nil {
		return err
	}
	outcomes, err := d.cancelCalls(ctx, &t, named(&t, req.Calls))
	if err != nil {
		return err
	}
	again := !taken || slices.ContainsFunc(outcomes, func(o outcome) bool { return o == outcomeStopping || o == outcomeLeft })
	if again && del.Count < stopTries {
		return del.Nak(min(time.Duration(del.Count)*time.Second, jet.Lease))
	}
	if err := d.at("cancel.ack"); err != nil {
		return err
	}
	return del.Ack()
}

// taken says whether a turn was taken in, so that no more work of it is stored. It may have been
// when that cannot be told, because an older one was not. It must be asked before the work is looked for.
func (d *Dispatcher) taken(ctx context.Context, t *turn) (bool, error) {
	floor, err := d.oldestTurn(ctx)
	return floor.IsZero() || floor.After(t.stored), err
}

func (d *Dispatcher) readCancel(ctx context.Context, del *jet.Delivery) (t turn, req events.CancelCalls, err error) {
	if t.agent, t.session, t.id, err = d.bus.ParseCancel(del.Subject); err != nil {
		return t, req, err
	}
	e, err := d.bus.Open(ctx, del.Header, del.Data)
	switch {
	case err != nil:
		return t, req, err
	case e.Type != events.TypeCancelCalls:
		return t, req, fmt.Errorf("%w: type %q, want %q", events.ErrMalformed, e.Type, events.TypeCancelCalls)
	case e.Session != "" && e.Session != t.session, e.Turn != "" && e.Turn != t.id:
		return t, req, fmt.Errorf("%w: session or turn contradicts the subject", events.ErrMalformed)
	}
	return t, req, events.Unmarshal(e.Data, &req)
}

// storedTurn reads a turn from CALLS, whether it was taken in or not. [errUnknownTurn]: it is
// not there. [events.ErrMalformed]: it cannot be read; the intake answers its calls.
func (d *Dispatcher) storedTurn(ctx context.Context, a events.AgentID, session events.SessionID, id events.TurnID) (turn, error) {
	t := turn{agent: a, session: session, id: id}
	m, err := d.bus.Fact(ctx, d.bus.Calls(a, session, id))
	switch {
	case errors.Is(err, jet.ErrNone):
		return d.parkedTurn(ctx, t)
	case err != nil:
		return t, err
	}
	t.stored, t.attrs, t.eventID = m.Time, passedOn(m.Event.Attributes), m.Event.ID
	if err = m.Err; err == nil {
		err = t.read(m.Event)
	}
	if err != nil {
		t.body = events.ToolCalls{Calls: salvage(m.Event, m.Data)} // as the intake does
	}
	return t, err
}

// parkedTurn reads a turn that CALLS has forgotten, because somebody is asked about a call of it.
func (d *Dispatcher) parkedTurn(ctx context.Context, t turn) (turn, error) {
	_, recorded, _, err := d.stagedTurn(ctx, t.session, t.id)
	switch {
	case errors.Is(err, jet.ErrNone), err == nil && recorded.agent != t.agent:
		return t, errUnknownTurn
	case err != nil:
		return t, err
	}
	return *recorded, nil
}

// named are the calls of t with the given ids, all of them if none is given.
func named(t *turn, ids []events.CallID) []events.Call {
	if len(ids) == 0 {
		return t.body.Calls
	}
	var out []events.Call
	for _, c := range t.body.Calls {
		if slices.Contains(ids, c.ID) {
			out = append(out, c)
		}
	}
	return out
}

// strangers lists the ids that are not in the turn.
func strangers(t *turn, ids []events.CallID) string {
	var out []string
	for _, id := range ids {
		if !slices.ContainsFunc(t.body.Calls, func(c events.Call) bool { return c.ID == id }) {
			out = append(out, string(id))
		}
	}
	return strings.Join(out, ", ")
}

// cancelCalls ends the given calls of a turn, and says of each what that came to. Of a turn that
// goes on in stages, the last call ends first: none is to begin because one before it ended.
func (d *Dispatcher) cancelCalls(ctx context.Context, t *turn, calls []events.Call) ([]outcome, error) {
	s, recorded, _, err := d.stagedTurn(ctx, t.session, t.id)
	if err != nil && !errors.Is(err, jet.ErrNone) {
		return nil, err
	}
	limit := atOnce
	if s != nil {
		limit = 1
	}
	out := make([]outcome, len(calls))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(limit)
	for i, c := range slices.Backward(calls) {
		g.Go(func() (err error) {
			if s != nil {
				if place := recorded.place(c.ID); place >= 0 && s.Calls[place].State == events.CallAsking {
					out[i], err = d.cancelAsked(gctx, held{s: s, t: recorded, place: place})
					return err
				}
			}
			out[i], err = d.cancelCall(gctx, t, c)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	for _, o := range out {
		d.metrics.cancels.WithLabelValues(o.String()).Inc()
	}
	if s == nil {
		return out, nil
	}
	// The record takes note of what was settled of its later stages, for it may outlive the facts.
	return out, d.step(ctx, t.session, t.id, false)
}

func (d *Dispatcher) cancelCall(ctx context.Context, t *turn, c events.Call) (outcome, error) {
	o, err := d.settle(ctx, ending{
		key: t.key(c.ID), name: c.Name, agent: t.agent, attrs: t.attrs,
		reason: events.ReasonCancelled, fenced: true,
	})
	if err != nil || o != outcomeSettled {
		return o, err
	}
	// A read-only tool may run without having said so: its result is refused now, and it need not go on.
	return o, d.stop(&ending{key: t.key(c.ID), name: c.Name, reason: events.ReasonCancelled})
}

// cancelAsked ends a call that waits for an answer: what decides the question decides the call.
func (d *Dispatcher) cancelAsked(ctx context.Context, q held) (outcome, error) {
	call, request := q.t.body.Calls[q.place], q.s.Calls[q.place].Ask.Request
	if err := d.end(ctx, q, &events.Decided{Outcome: events.OutcomeCancelled, At: time.Now().UTC(), Reason: "the agent cancelled the call"}, true); err != nil {
		return 0, err
	}
	h, err := d.decidedAs(ctx, q.t.key(call.ID), request)
	if err != nil {
		return 0, err
	}
	if h != nil && h.Outcome == events.OutcomeCancelled {
		return outcomeSettled, nil
	}
	return d.cancelCall(ctx, q.t, call) // an answer was faster: it may run by now
}

// String is the word of the API for an outcome of a cancellation.
func (o outcome) String() string {
	switch o {
	case outcomeSettled:
		return "cancelled"
	case outcomeStopping, outcomeLeft:
		return "stopping"
	case outcomeTooLate:
	}
	return "too_late"
}
