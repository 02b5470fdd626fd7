package spine_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// workAck begins the acknowledgement of a piece of work.
const workAck = "$JS.ACK.TOOLWIRE_WORK."

// A worker dies before and after everything it publishes about a call, and two others race for what
// it leaves, at once or ten minutes later: a tool with side effects runs at most once, any other
// to its end, and each call has one result, which says no less than what happened (T-61, N-8, B3).
func TestWorkerDiesAtEveryPublish(t *testing.T) {
	deaths := []death{
		{point{"toolwire.start.", "", cutBefore}, "mail", events.ReasonOK, 1},
		{point{"toolwire.start.", "", cutAfter}, "mail", events.ReasonOutcomeUnknown, 0},
		{point{"toolwire.result.", "", cutBefore}, "mail", events.ReasonOutcomeUnknown, 1},
		{point{"toolwire.result.", "", cutAfter}, "mail", events.ReasonOK, 1},
		{point{workAck, "+ACK", cutBefore}, "mail", events.ReasonOK, 1},
		{point{workAck, "+ACK", cutAfter}, "mail", events.ReasonOK, 1},
		{point{"toolwire.result.", "", cutBefore}, "look", events.ReasonOK, 2},
		{point{"toolwire.result.", "", cutAfter}, "look", events.ReasonOK, 1},
		{point{workAck, "+ACK", cutBefore}, "look", events.ReasonOK, 1},
		{point{workAck, "+ACK", cutAfter}, "look", events.ReasonOK, 1},
	}
	for _, pause := range []time.Duration{time.Second, 10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) { dieAndRescue(t, deaths, pause) })
	}
}

// death is how a worker ends that has taken a call, and what comes of the call.
type death struct {
	point
	tool   string
	reason events.Reason
	runs   int
}

// dieAndRescue lets each death happen to a worker program of its own, all at the same time.
func dieAndRescue(t *testing.T, deaths []death, pause time.Duration) {
	t.Helper()
	ran := newEffects()
	f := newFleet(t)
	f.dispatcher()
	c := f.agent("local")
	live := f.spy("toolwire.live.result.>")
	kits := make([]*toolkit.Toolkit, len(deaths))
	killers := make([]*killer, len(deaths))
	turns := make([]*agent.Pending, len(deaths))
	for i, d := range deaths {
		kits[i], killers[i] = toolkit.New(), &killer{point: d.point}
		o := &toolkit.Options{QueueTimeout: time.Hour, ReadOnly: d.tool == "look"}
		if err := kits[i].Add(tool(d.tool+strconv.Itoa(i), o, func(ctx context.Context) (any, error) { ran.happen(ctx); return "done", nil })); err != nil {
			t.Fatal(err)
		}
		f.program("program"+strconv.Itoa(i), kits[i], 1, tapped(killers[i].judge))
		f.known(c, kits[i])
	}
	time.Sleep(2 * time.Second) // they have asked for work by now
	for i, d := range deaths {
		killers[i].armed.Store(true)
		turns[i] = f.submit(c, agent.Turn{Session: "s", ID: events.TurnID(strconv.Itoa(i)), Calls: []events.Call{{ID: "c1", Name: events.ToolName(d.tool + strconv.Itoa(i))}}})
	}
	time.Sleep(pause)
	for i := range deaths {
		for range 2 {
			f.program("program"+strconv.Itoa(i), kits[i], 1)
		}
	}
	for i, d := range deaths {
		if r := f.await(turns[i])[0]; !killers[i].fired.Load() || r.Reason != d.reason {
			t.Errorf("%s %v, %v later: got %s, want %s (killed %v)", d.tool, d.point, pause, r.Reason, d.reason, killers[i].fired.Load())
		}
	}
	time.Sleep(15 * time.Second) // whatever is delivered again is by now
	runs, results := ran.copy(), live.copy()
	for i, d := range deaths {
		if n := runs[fmt.Sprintf("s/%d/c1", i)]; n != d.runs {
			t.Errorf("%s %v, %v later: it ran %d times, want %d", d.tool, d.point, pause, n, d.runs)
		}
		if n := results[fmt.Sprintf("toolwire.live.result.s.%d.c1", i)]; n != 1 {
			t.Errorf("%s %v, %v later: %d results", d.tool, d.point, pause, n)
		}
	}
	f.workIsEmpty()
}

// A worker dies inside its tool, before the effect, after it, and after its lease was renewed
// several times (T-61, T-69).
func TestWorkerDiesInsideTheTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := newEffects()
		var victim *process
		f := newFleet(t,
			tool("before", nil, func(ctx context.Context) (any, error) {
				victim.kill()
				ran.happen(ctx) // behind a broken network it still happens
				return "sent", nil
			}),
			tool("after", nil, func(ctx context.Context) (any, error) {
				ran.happen(ctx)
				victim.kill()
				<-ctx.Done()
				return nil, ctx.Err()
			}),
			tool("late", nil, func(ctx context.Context) (any, error) {
				ran.happen(ctx)
				time.Sleep(30 * time.Second)
				victim.kill()
				time.Sleep(time.Minute)
				return "sent", nil
			}))
		f.dispatcher()
		c := f.agent("local")
		live := f.spy("toolwire.live.result.>")
		for _, name := range []events.ToolName{"before", "after", "late"} {
			victim = f.worker(4)
			f.ready(c)
			time.Sleep(2 * time.Second)
			p := f.submit(c, agent.Turn{Session: "s", ID: events.TurnID(name), Calls: []events.Call{{ID: "c1", Name: name}}})
			time.Sleep(time.Second)
			rescue := []*process{f.worker(4), f.worker(4)}
			if r := f.await(p)[0]; r.Reason != events.ReasonOutcomeUnknown {
				t.Errorf("%s: got %s", name, r.Reason)
			}
			time.Sleep(time.Minute)
			for _, r := range rescue {
				r.drain()
			}
		}
		for call, n := range ran.copy() {
			if n != 1 {
				t.Errorf("%s ran %d times", call, n)
			}
		}
		if got := live.copy(); len(got) != 3 {
			t.Errorf("results: %v", got)
		}
		f.workIsEmpty()
	})
}
