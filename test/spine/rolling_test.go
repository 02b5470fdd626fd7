package spine_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// A worker is drained while a hundred calls run in it: those that can finish do, in place; of the
// others, what has side effects is interrupted, and what has none moves to the next worker. None
// is lost, none with side effects runs twice.
func TestDrainWithCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := newEffects()
		long := func(ctx context.Context) (any, error) {
			ran.happen(ctx)
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(2 * time.Minute):
				return "done", nil
			}
		}
		f := newFleet(t,
			tool("mail", nil, func(ctx context.Context) (any, error) {
				ran.happen(ctx)
				time.Sleep(10 * time.Second)
				return "sent", nil
			}),
			tool("book", nil, long), tool("look", &toolkit.Options{ReadOnly: true}, long))
		f.dispatcher()
		first := f.worker(128)
		c := f.agent("local")
		f.ready(c)
		time.Sleep(2 * time.Second)
		live := f.spy("toolwire.live.result.>")
		var turns []*agent.Pending
		for i := range 25 {
			turns = append(turns, f.submit(c, agent.Turn{Session: "s", ID: events.TurnID(strconv.Itoa(i)), Calls: []events.Call{
				{ID: "c1", Name: "mail"}, {ID: "c2", Name: "mail"}, {ID: "c3", Name: "book"}, {ID: "c4", Name: "look"},
			}}))
		}
		time.Sleep(5 * time.Second)
		if n := ran.total.Load(); n != 100 {
			t.Fatalf("%d calls are in flight", n)
		}
		f.worker(128)
		first.drain()
		for _, p := range turns {
			for i, r := range f.await(p) {
				want := []events.Reason{events.ReasonOK, events.ReasonOK, events.ReasonShutdown, events.ReasonOK}[i]
				if r.Reason != want {
					t.Errorf("turn %s, call %d: got %s, want %s", p.Turn(), i+1, r.Reason, want)
				}
			}
		}
		time.Sleep(time.Minute)
		for i := range turns {
			for call, want := range map[string]int{"c1": 1, "c2": 1, "c3": 1, "c4": 2} {
				if n := ran.copy()["s/"+strconv.Itoa(i)+"/"+call]; n != want {
					t.Errorf("turn %d, %s ran %d times, want %d", i, call, n, want)
				}
			}
		}
		live.onePer(t, 100)
		f.workIsEmpty()
	})
}

// Workers come, are drained and killed under a steady stream of calls to a tool with a limit: it
// never runs more often at once than its limit, over all of them, and nothing is lost.
func TestLaneOverRollingWorkers(t *testing.T) {
	t.Parallel()
	ran := newEffects()
	var open, most atomic.Int32
	f := newFleet(t,
		tool("mail", nil, func(ctx context.Context) (any, error) {
			ran.happen(ctx)
			<-time.After(20 * time.Millisecond)
			return "sent", nil
		}),
		tool("narrow", &toolkit.Options{MaxInFlight: 2}, func(ctx context.Context) (any, error) {
			ran.happen(ctx)
			n := open.Add(1)
			defer open.Add(-1)
			for m := most.Load(); n > m; m = most.Load() {
				most.CompareAndSwap(m, n)
			}
			<-time.After(5 * time.Millisecond)
			return "sent", nil
		}))
	f.dispatcher()
	first := f.worker(8)
	c := f.agent("local")
	f.ready(c)
	second := f.worker(8)
	f.worker(8)
	var turns []*agent.Pending
	var rolling sync.WaitGroup
	for i := range 60 {
		turns = append(turns, f.submit(c, agent.Turn{Session: "s", ID: events.TurnID(strconv.Itoa(i)), Calls: []events.Call{{Name: "mail"}, {Name: "narrow"}}}))
		switch i {
		case 15:
			rolling.Go(first.drain)
		case 30:
			f.worker(8)
		case 40:
			rolling.Go(second.drain)
		}
	}
	for _, p := range turns {
		for _, r := range f.await(p) {
			if r.Reason != events.ReasonOK {
				t.Errorf("got %s: %s", r.Reason, r.Text())
			}
		}
	}
	rolling.Wait()
	ran.onePer(t, 120)
	if n := most.Load(); n != 2 {
		t.Errorf("a tool with a limit of 2 ran %d times at once", n)
	}
}

// Deltas of two parallel calls are not mixed, count from one, and are all there where the
// connection holds; the final result repeats none of them (T14, T15, A-34).
func TestDeltasOfParallelCalls(t *testing.T) {
	t.Parallel()
	const each = 20
	f := newFleet(t, tool("talk", &toolkit.Options{ReadOnly: true}, func(ctx context.Context) (any, error) {
		call, _ := toolkit.CallFrom(ctx)
		for n := range each {
			toolkit.Emit(ctx, events.Text(string(call.Key.Call)+" "+strconv.Itoa(n)))
			<-time.After(time.Millisecond)
		}
		return "done", nil
	}))
	c := f.up(2)
	type delta struct {
		call events.CallID
		seq  int
		text string
	}
	deltas := make(chan delta, 10*each)
	p := f.submit(c, agent.Turn{
		Session: "s", Calls: []events.Call{{ID: "c1", Name: "talk"}, {ID: "c2", Name: "talk"}},
		Progress: func(d events.ToolResultDelta) {
			text, _ := d.Content.Text()
			deltas <- delta{d.CallID, int(d.Seq), text}
		},
	})
	for _, r := range f.await(p) {
		if r.Text() != "done" {
			t.Errorf("%s: got %q", r.CallID, r.Text())
		}
	}
	seen := map[events.CallID]int{}
	late := time.After(20 * time.Second)
	for range 2 * each {
		select {
		case d := <-deltas:
			if want := string(d.call) + " " + strconv.Itoa(seen[d.call]); d.text != want || d.seq != seen[d.call]+1 {
				t.Errorf("%s: delta %d is %q, want %q", d.call, d.seq, d.text, want)
			}
			seen[d.call]++
		case <-late:
			t.Fatalf("deltas: %v, want %d each", seen, each)
		}
	}
}
