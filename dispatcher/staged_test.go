package dispatcher_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
)

// stepDef has side effects and may not run beside others.
func stepDef() toolkit.Definition {
	return toolkit.Definition{Name: "write", Description: "Writes.", InputSchema: json.RawMessage(object)}
}

// queryDef is in a group that is off at first.
func queryDef() toolkit.Definition {
	return toolkit.Definition{Name: "query", Description: "Queries.", InputSchema: json.RawMessage(object), Group: "database", ConcurrencySafe: true}
}

// diary notes when calls began and ended.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) note(what string, k events.CallKey) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, what+" "+string(k.Call))
}

func (d *diary) at(line string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Index(d.lines, line)
}

// after checks that a happened after b.
func (w *world) after(d *diary, a, b string) {
	w.Helper()
	if i, j := d.at(a), d.at(b); i < 0 || j < 0 || i < j {
		w.Errorf("%q is at %d, %q at %d of %q", a, i, b, j, d.lines)
	}
}

// records is how many staged turns are under way.
func (w *world) records() int {
	return w.count("KV_"+w.bus.TurnsBucket(), "$KV."+w.bus.TurnsBucket()+".>")
}

func (w *world) slow(d *diary, long time.Duration) func(context.Context, events.CallKey, events.ToolWork) string {
	return func(ctx context.Context, k events.CallKey, _ events.ToolWork) string {
		d.note("begin", k)
		select {
		case <-time.After(long):
		case <-ctx.Done():
		}
		d.note("end", k)
		return "done"
	}
}

// Safe calls side by side run together, an unsafe one alone; siblings of a failed call go on (T12, T13).
func TestStagesRunInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		var diary diary
		w.worker([]toolkit.Definition{stepDef(), lookDef()}, func(x *worker) { x.run = w.slow(&diary, time.Second) })
		w.registered(d, 2)
		w.submit("t", call("1", "look", ""), call("2", "look", ""), call("3", "write", ""), call("4", "write", "[]"), call("5", "look", ""), call("6", "nope", ""))
		for id, reason := range map[string]events.Reason{
			"1": events.ReasonOK, "2": events.ReasonOK, "3": events.ReasonOK, "4": events.ReasonInvalidInput, "5": events.ReasonOK, "6": events.ReasonNotFound,
		} {
			w.want(key("t", id), time.Minute, reason)
		}
		for _, pair := range [][2]string{{"begin 3", "end 1"}, {"begin 3", "end 2"}, {"begin 5", "end 3"}, {"end 1", "begin 2"}, {"end 2", "begin 1"}} {
			w.after(&diary, pair[0], pair[1])
		}
		wait(time.Second)
		if n := w.records(); n != 0 {
			t.Errorf("%d records are left of a finished turn", n)
		}
	})
}

// A turn that is one stage costs no record.
func TestOneStageNeedsNoRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		w.worker([]toolkit.Definition{stepDef(), lookDef()}, func(x *worker) { x.run = w.slow(&diary{}, time.Minute) })
		w.registered(d, 2)
		w.submit("t", call("1", "look", ""), call("2", "look", ""))
		w.submit("u", call("1", "write", ""))
		wait(10 * time.Second)
		if n := w.records(); n != 0 {
			t.Errorf("%d records", n)
		}
		w.want(key("u", "1"), 2*time.Minute, events.ReasonOK)
	})
}

// A staged turn is finished by whoever is there, whatever died at whatever step of it; each call
// runs once, in its place, and later calls see the groups that an earlier one switched.
func TestStagedTurnKilledAtEachStep(t *testing.T) {
	for n := 1; ; n++ {
		var at string
		t.Run(fmt.Sprint("step", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { at = killStagedAt(t, n) })
		})
		if at == "" || t.Failed() {
			if n < 20 {
				t.Errorf("only %d steps seen", n)
			}
			return
		}
	}
}

func killStagedAt(t *testing.T, n int) string {
	t.Helper()
	w := newWorld(t)
	first := w.dispatcher()
	var diary diary
	x := w.worker([]toolkit.Definition{stepDef(), lookDef(), queryDef()}, func(x *worker) { x.run = w.slow(&diary, 100*time.Millisecond) })
	w.registered(first, 3)
	first.stop()
	w.submit("t",
		call("1", "look", ""), call("2", "write", ""), call("3", "query", ""), call("4", "reset_tools", `{"database":true}`),
		call("5", "query", ""), call("6", "reset_tools", `{"none":true}`))
	dying, died := w.faulty(n)
	wait(20 * time.Second) // longer than a lease: the first may have got a turn in its last moment
	dying.stop()
	second := w.dispatcher(func(c *dispatcher.Config) { c.Name = "second" })
	w.registered(second, 3)
	for id, reason := range map[string]events.Reason{
		"1": events.ReasonOK, "2": events.ReasonOK, "3": events.ReasonInactive, "4": events.ReasonOK, "5": events.ReasonOK,
		"6": events.ReasonInvalidInput,
	} {
		w.want(key("t", id), 5*time.Minute, reason)
	}
	for _, pair := range [][2]string{{"begin 2", "end 1"}, {"begin 5", "end 2"}} {
		w.after(&diary, pair[0], pair[1])
	}
	for _, id := range []string{"1", "2", "5"} {
		if got := x.runs(key("t", id)); got != 1 {
			t.Errorf("died at %s: call %s ran %d times", died(), id, got)
		}
	}
	wait(100 * time.Second)
	if got := w.count(w.bus.JournalStream(), w.bus.Under("result")); got != 6 {
		t.Errorf("died at %s: %d results, want 6", died(), got)
	}
	for what, got := range map[string]int{
		"records": w.records(), "work": w.count(w.bus.WorkStream(), ">"), "inbox": w.count(w.bus.InboxStream(), ">"), "turns": w.unacked(),
	} {
		if got != 0 {
			t.Errorf("died at %s: %d left of %s", died(), got, what)
		}
	}
	info := ask[events.SessionInfo](w, "local", events.OpSession, events.SessionRequest{Session: "s"})
	if !slices.Equal(info.Active, []string{"database"}) {
		t.Errorf("died at %s: active are %v", died(), info.Active)
	}
	return died()
}

// unacked is how many turns were not taken in to their end.
func (w *world) unacked() int {
	w.Helper()
	c, err := w.bus.JetStream().Consumer(w.Context(), w.bus.CallsStream(), jet.IntakeConsumer)
	if err != nil {
		w.Fatal(err)
	}
	info := c.CachedInfo()
	return info.NumAckPending + int(info.NumPending)
}

// A step that is lost with whoever was to send it is made up for by the sweep.
func TestLostStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		x := w.worker([]toolkit.Definition{stepDef()})
		w.registered(d, 1)
		x.forgetful = true
		w.submit("t", call("1", "write", ""), call("2", "write", ""))
		w.want(key("t", "1"), 10*time.Second, events.ReasonOK)
		w.want(key("t", "2"), 5*time.Minute, events.ReasonOK)
		wait(5 * time.Minute)
		if n := w.records(); n != 0 {
			t.Errorf("%d records are left", n)
		}
	})
}

// Everything is off for a day in the middle of a staged turn, longer than any window.
func TestStagedTurnOutlivesAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		defs := []toolkit.Definition{stepDef(), lookDef()}
		x := w.worker(defs, func(x *worker) {
			x.run = func(ctx context.Context, k events.CallKey, _ events.ToolWork) string {
				if k.Call == "2" {
					<-ctx.Done()
				}
				return "done"
			}
		})
		w.registered(d, 2)
		w.submit("t", call("1", "look", ""), call("2", "write", ""), call("3", "look", ""))
		w.want(key("t", "1"), 10*time.Second, events.ReasonOK)
		wait(time.Second)
		x.stop()
		d.stop()
		ran := x.runs(key("t", "2"))
		w.restart(24 * time.Hour)
		y := w.worker(defs)
		d = w.dispatcher()
		w.registered(d, 2)
		w.want(key("t", "2"), 5*time.Minute, events.ReasonOutcomeUnknown)
		w.want(key("t", "3"), 5*time.Minute, events.ReasonOK)
		if ran += y.runs(key("t", "2")); ran > 1 {
			t.Errorf("the call with side effects ran %d times", ran)
		}
	})
}

// A turn of one long stage after the other holds no more of the facts than it needs, and its own
// early results are not forgotten though the journal is purged meanwhile.
func TestLongStagedTurnAndTheHorizon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		x := w.worker([]toolkit.Definition{stepDef(), lookDef()}, func(x *worker) {
			x.run = func(_ context.Context, k events.CallKey, _ events.ToolWork) string {
				if k.Call == "2" {
					wait(25 * time.Minute)
				}
				return "done"
			}
		})
		w.registered(d, 2)
		w.submit("t", call("1", "write", ""), call("2", "write", ""), call("3", "look", ""))
		w.want(key("t", "1"), 10*time.Second, events.ReasonOK)
		wait(20 * time.Minute)
		w.want(key("t", "2"), time.Hour, events.ReasonOK)
		w.want(key("t", "3"), time.Minute, events.ReasonOK)
		for _, id := range []string{"1", "2", "3"} {
			if n := x.runs(key("t", id)); n != 1 {
				t.Errorf("call %s ran %d times", id, n)
			}
		}
	})
}

// A cancel ends the calls of all stages, those that have not begun included.
func TestCancelStagedTurn(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			d := w.dispatcher()
			x := w.worker([]toolkit.Definition{stepDef()}, func(x *worker) { x.run = w.slow(&diary{}, time.Hour) })
			w.registered(d, 1)
			if !late {
				x.stop() // the first call waits in the queue
			}
			w.submit("t", call("1", "write", ""), call("2", "write", ""), call("3", "reset_tools", ""))
			wait(time.Second)
			got := ask[events.TurnReply](w, "local", events.OpTurn, events.TurnRequest{Session: "s", Turn: "t"})
			if got.Calls[0].State != events.CallSubmitted || got.Calls[1].State != events.CallPending {
				t.Errorf("got %+v", got.Calls)
			}
			w.cancel("t")
			for _, id := range []string{"1", "2", "3"} {
				w.want(key("t", id), time.Minute, events.ReasonCancelled)
			}
			wait(3 * time.Minute)
			if n := w.records() + w.count(w.bus.WorkStream(), ">") + w.count(w.bus.InboxStream(), ">"); n != 0 {
				t.Errorf("%d messages are left", n)
			}
			if n := x.runs(key("t", "2")); n != 0 {
				t.Errorf("a cancelled call ran %d times", n)
			}
		})
	}
}

// The time in the queue of a later stage begins with that stage; the agent's deadline is over all.
func TestDeadlinesOfStages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		w.worker([]toolkit.Definition{stepDef()}, func(x *worker) {
			x.run = func(context.Context, events.CallKey, events.ToolWork) string { wait(9 * time.Minute); return "done" }
		})
		w.registered(d, 1)
		w.submit("t", call("1", "write", ""), call("2", "write", ""), call("3", "write", ""))
		deadline := time.Now().Add(15 * time.Minute)
		w.publish("u", events.ToolCalls{Calls: []events.Call{call("1", "write", ""), call("2", "write", ""), call("3", "write", "")}, Deadline: &deadline})
		w.want(key("t", "3"), time.Hour, events.ReasonOK) // 18 min after the turn, with 10 min to queue
		w.want(key("u", "3"), time.Hour, events.ReasonTimeout)
	})
}

// Nobody runs the tools: each stage expires in its turn.
func TestStagedTurnWithoutWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		w.register(d, stepDef())
		w.submit("t", call("1", "write", ""), call("2", "write", ""), call("3", "nope", ""))
		w.want(key("t", "1"), 12*time.Minute, events.ReasonQueueExpired)
		w.want(key("t", "2"), 12*time.Minute, events.ReasonQueueExpired)
		w.want(key("t", "3"), time.Minute, events.ReasonNotFound)
	})
}

// Large turns travel by reference, staged ones too; and a thousand steps of one stage are few runs.
func TestLargeStagedTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		x := w.worker([]toolkit.Definition{stepDef(), lookDef()})
		w.registered(d, 2)
		calls := []events.Call{call("first", "write", "")}
		for i := range 300 {
			calls = append(calls, call(strconv.Itoa(i), "look", `{"note":"`+strings.Repeat("x", 1000)+`"}`))
		}
		w.submit("t", append(calls, call("last", "write", ""))...)
		w.want(key("t", "last"), 5*time.Minute, events.ReasonOK)
		for i := range 300 {
			if n := x.runs(key("t", strconv.Itoa(i))); n != 1 {
				t.Errorf("call %d ran %d times", i, n)
			}
		}
	})
}

// A record that cannot be read harms no other.
func TestRecordThatIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		w.worker([]toolkit.Definition{stepDef()})
		w.registered(d, 1)
		if _, err := w.bus.PutRecord(w.Context(), w.bus.TurnsBucket(), "s.broken", []byte(`{"stages":[5]}`), 0); err != nil {
			t.Fatal(err)
		}
		w.submit("t", call("1", "write", ""), call("2", "write", ""))
		w.want(key("t", "2"), time.Minute, events.ReasonOK)
		wait(3 * time.Minute)
		if err := d.Ready(); err != nil {
			t.Error(err)
		}
		if _, err := w.bus.Record(w.Context(), w.bus.TurnsBucket(), "s.broken"); errors.Is(err, jet.ErrNone) {
			t.Error("it was removed, though nobody knows what it was")
		}
	})
}
