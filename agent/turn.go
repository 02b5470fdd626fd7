package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

// Turn is what a model wants run at once: 1..N calls. The input of a call travels byte for byte;
// what a model wrote broken can be sent as a JSON string, for the model to hear what is wrong with it.
type Turn struct {
	Session events.SessionID // required; unique across users
	ID      events.TurnID    // fresh for each turn of a session. Empty: a new UUID (version 7)
	ReplyID string           // the reply that this turn is part of; may span turns
	Calls   []events.Call    // in the model's order; one without an id gets c1, c2, … by its place

	Context  *events.Context // who it is for and what workers may know; never shown to models or approvers
	Deadline time.Time       // of the whole turn; zero: none but those of the tools
	Parent   string          // the call that started this session, if a call did

	TraceParent, TraceState string // W3C trace context

	// Progress, if not nil, is called with what running tools say before they are done, from a
	// goroutine of the turn's own, one at a time. Nothing is promised of it: deltas may be lost.
	Progress func(events.ToolResultDelta)
}

// Submit checks a turn, stores it, and returns its pending results. Once it returns without an
// error, every call gets its result, whatever happens to this process.
//
// While ctx lasts, storing is tried again over lost connections. If the very same turn was
// stored before, its results are these; the same means equal calls, context, deadline, reply and
// parent. Errors: [ErrInvalid] (nothing was published), [ErrTurnReused], [ErrDenied], [ErrFull],
// [ErrUnavailable] (ctx ended first, the turn may be stored or not), [ErrClosed].
func (c *Client) Submit(ctx context.Context, t Turn) (*Pending, error) {
	e, calls, err := c.event(t)
	if err != nil {
		return nil, err
	}
	p := newPending(c, e.Session, e.Turn, calls)
	if err := c.register(p, t.Progress); err != nil {
		return nil, err
	}
	fresh, err := c.submit(ctx, jet.Out{Subject: c.bus.Calls(c.agent, e.Session, e.Turn), Event: e})
	if err != nil {
		c.release(p)
		return nil, err
	}
	p.begin(fresh)
	return p, nil
}

// Call submits one call as a turn of its own and awaits its result.
func (c *Client) Call(ctx context.Context, session events.SessionID, tool events.ToolName, input json.RawMessage) (events.ToolResult, error) {
	p, err := c.Submit(ctx, Turn{Session: session, Calls: []events.Call{{Name: tool, Input: input}}})
	if err != nil {
		return events.ToolResult{}, err
	}
	defer p.Close()
	rs, err := p.Await(ctx)
	if err != nil {
		return events.ToolResult{}, err
	}
	return rs[0], nil
}

// submit stores the turn; fresh is false if it had been stored before.
func (c *Client) submit(ctx context.Context, o jet.Out) (fresh bool, err error) {
	what := "submit turn " + strconv.Quote(string(o.Event.Turn))
	for {
		switch err := c.store(ctx, o); {
		case err == nil:
			return true, nil
		case !errors.Is(err, jet.ErrExists):
			return false, storeError(what, err)
		}
		switch err := c.compare(ctx, o.Event); {
		case err == nil:
			return false, nil
		case !errors.Is(err, ErrNotFound): // else it was forgotten meanwhile, and may be stored
			return false, fmt.Errorf("%s: %w", what, err)
		}
		if err := pause(ctx, time.Second/4); err != nil {
			return false, fmt.Errorf("%w: %s: %w", ErrUnavailable, what, err)
		}
	}
}

// compare says whether the stored turn is e. It may be: an acknowledgement can get lost.
// Agents have no right to read CALLS, so a dispatcher is asked, until one answers.
func (c *Client) compare(ctx context.Context, e events.Event) error {
	for {
		stored, err := c.Status(ctx, e.Session, e.Turn)
		switch {
		case err == nil && stored.EventID == e.ID:
			return nil
		case err == nil:
			return fmt.Errorf("%w: session %q", ErrTurnReused, e.Session)
		case !errors.Is(err, ErrUnavailable):
			return err
		}
		if end := pause(ctx, time.Second/2); end != nil {
			return fmt.Errorf("a turn of this id is stored, and nobody could say whether it is this one: %w: %w", err, end)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// event checks t and makes its event. The id of the event is made of its content, so that
// two events of one id are one turn.
func (c *Client) event(t Turn) (events.Event, []events.CallID, error) {
	if t.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return events.Event{}, nil, fmt.Errorf("new turn id: %w", err)
		}
		t.ID = events.TurnID(id.String())
	}
	data := events.ToolCalls{Calls: slices.Clone(t.Calls), Context: t.Context}
	ids := make([]events.CallID, len(data.Calls))
	for i := range data.Calls {
		if data.Calls[i].ID == "" {
			data.Calls[i].ID = events.CallID("c" + strconv.Itoa(i+1))
		}
		ids[i] = data.Calls[i].ID
	}
	if !t.Deadline.IsZero() {
		d := t.Deadline.UTC()
		data.Deadline = &d
	}
	if err := check(t, data); err != nil {
		return events.Event{}, nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	e, err := events.New(events.Attributes{
		Source: "/agents/" + events.Token(c.agent), Type: events.TypeToolCalls, Time: time.Now(),
		Session: t.Session, Turn: t.ID, ReplyID: t.ReplyID, Parent: t.Parent,
		TraceParent: t.TraceParent, TraceState: t.TraceState,
	}, data)
	if err != nil {
		return events.Event{}, nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if most := min(jet.BodyMax, events.MaxSize); len(e.Data) > most {
		return events.Event{}, nil, fmt.Errorf("%w: the turn takes %d bytes, at most %d are allowed", ErrInvalid, len(e.Data), most)
	}
	e.ID = string(t.ID) + "/" + fingerprint(e)
	return e, ids, nil
}

// fingerprint is 32 hex digits over all that makes a turn what it is.
func fingerprint(e events.Event) string {
	h := sha256.New()
	h.Write(fmt.Appendf(nil, "%d %s %d %s ", len(e.ReplyID), e.ReplyID, len(e.Parent), e.Parent))
	h.Write(e.Data)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// maxText is the most bytes of a text that travels as a header.
const maxText = 1024

func check(t Turn, data events.ToolCalls) error {
	if err := events.CheckID("session", t.Session); err != nil {
		return err
	}
	if err := events.CheckID("turn", t.ID); err != nil {
		return err
	}
	for name, v := range map[string]string{
		"reply id": t.ReplyID, "parent": t.Parent, "traceparent": t.TraceParent, "tracestate": t.TraceState,
	} {
		if len(v) > maxText || !utf8.ValidString(v) {
			return fmt.Errorf("%s must be UTF-8 of at most %d bytes", name, maxText)
		}
	}
	return data.Check()
}
