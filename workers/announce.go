package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// announceEvery is how often a worker says what it runs. Dispatchers take three missed
// announcements for its end.
const announceEvery = 5 * time.Second

// desk is what a worker says and answers on core NATS while it runs.
type desk struct {
	w           *Worker
	inbox       string         // for definitions: inbox.<index of the tool>
	definitions chan *nats.Msg // dispatchers ask what a hash stands for
	alive       chan *nats.Msg // workers ask whether a call still runs here
	stops       chan *nats.Msg // dispatchers stop running calls
	dispatchers chan *nats.Msg // a dispatcher began to listen
	checks      chan *nats.Msg // dispatchers ask what a tool's own permission check makes of a call
	subs        []*nats.Subscription
}

// open subscribes; what fails is undone.
func (w *Worker) open() (*desk, error) {
	nc := w.bus.Conn()
	d := &desk{
		w: w, inbox: nc.NewInbox() + ".",
		definitions: make(chan *nats.Msg, 1024), alive: make(chan *nats.Msg, 1024), stops: make(chan *nats.Msg, 8192),
		dispatchers: make(chan *nats.Msg, 16), checks: make(chan *nats.Msg, 1024),
	}
	for _, s := range []struct {
		subject string
		to      chan *nats.Msg
	}{
		{d.inbox + "*", d.definitions},
		{w.bus.Alive(w.instance), d.alive},
		{w.bus.Under("stop"), d.stops},
		{w.bus.Changed("dispatcher"), d.dispatchers},
	} {
		sub, err := nc.ChanSubscribe(s.subject, s.to)
		if err != nil {
			d.close()
			return nil, fmt.Errorf("subscribe %s: %w", s.subject, err)
		}
		d.subs = append(d.subs, sub)
	}
	for _, t := range w.order {
		if !t.Checks() {
			continue
		}
		subject := w.bus.Check(t.pool, t.name)
		sub, err := nc.ChanQueueSubscribe(subject, "check", d.checks)
		if err != nil {
			d.close()
			return nil, fmt.Errorf("subscribe %s: %w", subject, err)
		}
		d.subs = append(d.subs, sub)
	}
	return d, nil
}

func (d *desk) close() {
	for _, s := range d.subs {
		_ = s.Unsubscribe() // fails only if it is gone already
	}
}

// serve announces and answers until done, which is when the last call is settled.
func (d *desk) serve(ctx context.Context, done <-chan struct{}) {
	defer d.close()
	tick := time.NewTicker(announceEvery)
	defer tick.Stop()
	d.announce(false)
	stopping := d.w.stopping
	for {
		select {
		case <-done:
			if stopping != nil {
				d.announce(true)
			}
			return
		case <-stopping:
			stopping = nil
			tick.Stop()
			d.announce(true)
		case <-tick.C:
			d.announce(false)
		case <-d.dispatchers:
			if stopping != nil {
				d.announce(false)
			}
		case m := <-d.definitions:
			d.define(m)
		case m := <-d.alive:
			d.answer(m)
		case m := <-d.checks:
			d.w.check(ctx, m)
		case m := <-d.stops:
			if k, err := d.w.bus.ParseCall("stop", m.Subject); err == nil {
				d.w.calls.stop(k, toolkit.ErrCancelled)
			}
		}
	}
}

// announce says of every tool that it runs here, or no longer does.
func (d *desk) announce(gone bool) {
	w := d.w
	unhealthy := ""
	if err := w.Health(); err != nil && !gone {
		unhealthy = err.Error()
	}
	for i, t := range w.order {
		slots := w.cfg.Slots
		if t.limit > 0 {
			slots = min(t.limit, slots)
		}
		e, err := events.New(events.Attributes{
			ID: fmt.Sprintf("announce/%s/%s/%d", w.instance, t.name, time.Now().UnixNano()), Source: w.source,
			Type: events.TypeAnnounce, Time: time.Now(), Tool: t.name,
		}, events.Announce{
			Worker: w.cfg.Name, Instance: w.instance, Pool: t.pool, Tool: t.name, Definition: t.hash,
			StartedAt: w.started, Slots: slots, Gone: gone, Unhealthy: unhealthy,
		})
		if err == nil {
			h, data := events.Encode(e)
			err = w.bus.Conn().PublishMsg(&nats.Msg{
				Subject: w.bus.Announce(w.cfg.Name, t.name), Reply: d.inbox + strconv.Itoa(i), Header: h, Data: data,
			})
		}
		if err != nil {
			w.log.Debug().Err(err).Str("tool", string(t.name)).Msg("not announced")
		}
	}
}

func (d *desk) define(m *nats.Msg) {
	i, err := strconv.Atoi(strings.TrimPrefix(m.Subject, d.inbox))
	if err != nil || i < 0 || i >= len(d.w.order) || !d.w.bus.Answerable(m.Reply) {
		return
	}
	_ = m.Respond(d.w.order[i].definition) // a lost answer is asked for again
}

func (d *desk) answer(m *nats.Msg) {
	var q events.AliveRequest
	if !d.w.bus.Answerable(m.Reply) || json.Unmarshal(m.Data, &q) != nil {
		return
	}
	running := d.w.calls.has(events.CallKey{Session: q.Session, Turn: q.Turn, Call: q.Call}, q.Nonce)
	b, err := json.Marshal(events.AliveReply{Running: running})
	if err == nil {
		_ = m.Respond(b) // whoever asked asks twice
	}
}
