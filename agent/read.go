package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

// Status says how the calls of a turn stand.
// Errors: [ErrNotFound], [ErrDenied], [ErrUnavailable].
func (c *Client) Status(ctx context.Context, session events.SessionID, turn events.TurnID) (events.TurnReply, error) {
	var reply events.TurnReply
	if err := checkTurn(session, turn); err != nil {
		return reply, err
	}
	err := c.ask(ctx, events.OpTurn, events.TurnRequest{Session: session, Turn: turn}, &reply)
	return reply, err
}

// Result fetches the stored result of a call, of whatever process and age, as long as the
// installation remembers it. Errors: [ErrNotFound] (also: no result yet), [ErrDenied], [ErrUnavailable].
func (c *Client) Result(ctx context.Context, call events.CallKey) (events.ToolResult, error) {
	if err := checkTurn(call.Session, call.Turn); err != nil {
		return events.ToolResult{}, err
	}
	if err := events.CheckID("call", call.Call); err != nil {
		return events.ToolResult{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	e, err := c.fact(ctx, call)
	if err != nil {
		return events.ToolResult{}, err
	}
	return decodeResult(e, call.Call)
}

// Attach takes up a turn that another process, or an earlier run of this one, submitted.
// Errors: [ErrNotFound], [ErrDenied], [ErrUnavailable], [ErrClosed].
func (c *Client) Attach(ctx context.Context, session events.SessionID, turn events.TurnID) (*Pending, error) {
	status, err := c.Status(ctx, session, turn)
	if err != nil {
		return nil, fmt.Errorf("attach: %w", err)
	}
	calls := make([]events.CallID, len(status.Calls))
	for i := range status.Calls {
		calls[i] = status.Calls[i].CallID
	}
	p := newPending(c, session, turn, calls)
	if err := c.register(p, nil); err != nil {
		return nil, fmt.Errorf("attach: %w", err)
	}
	p.begin(false)
	if len(calls) == 0 {
		c.release(p)
	}
	return p, nil
}

func checkTurn(session events.SessionID, turn events.TurnID) error {
	err := events.CheckID("session", session)
	if err == nil {
		err = events.CheckID("turn", turn)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// catchUp reads the stored facts of a turn and delivers the results that are missing.
// again says to come back soon, though nobody may wait.
func (c *Client) catchUp(ctx context.Context, p *Pending) (again bool) {
	for _, i := range p.open() {
		if ref := p.ref(i); ref != nil {
			again = c.fetch(ctx, p, i, *ref, false) || again
		}
	}
	if len(p.open()) == 0 {
		return false
	}
	status, err := c.Status(ctx, p.session, p.turn)
	if errors.Is(err, ErrNotFound) {
		return c.forgotten(ctx, p)
	}
	if err != nil { // nobody there: the results will be there when somebody is
		c.log.Debug().Err(err).Str("session", string(p.session)).Str("turn", string(p.turn)).Msg("turn not read")
		return again
	}
	p.missing = 0
	for _, s := range status.Calls {
		if s.State != events.CallFinished {
			continue
		}
		if i, _, open := p.find(events.Token(s.CallID)); open {
			again = c.readResult(ctx, p, i) || again
		}
	}
	return again
}

// forgotten handles a turn that is no longer stored. Its results may be in the history; if not,
// on second sight, nothing is left to wait for.
func (c *Client) forgotten(ctx context.Context, p *Pending) (again bool) {
	for _, i := range p.open() {
		c.readResult(ctx, p, i)
	}
	if p.missing++; p.missing < 2 {
		return true
	}
	p.fail(ErrNotFound)
	c.release(p)
	return false
}

func (c *Client) readResult(ctx context.Context, p *Pending, i int) (again bool) {
	key := events.CallKey{Session: p.session, Turn: p.turn, Call: p.slots[i].id}
	msg, err := c.request(ctx, events.OpResult, events.ResultRequest(key))
	if err != nil {
		c.log.Debug().Err(err).Str("call", key.String()).Msg("result not read")
		return true
	}
	e, err := events.Decode(msg.Header, msg.Data)
	if err != nil {
		c.log.Error().Err(err).Str("call", key.String()).Msg("stored result is malformed")
		p.deliver(i, unreadable(key.Call, events.ReasonMalformed, malformedText))
		return false
	}
	return c.fetch(ctx, p, i, e, true)
}

// missesMost is how often a body is tried to be fetched before its call is answered without.
const missesMost = 5

// What the model reads in place of a result that cannot be read.
const (
	malformedText = "The tool answered, but its stored result is malformed. It will not get better by waiting."
	lostText      = "The tool answered, but its result is too large to travel inline and cannot be fetched."
)

// fetch gets the body of a result, if it is elsewhere, and delivers the result. A stored one
// that can never be read is answered for: nobody waits for ever.
func (c *Client) fetch(ctx context.Context, p *Pending, i int, e events.Event, stored bool) (again bool) {
	id := p.slots[i].id
	if e.DataRef != "" {
		data, err := c.bus.GetBody(ctx, e.DataRef)
		switch {
		case ctx.Err() != nil:
			return false
		case err != nil && p.missed(i) < missesMost:
			c.log.Debug().Err(err).Str("turn", string(p.turn)).Str("call_id", string(id)).Msg("body of a result not fetched")
			return true
		case err != nil:
			c.log.Error().Err(err).Str("session", string(p.session)).Str("turn", string(p.turn)).Str("call_id", string(id)).Msg("body of a result is lost")
			p.deliver(i, unreadable(id, events.ReasonUnavailable, lostText))
			return false
		}
		e.Data = data
	}
	r, err := decodeResult(e, id)
	switch {
	case err != nil && !stored: // the fact is what counts
		p.missed(i)
		return true
	case err != nil:
		c.log.Error().Err(err).Str("session", string(p.session)).Str("turn", string(p.turn)).Str("call_id", string(id)).Msg("stored result is malformed")
		r = unreadable(id, events.ReasonMalformed, malformedText)
	}
	p.deliver(i, r)
	return false
}

// unreadable stands for a result that is stored and cannot be read.
func unreadable(call events.CallID, reason events.Reason, text string) events.ToolResult {
	return events.ToolResult{
		CallID: call, State: reason.Outcome().State, Reason: reason, IsError: true,
		Content: []events.Content{events.Text(text)}, Meta: events.ResultMeta{FinishedAt: time.Now()},
	}
}

// open lists the slots without a result.
func (p *Pending) open() (open []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.slots {
		if p.slots[i].result == nil {
			open = append(open, i)
		}
	}
	return open
}

func (p *Pending) ref(i int) *events.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.slots[i].ref
}

func (p *Pending) missed(i int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slots[i].misses++
	p.slots[i].ref = nil // the stored one is asked for next
	return p.slots[i].misses
}

// fact fetches the stored result event of a call, body included.
func (c *Client) fact(ctx context.Context, call events.CallKey) (events.Event, error) {
	msg, err := c.request(ctx, events.OpResult, events.ResultRequest(call))
	if err != nil {
		return events.Event{}, err
	}
	e, err := c.bus.Open(ctx, msg.Header, msg.Data)
	if errors.Is(err, jet.ErrBody) {
		err = fmt.Errorf("%w: result of %s: %w", ErrUnavailable, call, err)
	}
	return e, err
}

// askTimeout bounds one question to the dispatcher.
const askTimeout = 5 * time.Second

// ask puts a question to a dispatcher and reads the answer.
func (c *Client) ask(ctx context.Context, op string, req, into any) error {
	msg, err := c.request(ctx, op, req)
	if err != nil {
		return err
	}
	if err := events.Unmarshal(msg.Data, into); err != nil {
		return fmt.Errorf("%s: answer: %w", op, err)
	}
	return nil
}

// request puts a question to a dispatcher; an answer that is an error is returned as one.
func (c *Client) request(ctx context.Context, op string, req any) (*nats.Msg, error) {
	body, err := events.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, op, err)
	}
	subject := c.bus.API(string(c.agent), op)
	ctx, done := c.guard(ctx, subject)
	defer done()
	bounded, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	msg, err := c.bus.Conn().RequestWithContext(bounded, subject, body)
	switch {
	case err == nil:
	case errors.Is(err, nats.ErrConnectionClosed):
		return nil, fmt.Errorf("%w: %s: %w", ErrClosed, op, err)
	case errors.Is(err, nats.ErrNoResponders):
		return nil, fmt.Errorf("%w: %s: no dispatcher is running", ErrUnavailable, op)
	case errors.Is(context.Cause(ctx), ErrDenied):
		return nil, fmt.Errorf("%s: %w", op, context.Cause(ctx))
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w: %s: %w", ErrUnavailable, op, context.Cause(ctx))
	default:
		return nil, fmt.Errorf("%w: %s: no answer: %w", ErrUnavailable, op, err)
	}
	if code := msg.Header.Get(micro.ErrorCodeHeader); code != "" {
		return nil, apiError(op, code, msg.Header.Get(micro.ErrorHeader))
	}
	return msg, nil
}
