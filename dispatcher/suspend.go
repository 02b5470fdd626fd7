package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

// suspendSlots is how many suspensions one dispatcher handles at once.
const suspendSlots = 64

// takeSuspended parks calls whose tools ask to be answered outside, until ctx ends.
func (d *Dispatcher) takeSuspended(ctx context.Context) error {
	return d.pull(ctx, d.bus.InboxStream(), jet.SuspendConsumer, suspendSlots, func(del *jet.Delivery) {
		ctx, cancel := finishing(ctx)
		defer cancel()
		err := d.handleSuspended(ctx, del)
		if hopeless(err) && (del.Count >= hopelessTries || !errors.Is(err, jet.ErrBody)) {
			err = d.bury(ctx, letter{what: "suspend", stream: d.bus.InboxStream(), del: del, why: err.Error()})
		}
		if err != nil {
			d.giveBack(del, err)
			return
		}
		_ = del.Ack()
	})
}

// handleSuspended puts the call into the record of its turn, which may have none yet, asks, and removes
// the work: from here on the call is answered outside, and never run again.
func (d *Dispatcher) handleSuspended(ctx context.Context, del *jet.Delivery) error {
	k, err := d.bus.ParseCall("suspend", del.Subject)
	if err != nil {
		return err
	}
	e, err := d.bus.Open(ctx, del.Header, del.Data)
	if err != nil {
		return err
	}
	var q events.SuspendCall
	if err := events.Unmarshal(e.Data, &q); err != nil {
		return err
	}
	if e.Type != events.TypeSuspendCall || q.Call.ID != k.Call {
		return fmt.Errorf("%w: no suspension of the call that the subject names", events.ErrMalformed)
	}
	start, err := d.startOf(ctx, k)
	if err != nil {
		return err
	}
	if start != nil && start.Nonce != q.Nonce {
		return fmt.Errorf("%w: the call is run by somebody else", events.ErrMalformed)
	}
	if done, err := d.hasResult(ctx, k); done || err != nil {
		return err
	}
	if err := d.suspend(ctx, k, passedOn(e.Attributes), &q, del.Stored); err != nil {
		return err
	}
	w := ending{key: k}
	if err := d.findWork(ctx, &w); err != nil {
		return err
	}
	return d.remove(ctx, &w)
}

func (d *Dispatcher) suspend(ctx context.Context, k events.CallKey, attrs events.Attributes, q *events.SuspendCall, at time.Time) error {
	for {
		s, t, revision, err := d.stagedTurn(ctx, k.Session, k.Turn)
		switch {
		case errors.Is(err, jet.ErrNone):
			s, t, err = newSuspended(k, attrs, q, at)
		case err == nil && t.place(k.Call) < 0:
			if !s.Partial {
				return fmt.Errorf("%w: the turn has no call %q", events.ErrMalformed, q.Call.ID)
			}
			err = s.take(t, q.Call)
		}
		if err != nil {
			return err
		}
		place := t.place(k.Call)
		c := &s.Calls[place]
		if c.State == events.CallFinished {
			return nil
		}
		if c.State != events.CallAsking || !c.Ask.Suspended {
			if c.Ask, err = d.suspendedAsk(ctx, t, c.Ask, q); err != nil {
				return err
			}
			c.State = events.CallAsking
			if _, err = d.keepTurn(ctx, k.Session, k.Turn, s, revision); errors.Is(err, jet.ErrConflict) {
				continue
			} else if err != nil {
				return err
			}
		}
		if err := d.put(ctx, t, s, []int{place}); err != nil {
			return err
		}
		return d.takeBack(ctx, t, s, []int{place})
	}
}

// suspendedAsk asks for the result of a call whose tool has run.
func (d *Dispatcher) suspendedAsk(ctx context.Context, t *turn, before *asked, q *events.SuspendCall) (*asked, error) {
	secret, err := d.secret(ctx)
	if err != nil {
		return nil, err
	}
	reg := d.registry.snapshot()
	var revision uint64 // as evidence
	switch rec, err := d.session(ctx, t, reg); {
	case err == nil:
		revision = rec.revision
	case !errors.Is(err, errForeign):
		return nil, err
	}
	a := &asked{
		Round: 1, Kind: events.KindExternal, Definition: q.Definition, AskedAt: time.Now().UTC(), Rule: "suspended",
		Why: "The tool asks for its result.", Suspended: true, Schema: q.Schema, Input: q.Call.Input,
		Config: reg.revision, Session: revision,
	}
	if q.Message != "" {
		a.Why = jet.OneLine(q.Message)
	}
	if before != nil {
		a.Round, a.Previous = before.Round+1, before.Request
	}
	a.Request = requestID(secret, t, q.Call.ID, a.Round)
	a.Digest = events.Digest(q.Call.Name, q.Definition, q.Call.Input, t.key(q.Call.ID), a.Request)
	a.demand(reg.ApprovalFor(q.Call.Name))
	return a, nil
}

// newSuspended is the record of a turn that needed none: it is of this call only, for the others are on
// their way without it.
func newSuspended(k events.CallKey, attrs events.Attributes, q *events.SuspendCall, at time.Time) (*stagedTurn, *turn, error) {
	t := &turn{agent: q.Agent, session: k.Session, id: k.Turn, attrs: attrs, stored: at, began: at, staged: true}
	s := newStagedTurn(t, nil)
	s.Partial = true
	return s, t, s.take(t, q.Call)
}

// take adds calls to a record that is not of the whole turn, unless it has them.
func (s *stagedTurn) take(t *turn, calls ...events.Call) error {
	for _, c := range calls {
		if t.place(c.ID) < 0 {
			t.body.Calls = append(t.body.Calls, c)
			s.Calls = append(s.Calls, callRecord{})
		}
	}
	data, err := events.Marshal(t.body)
	if err != nil {
		return err
	}
	s.Data, t.data = data, data
	s.Stages, s.Stage = []int{len(s.Calls)}, 0
	return nil
}
