package agent

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/events"
)

// Change says that something which is listed has changed.
type Change struct {
	What    string           // "tool", "group", "session", "worker", "dispatcher"; ignore what you do not know
	How     string           // e.g. "registered", "redefined", "removed", "came", "left", "lost"; may be empty
	Tool    events.ToolName  // of a tool
	Session events.SessionID // of a session: its tools have changed
	Worker  string           // worker program, of a tool or worker
	At      time.Time
}

// Changes yields what changes from now on: tools, groups, sessions, workers. It ends when ctx does, or
// with an error. It is a hint to list again: changes may be missed while the connection is lost or
// the reader is slow.
func (c *Client) Changes(ctx context.Context) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		in := make(chan *nats.Msg, watchBuffer)
		sub, err := c.bus.Conn().ChanSubscribe(c.bus.Under("changed"), in)
		if err != nil {
			yield(Change{}, subscribeError(err))
			return
		}
		defer c.unsubscribe(sub)
		told := make(map[string]bool) // each dispatcher tells of a worker, under one id
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.done:
				yield(Change{}, ErrClosed)
				return
			case m := <-in:
				e, err := events.Decode(m.Header, m.Data)
				if err != nil || told[e.ID] {
					continue
				}
				if len(told) >= watchBuffer {
					clear(told)
				}
				told[e.ID] = true
				if !yield(c.change(m.Subject, e), nil) {
					return
				}
			}
		}
	}
}

func (c *Client) change(subject string, e events.Event) Change {
	return Change{
		What: strings.TrimPrefix(subject, c.bus.Prefix()+".changed."), How: e.Extensions["change"],
		Tool: e.Tool, Session: e.Session, Worker: e.Extensions["worker"], At: e.Time,
	}
}
