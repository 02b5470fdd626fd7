package workers_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/internal/natstest"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/workers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is an installation without a dispatcher; the test does what one would.
type bench struct {
	testing.TB
	srv *natstest.Server
	bus *jet.Bus
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(setup(t)) })
}

func setup(tb testing.TB) *bench {
	tb.Helper()
	srv := natstest.Start(tb)
	b := &bench{TB: tb, srv: srv, bus: srv.Bus()}
	b.pool("pool", 0)
	return b
}

func (b *bench) pool(name string, limit int) {
	b.Helper()
	if err := jet.EnsurePool(b.Context(), b.bus.JetStream(), b.bus.Names, name, limit); err != nil {
		b.Fatal(err)
	}
}

// program is a running worker.
type program struct {
	*workers.Worker
	nc   *nats.Conn
	stop context.CancelFunc
	done chan struct{}
	err  error
}

func (b *bench) prepare(cfg workers.Config, tools ...*toolkit.Tool) *program {
	b.Helper()
	return b.prepareOn(b.srv.Conn(), cfg, tools...)
}

func (b *bench) prepareOn(nc *nats.Conn, cfg workers.Config, tools ...*toolkit.Tool) *program {
	b.Helper()
	kit := toolkit.New()
	if err := kit.Add(tools...); err != nil {
		b.Fatal(err)
	}
	if cfg.Name == "" {
		cfg.Name = "pool"
	}
	w, err := workers.New(nc, kit, cfg)
	if err != nil {
		b.Fatal(err)
	}
	return &program{Worker: w, nc: nc, done: make(chan struct{})}
}

func (b *bench) run(p *program) *program {
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	p.stop = cancel
	go func() {
		defer close(p.done)
		p.err = p.Run(ctx)
	}()
	b.Cleanup(func() { _ = p.end() }) // a killed worker ends with an error
	return p
}

func (b *bench) start(cfg workers.Config, tools ...*toolkit.Tool) *program {
	b.Helper()
	return b.run(b.prepare(cfg, tools...))
}

// end stops the worker and waits for it.
func (p *program) end() error {
	p.stop()
	<-p.done
	return p.err
}

// kill is the end of a process, as seen from the bus: nothing more comes from it.
func (p *program) kill() { p.nc.Close() }

// dead says that the process was killed: what it still does, it does no more.
func (p *program) dead() bool { return p.nc.IsClosed() }

// killAt makes the worker die when it comes to a point of any call.
func (p *program) killAt(point string) {
	p.SetStep(func(at string, _ events.CallKey) {
		if at == point {
			p.kill()
		}
	})
}

func key(call string) events.CallKey {
	return events.CallKey{Session: "s 1", Turn: "t.1", Call: events.CallID(call)}
}

// dispatch publishes the work of a call as a dispatcher does; change may be nil.
func (b *bench) dispatch(tool, call string, change func(*jet.Out, *events.ToolWork)) {
	b.Helper()
	k := key(call)
	work := events.ToolWork{
		Call: events.Call{ID: k.Call, Name: events.ToolName(tool), Input: json.RawMessage(`{}`)}, Agent: "local",
		Definition: "hash", SessionRevision: 7, Decision: "allow: default",
		AcceptedAt: time.Now(), QueueUntil: time.Now().Add(10 * time.Minute),
	}
	out := jet.Out{Subject: b.bus.Work("pool", work.Call.Name, k), Event: events.Event{Attributes: events.Attributes{
		ID: "work/" + k.String(), Source: "/dispatchers/1", Type: events.TypeToolWork,
		Session: k.Session, Turn: k.Turn, Call: k.Call, Tool: work.Call.Name, ReplyID: "r1",
		TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
	}}}
	if change != nil {
		change(&out, &work)
	}
	if out.Event.Data == nil {
		data, err := events.Marshal(work)
		if err != nil {
			b.Fatal(err)
		}
		out.Event.Data = data
	}
	if _, err := b.bus.Store(b.Context(), out); err != nil {
		b.Fatal(err)
	}
}

// result waits for the result of a call.
func (b *bench) result(call string, within time.Duration) events.ToolResult {
	b.Helper()
	return b.stored(call, within).result
}

type settled struct {
	event  events.Event
	result events.ToolResult
	at     time.Time
}

func (b *bench) stored(call string, within time.Duration) settled {
	b.Helper()
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		s, err := b.bus.Fact(b.Context(), b.bus.Result(key(call)))
		if errors.Is(err, jet.ErrNone) && time.Since(began) < within {
			continue
		}
		if err != nil || s.Err != nil {
			b.Fatalf("result of %s after %s: %v", call, time.Since(began), errors.Join(err))
		}
		out := settled{event: s.Event, at: s.Time}
		if err := events.Unmarshal(s.Event.Data, &out.result); err != nil {
			b.Fatal(err)
		}
		return out
	}
}

// idle fails the test unless all work is gone from its stream.
func (b *bench) idle() {
	b.Helper()
	time.Sleep(time.Second)
	s, err := b.bus.JetStream().Stream(b.Context(), b.bus.WorkStream())
	if err != nil {
		b.Fatal(err)
	}
	if n := s.CachedInfo().State.Msgs; n != 0 {
		b.Errorf("%d messages of work are left, want none", n)
	}
}

func (b *bench) want(r events.ToolResult, reason events.Reason) {
	b.Helper()
	if r.Reason != reason || r.State != reason.Outcome().State || r.IsError != (reason != events.ReasonOK) {
		b.Errorf("got %s (%s, isError %t) %q, want %s", r.Reason, r.State, r.IsError, r.Text(), reason)
	}
}

type none struct{}

// counted is a tool that counts its runs and then does f.
func counted(name string, runs *atomic.Int32, o *toolkit.Options, f func(context.Context) (string, error)) *toolkit.Tool {
	return toolkit.MustDefine(name, "counts", func(ctx context.Context, _ none) (string, error) {
		runs.Add(1)
		if f == nil {
			return "done", nil
		}
		return f(ctx)
	}, o)
}

// working takes so long, unless its context ends.
func working(d time.Duration) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		select {
		case <-time.After(d):
			return "done", nil
		case <-ctx.Done():
			return "", errors.New("gave up")
		}
	}
}

// startOf stores a start as another process would.
func (b *bench) startOf(call, instance string, settle events.Reason) {
	b.Helper()
	k := key(call)
	e, err := events.New(events.Attributes{ID: "start/" + call, Source: "/x", Type: events.TypeToolResultStart},
		events.ToolResultStart{CallID: k.Call, Instance: instance, Nonce: "theirs", Settle: settle, At: time.Now()})
	if err == nil {
		_, err = b.bus.Store(b.Context(), jet.Out{Subject: b.bus.Start(k), Event: e})
	}
	if err != nil {
		b.Fatal(err)
	}
}

// resultOf stores a result as another process would.
func (b *bench) resultOf(call string, reason events.Reason) {
	b.Helper()
	k := key(call)
	e, err := events.New(events.Attributes{ID: "result/" + call, Source: "/x", Type: events.TypeToolResult},
		events.ToolResult{CallID: k.Call, State: reason.Outcome().State, Reason: reason, Content: []events.Content{events.Text("theirs")}})
	if err == nil {
		_, err = b.bus.Store(b.Context(), jet.Out{Subject: b.bus.Result(k), Event: e})
	}
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) startStored(call string) (events.ToolResultStart, bool) {
	b.Helper()
	var start events.ToolResultStart
	s, err := b.bus.Fact(b.Context(), b.bus.Start(key(call)))
	if errors.Is(err, jet.ErrNone) {
		return start, false
	}
	if err == nil {
		err = events.Unmarshal(s.Event.Data, &start)
	}
	if err != nil {
		b.Fatal(err)
	}
	return start, true
}
