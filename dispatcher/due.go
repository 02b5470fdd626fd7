package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

const (
	dueSlots = 64
	// dueTries is how often a deadline is looked at whose work is not there: the timer is stored
	// before the work.
	dueTries = 3
)

// typeDue is the type of what a timer fires. It never leaves the dispatchers.
const typeDue events.Type = "io.toolwire.v1.Due"

// scheduleSweep has the server send a tick to whichever dispatcher is free. There is one schedule,
// whoever sets it; setting it again would put the next tick off.
func (d *Dispatcher) scheduleSweep(ctx context.Context) error {
	timer, every := d.bus.Timer("sweep"), "@every "+d.cfg.Tick.String()
	m, err := d.bus.Fact(ctx, timer)
	if err == nil && m.Header.Get("Nats-Schedule") == every {
		return nil
	}
	if err != nil && !errors.Is(err, jet.ErrNone) {
		return fmt.Errorf("sweep schedule: %w", err)
	}
	_, err = d.bus.Store(ctx, jet.Out{
		Subject: timer, Header: schedule(every, d.bus.Due("sweep")),
		Event: events.Event{Attributes: events.Attributes{ID: "due/sweep", Source: d.source(), Type: typeDue}},
	})
	return err
}

// takeDues handles what timers fire until ctx ends.
func (d *Dispatcher) takeDues(ctx context.Context) error {
	return d.pull(ctx, d.bus.TimersStream(), jet.DueConsumer, dueSlots, func(del *jet.Delivery) {
		if del.Subject == d.bus.Due("sweep") {
			d.takeTick(ctx, del)
			return
		}
		ctx, cancel := finishing(ctx)
		defer cancel()
		handle := d.handleDeadline
		if _, _, err := d.bus.ParseAskDue(del.Subject); err == nil {
			handle = d.handleAskDue
		}
		if err := handle(ctx, del); err != nil {
			d.giveBack(del, err)
		}
	})
}

// takeTick sweeps. The tick is acknowledged first: the next one makes up for a sweep that dies.
// Ticks that piled up while nobody was there are one.
func (d *Dispatcher) takeTick(ctx context.Context, del *jet.Delivery) {
	_ = del.Ack()
	now, last := time.Now(), d.swept.Load()
	if now.UnixNano()-last < int64(d.cfg.Tick/2) || !d.swept.CompareAndSwap(last, now.UnixNano()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	if err := d.sweep(ctx, del.Stored); err != nil && ctx.Err() == nil && !errors.Is(err, errDied) {
		d.log.Warn().Err(err).Msg("sweep not finished; the next one goes on")
	}
}

// handleDeadline ends a call at the agent's own deadline, unless it runs: its worker knows the
// deadline. A call whose work is not there either has ended, or is not queued yet; to tell
// the two apart only takes a moment. Its facts may be long forgotten, so nothing is settled on the
// strength of their absence.
func (d *Dispatcher) handleDeadline(ctx context.Context, del *jet.Delivery) error {
	k, err := d.bus.ParseCall("due.call", del.Subject)
	if err != nil {
		d.log.Warn().Err(err).Msg("timer ignored")
		return del.Ack()
	}
	e := ending{key: k, reason: events.ReasonTimeout, patient: true, fenced: true}
	if err := d.findWork(ctx, &e); err != nil {
		return err
	}
	if e.work == 0 {
		if del.Count < dueTries {
			return del.Nak(time.Second)
		}
		return del.Ack()
	}
	if _, err := d.settle(ctx, e); err != nil {
		return err
	}
	return del.Ack()
}
