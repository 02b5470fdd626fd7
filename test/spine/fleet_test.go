// Package spine_test holds the delivery promises (docs/wire.md, ARCHITECTURE.md) over the real
// dispatcher, workers and agent together, on a real server, in virtual time where time matters.
package spine_test

import (
	"context"
	"encoding/json"
	"maps"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/natstest"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/workers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fleet is an installation: a server, and processes that can be killed.
type fleet struct {
	testing.TB
	srv   *natstest.Server
	tools *toolkit.Toolkit

	tick    time.Duration // between two sweeps; longer where days are to pass
	history bool          // keep the record; such a server leaves goroutines behind for half a minute
	lasting bool          // processes outlive the server, and connect again

	mu      sync.Mutex
	running []*process
}

// process is a dispatcher or worker on a connection of its own.
type process struct {
	nc     *nats.Conn
	stop   context.CancelFunc
	done   chan struct{}
	health func() error // of a worker
}

// kill ends it as a crash does: the connection is gone before it can say a word. A tool that runs
// goes on, as it would behind a broken network: whatever it does to the world counts.
func (p *process) kill() {
	p.nc.Close()
	p.stop()
}

// drain ends it as SIGTERM does.
func (p *process) drain() {
	p.stop()
	<-p.done
}

func newFleet(tb testing.TB, tools ...*toolkit.Tool) *fleet {
	tb.Helper()
	// A timer that the client library pools in one bubble is fatal in the next.
	runtime.GC()
	runtime.GC()
	f := &fleet{TB: tb, tick: 5 * time.Second, srv: natstest.Start(tb), tools: toolkit.New()}
	if err := f.tools.Add(tools...); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(f.stopAll)
	return f
}

func (f *fleet) stopAll() {
	f.mu.Lock()
	running := f.running
	f.running = nil
	f.mu.Unlock()
	for _, p := range running {
		p.stop()
	}
	for _, p := range running {
		<-p.done
	}
}

// off kills everything, the server too, and turns the server on again after d.
func (f *fleet) off(d time.Duration) {
	f.Helper()
	f.srv.Stop()
	f.stopAll()
	if d > 0 {
		time.Sleep(d)
	}
	f.srv.Restart()
}

func (f *fleet) start(nc *nats.Conn, run func(context.Context) error) *process {
	f.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{nc: nc, stop: cancel, done: make(chan struct{})}
	go func() {
		_ = run(ctx) // how it ends is not the point
		close(p.done)
	}()
	f.mu.Lock()
	f.running = append(f.running, p)
	f.mu.Unlock()
	return p
}

func (f *fleet) conn(opts []nats.Option) *nats.Conn {
	f.Helper()
	if f.lasting {
		return f.srv.Lasting(opts...)
	}
	return f.srv.Conn(opts...)
}

func (f *fleet) dispatcher(opts ...nats.Option) *process {
	f.Helper()
	nc := f.conn(opts)
	d, err := dispatcher.New(nc, dispatcher.Config{NoHistory: !f.history, Tick: f.tick})
	if err != nil {
		f.Fatal(err)
	}
	return f.start(nc, d.Run)
}

// worker starts one of all tools.
func (f *fleet) worker(slots int, opts ...nats.Option) *process {
	f.Helper()
	return f.program("test", f.tools, slots, opts...)
}

// program starts a worker of some tools, with a pool of its own.
func (f *fleet) program(name string, tools *toolkit.Toolkit, slots int, opts ...nats.Option) *process {
	f.Helper()
	nc := f.conn(opts)
	w, err := workers.New(nc, tools, workers.Config{Name: name, Slots: slots})
	if err != nil {
		f.Fatal(err)
	}
	p := f.start(nc, w.Run)
	p.health = w.Health
	return p
}

func (f *fleet) agent(id events.AgentID) *agent.Client {
	f.Helper()
	c, err := agent.New(f.conn(nil), agent.Config{Agent: id})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(c.Close)
	return c
}

// ready waits until every tool is registered and has a live worker.
func (f *fleet) ready(c *agent.Client) {
	f.Helper()
	f.known(c, f.tools)
}

func (f *fleet) known(c *agent.Client, tools *toolkit.Toolkit) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
	defer cancel()
	for tool := range tools.All() {
		for {
			known, err := c.Tool(ctx, tool.Definition().Name)
			if err == nil && known.Info.Workers > 0 {
				break
			}
			select {
			case <-ctx.Done():
				f.Fatalf("tool %s is not registered: %v", tool.Definition().Name, err)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
}

// up starts one dispatcher, n workers and an agent.
func (f *fleet) up(n int) *agent.Client {
	f.Helper()
	f.dispatcher()
	for range n {
		f.worker(16)
	}
	c := f.agent("local")
	f.ready(c)
	return c
}

// await waits for the results of a turn, at most a virtual day.
func (f *fleet) await(p *agent.Pending) []events.ToolResult {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), 24*time.Hour)
	defer cancel()
	results, err := p.Await(ctx)
	if err != nil {
		f.Fatalf("await %s/%s: %v", p.Session(), p.Turn(), err)
	}
	return results
}

func (f *fleet) submit(c *agent.Client, t agent.Turn) *agent.Pending {
	f.Helper()
	p, err := c.Submit(f.Context(), t)
	if err != nil {
		f.Fatalf("submit: %v", err)
	}
	return p
}

// one submits a single call and waits for its result.
func (f *fleet) one(c *agent.Client, session events.SessionID, tool events.ToolName, input string) events.ToolResult {
	f.Helper()
	return f.await(f.submit(c, agent.Turn{Session: session, Calls: []events.Call{{Name: tool, Input: json.RawMessage(input)}}}))[0]
}

// state is how much a stream holds.
func (f *fleet) state(stream string) jetstream.StreamState {
	f.Helper()
	return f.stream(stream).CachedInfo().State
}

func (f *fleet) stream(name string) jetstream.Stream {
	f.Helper()
	js, err := jetstream.New(f.srv.Conn())
	if err != nil {
		f.Fatal(err)
	}
	s, err := js.Stream(f.Context(), name)
	if err != nil {
		f.Fatal(err)
	}
	return s
}

// subjects are those of a stream's messages.
func (f *fleet) subjects(stream string) map[string]uint64 {
	f.Helper()
	info, err := f.stream(stream).Info(f.Context(), jetstream.WithSubjectFilter(">"))
	if err != nil {
		f.Fatal(err)
	}
	return info.State.Subjects
}

// workIsEmpty says that nothing is left to be done.
func (f *fleet) workIsEmpty() {
	f.Helper()
	if n := f.state("TOOLWIRE_WORK").Msgs; n != 0 {
		f.Errorf("%d calls are left in WORK", n)
	}
}

// spy counts what JOURNAL stores, by live subject.
func (f *fleet) spy(subject string) *counts {
	f.Helper()
	s := &counts{n: map[string]int{}}
	nc := f.srv.Conn()
	if _, err := nc.Subscribe(subject, func(m *nats.Msg) { s.add(m.Subject) }); err != nil {
		f.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		f.Fatal(err)
	}
	return s
}

type counts struct {
	mu sync.Mutex
	n  map[string]int
}

func (s *counts) add(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n[key]++
}

// copy is what was counted so far.
func (s *counts) copy() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.n)
}

// onePer says that so many keys were counted, each once.
func (s *counts) onePer(tb testing.TB, keys int) {
	tb.Helper()
	got := s.copy()
	if len(got) != keys {
		tb.Errorf("counted %d keys, want %d", len(got), keys)
	}
	for key, n := range got {
		if n != 1 {
			tb.Errorf("%s: %d times", key, n)
		}
	}
}

// effects is a tool's effect on the world: how often each call ran.
type effects struct {
	counts
	total atomic.Int32
}

func newEffects() *effects { return &effects{counts: counts{n: map[string]int{}}} }

func (e *effects) happen(ctx context.Context) {
	call, _ := toolkit.CallFrom(ctx)
	e.add(call.Key.String())
	e.total.Add(1)
}

type none struct{}

// tool defines a tool of a test that takes no arguments.
func tool(name string, o *toolkit.Options, fn func(context.Context) (any, error)) *toolkit.Tool {
	side := toolkit.Options{}
	if o != nil {
		side = *o
	}
	side.ConcurrencySafe = true // so that the calls of a turn run beside each other
	return toolkit.MustDefine(name, "A tool of a test.", func(ctx context.Context, _ none) (any, error) { return fn(ctx) }, &side)
}

// echo returns its arguments byte for byte.
func echo(name string) *toolkit.Tool {
	t, err := toolkit.Raw(toolkit.Definition{Name: events.ToolName(name), InputSchema: json.RawMessage(`{"type":"object"}`), ReadOnly: true, ConcurrencySafe: true},
		func(_ context.Context, in json.RawMessage) (toolkit.Result, error) {
			return toolkit.Result{Content: []events.Content{events.Text(string(in))}, Structured: in}, nil
		})
	if err != nil {
		panic(err) //nolint:forbidigo // a mistake in the test
	}
	return t
}
