package agent

import (
	"context"
	"fmt"
	"iter"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/events"
)

// Dead lists the dead letters, newest first: messages that could not be handled.
// Errors: [ErrDenied], [ErrUnavailable].
func (c *Client) Dead(ctx context.Context) iter.Seq2[events.DeadLetter, error] {
	return func(yield func(events.DeadLetter, error) bool) {
		var req events.DeadRequest
		for {
			var page events.DeadReply
			if err := c.ask(ctx, events.OpDead, req, &page); err != nil {
				yield(events.DeadLetter{}, err)
				return
			}
			for _, l := range page.Letters {
				if !yield(l, nil) {
					return
				}
				req.Before = l.Seq
			}
			if !page.More || len(page.Letters) == 0 {
				return
			}
		}
	}
}

// DeadShow returns one dead letter with its headers and data.
// Errors: [ErrNotFound], [ErrDenied], [ErrUnavailable].
func (c *Client) DeadShow(ctx context.Context, seq uint64) (events.DeadLetter, error) {
	var l events.DeadLetter
	err := c.ask(ctx, events.OpDeadShow, events.DeadRef{Seq: seq}, &l)
	return l, err
}

// DeadRetry publishes a dead letter again where it was first, and drops it.
// Errors: [ErrNotFound], [ErrDenied], [ErrConflict] (it cannot be tried again), [ErrUnavailable].
func (c *Client) DeadRetry(ctx context.Context, seq uint64) error {
	return c.ask(ctx, events.OpDeadRetry, events.DeadRef{Seq: seq}, new(struct{}))
}

// DeadDrop removes a dead letter for good. Errors: [ErrNotFound], [ErrDenied], [ErrUnavailable].
func (c *Client) DeadDrop(ctx context.Context, seq uint64) error {
	return c.ask(ctx, events.OpDeadDrop, events.DeadRef{Seq: seq}, new(struct{}))
}

// watchBuffer is how many facts may wait for a slow reader of [Client.Watch].
const watchBuffer = 1024

// Watch yields what happens in a session from now on, as it is stored: starts, results. No session
// means all of them. It ends
// when ctx does, or with an error. Session, Turn and Call of the events are those of the subject;
// bodies that travel by reference are fetched. A fact that cannot be read is yielded as an error,
// and the next follows. It is for people to look at: facts may be missed while the connection is
// lost or the reader is slow.
func (c *Client) Watch(ctx context.Context, session events.SessionID) iter.Seq2[events.Event, error] {
	return func(yield func(events.Event, error) bool) {
		in := make(chan *nats.Msg, watchBuffer)
		unsubscribe, err := c.subscribeFacts(session, in)
		if err != nil {
			yield(events.Event{}, err)
			return
		}
		defer unsubscribe()
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.done:
				yield(events.Event{}, ErrClosed)
				return
			case m := <-in:
				if e, err := c.openFact(ctx, m); ctx.Err() != nil || !yield(e, err) {
					return
				}
			}
		}
	}
}

func (c *Client) subscribeFacts(session events.SessionID, in chan *nats.Msg) (unsubscribe func(), err error) {
	under := ".>"
	if session != "" {
		if err := events.CheckID("session", session); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
		under = "." + events.Token(session) + ".>"
	}
	var subs []*nats.Subscription
	unsubscribe = func() {
		for _, s := range subs {
			c.unsubscribe(s)
		}
	}
	for _, kind := range [...]string{"start", "result"} {
		s, err := c.bus.Conn().ChanSubscribe(c.bus.Live(kind+under), in)
		if err != nil {
			unsubscribe()
			return nil, subscribeError(err)
		}
		subs = append(subs, s)
	}
	return unsubscribe, nil
}

func (c *Client) openFact(ctx context.Context, m *nats.Msg) (events.Event, error) {
	k, err := c.bus.ParseCall("result", m.Subject)
	if err != nil {
		k, err = c.bus.ParseCall("start", m.Subject)
	}
	if err != nil {
		return events.Event{}, err
	}
	e, err := c.bus.Open(ctx, m.Header, m.Data)
	if err != nil {
		return e, fmt.Errorf("fact of %s: %w", k, err)
	}
	e.Session, e.Turn, e.Call = k.Session, k.Turn, k.Call
	return e, nil
}
