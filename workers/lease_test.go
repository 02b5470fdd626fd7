package workers_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/workers"
)

// T-63, B4, T-52: work five times as long as the lease is one execution, though another worker
// is free all the time.
func TestLongWorkKeepsItsLease_T63_B4(t *testing.T) {
	for name, o := range map[string]*toolkit.Options{"fenced": nil, "open": {ReadOnly: true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				var runs atomic.Int32
				tool := counted("slow", &runs, o, working(5*jet.Lease))
				first := b.start(workers.Config{}, tool)
				second := b.start(workers.Config{}, tool)
				b.dispatch("slow", "c1", nil)
				time.Sleep(jet.Lease)
				start, ok := b.startStored("c1")
				if !ok || start.Settle != "" || start.Instance != first.Instance() && start.Instance != second.Instance() {
					b.Errorf("start: got %+v, %t", start, ok)
				}
				b.want(b.result("c1", 6*jet.Lease), events.ReasonOK)
				if runs.Load() != 1 || first.Stats().Redelivered+second.Stats().Redelivered != 0 {
					b.Errorf("%d runs, want 1 and no redelivery", runs.Load())
				}
				b.idle()
			})
		})
	}
}

// T-51, T-60: a call is settled elsewhere while it runs: the tool is told within one renewal,
// and what it returns counts for nothing.
func TestSettledElsewhereWhileRunning_T51(t *testing.T) {
	bubble(t, func(b *bench) {
		var runs atomic.Int32
		cause := make(chan error, 1)
		w := b.start(workers.Config{}, counted("slow", &runs, nil, func(ctx context.Context) (string, error) {
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return "late", nil
		}))
		b.dispatch("slow", "c1", nil)
		time.Sleep(time.Second)
		b.resultOf("c1", events.ReasonOutcomeUnknown)
		time.Sleep(4 * time.Second)
		select {
		case err := <-cause:
			if !errors.Is(err, toolkit.ErrLost) {
				b.Errorf("cause: got %v, want ErrLost", err)
			}
		default:
			b.Error("the tool was not told within one renewal")
		}
		if n := w.Stats().Settled["slow"]; len(n) != 0 {
			b.Errorf("settled: got %v, want nothing", n)
		}
		b.idle()
	})
}

// T-57, T-64, T-65: cancelled is terminal, whatever the tool makes of it, and says so.
func TestStopCancelsTheRun_T57_T64_T65(t *testing.T) {
	for name, f := range map[string]func(context.Context) (string, error){
		"fails late":   working(time.Hour),
		"asks a retry": func(ctx context.Context) (string, error) { <-ctx.Done(); return "", toolkit.Retryable(ctx.Err()) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				var runs atomic.Int32
				b.start(workers.Config{}, counted("slow", &runs, &toolkit.Options{Idempotent: true, Attempts: 5}, f))
				b.dispatch("slow", "c1", nil)
				b.dispatch("slow", "c2", nil)
				time.Sleep(time.Second)
				if err := b.bus.Conn().Publish(b.bus.Stop(key("c1")), nil); err != nil {
					b.Fatal(err)
				}
				r := b.result("c1", time.Second)
				b.want(r, events.ReasonCancelled)
				if r.Meta.StartedAt == nil {
					b.Error("it ran, and the result does not say so")
				}
				time.Sleep(time.Minute)
				if runs.Load() != 2 {
					b.Errorf("%d runs, want one of each call", runs.Load())
				}
				if _, err := b.bus.Fact(b.Context(), b.bus.Result(key("c2"))); !errors.Is(err, jet.ErrNone) {
					b.Errorf("the other call: got %v, want no result yet", err)
				}
			})
		})
	}
}

// A journal at its limit delays the result; the lease goes on, and nothing is lost.
func TestResultWaitsForAFullJournal(t *testing.T) {
	bubble(t, func(b *bench) {
		b.startOf("other", "x", "") // one message in the journal
		limit := func(n int64) {
			b.Helper()
			for _, c := range b.bus.Streams(jet.Config{NoHistory: true}) {
				if c.Name != b.bus.JournalStream() {
					continue
				}
				c.MaxMsgs = n
				if _, err := b.bus.JetStream().UpdateStream(b.Context(), c); err != nil {
					b.Fatal(err)
				}
			}
		}
		limit(1)
		var runs atomic.Int32
		w := b.start(workers.Config{}, counted("read", &runs, &toolkit.Options{ReadOnly: true}, nil))
		b.dispatch("read", "c1", nil)
		time.Sleep(time.Minute)
		limit(-1)
		b.want(b.result("c1", 10*time.Second), events.ReasonOK)
		if runs.Load() != 1 || w.Stats().Redelivered != 0 {
			b.Errorf("%d runs, %d redeliveries, want 1 and 0", runs.Load(), w.Stats().Redelivered)
		}
		b.idle()
	})
}

// The server restarts under a call that runs: one run, one result.
func TestServerRestartsUnderARun(t *testing.T) {
	bubble(t, func(b *bench) {
		var runs atomic.Int32
		p := b.prepareOn(b.srv.Lasting(), workers.Config{}, counted("charge", &runs, nil, working(30*time.Second)))
		b.run(p)
		b.dispatch("charge", "c1", nil)
		time.Sleep(5 * time.Second)
		b.restart()
		b.want(b.result("c1", time.Minute), events.ReasonOK)
		if runs.Load() != 1 {
			b.Errorf("%d runs, want 1", runs.Load())
		}
		time.Sleep(10 * time.Second)
		b.idle()
	})
}

// restart starts the server anew; what is stored is there, what was connected by Conn is not.
func (b *bench) restart() {
	b.Helper()
	b.srv.Restart()
	bus, err := jet.NewBus(b.srv.Conn(), events.Subjects{})
	if err != nil {
		b.Fatal(err)
	}
	b.bus = bus
}

// T-54: a tool that ignores its context is settled as timed out, its slot counted as leaked, the
// worker unhealthy; the other slots go on.
func TestToolIgnoresItsContext_T54(t *testing.T) {
	bubble(t, func(b *bench) {
		var runs atomic.Int32
		let := make(chan struct{})
		stuck := counted("stuck", &runs, &toolkit.Options{Timeout: time.Minute}, func(context.Context) (string, error) {
			<-let
			return "at last", nil
		})
		w := b.start(workers.Config{Slots: 2}, stuck, counted("quick", &runs, nil, nil))
		b.dispatch("stuck", "c1", nil)
		s := b.stored("c1", 2*time.Minute)
		b.want(s.result, events.ReasonTimeout)
		if s.result.Meta.StartedAt.Add(time.Minute + toolkit.DefaultGrace + time.Second).Before(s.at) {
			b.Errorf("settled at %s, started at %s", s.at, s.result.Meta.StartedAt)
		}
		time.Sleep(time.Second)
		if err := w.Health(); !errors.Is(err, workers.ErrUnhealthy) || w.Stats().Leaked != 1 {
			b.Errorf("health: got %v with %d leaked, want ErrUnhealthy with 1", err, w.Stats().Leaked)
		}
		if err := w.Ready(); err != nil {
			b.Errorf("ready: got %v; one slot is free", err)
		}
		for _, c := range []string{"c2", "c3", "c4"} {
			b.dispatch("quick", c, nil)
		}
		for _, c := range []string{"c2", "c3", "c4"} {
			b.want(b.result(c, time.Second), events.ReasonOK)
		}
		close(let)
		time.Sleep(time.Second)
		if err := w.Health(); err != nil || w.Stats().Leaked != 0 {
			b.Errorf("after it returned: health %v, %d leaked", err, w.Stats().Leaked)
		}
		b.idle()
	})
}

// A lane's limit holds over the whole fleet; pools are not held up by it.
func TestLaneLimitsTheFleet(t *testing.T) {
	bubble(t, func(b *bench) {
		b.pool("lane-narrow", 2)
		var runs, now, most atomic.Int32
		narrow := counted("narrow", &runs, &toolkit.Options{MaxInFlight: 2}, func(ctx context.Context) (string, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			return working(time.Second)(ctx)
		})
		for range 3 {
			b.start(workers.Config{}, narrow, counted("wide", &runs, nil, nil))
		}
		for _, c := range []string{"1", "2", "3", "4", "5", "6"} {
			b.dispatch("narrow", c, func(o *jet.Out, w *events.ToolWork) {
				o.Subject = b.bus.Work("lane-narrow", w.Call.Name, key(c))
			})
		}
		b.dispatch("wide", "w", nil)
		b.want(b.result("w", time.Second), events.ReasonOK)
		for _, c := range []string{"1", "2", "3", "4", "5", "6"} {
			b.want(b.result(c, time.Minute), events.ReasonOK)
		}
		if most.Load() != 2 || runs.Load() != 7 {
			b.Errorf("%d at once, %d runs, want 2 and 7", most.Load(), runs.Load())
		}
		b.idle()
	})
}
