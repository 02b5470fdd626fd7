package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/events"
)

// session is the one subscription to the results of a session, shared by its turns.
type session struct {
	sub   *nats.Subscription
	turns int
	idle  time.Time // since when turns is 0
}

// sessionLinger is how long a session without a pending turn keeps its subscription: a
// conversation submits turn after turn.
const sessionLinger = 30 * time.Second

// register makes p known, so that nothing of it is missed from here on.
func (c *Client) register(p *Pending, progress func(events.ToolResultDelta)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	s := c.sessions[p.session]
	if s == nil {
		sub, err := c.bus.Conn().ChanSubscribe(c.bus.LiveResults(p.session), c.live)
		if err != nil {
			return subscribeError(err)
		}
		s = &session{sub: sub}
		c.sessions[p.session] = s
	}
	if progress != nil {
		sub, err := c.follow(p, progress)
		if err != nil {
			return subscribeError(err)
		}
		p.progress = sub
	}
	s.turns++
	c.turns[p.key] = append(slices.Clip(c.turns[p.key]), p)
	if !c.armed {
		c.armed = true
		c.timer.Reset(readEvery)
	}
	return nil
}

func subscribeError(err error) error {
	if errors.Is(err, nats.ErrConnectionClosed) {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return fmt.Errorf("subscribe to results: %w", err)
}

// release forgets p. It may be called twice.
func (c *Client) release(p *Pending) {
	c.mu.Lock()
	ps := c.turns[p.key]
	i := slices.Index(ps, p)
	if i < 0 {
		c.mu.Unlock()
		return
	}
	if len(ps) == 1 {
		delete(c.turns, p.key)
	} else {
		c.turns[p.key] = slices.Concat(ps[:i], ps[i+1:])
	}
	if s := c.sessions[p.session]; s != nil {
		if s.turns--; s.turns == 0 {
			s.idle = time.Now()
		}
	}
	progress := p.progress
	c.mu.Unlock()
	c.unsubscribe(progress)
}

// follow calls progress with the deltas of a turn.
func (c *Client) follow(p *Pending, progress func(events.ToolResultDelta)) (*nats.Subscription, error) {
	sub, err := c.bus.Conn().Subscribe(c.bus.DeltasOfTurn(p.session, p.turn), func(m *nats.Msg) {
		d, err := c.delta(m)
		if err != nil {
			c.log.Debug().Err(err).Str("subject", m.Subject).Msg("malformed delta ignored")
			return
		}
		if _, _, open := p.find(events.Token(d.CallID)); open {
			progress(d)
		}
	})
	if err != nil {
		return nil, err
	}
	return sub, sub.SetPendingLimits(1024, 8<<20)
}

func (c *Client) delta(m *nats.Msg) (d events.ToolResultDelta, err error) {
	k, err := c.bus.ParseCall("delta", m.Subject)
	if err != nil {
		return d, err
	}
	e, err := events.Decode(m.Header, m.Data)
	if err != nil {
		return d, err
	}
	if e.Type != events.TypeToolResultDelta {
		return d, fmt.Errorf("%w: type %q", events.ErrMalformed, e.Type)
	}
	err = events.Unmarshal(e.Data, &d)
	d.CallID = k.Call // the subject is the authority
	return d, err
}

// listen hands out live results until ctx ends.
func (c *Client) listen(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-c.live:
			c.dispatch(m)
		}
	}
}

// dispatch hands one live result to whoever awaits it. What cannot be read here is read from
// the stored facts: the live copy may be a forgery or broken, the fact is what counts.
func (c *Client) dispatch(m *nats.Msg) {
	turn, call, ok := c.liveKey(m.Subject)
	if !ok {
		return
	}
	c.mu.Lock()
	ps := c.turns[turn]
	c.mu.Unlock()
	for _, p := range ps {
		i, id, open := p.find(call)
		if !open {
			continue
		}
		e, err := events.Decode(m.Header, m.Data)
		if err == nil && e.DataRef != "" {
			p.refer(i, e)
			continue
		}
		var r events.ToolResult
		if err == nil {
			r, err = decodeResult(e, id)
		}
		if err != nil {
			c.log.Debug().Err(err).Str("subject", m.Subject).Msg("live result unreadable, reading the stored one")
			p.hurry()
			continue
		}
		p.deliver(i, r)
	}
}

// liveKey splits prefix.live.result.<session>.<turn>.<call> into the tokens session.turn and call.
func (c *Client) liveKey(subject string) (turn, call string, ok bool) {
	rest, ok := strings.CutPrefix(subject, c.bus.Prefix())
	if ok {
		rest, ok = strings.CutPrefix(rest, ".live.result.")
	}
	at := strings.LastIndexByte(rest, '.')
	if !ok || at < 0 {
		return "", "", false
	}
	return rest[:at], rest[at+1:], true
}

// decodeResult reads the result of call from an event whose data is at hand.
func decodeResult(e events.Event, call events.CallID) (r events.ToolResult, err error) {
	if e.Type != events.TypeToolResult {
		return r, fmt.Errorf("%w: type %q is no result", events.ErrMalformed, e.Type)
	}
	if err := events.Unmarshal(e.Data, &r); err != nil {
		return r, err
	}
	if r.CallID != call || e.Call != "" && e.Call != call {
		return r, fmt.Errorf("%w: a result of call %q under the subject of call %q", events.ErrMalformed, r.CallID, call)
	}
	return r, nil
}
