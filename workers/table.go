package workers

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nuid"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

// call is one call that this process is busy with, from its delivery until it is settled.
type call struct {
	key   events.CallKey
	tool  events.ToolName
	nonce string // of this try, in its start
	stop  context.CancelCauseFunc

	// delivery is what to acknowledge. A later delivery of the same call takes its place.
	delivery atomic.Pointer[jet.Delivery]
	event    events.Event    // the work; zero if it cannot be read
	work     events.ToolWork // likewise
	legible  bool            // both are there
	fenced   bool

	running atomic.Bool                   // the tool has the call now
	told    atomic.Bool                   // start is stored, for a tool without a fence
	lost    atomic.Bool                   // somebody else settled it
	ruled   atomic.Pointer[events.Reason] // somebody else's start settles it so
	leaks   []<-chan struct{}             // handlers that ignored the end of their context
}

// table is what this process is busy with. No call is in it twice.
type table struct {
	mu    sync.Mutex
	calls map[events.CallKey]*call
}

func newTable() table { return table{calls: map[events.CallKey]*call{}} }

// enter takes a delivery in. If the call is in the table already, that one takes over the
// delivery, to renew and acknowledge, and enter returns nil.
func (t *table) enter(k events.CallKey, tool events.ToolName, d *jet.Delivery, stop context.CancelCauseFunc) *call {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.calls[k]; c != nil {
		c.delivery.Store(d)
		return nil
	}
	c := &call{key: k, tool: tool, nonce: nuid.Next(), stop: stop}
	c.delivery.Store(d)
	t.calls[k] = c
	return c
}

func (t *table) leave(c *call) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.calls, c.key)
}

// stop ends the context of a call, if it is here.
func (t *table) stop(k events.CallKey, cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.calls[k]; c != nil {
		c.stop(cause)
	}
}

// has says whether the try of that nonce is under way.
func (t *table) has(k events.CallKey, nonce string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.calls[k]
	return c != nil && c.nonce == nonce
}

func (t *table) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.calls)
}
