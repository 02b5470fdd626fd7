package dispatcher_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/internal/natstest"
	"github.com/toolwire/toolwire/toolkit"
)

// A server that is stopped soon after a stream with sources was made keeps a goroutine of its own
// for up to 30 s; it is not ours.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*stream).tryDeleteSourcingConsumer.func1"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*stream).trySetupSourceConsumer.func3"))
}

const object = `{"type":"object"}`

// The tools of the tests: one with side effects, one without.
func bookDef() toolkit.Definition {
	return toolkit.Definition{Name: "book", Description: "Books.", ConcurrencySafe: true, InputSchema: json.RawMessage(object)}
}

func lookDef() toolkit.Definition {
	return toolkit.Definition{
		Name: "look", Description: "Looks.", ReadOnly: true, ConcurrencySafe: true,
		InputSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"},"note":{"type":"string"}}}`),
	}
}

// world is an installation under test, in a bubble of virtual time.
type world struct {
	testing.TB
	srv  *natstest.Server
	bus  *jet.Bus
	logs zerolog.Logger
}

// newWorld starts a server. The client library keeps timers in a pool that all tests share, and one
// made in another bubble is fatal; collecting garbage twice empties it.
func newWorld(tb testing.TB) *world {
	tb.Helper()
	runtime.GC()
	runtime.GC()
	w := &world{TB: tb, srv: natstest.Start(tb)}
	w.bus = w.srv.Bus()
	if testing.Verbose() {
		w.logs = zerolog.New(zerolog.NewTestWriter(tb)).Level(zerolog.WarnLevel)
	}
	return w
}

// restart stops everything and starts the server again later.
func (w *world) restart(off time.Duration) {
	w.Helper()
	w.srv.Stop()
	time.Sleep(off)
	w.srv.Restart()
	w.bus = w.srv.Bus()
}

// process is something that runs until it is stopped.
type process struct {
	*dispatcher.Dispatcher
	stop func() // returns when it is gone; may be called again
}

func (w *world) dispatcher(change ...func(*dispatcher.Config)) *process {
	w.Helper()
	cfg := dispatcher.Config{NoHistory: true, Logger: w.logs}
	for _, c := range change {
		c(&cfg)
	}
	d, err := dispatcher.New(w.srv.Conn(), cfg)
	if err != nil {
		w.Fatal(err)
	}
	return w.start(d)
}

// faulty starts a dispatcher that dies at the n-th of the steps between its publishes.
func (w *world) faulty(n int) (p *process, died func() string) {
	w.Helper()
	d, err := dispatcher.New(w.srv.Conn(), dispatcher.Config{NoHistory: true, Logger: w.logs})
	if err != nil {
		w.Fatal(err)
	}
	var mu sync.Mutex
	var at string
	d.SetFault(func(step string) error {
		mu.Lock()
		defer mu.Unlock()
		if n--; n > 0 {
			return nil
		}
		if at == "" {
			at = step
		}
		return dispatcher.ErrDied
	})
	return w.start(d), func() string {
		mu.Lock()
		defer mu.Unlock()
		return at
	}
}

func (w *world) start(d *dispatcher.Dispatcher) *process {
	w.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	p := &process{Dispatcher: d}
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, dispatcher.ErrDisconnected) {
			w.Errorf("run: %v", err)
		}
	})
	w.Cleanup(p.stop)
	for d.Ready() != nil {
		select {
		case err := <-done:
			done <- err
			w.Fatalf("run ended: %v", err)
		default:
			wait(10 * time.Millisecond)
		}
	}
	return p
}

// wait passes virtual time; every test that waits runs in a bubble.
func wait(d time.Duration) { time.Sleep(d) }

// worker is a stand-in for a worker process: it announces, pulls, wins fences, stores results.
type worker struct {
	w         *world
	bus       *jet.Bus
	name      string
	instance  string
	pool      string
	defs      []toolkit.Definition
	started   time.Time
	run       func(ctx context.Context, k events.CallKey, work events.ToolWork) string // the text of the result
	forgetful bool                                                                     // sends no steps
	deaf      bool                                                                     // does not answer whether it is alive

	mu      sync.Mutex
	ran     map[events.CallKey]int
	running map[events.CallKey]context.CancelFunc
	stop    func()
}

func (w *world) worker(defs []toolkit.Definition, change ...func(*worker)) *worker {
	w.Helper()
	bus, err := jet.NewBus(w.srv.Conn(), events.Subjects{})
	if err != nil {
		w.Fatal(err)
	}
	x := &worker{
		w: w, bus: bus, name: "shop", instance: fmt.Sprintf("i%p", &defs), pool: "shop", defs: defs, started: time.Now(),
		run: func(context.Context, events.CallKey, events.ToolWork) string { return "done" },
		ran: make(map[events.CallKey]int), running: make(map[events.CallKey]context.CancelFunc),
	}
	for _, c := range change {
		c(x)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	var wg sync.WaitGroup
	pools := map[string]bool{}
	for _, def := range defs {
		if def.MaxInFlight > 0 {
			pools["lane-"+string(def.Name)] = true
		} else {
			pools[x.pool] = true
		}
	}
	for pool := range pools {
		wg.Go(func() {
			_ = bus.Pull(ctx, jet.PullConfig{Stream: bus.WorkStream(), Consumer: pool, Slots: 64}, func(d *jet.Delivery) { x.handle(ctx, d) })
		})
	}
	x.listen()
	wg.Go(func() {
		for ctx.Err() == nil {
			x.announce(false)
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Second):
			}
		}
	})
	x.stop = sync.OnceFunc(func() { cancel(); wg.Wait(); bus.Conn().Close() })
	w.Cleanup(x.stop)
	return x
}

// listen answers questions for definitions and for life, and hears stops.
func (x *worker) listen() {
	nc := x.bus.Conn()
	subscribe := func(subject string, h nats.MsgHandler) {
		if _, err := nc.Subscribe(subject, h); err != nil {
			x.w.Fatal(err)
		}
	}
	for i, def := range x.defs {
		subscribe(x.inbox(i), func(m *nats.Msg) {
			b, _ := json.Marshal(def)
			_ = m.Respond(b)
		})
	}
	subscribe(x.bus.Alive(x.instance), func(m *nats.Msg) {
		var q events.AliveRequest
		if x.deaf || json.Unmarshal(m.Data, &q) != nil {
			return
		}
		x.mu.Lock()
		_, running := x.running[events.CallKey{Session: q.Session, Turn: q.Turn, Call: q.Call}]
		x.mu.Unlock()
		b, _ := json.Marshal(events.AliveReply{Running: running})
		_ = m.Respond(b)
	})
	subscribe(x.bus.Under("stop"), func(m *nats.Msg) {
		k, err := x.bus.ParseCall("stop", m.Subject)
		x.mu.Lock()
		defer x.mu.Unlock()
		if cancel := x.running[k]; err == nil && cancel != nil {
			cancel()
		}
	})
	_ = nc.Flush()
}

func (x *worker) inbox(i int) string { return fmt.Sprintf("_INBOX.%s.%d", x.instance, i) }

func (x *worker) announce(gone bool) {
	for i, def := range x.defs {
		e, _ := events.New(events.Attributes{ID: "announce", Source: "/workers/" + x.name, Type: events.TypeAnnounce}, events.Announce{
			Worker: x.name, Instance: x.instance, Pool: x.pool, Tool: def.Name, Definition: def.Hash(), StartedAt: x.started, Slots: 64, Gone: gone,
		})
		h, data := events.Encode(e)
		_ = x.bus.Conn().PublishMsg(&nats.Msg{Subject: x.bus.Announce(x.name, def.Name), Reply: x.inbox(i), Header: h, Data: data})
	}
}

func (x *worker) handle(ctx context.Context, d *jet.Delivery) {
	_, name, k, err := x.bus.ParseWork(d.Subject)
	var work events.ToolWork
	e, err2 := x.bus.Open(ctx, d.Header, d.Data)
	if err := errors.Join(err, err2, events.Unmarshal(e.Data, &work)); err != nil {
		x.w.Errorf("work %s: %v", d.Subject, err)
		return
	}
	settle := func(r events.Reason, text string) { //nolint:contextcheck // stored though the worker is being killed: the worst moment
		x.store(x.bus.Result(k), events.TypeToolResult, k, events.ToolResult{
			CallID: k.Call, Name: name, State: r.Outcome().State, Reason: r, Content: []events.Content{events.Text(text)},
			Meta: events.ResultMeta{FinishedAt: time.Now(), Attempt: 1, Worker: x.name, Definition: work.Definition},
		})
		x.step(k, work)
		_ = d.Ack()
	}
	fenced := true
	for _, def := range x.defs {
		if def.Name == name {
			fenced = def.Fenced()
		}
	}
	if fenced {
		mine := events.ToolResultStart{CallID: k.Call, Instance: x.instance, Nonce: fmt.Sprintf("%s-%d", x.instance, d.Count), Worker: x.name, At: time.Now()}
		if !x.store(x.bus.Start(k), events.TypeToolResultStart, k, mine) { //nolint:contextcheck // stored though the worker is being killed: the worst moment
			s := x.w.startOf(k) //nolint:contextcheck // stored though the worker is being killed: the worst moment
			switch {
			case s.Settle != "":
				settle(s.Settle, "settled by another")
			case x.w.result(k) != nil: //nolint:contextcheck // stored though the worker is being killed: the worst moment
				x.step(k, work) //nolint:contextcheck // likewise
				_ = d.Ack()
			default:
				settle(events.ReasonOutcomeUnknown, "lost")
			}
			return
		}
	}
	runCtx, cancel := context.WithCancel(ctx)
	x.mu.Lock()
	x.ran[k]++
	x.running[k] = cancel
	x.mu.Unlock()
	renewing := make(chan struct{})
	go func() {
		defer close(renewing)
		for {
			select {
			case <-runCtx.Done():
				return
			case <-time.After(3 * time.Second):
				_ = d.InProgress()
			}
		}
	}()
	text := x.run(runCtx, k, work)
	stopped := runCtx.Err() != nil
	cancel()
	<-renewing
	x.mu.Lock()
	delete(x.running, k)
	x.mu.Unlock()
	switch {
	case ctx.Err() != nil: // killed: nothing more is said
	case stopped:
		settle(events.ReasonCancelled, "stopped")
	default:
		settle(events.ReasonOK, text)
	}
}

// store says whether the fact is this one.
func (x *worker) store(subject string, typ events.Type, k events.CallKey, data any) bool {
	e, err := events.New(events.Attributes{ID: string(typ) + k.String(), Source: "/workers/" + x.name, Type: typ, Session: k.Session, Turn: k.Turn, Call: k.Call}, data)
	if err != nil {
		x.w.Error(err)
	}
	_, err = x.bus.Store(context.WithoutCancel(x.w.Context()), jet.Out{Subject: subject, Event: e})
	return err == nil
}

// step says that a staged turn may move on.
func (x *worker) step(k events.CallKey, work events.ToolWork) {
	if !work.Staged || x.forgetful {
		return
	}
	e := events.Event{Attributes: events.Attributes{ID: "step/" + k.String(), Source: "/workers/" + x.name, Type: events.TypeTurnStep}}
	if _, err := x.bus.Store(context.WithoutCancel(x.w.Context()), jet.Out{Subject: x.bus.Step(k.Session, k.Turn), Event: e}); err != nil {
		x.w.Error(err)
	}
}

func (x *worker) runs(k events.CallKey) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.ran[k]
}

// call is one call of the tests' turns; input is JSON.
func call(id, name, input string) events.Call {
	return events.Call{ID: events.CallID(id), Name: events.ToolName(name), Input: json.RawMessage(input)}
}

func key(turn, id string) events.CallKey {
	return events.CallKey{Session: "s", Turn: events.TurnID(turn), Call: events.CallID(id)}
}

// submit publishes a turn of agent local in session s.
func (w *world) submit(turn string, calls ...events.Call) {
	w.Helper()
	w.publish(turn, events.ToolCalls{Calls: calls})
}

func (w *world) publish(turn string, body events.ToolCalls) {
	w.Helper()
	e, err := events.New(events.Attributes{
		ID: "calls/" + turn, Source: "/agents/local", Type: events.TypeToolCalls, Session: "s", Turn: events.TurnID(turn),
		ReplyID: "reply-1", Parent: "p/q/r", TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}, body)
	if err != nil {
		w.Fatal(err)
	}
	if _, err := w.bus.Store(w.Context(), jet.Out{Subject: w.bus.Calls("local", "s", events.TurnID(turn)), Event: e}); err != nil {
		w.Fatal(err)
	}
}

// cancel publishes a CancelCalls event.
func (w *world) cancel(turn string, ids ...events.CallID) {
	w.Helper()
	e, err := events.New(events.Attributes{ID: "cancel/" + turn, Source: "/agents/local", Type: events.TypeCancelCalls}, events.CancelCalls{Calls: ids})
	if err != nil {
		w.Fatal(err)
	}
	if _, err := w.bus.Store(w.Context(), jet.Out{Subject: w.bus.Cancel("local", "s", events.TurnID(turn)), Event: e}); err != nil {
		w.Fatal(err)
	}
}

// result reads the result of a call; nil: none.
func (w *world) result(k events.CallKey) *events.ToolResult {
	w.Helper()
	m, err := w.bus.Fact(context.WithoutCancel(w.Context()), w.bus.Result(k))
	if errors.Is(err, jet.ErrNone) {
		return nil
	}
	var r events.ToolResult
	if err := errors.Join(err, m.Err, events.Unmarshal(m.Event.Data, &r)); err != nil {
		w.Fatal(err)
	}
	return &r
}

func (w *world) startOf(k events.CallKey) (s events.ToolResultStart) {
	w.Helper()
	m, err := w.bus.Fact(context.WithoutCancel(w.Context()), w.bus.Start(k))
	if err := errors.Join(err, events.Unmarshal(m.Event.Data, &s)); err != nil {
		w.Error(err)
	}
	return s
}

// await waits, in virtual time, until a call has its result.
func (w *world) await(k events.CallKey, most time.Duration) *events.ToolResult {
	w.Helper()
	for end := time.Now().Add(most); time.Now().Before(end); wait(max(most/1000, 20*time.Millisecond)) {
		if r := w.result(k); r != nil {
			return r
		}
	}
	w.Fatalf("%s: no result after %v", k, most)
	return nil
}

// want checks the reason of a call's result.
func (w *world) want(k events.CallKey, most time.Duration, reason events.Reason) *events.ToolResult {
	w.Helper()
	r := w.await(k, most)
	if r.Reason != reason || r.State != reason.Outcome().State || r.CallID != k.Call {
		w.Errorf("%s: got %s/%s of call %q, want %s", k, r.State, r.Reason, r.CallID, reason)
	}
	return r
}

// count is how many messages of a stream match.
func (w *world) count(stream, filter string) (n int) {
	w.Helper()
	for seq := uint64(1); ; n++ {
		m, err := w.bus.Next(w.Context(), stream, seq, filter)
		if errors.Is(err, jet.ErrNone) {
			return n
		}
		if err != nil {
			w.Fatal(err)
		}
		seq = m.Seq + 1
	}
}

// registered waits until a dispatcher knows n tools.
func (w *world) registered(p *process, n int) {
	w.Helper()
	for range 1000 {
		if p.Tools() == n {
			return
		}
		wait(20 * time.Millisecond)
	}
	w.Fatalf("got %d tools, want %d", p.Tools(), n)
}

// register has tools known, with nobody there to run them.
func (w *world) register(p *process, defs ...toolkit.Definition) {
	w.Helper()
	x := w.worker(defs)
	w.registered(p, p.Tools()+len(defs))
	x.announce(true)
	x.stop()
}

func text(r *events.ToolResult) string {
	var b strings.Builder
	for _, c := range r.Content {
		b.Write(c)
	}
	return b.String()
}
