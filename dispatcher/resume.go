package dispatcher

import (
	"context"
	"errors"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

// held is an open question as the record of its turn holds it.
type held struct {
	s        *stagedTurn
	t        *turn
	revision uint64 // of the record as it was read
	place    int    // of the call; -1: the record does not ask this
}

// resume takes the step that a decision leads to, by the record as it was read before the decision was
// stored: of a call that others do not wait for, nothing else is to be looked at. What happened meanwhile
// changed the record, which is refused then, or is for the step that others leave. done: there is nothing
// more to do; if not, the turn is to be stepped.
//
// The order is that of every step: the result or the work is stored, then the record, and a question goes
// before the record does, so that whoever is told again still finds it.
func (d *Dispatcher) resume(ctx context.Context, q held, h *events.Decided) (done bool, err error) {
	if !q.s.decided(q.place) {
		return false, nil
	}
	now := time.Now().UTC()
	c, t := &q.s.Calls[q.place], q.t
	a, call := c.Ask, t.body.Calls[q.place]
	t.began, t.waited = q.s.Began, q.s.Waited
	p, err := d.planStage(ctx, t, q.s, map[int]*events.Decided{q.place: h}, now)
	if err != nil || len(p.asks) > 0 || len(p.out) != 1 {
		return false, err
	}
	out := p.out
	if out[0].work != nil {
		if err := d.fanOut(ctx, t, redelivered, out); err != nil {
			return false, err
		}
		c.State = events.CallSubmitted
		if err := d.keepResumed(ctx, q); err != nil {
			return false, ignoreConflict(err)
		}
		return true, d.close(ctx, t.key(call.ID), call.Name, a)
	}
	ended, err := d.settleRefused(ctx, t, &out[0], redelivered)
	if err != nil || ended != outcomeSettled && ended != outcomeTooLate {
		return false, err
	}
	stage := q.s.Stage
	q.s.advance(func(i int) bool { return i == q.place }, now)
	if q.s.Stage != stage && !q.s.finished() {
		return false, nil
	}
	if err := d.close(ctx, t.key(call.ID), call.Name, a); err != nil {
		return false, err
	}
	return d.keepOrDrop(ctx, q)
}

// keepOrDrop notes that a call has its result, or drops the record after the last one.
func (d *Dispatcher) keepOrDrop(ctx context.Context, q held) (done bool, err error) {
	if !q.s.finished() {
		err = d.keepResumed(ctx, q)
	} else if err = d.at("turn.drop"); err == nil {
		err = d.bus.DropRecord(ctx, d.bus.TurnsBucket(), q.revision)
	}
	return err == nil, ignoreConflict(err)
}

func (d *Dispatcher) keepResumed(ctx context.Context, q held) error {
	_, err := d.keepTurn(ctx, q.t.session, q.t.id, q.s, q.revision)
	return err
}

func ignoreConflict(err error) error {
	if errors.Is(err, jet.ErrConflict) {
		return nil
	}
	return err
}

// decided says whether nothing but the decision about one call is to be thought of: the other calls of its
// stage wait for answers or results.
func (s *stagedTurn) decided(place int) bool {
	found := false
	for _, i := range s.open() {
		if s.Calls[i].State == "" {
			return false
		}
		found = found || i == place
	}
	return found
}
