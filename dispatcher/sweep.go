package dispatcher

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

const (
	// sweepTimeout bounds one sweep.
	sweepTimeout = 5 * time.Minute
	// queueGrace is how long after its time in the queue a call is left to a worker that took it at
	// the last moment.
	queueGrace = jet.Lease / 2
)

// sweep ends the calls nobody came for, and forgets facts nobody can need any more. now is when
// the server fired the tick.
//
// It also finds settlements whose author died between start and result, because what they
// settled is still there: at intake, the turn in CALLS; by a cancel, its event in INBOX; by a
// deadline, the timer's message; and in each of these cases, by the API and by the
// sweep itself, the work in WORK, which is removed last, or the turn in CALLS. So starts need not be
// searched.
func (d *Dispatcher) sweep(ctx context.Context, now time.Time) error {
	d.metrics.sweeps.Inc()
	return errors.Join(d.expire(ctx, now), d.lookStale(ctx, now), d.forget(ctx, now))
}

// expire goes through the oldest work, up to what cannot have expired yet.
func (d *Dispatcher) expire(ctx context.Context, now time.Time) error {
	young := now.Add(-d.registry.snapshot().minQueue)
	g := errgroup.Group{} // one call that cannot be ended must not keep the others waiting
	g.SetLimit(atOnce)
	for seq := uint64(1); ; seq++ {
		m, err := d.bus.Next(ctx, d.bus.WorkStream(), seq, d.bus.Under("work"))
		if errors.Is(err, jet.ErrNone) {
			break
		}
		if err != nil {
			return errors.Join(err, g.Wait())
		}
		if m.Time.After(young) {
			break
		}
		seq = m.Seq
		g.Go(func() error { return d.expireWork(ctx, m, now) })
	}
	return g.Wait()
}

// expireWork ends one call if its time in the queue is over.
func (d *Dispatcher) expireWork(ctx context.Context, m *jet.Stored, now time.Time) error {
	_, name, k, err := d.bus.ParseWork(m.Subject)
	if err != nil {
		why := "work on an impossible subject: " + err.Error()
		copied := &jet.Delivery{Subject: m.Subject, Header: m.Header, Data: m.Data, Seq: m.Seq}
		if err := d.bury(ctx, letter{what: "work", stream: d.bus.WorkStream(), del: copied, why: why}); err != nil {
			return err
		}
		d.log.Error().Err(err).Uint64("seq", m.Seq).Msg("work on an impossible subject put to the dead letters")
		return d.bus.Delete(ctx, d.bus.WorkStream(), m.Seq)
	}
	e := ending{key: k, name: name}
	d.fromWork(&e, m)
	var w events.ToolWork
	switch {
	case m.Err != nil || events.Unmarshal(m.Event.Data, &w) != nil:
		if errors.Is(m.Err, jet.ErrBody) && now.Sub(m.Time) < d.cfg.Window {
			return nil // it may turn up
		}
		e.reason = events.ReasonDeadLetter
		copied := &jet.Delivery{Subject: m.Subject, Header: m.Header, Data: m.Data, Seq: m.Seq}
		err := d.bury(ctx, letter{what: "work", stream: d.bus.WorkStream(), del: copied, why: "work cannot be read"})
		if err != nil {
			return err
		}
	case w.Deadline != nil && now.After(w.Deadline.Add(queueGrace)) && w.Deadline.Before(w.QueueUntil):
		e.reason = events.ReasonTimeout
	case now.After(w.QueueUntil.Add(queueGrace)):
		e.reason = events.ReasonQueueExpired
	default:
		return nil
	}
	e.manned = d.manned(name, w.QueueUntil, now)
	_, err = d.settle(ctx, e)
	return err
}

// manned says whether a started call without side effects may still be run again by another
// worker: workers of its tool live (or this process has not listened long enough to know), and
// it has not been waiting beyond all reason.
func (d *Dispatcher) manned(name events.ToolName, until, now time.Time) bool {
	patience := time.Hour
	if t := d.registry.snapshot().tool(name); t != nil {
		patience += time.Duration(max(t.def.Attempts, 1)) * t.def.AttemptTimeout()
	}
	if now.Sub(until) > patience {
		return false
	}
	n, _ := d.presence.alive(name, "")
	return n > 0 || !d.presence.warm()
}
