package workers_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/workers"
)

// T-61, T-62, T-69: a worker is killed at every step of a call; another takes over. A tool with side
// effects has had one effect at the most, and the call its one result.
func TestWorkerKilledAtEveryStep_T61_T62_T69(t *testing.T) {
	for _, c := range []struct {
		point   string
		fenced  events.Reason
		effects int32
		open    int32 // effects of a tool that may run again
	}{
		{"before start", events.ReasonOK, 1, 1},
		{"after start", events.ReasonOutcomeUnknown, 0, 1},
		{"side effect", events.ReasonOutcomeUnknown, 1, 2},
		{"after run", events.ReasonOutcomeUnknown, 1, 2},
		{"after result", events.ReasonOK, 1, 1},
	} {
		for name, o := range map[string]*toolkit.Options{"fenced": {}, "open": {Idempotent: true}} {
			t.Run(c.point+" "+name, func(t *testing.T) {
				bubble(t, func(b *bench) {
					var effects, seen atomic.Int32
					var first *program
					charge := counted("charge", &seen, o, func(context.Context) (string, error) {
						if first.dead() && effects.Load() == 0 && c.point != "before start" && seen.Load() == 1 {
							return "", errors.New("a dead process does nothing")
						}
						effects.Add(1)
						if c.point == "side effect" && effects.Load() == 1 {
							first.kill()
						}
						return "charged", nil
					})
					first = b.prepare(workers.Config{}, charge)
					first.killAt(c.point)
					b.run(first)
					time.Sleep(time.Second)
					b.dispatch("charge", "c1", nil)
					time.Sleep(time.Second)
					b.start(workers.Config{}, charge)
					r := b.result("c1", time.Minute)
					want, effect := c.fenced, c.effects
					if name == "open" {
						want, effect = events.ReasonOK, c.open
					}
					b.want(r, want)
					time.Sleep(time.Minute)
					if effects.Load() != effect {
						b.Errorf("%d side effects, want %d", effects.Load(), effect)
					}
					b.idle()
				})
			})
		}
	}
}

// redeliver makes the server deliver again whatever it has delivered to a worker, as if the lease
// had lapsed while the worker goes on.
func (b *bench) redeliver() (now func()) {
	b.Helper()
	var mu sync.Mutex
	var replies []string
	if _, err := b.bus.Conn().Subscribe("_INBOX.>", func(m *nats.Msg) {
		if len(m.Reply) > 8 && m.Reply[:8] == "$JS.ACK." {
			mu.Lock()
			defer mu.Unlock()
			replies = append(replies, m.Reply)
		}
	}); err != nil {
		b.Fatal(err)
	}
	return func() {
		mu.Lock()
		defer mu.Unlock()
		for _, r := range replies {
			if err := b.bus.Conn().Publish(r, []byte("-NAK")); err != nil {
				b.Error(err)
			}
		}
		replies = nil
	}
}

// T-60, T-56: the same call reaches a second worker, and the same worker again, while it runs.
func TestRedeliveredWhileRunning_T56_T60(t *testing.T) {
	for name, n := range map[string]int{"to the same worker": 1, "to one of two": 2} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				again := b.redeliver()
				var runs atomic.Int32
				for range n {
					b.start(workers.Config{}, counted("charge", &runs, nil, working(20*time.Second)))
				}
				b.dispatch("charge", "c1", nil)
				for range 5 {
					time.Sleep(3 * time.Second)
					again()
				}
				b.want(b.result("c1", time.Minute), events.ReasonOK)
				if runs.Load() != 1 {
					b.Errorf("%d runs, want 1", runs.Load())
				}
				time.Sleep(10 * time.Second)
				b.idle()
			})
		})
	}
}

// T-60: a call without a fence runs twice at once; one result counts, and the other run is stopped.
func TestOpenCallRunningTwice_T60(t *testing.T) {
	bubble(t, func(b *bench) {
		again := b.redeliver()
		var runs atomic.Int32
		var lost atomic.Int32
		tool := counted("read", &runs, &toolkit.Options{ReadOnly: true}, func(ctx context.Context) (string, error) {
			if runs.Load() == 2 {
				return "second", nil
			}
			<-ctx.Done()
			if errors.Is(context.Cause(ctx), toolkit.ErrLost) {
				lost.Add(1)
			}
			return "first, late", nil
		})
		// The first worker has one slot, and it is taken: the call goes to the other.
		b.start(workers.Config{Slots: 1}, tool)
		b.dispatch("read", "c1", nil)
		time.Sleep(time.Second)
		b.start(workers.Config{Slots: 1}, tool)
		time.Sleep(time.Second)
		again()
		r := b.result("c1", time.Minute)
		if r.Text() != "second" {
			b.Errorf("result: got %q, want that of the second run", r.Text())
		}
		time.Sleep(10 * time.Second)
		if runs.Load() != 2 || lost.Load() != 1 {
			b.Errorf("%d runs, %d stopped because settled elsewhere, want 2 and 1", runs.Load(), lost.Load())
		}
		b.idle()
	})
}

// Somebody won the start to settle the call, and died before the result.
func TestSettlementIsFinished(t *testing.T) {
	for name, o := range map[string]*toolkit.Options{"fenced": nil, "open, at its first renewal": {ReadOnly: true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				var runs atomic.Int32
				b.start(workers.Config{}, counted("x", &runs, o, working(time.Hour)))
				b.startOf("c1", "a dispatcher", events.ReasonDeniedByRule)
				b.dispatch("x", "c1", nil)
				r := b.result("c1", 5*time.Second)
				b.want(r, events.ReasonDeniedByRule)
				if o == nil && runs.Load() != 0 {
					b.Errorf("%d runs of a call that was denied", runs.Load())
				}
				b.idle()
			})
		})
	}
}

// Another worker's start of a call without a fence does not stop this one.
func TestOpenCallGoesOnBesideAnotherStart(t *testing.T) {
	bubble(t, func(b *bench) {
		var runs atomic.Int32
		b.start(workers.Config{}, counted("x", &runs, &toolkit.Options{ReadOnly: true}, working(8*time.Second)))
		b.startOf("c1", "a lost worker", "")
		b.dispatch("x", "c1", nil)
		b.want(b.result("c1", time.Minute), events.ReasonOK)
	})
}

// T-61: the process of the start is asked; "running" means wait, and its result counts.
func TestStartedElsewhere_T61(t *testing.T) {
	bubble(t, func(b *bench) {
		var asked atomic.Int32
		if _, err := b.bus.Conn().Subscribe(b.bus.Alive("other"), func(m *nats.Msg) {
			var q events.AliveRequest
			if err := json.Unmarshal(m.Data, &q); err != nil || q.Nonce != "theirs" || q.Call != "c1" || q.Turn != key("").Turn {
				b.Errorf("question: got %s", m.Data)
			}
			asked.Add(1)
			_ = m.Respond([]byte(`{"running":true}`))
		}); err != nil {
			b.Fatal(err)
		}
		var runs atomic.Int32
		b.start(workers.Config{}, counted("charge", &runs, nil, nil))
		b.startOf("c1", "other", "")
		b.dispatch("charge", "c1", nil)
		time.Sleep(time.Minute)
		if asked.Load() < 10 || asked.Load() > 30 {
			b.Errorf("asked %d times in a minute", asked.Load())
		}
		b.resultOf("c1", events.ReasonOK)
		time.Sleep(10 * time.Second)
		if r := b.result("c1", 0); r.Text() != "theirs" || runs.Load() != 0 {
			b.Errorf("got %q, %d runs", r.Text(), runs.Load())
		}
		b.idle()
	})
}

// T-61: "not mine" twice is an outcome that nobody knows; a result between the two questions counts.
func TestStartedElsewhereAndLost_T61(t *testing.T) {
	for name, finishes := range map[string]bool{"lost": false, "has just finished": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				var asked atomic.Int32
				if _, err := b.bus.Conn().Subscribe(b.bus.Alive("other"), func(m *nats.Msg) {
					asked.Add(1)
					_ = m.Respond([]byte(`{"running":false}`))
				}); err != nil {
					b.Fatal(err)
				}
				var runs atomic.Int32
				b.start(workers.Config{}, counted("charge", &runs, nil, nil))
				b.startOf("c1", "other", "")
				b.dispatch("charge", "c1", nil)
				if finishes {
					time.Sleep(time.Second)
					b.resultOf("c1", events.ReasonOK)
				}
				r := b.result("c1", time.Minute)
				if finishes {
					b.want(r, events.ReasonOK)
				} else {
					b.want(r, events.ReasonOutcomeUnknown)
				}
				time.Sleep(10 * time.Second)
				if asked.Load() != 2 || runs.Load() != 0 {
					b.Errorf("asked %d times, %d runs, want 2 and 0", asked.Load(), runs.Load())
				}
				b.idle()
			})
		})
	}
}

// A call is delivered again after its result was stored: nothing runs.
func TestRedeliveredAfterItsResult(t *testing.T) {
	for name, o := range map[string]*toolkit.Options{"fenced": nil, "open": {ReadOnly: true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				var runs atomic.Int32
				b.dispatch("x", "c1", nil)
				ctx, cancel := context.WithCancel(b.Context())
				if err := b.bus.Pull(ctx, jet.PullConfig{Stream: b.bus.WorkStream(), Consumer: "pool", Slots: 1}, func(d *jet.Delivery) {
					_ = d.Nak(0)
					cancel()
				}); err != nil {
					b.Fatal(err)
				}
				b.resultOf("c1", events.ReasonOK)
				b.start(workers.Config{}, counted("x", &runs, o, nil))
				time.Sleep(5 * time.Second)
				if runs.Load() != 0 {
					b.Errorf("%d runs, want none", runs.Load())
				}
				b.idle()
			})
		})
	}
}

func TestAliveAnswers(t *testing.T) {
	bubble(t, func(b *bench) {
		var runs atomic.Int32
		w := b.start(workers.Config{}, counted("charge", &runs, nil, working(10*time.Second)))
		b.dispatch("charge", "c1", nil)
		time.Sleep(time.Second)
		start, _ := b.startStored("c1")
		ask := func(nonce string) bool {
			k := key("c1")
			q, err := json.Marshal(events.AliveRequest{Session: k.Session, Turn: k.Turn, Call: k.Call, Nonce: nonce})
			if err != nil {
				b.Fatal(err)
			}
			m, err := b.bus.Conn().Request(b.bus.Alive(w.Instance()), q, time.Second)
			if err != nil {
				b.Fatal(err)
			}
			var reply events.AliveReply
			if err := json.Unmarshal(m.Data, &reply); err != nil {
				b.Fatal(err)
			}
			return reply.Running
		}
		if !ask(start.Nonce) || ask("another") {
			b.Error("the running call must be known by its nonce only")
		}
		b.want(b.result("c1", time.Minute), events.ReasonOK)
		time.Sleep(time.Second)
		if ask(start.Nonce) {
			b.Error("the call is settled, and the worker says it runs")
		}
	})
}
