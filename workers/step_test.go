package workers_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/workers"
)

// held says how many messages a stream has.
func (b *bench) held(stream string) uint64 {
	b.Helper()
	s, err := b.bus.JetStream().Stream(b.Context(), stream)
	if err != nil {
		b.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

// moves fails the test unless a call of a staged turn that has left the work has left a step.
func (b *bench) moves() {
	b.Helper()
	if b.held(b.bus.WorkStream()) == 0 && b.held(b.bus.InboxStream()) == 0 {
		b.Error("the work is gone, and no step is stored: the turn stands still")
	}
}

func staged(_ *jet.Out, w *events.ToolWork) { w.Staged = true }

// A worker that settles a call of a staged turn is killed at every step: once the work is gone, a step
// is there, whoever settled the call.
func TestStepIsLeftWhereverTheWorkerDies(t *testing.T) {
	for _, point := range []string{"none", "before start", "after start", "after run", "after result", "after step"} {
		for name, o := range map[string]*toolkit.Options{"fenced": {}, "open": {Idempotent: true}} {
			t.Run(point+" "+name, func(t *testing.T) {
				bubble(t, func(b *bench) {
					var runs atomic.Int32
					tool := counted("charge", &runs, o, nil)
					first := b.prepare(workers.Config{}, tool)
					first.killAt(point)
					b.run(first)
					b.dispatch("charge", "c1", staged)
					time.Sleep(2 * time.Second)
					b.moves()
					b.start(workers.Config{}, tool)
					for range 60 {
						time.Sleep(time.Second)
						b.moves()
					}
					b.idle()
					b.step()
				})
			})
		}
	}
}

// step reads the first step that is stored.
func (b *bench) step() {
	b.Helper()
	k := key("c1")
	s, err := b.bus.Fact(b.Context(), b.bus.Step(k.Session, k.Turn))
	if err != nil || s.Err != nil {
		b.Fatalf("step: %v, %v", err, s)
	}
	want := events.Attributes{
		ID: "step/" + k.String(), Source: "/workers/pool", Type: events.TypeTurnStep, Time: s.Event.Time,
		Session: k.Session, Turn: k.Turn, Call: k.Call, Tool: "charge", ReplyID: s.Event.ReplyID, TraceParent: s.Event.TraceParent,
	}
	if diff := cmp.Diff(want, s.Event.Attributes); diff != "" || len(s.Event.Data) > 0 {
		b.Errorf("step with %d bytes of data (-want +got):\n%s", len(s.Event.Data), diff)
	}
}

// Whoever settled the call, and however: the worker that lets go of its work leaves a step.
func TestStepOfCallsSettledOtherwise(t *testing.T) {
	for name, prepare := range map[string]func(b *bench){
		"settled before it was delivered": func(b *bench) {
			b.startOf("c1", "elsewhere", "")
			b.resultOf("c1", events.ReasonOK)
			b.dispatch("charge", "c1", staged)
		},
		"settled while it was given back": func(b *bench) {
			b.dispatch("charge", "c1", staged)
			b.giveBackOnce()
			b.resultOf("c1", events.ReasonOK)
		},
		"start lost to a settlement": func(b *bench) {
			b.startOf("c1", "a dispatcher", events.ReasonCancelled)
			b.dispatch("charge", "c1", staged)
		},
		"start lost to a worker that is gone": func(b *bench) {
			b.startOf("c1", "gone", "")
			b.dispatch("charge", "c1", staged)
		},
		"expired in the queue": func(b *bench) {
			b.dispatch("charge", "c1", func(o *jet.Out, w *events.ToolWork) {
				staged(o, w)
				w.QueueUntil = time.Now()
			})
		},
		"cannot run as it is configured": func(b *bench) {
			b.dispatch("charge", "c1", func(o *jet.Out, w *events.ToolWork) {
				staged(o, w)
				w.Tuning = []byte(`{"presets":{"key":{"env":"NOT_GIVEN"}}}`)
			})
		},
		"dead letter": func(b *bench) { // whose turn nobody can tell any more
			b.dispatch("charge", "c1", func(o *jet.Out, _ *events.ToolWork) { o.Event.Data = []byte("{") })
		},
		"dead letter, settled already": func(b *bench) {
			b.dispatch("charge", "c1", func(o *jet.Out, _ *events.ToolWork) { o.Event.Data = []byte("{") })
			b.giveBackOnce()
			b.resultOf("c1", events.ReasonOK)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				prepare(b)
				var runs atomic.Int32
				b.start(workers.Config{}, counted("charge", &runs, nil, nil))
				for range 30 {
					time.Sleep(time.Second)
					b.moves()
				}
				b.idle()
				b.step()
			})
		})
	}
}

// The same while the tool runs: somebody else settles the call, or its worker stops.
func TestStepOfCallsEndedWhileTheyRun(t *testing.T) {
	for name, end := range map[string]func(b *bench, p *program){
		"settled elsewhere": func(b *bench, _ *program) { b.resultOf("c1", events.ReasonOK) },
		"worker stops":      func(_ *bench, p *program) { p.stop() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				var runs atomic.Int32
				p := b.start(workers.Config{Drain: -1}, counted("charge", &runs, nil, working(time.Hour)))
				b.dispatch("charge", "c1", staged)
				time.Sleep(time.Second)
				end(b, p)
				for range 30 {
					time.Sleep(time.Second)
					b.moves()
				}
				b.idle()
				b.step()
			})
		})
	}
}

// A step that cannot be stored keeps the work, until it can be.
func TestStepThatIsNotStored(t *testing.T) {
	bubble(t, func(b *bench) {
		if err := b.bus.JetStream().DeleteStream(b.Context(), b.bus.InboxStream()); err != nil {
			b.Fatal(err)
		}
		var runs atomic.Int32
		first := b.start(workers.Config{}, counted("charge", &runs, nil, nil))
		b.dispatch("charge", "c1", staged)
		b.want(b.result("c1", time.Second), events.ReasonOK)
		time.Sleep(time.Minute)
		if b.held(b.bus.WorkStream()) != 1 {
			b.Error("the work is gone without a step")
		}
		if err := jet.Ensure(b.Context(), b.bus.JetStream(), b.bus.Names, jet.Config{NoHistory: true}); err != nil {
			b.Fatal(err)
		}
		time.Sleep(time.Minute)
		b.idle()
		b.step()
		if runs.Load() != 1 {
			b.Errorf("%d runs", runs.Load())
		}
		if err := first.end(); err != nil {
			b.Error(err)
		}
	})
}

// A call that nobody waits for leaves no step: the fast path stays what it costs.
func TestNoStepWithoutStages(t *testing.T) {
	bubble(t, func(b *bench) {
		var runs atomic.Int32
		b.start(workers.Config{}, counted("charge", &runs, nil, nil))
		b.dispatch("charge", "c1", nil)
		b.want(b.result("c1", time.Second), events.ReasonOK)
		b.idle()
		k := key("c1")
		if _, err := b.bus.Fact(b.Context(), b.bus.Step(k.Session, k.Turn)); !errors.Is(err, jet.ErrNone) {
			b.Errorf("a step is stored: %v", err)
		}
	})
}
