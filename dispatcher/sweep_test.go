package dispatcher_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
)

func quick(d toolkit.Definition, queue time.Duration) toolkit.Definition {
	d.QueueTimeout = toolkit.Duration(queue)
	return d
}

// No worker for a tool, all gone: the call ends queue_expired at its deadline, not before.
func TestQueueExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		w.register(d, []toolkit.Definition{quick(bookDef(), time.Minute), lookDef()}...)
		w.submit("t", call("a", "book", ""), call("b", "look", ""))
		wait(59 * time.Second)
		if r := w.result(key("t", "a")); r != nil {
			t.Errorf("got %s before its time", r.Reason)
		}
		w.want(key("t", "a"), 20*time.Second, events.ReasonQueueExpired)
		wait(8 * time.Minute)
		if r := w.result(key("t", "b")); r != nil {
			t.Errorf("got %s before its time", r.Reason)
		}
		w.want(key("t", "b"), 2*time.Minute, events.ReasonQueueExpired)
		wait(time.Second)
		if n := w.count(w.bus.WorkStream(), ">"); n != 0 {
			t.Errorf("%d work left", n)
		}
	})
}

// The agent's own deadline ends a waiting call at once, and leaves a running one to its worker.
func TestAgentDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		x := w.worker([]toolkit.Definition{bookDef()}, func(x *worker) {
			x.run = func(context.Context, events.CallKey, events.ToolWork) string { wait(time.Minute); return "done" }
		})
		w.registered(d, 1)
		soon := time.Now().Add(30 * time.Second)
		w.publish("running", events.ToolCalls{Calls: []events.Call{call("c", "book", "")}, Deadline: &soon})
		wait(5 * time.Second)
		x.stop() // kills the worker: its call is lost
		soon = time.Now().Add(10*time.Second + 123*time.Millisecond)
		w.publish("waiting", events.ToolCalls{Calls: []events.Call{call("c", "book", "")}, Deadline: &soon})
		wait(10 * time.Second)
		if r := w.result(key("waiting", "c")); r != nil {
			t.Errorf("got %s before its time", r.Reason)
		}
		w.want(key("waiting", "c"), 300*time.Millisecond, events.ReasonTimeout)
		wait(time.Minute)
		if r := w.result(key("running", "c")); r != nil {
			t.Errorf("a started call was settled by its deadline: %s", r.Reason)
		}
		w.want(key("running", "c"), 15*time.Minute, events.ReasonOutcomeUnknown)
		if n := x.runs(key("running", "c")); n != 1 {
			t.Errorf("ran %d times", n)
		}
	})
}

// A timer that fires long after its call was settled and forgotten settles nothing a second time.
func TestDeadlineOfAForgottenCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		w.worker([]toolkit.Definition{quick(bookDef(), 24*time.Hour)})
		w.registered(d, 1)
		late := time.Now().Add(30 * time.Minute)
		w.publish("t", events.ToolCalls{Calls: []events.Call{call("c", "book", "")}, Deadline: &late})
		w.want(key("t", "c"), 5*time.Second, events.ReasonOK)
		wait(40 * time.Minute)
		if n := w.count(w.bus.JournalStream(), ">"); n != 0 {
			t.Errorf("%d facts of a call that ended 40 minutes ago", n)
		}
	})
}

// A call that runs far beyond its time in the queue is nobody's but its worker's.
func TestLongRunIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		x := w.worker([]toolkit.Definition{quick(bookDef(), time.Minute)}, func(x *worker) {
			x.run = func(context.Context, events.CallKey, events.ToolWork) string { wait(30 * time.Minute); return "done" }
		})
		w.registered(d, 1)
		w.submit("t", call("c", "book", ""))
		w.want(key("t", "c"), time.Hour, events.ReasonOK)
		if n := x.runs(key("t", "c")); n != 1 {
			t.Errorf("ran %d times", n)
		}
	})
}

// The worker died after start. With nobody left, the sweep says that the outcome is not known
// of a call with side effects, and that the worker was lost of one without (T-61, T-65).
func TestWorkersLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		x := w.worker([]toolkit.Definition{quick(bookDef(), time.Minute), quick(lookDef(), time.Minute)}, func(x *worker) {
			x.run = func(ctx context.Context, _ events.CallKey, _ events.ToolWork) string { <-ctx.Done(); return "" }
		})
		w.registered(d, 2)
		w.submit("t", call("a", "book", ""), call("b", "look", ""))
		wait(5 * time.Second)
		// What a worker stores at its first lease renewal of a call without side effects.
		x.store(w.bus.Start(key("t", "b")), events.TypeToolResultStart, key("t", "b"), events.ToolResultStart{CallID: "b", Instance: x.instance, Nonce: "n", Worker: x.name, At: time.Now()})
		x.stop()
		r := w.want(key("t", "a"), 2*time.Minute, events.ReasonOutcomeUnknown)
		if r.Meta.StartedAt == nil || r.Meta.Worker != "shop" { // T-68
			t.Errorf("got %+v, want when and where it started", r.Meta)
		}
		w.want(key("t", "b"), 2*time.Minute, events.ReasonWorkerLost)
		wait(time.Second)
		if n := w.count(w.bus.WorkStream(), ">"); n != 0 {
			t.Errorf("%d work left", n)
		}
	})
}

// A settlement whose author died half way is finished by the sweep, for the reason it was begun.
func TestHalfASettlementIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		x := w.worker([]toolkit.Definition{quick(bookDef(), time.Minute)})
		w.registered(d, 1)
		x.stop()
		w.submit("t", call("a", "book", ""))
		wait(time.Second)
		y := w.worker(nil, func(x *worker) { x.instance = "gone" })
		y.store(w.bus.Start(key("t", "a")), events.TypeToolResultStart, key("t", "a"), events.ToolResultStart{
			CallID: "a", Instance: "gone", Nonce: "n", Settle: events.ReasonCancelled, At: time.Now(),
		})
		w.want(key("t", "a"), 2*time.Minute, events.ReasonCancelled)
	})
}

// Everything is off for longer than the window, at every stage of a call: none is lost, and no
// fence opens.
func TestEverythingOff(t *testing.T) {
	for _, off := range []time.Duration{time.Minute, time.Hour, 48 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			d := w.dispatcher()
			defs := []toolkit.Definition{quick(bookDef(), 100*time.Hour)}
			x := w.worker(defs, func(x *worker) {
				x.run = func(ctx context.Context, k events.CallKey, _ events.ToolWork) string {
					if k.Call == "running" {
						<-ctx.Done()
					}
					return "done"
				}
			})
			w.registered(d, 1)
			w.submit("done", call("c", "book", ""))
			w.submit("run", call("running", "book", ""))
			w.want(key("done", "c"), 5*time.Second, events.ReasonOK)
			wait(5 * time.Second)
			x.stop()
			w.submit("queued", call("c", "book", ""), call("cancelled", "book", ""))
			wait(time.Second)
			d.stop()
			w.submit("accepted", call("c", "book", ""), call("cancelled", "book", ""))
			w.cancel("accepted", "cancelled")
			w.cancel("queued", "cancelled")
			w.restart(off)

			w.dispatcher()
			wait(30 * time.Minute) // sweeps before any worker comes: they must forget nothing needed
			y := w.worker(defs, func(y *worker) { y.instance = "second" })
			w.want(key("queued", "c"), time.Minute, events.ReasonOK)
			w.want(key("accepted", "c"), time.Minute, events.ReasonOK)
			w.want(key("run", "running"), time.Minute, events.ReasonOutcomeUnknown)
			w.want(key("queued", "cancelled"), time.Minute, events.ReasonCancelled)
			w.await(key("accepted", "cancelled"), time.Minute) // by the cancel, or run before it
			if n := y.runs(key("run", "running")) + y.runs(key("done", "c")) + y.runs(key("queued", "cancelled")); n != 0 {
				t.Errorf("%v off: a fence opened: %d runs too many", off, n)
			}
			for _, k := range []events.CallKey{key("queued", "c"), key("accepted", "c")} {
				if n := y.runs(k); n != 1 {
					t.Errorf("%v off: %s ran %d times", off, k, n)
				}
			}
		})
	}
}

// A call cancelled before it is taken in, long ago, is not run when the intake comes to it: its
// facts are older than the window by then, and still there.
func TestCancelledDuringAnOutageOfIntake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		def := quick(bookDef(), 100*time.Hour)
		w.register(d, []toolkit.Definition{def}...)
		d.stop()
		w.submit("t", call("c", "book", ""))
		x := w.worker(nil, func(x *worker) { x.instance = "other" })
		x.store(w.bus.Start(key("t", "c")), events.TypeToolResultStart, key("t", "c"), events.ToolResultStart{CallID: "c", Nonce: "n", Settle: events.ReasonCancelled, At: time.Now()})
		x.store(w.bus.Result(key("t", "c")), events.TypeToolResult, key("t", "c"), events.ToolResult{CallID: "c", State: events.StateInterrupted, Reason: events.ReasonCancelled})
		wait(time.Hour)
		w.dispatcher()
		wait(time.Minute)
		if n := w.count(w.bus.WorkStream(), ">"); n != 0 {
			t.Errorf("%d work of a call that has its result", n)
		}
		wait(30 * time.Minute)
		y := w.worker([]toolkit.Definition{def}, func(x *worker) { x.instance = "third" })
		wait(time.Minute)
		if n := y.runs(key("t", "c")); n != 0 {
			t.Errorf("a cancelled call ran %d times", n)
		}
	})
}

// Facts older than the window are forgotten, in CALLS and JOURNAL; younger ones are kept.
func TestHorizonForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher(func(c *dispatcher.Config) { c.Window = 5 * time.Minute })
		w.worker([]toolkit.Definition{bookDef()})
		w.registered(d, 1)
		for i := range 20 {
			w.submit(fmt.Sprint("t", i), call("c", "book", ""))
			w.want(key(fmt.Sprint("t", i), "c"), 5*time.Second, events.ReasonOK)
			wait(time.Minute)
		}
		calls, facts := w.count(w.bus.CallsStream(), ">"), w.count(w.bus.JournalStream(), ">")
		if calls < 5 || calls > 7 || facts != 2*calls {
			t.Errorf("got %d turns, %d facts, want the last 5 minutes of 20", calls, facts)
		}
	})
}

// The oldest waiting work holds the horizon, however long it waits.
func TestWaitingWorkHoldsTheHorizon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		idle := quick(bookDef(), 100*time.Hour)
		w.register(d, idle)
		w.worker([]toolkit.Definition{lookDef()}, func(x *worker) { x.name, x.pool = "busy", "busy" })
		w.registered(d, 2)
		w.submit("waits", call("c", "book", ""))
		wait(time.Minute)
		w.submit("later", call("c", "look", ""))
		w.want(key("later", "c"), 5*time.Second, events.ReasonOK)
		wait(time.Hour)
		if w.result(key("later", "c")) == nil || w.count(w.bus.CallsStream(), ">") != 2 {
			t.Error("facts younger than waiting work were forgotten")
		}
		w.cancel("waits")
		w.want(key("waits", "c"), time.Minute, events.ReasonCancelled)
		wait(time.Hour)
		if n := w.count(w.bus.CallsStream(), ">") + w.count(w.bus.JournalStream(), ">"); n != 0 {
			t.Errorf("got %d facts, want none: nothing waits any more", n)
		}
	})
}

// A turn that cannot be taken in, because a stream is away, is kept however long that lasts.
func TestTurnWaitsForABodyThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.dispatcher()
		if err := w.bus.JetStream().DeleteStream(t.Context(), w.bus.BodiesStream()); err != nil {
			t.Fatal(err)
		}
		e := events.Event{Attributes: events.Attributes{
			ID: "1", Source: "/a", Type: events.TypeToolCalls,
			DataRef: "toolwire-body:x?chunks=1&size=5&sha256=2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
		}}
		if _, err := w.bus.Store(t.Context(), jet.Out{Subject: w.bus.Calls("local", "s", "t"), Event: e}); err != nil {
			t.Fatal(err)
		}
		wait(time.Hour)
		if calls, dead := w.count(w.bus.CallsStream(), ">"), w.count(w.bus.DeadStream(), ">"); calls != 1 || dead != 0 {
			t.Errorf("got %d turns, %d dead letters, want the turn kept", calls, dead)
		}
		w.dispatcher() // sets the stream up again; the body is lost
		wait(time.Minute)
		if dead := w.count(w.bus.DeadStream(), ">"); dead != 1 {
			t.Errorf("got %d dead letters, want 1", dead)
		}
	})
}

// Ticks that pile up while nobody is there, and schedules set by every dispatcher, stay harmless.
func TestTicksPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		d.stop()
		wait(time.Hour)
		w.dispatcher()
		w.dispatcher()
		wait(time.Minute)
		if n := w.count(w.bus.TimersStream(), w.bus.Under("due")); n != 0 {
			t.Errorf("%d ticks left", n)
		}
		if n := w.count(w.bus.TimersStream(), w.bus.Under("timer")); n != 1 {
			t.Errorf("got %d schedules, want 1", n)
		}
	})
}
