package workers_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/workers"
)

func TestWorkBecomesResult(t *testing.T) {
	bubble(t, func(b *bench) {
		var got toolkit.Call
		tool, err := toolkit.Raw(toolkit.Definition{Name: "echo", Description: "echoes", InputSchema: json.RawMessage(`{"type":"object"}`), ReadOnly: true},
			func(ctx context.Context, in json.RawMessage) (toolkit.Result, error) {
				got, _ = toolkit.CallFrom(ctx)
				return toolkit.Result{Content: []events.Content{events.Text("hi")}, Structured: in}, nil
			})
		if err != nil {
			b.Fatal(err)
		}
		b.start(workers.Config{}, tool)
		const args = `{"n": 18446744073709551617,"f":1.50}`
		b.dispatch("echo", "c1", func(_ *jet.Out, w *events.ToolWork) {
			w.Call.Input, w.ArgsRepaired = json.RawMessage(args), true
		})
		s := b.stored("c1", time.Second)
		b.want(s.result, events.ReasonOK)
		if string(s.result.StructuredContent) != args {
			b.Errorf("structured content: got %s, want %s", s.result.StructuredContent, args)
		}
		k := key("c1")
		want := events.Attributes{
			ID: "result/" + k.String(), Source: "/workers/pool", Type: events.TypeToolResult, Time: s.event.Time,
			Session: k.Session, Turn: k.Turn, Call: k.Call, Tool: "echo", ReplyID: "r1",
			TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		}
		if diff := cmp.Diff(want, s.event.Attributes); diff != "" {
			b.Errorf("attributes (-want +got):\n%s", diff)
		}
		m := s.result.Meta
		if m.Attempt != 1 || m.Worker != "pool" || m.StartedAt == nil || m.Definition != "hash" ||
			m.SessionRevision != 7 || m.Decision != "allow: default" || !m.ArgsRepaired {
			b.Errorf("meta: got %+v", m)
		}
		if got.Agent != "local" || got.Key != k || got.ReplyID != "r1" || got.Attempt != 1 {
			b.Errorf("call seen by the tool: got %+v", got)
		}
		b.idle()
	})
}

// A fast call without a fence costs one store and one acknowledgement: no start, no reads.
func TestFastPathStoresOnce(t *testing.T) {
	bubble(t, func(b *bench) {
		var runs, others atomic.Int32
		for _, subject := range []string{"$JS.API.STREAM.MSG.GET.>", "toolwire.start.>"} {
			if _, err := b.bus.Conn().Subscribe(subject, func(*nats.Msg) { others.Add(1) }); err != nil {
				b.Fatal(err)
			}
		}
		b.start(workers.Config{}, counted("add", &runs, &toolkit.Options{Idempotent: true}, nil))
		for _, c := range []string{"a", "b", "c", "d"} {
			b.dispatch("add", c, nil)
		}
		time.Sleep(time.Minute)
		if runs.Load() != 4 || others.Load() != 0 {
			b.Errorf("%d runs, %d starts and reads, want 4 and 0", runs.Load(), others.Load())
		}
		b.idle()
	})
}

func TestFencedCallStoresItsStart(t *testing.T) {
	bubble(t, func(b *bench) {
		var runs atomic.Int32
		w := b.start(workers.Config{}, counted("charge", &runs, nil, nil))
		b.dispatch("charge", "c1", nil)
		b.want(b.result("c1", time.Second), events.ReasonOK)
		start, ok := b.startStored("c1")
		if !ok || start.Instance != w.Instance() || start.Nonce == "" || start.Settle != "" || start.Worker != "pool" {
			b.Errorf("start: got %+v, %t", start, ok)
		}
	})
}

// T11: attempts are made here, and the result says which one it was.
func TestRetriesInPlace_T11(t *testing.T) {
	bubble(t, func(b *bench) {
		var runs atomic.Int32
		b.start(workers.Config{}, counted("flaky", &runs, &toolkit.Options{ReadOnly: true, Attempts: 3}, func(context.Context) (string, error) {
			if runs.Load() < 3 {
				return "", toolkit.Retryable(errors.New("busy"))
			}
			return "done", nil
		}))
		b.dispatch("flaky", "c1", nil)
		r := b.result("c1", time.Minute)
		b.want(r, events.ReasonOK)
		if r.Meta.Attempt != 3 {
			b.Errorf("attempt: got %d, want 3", r.Meta.Attempt)
		}
	})
}

// T2: a panic is the tool's failure, not the worker's; its text stays here.
func TestPanic_T2(t *testing.T) {
	bubble(t, func(b *bench) {
		var runs atomic.Int32
		b.start(workers.Config{}, counted("bad", &runs, nil, func(context.Context) (string, error) {
			panic("secret") //nolint:forbidigo // what is tested
		}))
		b.dispatch("bad", "c1", nil)
		r := b.result("c1", time.Second)
		b.want(r, events.ReasonToolPanic)
		if strings.Contains(r.Text(), "secret") {
			b.Errorf("the panic crossed: %q", r.Text())
		}
	})
}

func TestMiddlewareSurroundsTheTool(t *testing.T) {
	bubble(t, func(b *bench) {
		var order []string
		layer := func(name string) toolkit.Middleware {
			return func(next toolkit.Handler) toolkit.Handler {
				return func(ctx context.Context, in json.RawMessage) (toolkit.Result, error) {
					order = append(order, name)
					return next(ctx, in)
				}
			}
		}
		var runs atomic.Int32
		b.start(workers.Config{Middleware: []toolkit.Middleware{layer("outer"), layer("inner")}}, counted("x", &runs, nil, nil))
		b.dispatch("x", "c1", nil)
		b.want(b.result("c1", time.Second), events.ReasonOK)
		if diff := cmp.Diff([]string{"outer", "inner"}, order); diff != "" {
			b.Errorf("order (-want +got):\n%s", diff)
		}
	})
}

// T14: progress is numbered, and belongs to its attempt.
func TestProgress_T14(t *testing.T) {
	bubble(t, func(b *bench) {
		deltas := make(chan *nats.Msg, 8)
		sub, err := b.bus.Conn().ChanSubscribe(b.bus.DeltasOfTurn(key("c1").Session, key("c1").Turn), deltas)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = sub.Unsubscribe() }()
		var runs atomic.Int32
		b.start(workers.Config{}, counted("slow", &runs, nil, func(ctx context.Context) (string, error) {
			toolkit.Progress(ctx, 1, 2, "half")
			toolkit.Emit(ctx, events.Text("piece"))
			return "all", nil
		}))
		b.dispatch("slow", "c1", nil)
		b.want(b.result("c1", time.Second), events.ReasonOK)
		for seq := uint64(1); seq <= 2; seq++ {
			m := <-deltas
			e, err := events.Decode(m.Header, m.Data)
			if err != nil {
				b.Fatal(err)
			}
			var d events.ToolResultDelta
			if err := events.Unmarshal(e.Data, &d); err != nil {
				b.Fatal(err)
			}
			if d.Seq != seq || d.Attempt != 1 || d.CallID != "c1" || e.Type != events.TypeToolResultDelta || e.Call != "c1" {
				b.Errorf("delta %d: got %+v of %+v", seq, d, e.Attributes)
			}
		}
	})
}

func TestLargeResultTravelsByReference(t *testing.T) {
	bubble(t, func(b *bench) {
		large := strings.Repeat("x", 1<<20)
		var runs atomic.Int32
		b.start(workers.Config{}, counted("big", &runs, nil, func(context.Context) (string, error) { return large, nil }))
		b.dispatch("big", "c1", nil)
		s := b.stored("c1", time.Second)
		if s.event.DataRef == "" || s.result.Text() != large {
			b.Errorf("dataref %q, %d bytes of text, want a reference and %d", s.event.DataRef, len(s.result.Text()), len(large))
		}
	})
}

// What cannot be stored as it is gets a small result in its place, never silence.
func TestResultThatCannotBeStored(t *testing.T) {
	for name, c := range map[string]struct {
		result func() toolkit.Result
		reason events.Reason
	}{
		"no JSON": {func() toolkit.Result { return toolkit.Result{Content: []events.Content{events.Content("{")}} }, events.ReasonToolError},
		"over all caps": {func() toolkit.Result {
			return toolkit.Result{Content: []events.Content{events.Text(strings.Repeat("x", 17<<20))}}
		}, events.ReasonResultTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				tool := toolkit.MustDefine("x", "returns", func(context.Context, none) (toolkit.Result, error) { return c.result(), nil },
					&toolkit.Options{MaxResult: 1 << 30})
				b.start(workers.Config{}, tool)
				b.dispatch("x", "c1", nil)
				b.want(b.result("c1", time.Minute), c.reason)
				b.idle()
			})
		})
	}
}

func TestLargeArgumentsAreFetched(t *testing.T) {
	bubble(t, func(b *bench) {
		tool := toolkit.MustDefine("len", "counts", func(_ context.Context, in struct {
			S string `json:"s"`
		},
		) (int, error) {
			return len(in.S), nil
		}, nil)
		b.start(workers.Config{}, tool)
		b.dispatch("len", "c1", func(_ *jet.Out, w *events.ToolWork) {
			w.Call.Input = json.RawMessage(`{"s":"` + strings.Repeat("x", 1<<20) + `"}`)
		})
		if r := b.result("c1", time.Second); r.Text() != "1048576" {
			b.Errorf("got %s %q", r.Reason, r.Text())
		}
	})
}

// T-68, T-65: what never ran says so, with a reason of its own.
func TestNotRun_T68(t *testing.T) {
	past := func(w *events.ToolWork) { w.QueueUntil = time.Now().Add(-time.Second) }
	for name, c := range map[string]struct {
		change func(*events.ToolWork)
		reason events.Reason
	}{
		"queue expired": {past, events.ReasonQueueExpired},
		"deadline": {func(w *events.ToolWork) {
			past(w)
			at := time.Now().Add(-time.Millisecond)
			w.Deadline = &at
		}, events.ReasonTimeout},
	} {
		for _, tool := range []string{"fenced", "open", "elsewhere"} {
			t.Run(name+" "+tool, func(t *testing.T) {
				bubble(t, func(b *bench) {
					var runs atomic.Int32
					b.start(workers.Config{}, counted("fenced", &runs, nil, nil), counted("open", &runs, &toolkit.Options{ReadOnly: true}, nil))
					b.dispatch(tool, "c1", func(_ *jet.Out, w *events.ToolWork) { c.change(w) })
					r := b.result("c1", time.Second)
					b.want(r, c.reason)
					if r.Meta.StartedAt != nil || r.Meta.Attempt != 0 || runs.Load() != 0 {
						b.Errorf("never ran, but meta says %+v, and %d runs", r.Meta, runs.Load())
					}
					if start, _ := b.startStored("c1"); start.Settle != c.reason {
						b.Errorf("start settles %q, want %q", start.Settle, c.reason)
					}
					b.idle()
				})
			})
		}
	}
}

func TestDeadlineOfTheAgentEndsTheRun(t *testing.T) {
	bubble(t, func(b *bench) {
		var runs atomic.Int32
		b.start(workers.Config{}, counted("slow", &runs, nil, working(time.Hour)))
		b.dispatch("slow", "c1", func(_ *jet.Out, w *events.ToolWork) {
			at := time.Now().Add(20 * time.Second)
			w.Deadline = &at
		})
		s := b.stored("c1", time.Minute)
		b.want(s.result, events.ReasonTimeout)
		if s.result.Meta.StartedAt == nil {
			b.Error("it ran, and the result does not say so")
		}
	})
}

// The tool is not here: given back with a growing delay until a worker that has it comes.
func TestToolNotHere(t *testing.T) {
	bubble(t, func(b *bench) {
		var runs atomic.Int32
		w := b.start(workers.Config{}, counted("other", &runs, nil, nil))
		b.dispatch("charge", "c1", nil)
		time.Sleep(5 * time.Second)
		if s := w.Stats(); s.Unknown < 2 || s.Unknown > 4 {
			b.Errorf("given back %d times in 5 s", s.Unknown)
		}
		b.start(workers.Config{}, counted("charge", &runs, nil, nil))
		b.want(b.result("c1", time.Minute), events.ReasonOK)
		b.idle()
	})
}

// Nobody ever has the tool: the call still ends, at its queue deadline.
func TestToolNowhere(t *testing.T) {
	bubble(t, func(b *bench) {
		var runs atomic.Int32
		b.start(workers.Config{}, counted("other", &runs, nil, nil))
		b.dispatch("charge", "c1", nil)
		s := b.stored("c1", 20*time.Minute)
		b.want(s.result, events.ReasonQueueExpired)
		b.idle()
	})
}

// B5: a call that kills its workers ends.
func TestDeliveredTooOften_B5(t *testing.T) {
	for name, o := range map[string]*toolkit.Options{"fenced": nil, "open": {ReadOnly: true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				ctx, cancel := context.WithCancel(b.Context())
				b.dispatch("x", "c1", nil)
				err := b.bus.Pull(ctx, jet.PullConfig{Stream: b.bus.WorkStream(), Consumer: "pool", Slots: 1}, func(d *jet.Delivery) {
					if d.Count == 50 {
						cancel()
					}
					_ = d.Nak(0)
				})
				if err != nil {
					b.Fatal(err)
				}
				var runs atomic.Int32
				b.start(workers.Config{}, counted("x", &runs, o, nil))
				b.want(b.result("c1", time.Minute), events.ReasonWorkerLost)
				if runs.Load() != 0 {
					b.Errorf("%d runs, want none", runs.Load())
				}
				b.idle()
			})
		})
	}
}
