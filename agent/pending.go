package agent

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/events"
)

// Pending is a submitted turn whose results come in. It may be read by several at once, each
// of whom gets every result once.
//
// It lets go of its subscription once all results are there, or by Close.
type Pending struct {
	c        *Client
	session  events.SessionID
	turn     events.TurnID
	key      string // tokens session.turn
	progress *nats.Subscription

	mu      sync.Mutex
	slots   []slot
	index   map[string]int // slot by token; nil for a few calls
	arrived []int          // slots in the order in which their results came
	err     error          // why no more results will come
	changed chan struct{}  // closed at the next change; nil if nobody waits

	since   time.Time // when it was submitted or attached to
	read    time.Time // when its stored facts were last read, or since
	due     time.Time // when to read them next
	begun   bool      // the turn is stored; before, there is nothing to read
	reading bool
	waiting int // callers inside Results or Await
	missing int // reads in a row that knew nothing of the turn
}

// slot is one call of the turn.
type slot struct {
	id     events.CallID
	token  string
	result *events.ToolResult
	ref    *events.Event // its result, whose body is still to be fetched
	misses int           // times that it could not be
}

// fewCalls is how many calls are looked up without an index.
const fewCalls = 8

func newPending(c *Client, session events.SessionID, turn events.TurnID, calls []events.CallID) *Pending {
	p := &Pending{c: c, session: session, turn: turn, key: events.Token(session) + "." + events.Token(turn)}
	p.expect(calls)
	return p
}

// expect says whose results are awaited. It comes before anything else.
func (p *Pending) expect(calls []events.CallID) {
	p.slots = make([]slot, len(calls))
	if len(calls) > fewCalls {
		p.index = make(map[string]int, len(calls))
	}
	for i, id := range calls {
		p.slots[i] = slot{id: id, token: events.Token(id)}
		if p.index != nil {
			p.index[p.slots[i].token] = i
		}
	}
}

// Session is the session of the turn.
func (p *Pending) Session() events.SessionID { return p.session }

// Turn is the id of the turn.
func (p *Pending) Turn() events.TurnID { return p.turn }

// Calls are the ids of the calls, in the order of the turn.
func (p *Pending) Calls() []events.CallID {
	ids := make([]events.CallID, len(p.slots))
	for i := range p.slots {
		ids[i] = p.slots[i].id
	}
	return ids
}

// Close lets go of the turn: waiting for it ends with [ErrClosed]. The turn goes on.
// It need not be called once all results are there; it may be called twice.
func (p *Pending) Close() {
	p.fail(ErrClosed)
	p.c.release(p)
}

// Results returns the results as they come, each call's once, and ends after the last.
// An error ends it too: that of ctx, [ErrClosed], or [ErrNotFound] if the installation has
// forgotten the turn. What came before an error was yielded before it.
func (p *Pending) Results(ctx context.Context) iter.Seq2[events.ToolResult, error] {
	return func(yield func(events.ToolResult, error) bool) {
		for n := range p.slots {
			r, err := p.nth(ctx, n)
			if err != nil {
				yield(events.ToolResult{}, err)
				return
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

// Await returns all results in the order of the calls. Errors are those of [Pending.Results].
func (p *Pending) Await(ctx context.Context) ([]events.ToolResult, error) {
	for n := range p.slots {
		if _, err := p.nth(ctx, n); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]events.ToolResult, len(p.slots))
	for i := range p.slots {
		out[i] = *p.slots[i].result
	}
	return out, nil
}

// nth waits for the n-th result to arrive.
func (p *Pending) nth(ctx context.Context, n int) (events.ToolResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.arrived) <= n {
		if p.err != nil {
			return events.ToolResult{}, fmt.Errorf("turn %q: %d of %d results: %w", p.turn, len(p.arrived), len(p.slots), p.err)
		}
		if err := p.wait(ctx); err != nil {
			return events.ToolResult{}, fmt.Errorf("await turn %q: %d of %d results: %w", p.turn, len(p.arrived), len(p.slots), err)
		}
	}
	return *p.slots[p.arrived[n]].result, nil
}

// wait waits for a change, with p.mu held before and after.
func (p *Pending) wait(ctx context.Context) error {
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	changed := p.changed
	p.waiting++
	soon := p.read.Add(readEvery)
	kick := p.begun && p.due.After(soon)
	if kick {
		p.due = soon
	}
	p.mu.Unlock()
	if kick {
		p.c.wake()
	}
	var err error
	select {
	case <-changed:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	p.mu.Lock()
	p.waiting--
	return err
}

// begin starts the reading of stored facts: a fresh turn has none yet.
func (p *Pending) begin(fresh bool) {
	p.mu.Lock()
	p.begun, p.since = true, time.Now()
	p.read, p.due = p.since, p.since
	if fresh {
		p.due = p.since.Add(readEvery)
	}
	p.mu.Unlock()
	if !fresh {
		p.c.wake()
	}
}

// find returns the slot of a call that has no result yet.
func (p *Pending) find(token string) (i int, id events.CallID, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i = -1
	if p.index == nil {
		i = slices.IndexFunc(p.slots, func(s slot) bool { return s.token == token })
	} else if at, known := p.index[token]; known {
		i = at
	}
	if i < 0 || p.slots[i].result != nil {
		return 0, "", false
	}
	return i, p.slots[i].id, true
}

// refer keeps a result whose body is elsewhere, for the reader to fetch.
func (p *Pending) refer(i int, e events.Event) {
	p.mu.Lock()
	if p.slots[i].result == nil {
		p.slots[i].ref = &e
	}
	p.mu.Unlock()
	p.hurry()
}

// deliver keeps the result of a call, once, and lets go of the turn after the last.
func (p *Pending) deliver(i int, r events.ToolResult) {
	p.mu.Lock()
	if p.slots[i].result != nil || p.err != nil {
		p.mu.Unlock()
		return
	}
	p.slots[i].result, p.slots[i].ref = &r, nil
	p.arrived = append(p.arrived, i)
	p.announce()
	last := len(p.arrived) == len(p.slots)
	p.mu.Unlock()
	if last {
		p.c.release(p)
	}
}

// fail ends waiting, unless all results are there.
func (p *Pending) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil && len(p.arrived) < len(p.slots) {
		p.err = err
		p.announce()
	}
}

func (p *Pending) announce() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}
