package dispatcher

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

// atOnce is how many calls of one turn are read or settled at once.
const atOnce = 32

// fanOut stores what follows from the decisions on a turn: timers, then work and results. All of it
// may be stored already, by another dispatcher or an earlier delivery; that is success. Only
// when it returns nil may the turn be acknowledged.
func (d *Dispatcher) fanOut(ctx context.Context, t *turn, delivery int, all []decision) error {
	if delivery > 1 || time.Since(t.stored) > margin/2 {
		var err error
		if all, err = d.undecided(ctx, t, all); err != nil {
			return err
		}
	}
	var timers, work []jet.Out
	g := errgroup.Group{}
	g.SetLimit(atOnce)
	for i := range all {
		c := &all[i]
		if c.work == nil {
			continue
		}
		out, err := d.workEvent(t, c)
		if err != nil {
			return err
		}
		work = append(work, out)
		if timer, ok := d.deadlineTimer(t, c); ok {
			timers = append(timers, timer)
		}
	}
	if _, err := d.storeAll(ctx, timers, "fanout.timer"); err != nil {
		return err
	}
	for i := range all {
		if c := &all[i]; c.settled() {
			g.Go(func() error {
				_, err := d.settleRefused(ctx, t, c, delivery)
				return err
			})
		}
	}
	_, err := d.storeAll(ctx, work, "fanout.work")
	err = errors.Join(err, g.Wait())
	if err == nil {
		for i := range all {
			if all[i].work != nil {
				d.metrics.dispatched.WithLabelValues(string(all[i].call.Name)).Inc()
			}
		}
	}
	return err
}

// undecided leaves out the calls of a redelivered (or long delayed) turn that need nothing
// more. After a start or result nothing is published again: the result settles the call, a worker's
// start means that its work is stored until the result is, and a settlement is finished. For a turn
// that waited so long that facts about it could be older than the margin, this is what keeps
// the horizon from forgetting a fact of a call whose work is stored only now.
func (d *Dispatcher) undecided(ctx context.Context, t *turn, all []decision) ([]decision, error) {
	skip := make([]bool, len(all))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range all {
		if all[i].asked { // how it was decided stays the same
			continue
		}
		g.Go(func() error {
			k := t.key(all[i].call.ID)
			start, err := d.startOf(gctx, k)
			if err != nil {
				return err
			}
			done, err := d.hasResult(gctx, k)
			switch {
			case err != nil:
				return err
			case done, start != nil && start.Settle == "":
				skip[i] = true
			case start != nil && start.Settle == events.ReasonOK && control(all[i].call.Name): // begun, and to be finished
			case start != nil:
				all[i].control = false
				if all[i].work != nil || all[i].reason != start.Settle {
					all[i].work, all[i].reason, all[i].text = nil, start.Settle, sentence(start.Settle)
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var out []decision
	for i, c := range all {
		if !skip[i] {
			out = append(out, c)
		}
	}
	return out, nil
}

// settleRefused settles a call that never becomes work. It wins the start as every settlement
// does: an earlier delivery may have decided otherwise, and its work may be running.
func (d *Dispatcher) settleRefused(ctx context.Context, t *turn, c *decision, delivery int) (outcome, error) {
	e := ending{
		key: t.key(c.call.ID), name: c.call.Name, agent: t.agent, attrs: t.attrs,
		reason: c.reason, text: c.text, first: delivery == 1 || c.asked, taking: true, patient: true, fenced: true,
		answer: c.answer, yielded: c.yielded, judged: c.judged,
	}
	if e.judged == "" && c.permit.Behavior != "" {
		e.judged = c.permit.String()
	}
	e.session = c.session
	if c.control {
		e.reason = events.ReasonOK
	}
	if control(c.call.Name) { // also where it would be refused now: it may have been begun before
		e.run = func(ctx context.Context) (string, events.Reason, error) { return d.runReset(ctx, t, c.call) }
	}
	if c.tool != nil {
		e.definition, e.fenced = c.tool.hash, c.tool.def.Fenced()
	}
	return d.settle(ctx, e)
}

// workEvent is one call on its way to the workers of its pool.
func (d *Dispatcher) workEvent(t *turn, c *decision) (jet.Out, error) {
	k := t.key(c.call.ID)
	a := d.attributes(k, t.attrs, "work", events.TypeToolWork, c.call.Name)
	e, err := events.New(a, c.work)
	return jet.Out{Subject: d.bus.Work(c.pool, c.call.Name, k), Event: e}, err
}

// attributes are those of an event about one call. Its id is the same whoever publishes it.
func (d *Dispatcher) attributes(k events.CallKey, passed events.Attributes, what string, typ events.Type, name events.ToolName) events.Attributes {
	a := passed
	a.ID = what + "/" + keyID(k)
	a.Source, a.Type = d.source(), typ
	a.Session, a.Turn, a.Call, a.Tool = k.Session, k.Turn, k.Call, name
	return a
}

// keyID names a call without ambiguity: its identifiers as tokens, which hold no slash.
func keyID(k events.CallKey) string {
	return events.Token(k.Session) + "/" + events.Token(k.Turn) + "/" + events.Token(k.Call)
}

// deadlineTimer wakes a dispatcher at the agent's own deadline, where that is before the queue's.
func (d *Dispatcher) deadlineTimer(t *turn, c *decision) (jet.Out, bool) {
	if c.work.Deadline == nil || !c.work.Deadline.Before(c.work.QueueUntil) {
		return jet.Out{}, false
	}
	k := t.key(c.call.ID)
	name := []string{"call", string(k.Session), string(k.Turn), string(k.Call)}
	a := d.attributes(k, events.Attributes{}, "due", typeDue, c.call.Name)
	return jet.Out{
		Subject: d.bus.Timer(name...), Event: events.Event{Attributes: a},
		Header: schedule("@at "+c.work.Deadline.UTC().Format(time.RFC3339Nano), d.bus.Due(name...)),
	}, true
}

// schedule is the header of a message schedule. (The client's own helper cuts times to seconds.)
func schedule(when, target string) nats.Header {
	return nats.Header{"Nats-Schedule": {when}, "Nats-Schedule-Target": {target}}
}

// storeAll stores events, those that are there already included, and returns their sequences, 0 for those.
func (d *Dispatcher) storeAll(ctx context.Context, out []jet.Out, step string) ([]uint64, error) {
	if len(out) == 0 {
		return nil, nil
	}
	if d.fault != nil {
		seqs := make([]uint64, len(out))
		for i, o := range out { // one by one, so that it can die between any two
			if err := d.at(step); err != nil {
				return nil, err
			}
			var err error
			if seqs[i], err = d.bus.Store(ctx, o); err != nil && !errors.Is(err, jet.ErrExists) {
				return nil, err
			}
		}
		return seqs, d.at(step)
	}
	seqs, errs := d.bus.StoreAll(ctx, out)
	for _, err := range errs {
		if err != nil && !errors.Is(err, jet.ErrExists) {
			return nil, err
		}
	}
	return seqs, nil
}
