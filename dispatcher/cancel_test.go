package dispatcher_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
)

// untilStopped is a tool that runs until its context ends.
func untilStopped(ctx context.Context, _ events.CallKey, _ events.ToolWork) string {
	<-ctx.Done()
	return "stopped"
}

// Cancel of what waits: settled, never run, and its work is gone (T-64).
func TestCancelQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		w.register(d, []toolkit.Definition{bookDef(), lookDef()}...)
		w.submit("t", call("a", "book", ""), call("b", "look", ""), call("c", "book", ""))
		wait(time.Second)
		w.cancel("t", "a", "b", "stranger")
		w.want(key("t", "a"), time.Second, events.ReasonCancelled)
		w.want(key("t", "b"), time.Second, events.ReasonCancelled)
		wait(time.Second)
		if n := w.count(w.bus.WorkStream(), ">"); n != 1 {
			t.Errorf("got %d work, want that of c alone", n)
		}
		x := w.worker([]toolkit.Definition{bookDef(), lookDef()})
		w.want(key("t", "c"), 5*time.Second, events.ReasonOK)
		if n := x.runs(key("t", "a")) + x.runs(key("t", "b")); n != 0 {
			t.Errorf("%d cancelled calls ran", n)
		}
		if n := w.count(w.bus.InboxStream(), ">"); n != 0 {
			t.Errorf("%d cancels left", n)
		}
	})
}

// Cancel of what runs: its worker stops and settles. Of what ended: too late (T-57).
func TestCancelRunningAndFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		x := w.worker([]toolkit.Definition{bookDef()}, func(x *worker) {
			x.run = func(ctx context.Context, k events.CallKey, work events.ToolWork) string {
				if k.Call == "slow" {
					return untilStopped(ctx, k, work)
				}
				return "done"
			}
		})
		w.registered(d, 1)
		w.submit("t", call("slow", "book", ""), call("quick", "book", ""))
		w.want(key("t", "quick"), 5*time.Second, events.ReasonOK)
		wait(time.Minute)
		w.cancel("t")
		w.want(key("t", "slow"), time.Second, events.ReasonCancelled)
		wait(time.Minute)
		w.want(key("t", "quick"), 0+time.Second, events.ReasonOK)
		if x.runs(key("t", "slow")) != 1 || w.count(w.bus.InboxStream(), ">") != 0 {
			t.Errorf("got %d runs, %d cancels left", x.runs(key("t", "slow")), w.count(w.bus.InboxStream(), ">"))
		}
	})
}

// A read-only tool runs without a start: winning it settles the call, and the tool is told.
func TestCancelRunningWithoutStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		ended := make(chan struct{})
		w.worker([]toolkit.Definition{lookDef()}, func(x *worker) {
			x.run = func(ctx context.Context, k events.CallKey, work events.ToolWork) string {
				defer close(ended)
				return untilStopped(ctx, k, work)
			}
		})
		w.registered(d, 1)
		w.submit("t", call("c", "look", ""))
		wait(5 * time.Second)
		w.cancel("t")
		w.want(key("t", "c"), time.Second, events.ReasonCancelled)
		<-ended
	})
}

// A cancel may overtake its turn, and what is cancelled before it is taken in never runs.
func TestCancelBeforeIntake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		x := w.worker([]toolkit.Definition{bookDef()})
		w.registered(d, 1)
		w.cancel("t", "a")
		wait(time.Second)
		d.stop()
		w.submit("t", call("a", "book", ""), call("b", "book", ""))
		w.dispatcher()
		w.want(key("t", "b"), 10*time.Second, events.ReasonOK)
		r := w.await(key("t", "a"), 10*time.Second)
		// The two race; whichever won, it is one result, and it is true.
		if ran := x.runs(key("t", "a")); ran > 1 || (ran == 1) != (r.Reason == events.ReasonOK) {
			t.Errorf("got %s after %d runs", r.Reason, ran)
		}
	})
}

// A cancel that settles a call while its turn is being taken in also removes the work that is stored
// afterwards: what was reported as cancelled before it ran is not run minutes later.
func TestCancelDuringIntake(t *testing.T) {
	for _, api := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			d, err := dispatcher.New(w.srv.Conn(), dispatcher.Config{NoHistory: true, Logger: w.logs})
			if err != nil {
				t.Fatal(err)
			}
			d.SetFault(func(step string) error {
				if step == "fanout.work" {
					wait(2 * time.Second)
				}
				return nil
			})
			p := w.start(d)
			w.register(p, lookDef())
			w.submit("t", call("c", "look", ""))
			wait(time.Second)
			if api {
				ask[events.CancelReply](w, "local", events.OpCancel, events.CancelRequest{Session: "s", Turn: "t"})
			} else {
				w.cancel("t")
			}
			w.want(key("t", "c"), time.Second/2, events.ReasonCancelled)
			wait(30 * time.Second)
			if work, cancels := w.count(w.bus.WorkStream(), ">"), w.count(w.bus.InboxStream(), ">"); work != 0 || cancels != 0 {
				t.Errorf("api %v: %d calls in WORK, %d cancels in INBOX", api, work, cancels)
			}
		})
	}
}

// A cancel of a turn that never was ends as a dead letter, not in a loop.
func TestCancelOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.dispatcher()
		w.cancel("ghost")
		wait(time.Minute)
		if in, dead := w.count(w.bus.InboxStream(), ">"), w.count(w.bus.DeadStream(), ">"); in != 0 || dead != 1 {
			t.Errorf("got %d in INBOX, %d dead letters", in, dead)
		}
	})
}

// A call ends and is forgotten while its cancel is under way: it is not settled a second time.
func TestCancelOfWhatIsJustForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.dispatcher()
		w.register(first, bookDef())
		first.stop()
		d, err := dispatcher.New(w.srv.Conn(), dispatcher.Config{NoHistory: true})
		if err != nil {
			t.Fatal(err)
		}
		armed := false
		d.SetFault(func(step string) error {
			if armed && step == "settle.start" {
				for _, name := range []string{w.bus.WorkStream(), w.bus.CallsStream(), w.bus.JournalStream()} {
					if s, err := w.bus.JetStream().Stream(t.Context(), name); err != nil || s.Purge(t.Context()) != nil {
						t.Error("not purged")
					}
				}
			}
			return nil
		})
		w.start(d)
		w.submit("t", call("c", "book", ""))
		wait(time.Second)
		m, err := w.bus.Next(t.Context(), w.bus.WorkStream(), 1, ">")
		if err != nil || w.bus.Delete(t.Context(), w.bus.WorkStream(), m.Seq) != nil { // as if it had just been acknowledged
			t.Fatal(err)
		}
		armed = true
		w.cancel("t")
		wait(10 * time.Second)
		if r := w.result(key("t", "c")); r != nil {
			t.Errorf("settled a second time: %+v", r)
		}
	})
}

// Another agent's cancel does not reach the turn.
func TestCancelByAnotherAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		w.register(d, []toolkit.Definition{bookDef()}...)
		w.submit("t", call("a", "book", ""))
		e, _ := events.New(events.Attributes{ID: "x", Source: "/agents/evil", Type: events.TypeCancelCalls}, events.CancelCalls{})
		if _, err := w.bus.Store(t.Context(), jet.Out{Subject: w.bus.Cancel("evil", "s", "t"), Event: e}); err != nil {
			t.Fatal(err)
		}
		wait(time.Minute)
		if r := w.result(key("t", "a")); r != nil {
			t.Errorf("got %+v", r)
		}
	})
}

// The worker of a running call dies while it is cancelled; the cancel follows the call to the
// next worker.
func TestCancelFollowsACallToItsNextWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		first := w.worker([]toolkit.Definition{lookDef()}, func(x *worker) {
			x.run = func(context.Context, events.CallKey, events.ToolWork) string { wait(20 * time.Second); return "" } // deaf to stops
		})
		w.registered(d, 1)
		w.submit("t", call("c", "look", ""))
		wait(5 * time.Second)
		k := key("t", "c")
		first.store(w.bus.Start(k), events.TypeToolResultStart, k, events.ToolResultStart{CallID: "c", Instance: first.instance, Nonce: "n", Worker: first.name, At: time.Now()})
		w.cancel("t")
		wait(5 * time.Second)
		if n := w.count(w.bus.InboxStream(), ">"); n != 1 {
			t.Errorf("got %d cancels while the call runs, want 1", n)
		}
		first.stop()
		second := w.worker([]toolkit.Definition{lookDef()}, func(x *worker) { x.instance, x.run = "second", untilStopped })
		w.want(k, time.Minute, events.ReasonCancelled)
		wait(30 * time.Second)
		if n := w.count(w.bus.InboxStream(), ">"); n != 0 || second.runs(k) != 1 {
			t.Errorf("got %d cancels left, %d runs", n, second.runs(k))
		}
	})
}

// A dispatcher dies at any step of a cancel; the call has one result, and it is true.
func TestKilledWhileCancelling(t *testing.T) {
	for n := 1; ; n++ {
		var at string
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			first := w.dispatcher()
			w.register(first, []toolkit.Definition{bookDef()}...)
			w.submit("t", call("a", "book", ""))
			wait(time.Second)
			first.stop()
			w.cancel("t")
			dying, died := w.faulty(n)
			wait(15 * time.Second)
			dying.stop()
			at = died()
			w.dispatcher(func(c *dispatcher.Config) { c.Name = "second" })
			w.want(key("t", "a"), 30*time.Second, events.ReasonCancelled)
			wait(time.Minute)
			if n := w.count(w.bus.WorkStream(), ">") + w.count(w.bus.InboxStream(), ">"); n != 0 {
				t.Errorf("died at %s: %d messages left", at, n)
			}
		})
		if !strings.HasPrefix(at, "settle.") && at != "cancel.ack" || t.Failed() {
			if n < 5 {
				t.Errorf("only %d steps seen, the last %q", n, at)
			}
			return
		}
	}
}
