package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// Run may be cancelled at any moment, and again; it returns with all its goroutines gone (the
// bubble would not end otherwise), and what was accepted is not lost.
func TestRunCancelledAtAnyMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		x := w.worker([]toolkit.Definition{bookDef()})
		w.registered(d, 1)
		d.stop()
		r := rand.New(rand.NewPCG(1, 2))
		nc := w.srv.Conn()
		for i := range 40 {
			again, err := dispatcher.New(nc, dispatcher.Config{NoHistory: true})
			if err != nil {
				t.Fatal(err)
			}
			w.submit(fmt.Sprint("t", i), call("c", "book", ""))
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(2_000))*time.Microsecond)
			if err := again.Run(ctx); err != nil {
				t.Errorf("run: %v", err)
			}
			cancel()
			if err := again.Run(ctx); err != nil {
				t.Errorf("run, cancelled before: %v", err)
			}
		}
		w.dispatcher()
		for i := range 40 {
			k := key(fmt.Sprint("t", i), "c")
			w.want(k, time.Minute, events.ReasonOK)
			if n := x.runs(k); n != 1 {
				t.Errorf("%s ran %d times", k, n)
			}
		}
	})
}

func TestRunEndsWithItsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		nc := w.srv.Conn()
		d, err := dispatcher.New(nc, dispatcher.Config{NoHistory: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Ready(); !errors.Is(err, dispatcher.ErrNotReady) {
			t.Errorf("ready before it runs: %v", err)
		}
		done := make(chan error, 1)
		go func() { done <- d.Run(t.Context()) }()
		wait(time.Second)
		if err := d.Ready(); err != nil {
			t.Error(err)
		}
		if err := d.Run(t.Context()); !errors.Is(err, dispatcher.ErrRunning) {
			t.Errorf("twice at once: got %v", err)
		}
		nc.Close()
		if err := <-done; !errors.Is(err, dispatcher.ErrDisconnected) {
			t.Errorf("got %v, want ErrDisconnected", err)
		}
	})
}

// The server goes away and comes back; the dispatcher goes on by itself.
func TestServerRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d, err := dispatcher.New(w.srv.Lasting(), dispatcher.Config{NoHistory: true, Logger: w.logs})
		if err != nil {
			t.Fatal(err)
		}
		p := w.start(d)
		w.register(p, bookDef())
		w.submit("before", call("c", "book", ""))
		wait(time.Second)
		w.restart(5 * time.Second)
		w.submit("after", call("c", "book", ""), call("d", "nope", ""))
		w.want(key("after", "d"), 2*time.Minute, events.ReasonNotFound)
		x := w.worker([]toolkit.Definition{bookDef()}, func(x *worker) { x.instance = "new" })
		for _, turn := range []string{"before", "after"} {
			w.want(key(turn, "c"), time.Minute, events.ReasonOK)
			if n := x.runs(key(turn, "c")); n != 1 {
				t.Errorf("%s ran %d times", turn, n)
			}
		}
		p.stop()
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]dispatcher.Config{
		"prefix":   {Prefix: "a.b"},
		"window":   {Window: time.Second},
		"tick":     {Tick: time.Millisecond},
		"slots":    {Slots: -1},
		"instance": {Instance: string(make([]byte, 100))},
	} {
		if _, err := dispatcher.New(nil, cfg); !errors.Is(err, dispatcher.ErrConfig) {
			t.Errorf("%s: got %v, want ErrConfig", name, err)
		}
	}
}

// Backlog and calls in flight come from the leader of each pool; a consumer that is missing counts
// as no backlog and an alarm (T-76, T-77).
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		w.register(d, bookDef())
		w.submit("t", call("a", "book", ""), call("b", "book", ""), call("c", "nope", ""))
		wait(2 * time.Second)
		reg := prometheus.NewPedanticRegistry()
		if err := reg.Register(d); err != nil {
			t.Fatal(err)
		}
		gather := func() map[string]float64 {
			families, err := reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			out := make(map[string]float64)
			for _, f := range families {
				for _, m := range f.GetMetric() {
					name := []string{f.GetName()}
					for _, l := range m.GetLabel() {
						name = append(name, l.GetValue())
					}
					out[strings.Join(name, ",")] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
				}
			}
			return out
		}
		got := gather()
		for name, want := range map[string]float64{
			"toolwire_pool_backlog,shop":                        2,
			"toolwire_pool_in_flight,shop":                      0,
			"toolwire_pool_consumer_missing,shop":               0,
			"toolwire_tool_workers,book":                        0,
			"toolwire_tools":                                    1,
			"toolwire_dispatcher_ready":                         1,
			"toolwire_dispatcher_turns_total":                   1,
			"toolwire_dispatcher_intake_seconds":                1,
			"toolwire_dispatcher_calls_dispatched_total,book":   2,
			"toolwire_dispatcher_calls_settled_total,not_found": 1,
		} {
			if got[name] != want {
				t.Errorf("%s: got %v, want %v", name, got[name], want)
			}
		}
		if err := w.bus.JetStream().DeleteConsumer(t.Context(), w.bus.WorkStream(), "shop"); err != nil {
			t.Fatal(err)
		}
		wait(2 * time.Second)
		if got := gather(); got["toolwire_pool_backlog,shop"] != 0 || got["toolwire_pool_consumer_missing,shop"] != 1 {
			t.Errorf("missing consumer: got %v", got)
		}
	})
}
