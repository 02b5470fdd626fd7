package workers

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
)

// suspend hands a call on to be answered outside: its start first, so that it is never run again, then
// word to the dispatchers, which holds all that is to be known of it, then the work is let go of.
func (w *Worker) suspend(last context.Context, c *call, p *toolkit.PendingError) {
	if !c.fenced {
		switch m, reason, err := w.fence(last, c, ""); {
		case err != nil:
			w.note(c).Warn().Err(err).Msg("not suspended, given back")
			w.nak(c, time.Second)
			return
		case m == moveAck:
			w.finish(last, c, true, nil)
			return
		case m == moveSettle:
			w.settle(last, c, verdict(c, reason))
			return
		}
	}
	err := w.tellSuspended(last, c, p)
	if unfit(err) || errors.Is(err, events.ErrMalformed) {
		w.note(c).Error().Err(err).Msg("call cannot be suspended")
		w.settle(last, c, verdict(c, events.ReasonUnavailable))
		return
	}
	if err != nil {
		w.note(c).Error().Err(err).Msg("suspension lost; the call's outcome will be called unknown")
		return
	}
	w.at("after suspend", c.key)
	if d := c.delivery.Load(); d != nil {
		_ = d.Ack()
	}
}

// tellSuspended tries until the suspension is stored or ctx ends; the lease goes on meanwhile.
func (w *Worker) tellSuspended(ctx context.Context, c *call, p *toolkit.PendingError) error {
	a := w.attributes(c)
	a.ID, a.Type, a.Time = "suspend/"+c.key.String(), events.TypeSuspendCall, time.Now()
	schema := p.Schema
	if !json.Valid(schema) {
		schema = nil
	}
	e, err := events.New(a, events.SuspendCall{
		Call: c.work.Call, Agent: c.work.Agent, Definition: c.work.Definition, Decision: c.work.Decision,
		Message: p.Message, Schema: schema, Nonce: c.nonce,
	})
	if err != nil {
		return err
	}
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		_, err = w.bus.Store(ctx, jet.Out{Subject: w.bus.Suspend(c.key), Event: e, MsgID: e.ID + "/" + c.nonce})
		if err == nil || unfit(err) || ctx.Err() != nil || w.bus.Conn().IsClosed() {
			return err
		}
		w.note(c).Warn().Err(err).Msg("suspension not stored yet")
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// checkPatience bounds a tool's own permission check: whoever asks does not wait longer.
const checkPatience = 2 * time.Second

// check answers what a tool's own permission check makes of a call. A check that fails gives no answer,
// and a person is asked.
func (w *Worker) check(ctx context.Context, m *nats.Msg) {
	var q events.CheckRequest
	if !w.bus.Answerable(m.Reply) || events.Unmarshal(m.Data, &q) != nil {
		return
	}
	t := w.tools[q.Call.Name]
	if t == nil || t.hash != q.Definition { // of another version of the tool, which judges otherwise
		return
	}
	w.runners.run(func() {
		ctx, cancel := context.WithTimeout(ctx, checkPatience)
		defer cancel()
		check, ok := t.Check(ctx, q)
		if !ok {
			w.log.Warn().Str("tool", string(t.name)).Msg("permission check of the tool failed")
			return
		}
		b, err := json.Marshal(check)
		if err == nil {
			_ = m.Respond(b) // a lost answer is a person asked
		}
	})
}
