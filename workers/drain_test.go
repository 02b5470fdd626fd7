package workers_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/workers"
)

// Drain: what ends in time is settled as ever; after that a call with side effects is interrupted,
// and any other runs on another worker.
func TestDrain(t *testing.T) {
	bubble(t, func(b *bench) {
		var runs, reads atomic.Int32
		tools := []*toolkit.Tool{
			counted("short", &runs, nil, working(5*time.Second)),
			counted("charge", &runs, nil, working(time.Hour)),
			counted("read", &reads, &toolkit.Options{ReadOnly: true}, func(ctx context.Context) (string, error) {
				if reads.Load() == 1 {
					return working(time.Hour)(ctx)
				}
				return "read by another", nil
			}),
		}
		first := b.start(workers.Config{Drain: 10 * time.Second}, tools...)
		for _, c := range []string{"short", "charge", "read"} {
			b.dispatch(c, c, nil)
		}
		time.Sleep(time.Second)
		first.stop()
		time.Sleep(time.Second)
		if err := first.Ready(); !errors.Is(err, workers.ErrNotReady) {
			b.Errorf("ready while draining: %v", err)
		}
		b.start(workers.Config{}, tools...)
		b.dispatch("short", "later", nil)
		b.want(b.result("short", 10*time.Second), events.ReasonOK)
		b.want(b.result("later", 10*time.Second), events.ReasonOK)
		s := b.stored("charge", 20*time.Second)
		b.want(s.result, events.ReasonShutdown)
		if s.result.Meta.StartedAt == nil {
			b.Error("it ran, and the result does not say so")
		}
		<-first.done
		if first.err != nil {
			b.Errorf("run: got %v", first.err)
		}
		r := b.result("read", time.Second)
		b.want(r, events.ReasonOK)
		if r.Text() != "read by another" || runs.Load() != 3 || reads.Load() != 2 {
			b.Errorf("read: %q; %d runs and %d reads, want 3 and 2", r.Text(), runs.Load(), reads.Load())
		}
		b.idle()
	})
}

// A negative drain waits for nothing.
func TestDrainAtOnce(t *testing.T) {
	bubble(t, func(b *bench) {
		var runs atomic.Int32
		w := b.start(workers.Config{Drain: -1}, counted("charge", &runs, nil, working(time.Hour)))
		b.dispatch("charge", "c1", nil)
		time.Sleep(time.Second)
		began := time.Now()
		if err := w.end(); err != nil || time.Since(began) > time.Second {
			b.Errorf("ended after %s with %v", time.Since(began), err)
		}
		b.want(b.result("c1", 0), events.ReasonShutdown)
	})
}

// Run ends although a tool never does, and although no result can be stored.
func TestDrainEnds(t *testing.T) {
	bubble(t, func(b *bench) {
		let := make(chan struct{})
		defer close(let)
		var runs atomic.Int32
		w := b.start(workers.Config{Drain: time.Second}, counted("stuck", &runs, nil, func(context.Context) (string, error) {
			<-let
			return "", nil
		}))
		b.dispatch("stuck", "c1", nil)
		time.Sleep(time.Second)
		if err := b.bus.JetStream().DeleteStream(b.Context(), b.bus.JournalStream()); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		err := w.end()
		if took := time.Since(began); err != nil || took > time.Minute {
			b.Errorf("ended after %s with %v", took, err)
		}
	})
}

func TestConnectionClosedUnderIt(t *testing.T) {
	bubble(t, func(b *bench) {
		var runs atomic.Int32
		w := b.start(workers.Config{}, counted("x", &runs, nil, nil))
		time.Sleep(time.Second)
		w.kill()
		<-w.done
		if !errors.Is(w.err, workers.ErrClosed) {
			b.Errorf("run: got %v, want ErrClosed", w.err)
		}
	})
}

func TestRunsOnce(t *testing.T) {
	bubble(t, func(b *bench) {
		var runs atomic.Int32
		w := b.start(workers.Config{}, counted("x", &runs, nil, nil))
		if err := w.end(); err != nil {
			b.Error(err)
		}
		if err := w.Run(b.Context()); !errors.Is(err, workers.ErrRan) {
			b.Errorf("second run: got %v, want ErrRan", err)
		}
	})
}

func TestCancelledBeforeItRuns(t *testing.T) {
	bubble(t, func(b *bench) {
		var runs atomic.Int32
		w := b.prepare(workers.Config{}, counted("x", &runs, nil, nil))
		ctx, cancel := context.WithCancel(b.Context())
		cancel()
		if err := w.Run(ctx); err != nil {
			b.Errorf("run: got %v", err)
		}
	})
}

// Workers come and go at random moments, drained and killed: every call has one result, and no
// call with side effects ran twice.
func TestWorkersComeAndGo(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			bubble(t, func(b *bench) { comeAndGo(b, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func comeAndGo(b *bench, rnd *rand.Rand) {
	const calls = 60
	var runs [calls]atomic.Int32
	results := make(chan *nats.Msg, 4*calls)
	sub, err := b.bus.Conn().ChanSubscribe(b.bus.LiveResults(key("").Session), results)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	spawn := func() *program {
		var p *program
		f := func(ctx context.Context) (string, error) {
			if p.dead() {
				return "", errors.New("a dead process does nothing")
			}
			c, _ := toolkit.CallFrom(ctx)
			var i int
			if _, err := fmt.Sscan(string(c.Key.Call), &i); err != nil {
				return "", err
			}
			runs[i].Add(1)
			return working(time.Duration(i) * 100 * time.Millisecond)(ctx)
		}
		var all atomic.Int32
		p = b.prepare(workers.Config{Drain: time.Duration(rnd.IntN(4)) * time.Second, Slots: 8},
			counted("charge", &all, nil, f), counted("read", &all, &toolkit.Options{ReadOnly: true}, f))
		return b.run(p)
	}
	fleet := []*program{spawn(), spawn()}
	for i := range calls {
		b.dispatch([]string{"charge", "read"}[i%2], strconv.Itoa(i), nil)
	}
	for range 8 {
		time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond)
		i := rnd.IntN(len(fleet))
		if rnd.IntN(2) == 0 {
			fleet[i].kill()
		} else {
			fleet[i].stop()
		}
		fleet[i] = spawn()
	}
	for i := range calls {
		r := b.result(strconv.Itoa(i), 5*time.Minute)
		n := runs[i].Load()
		switch {
		case i%2 == 1:
			b.want(r, events.ReasonOK)
		case n > 1:
			b.Errorf("call %d with side effects ran %d times", i, n)
		case r.Reason != events.ReasonOK && r.Reason != events.ReasonShutdown && r.Reason != events.ReasonOutcomeUnknown:
			b.Errorf("call %d: got %s", i, r.Reason)
		}
	}
	time.Sleep(time.Minute)
	if len(results) != calls {
		b.Errorf("%d results were stored, want %d", len(results), calls)
	}
	b.idle()
}
