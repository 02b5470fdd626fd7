package spine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// Two agents, 1,000 interleaved turns, four workers, two dispatchers: every result at its owner,
// none twice, in call order (T-32, A-32).
func TestInterleavedTurns(t *testing.T) {
	t.Parallel()
	f := newFleet(t, echo("echo"))
	f.dispatcher()
	for range 3 {
		f.worker(16)
	}
	live := f.spy("toolwire.live.result.>")
	clients := []*agent.Client{f.up(1), f.agent("other")}
	const turns = 500
	var wg sync.WaitGroup
	gate := make(chan struct{}, 64)
	for i := range turns {
		for who, c := range clients {
			gate <- struct{}{}
			wg.Go(func() {
				defer func() { <-gate }()
				session := events.SessionID(fmt.Sprintf("s%d-%d", who, i%7))
				var calls []events.Call
				for n := range i%3 + 1 {
					calls = append(calls, events.Call{Name: "echo", Input: json.RawMessage(fmt.Sprintf(`{"who":%d,"turn":%d,"call":%d}`, who, i, n))})
				}
				p, err := c.Submit(t.Context(), agent.Turn{Session: session, ID: events.TurnID(strconv.Itoa(i)), Calls: calls})
				if err != nil {
					t.Error(err)
					return
				}
				results, err := p.Await(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				for n, r := range results {
					if r.Reason != events.ReasonOK || r.Text() != string(calls[n].Input) {
						t.Errorf("agent %d, turn %d, call %d: got %s %s", who, i, n, r.Reason, r.Text())
					}
				}
			})
		}
	}
	wg.Wait()
	want := 0
	for i := range turns {
		want += len(clients) * (i%3 + 1)
	}
	got := live.copy()
	for end := time.Now().Add(30 * time.Second); len(got) < want && time.Now().Before(end); got = live.copy() {
		<-time.After(10 * time.Millisecond) // the spy has a connection of its own
	}
	if len(got) != want {
		t.Errorf("%d calls have results, want %d", len(got), want)
	}
	for subject, n := range got {
		if n != 1 {
			t.Errorf("%s: %d results", subject, n)
		}
	}
}

// Without side effects the call runs again on another worker, within the lease (N-17, T-52, T-62).
func TestWorkerKilledWithoutSideEffects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := newEffects()
		f := newFleet(t, tool("look", &toolkit.Options{ReadOnly: true}, func(ctx context.Context) (any, error) {
			ran.happen(ctx)
			time.Sleep(time.Second)
			return "seen", nil
		}))
		f.dispatcher()
		victim := f.worker(4)
		c := f.agent("local")
		f.ready(c)
		time.Sleep(2 * time.Second) // it may have asked for work before there was a pool
		begin := time.Now()
		four := agent.Turn{Session: "s", Calls: []events.Call{{Name: "look"}, {Name: "look"}, {Name: "look"}, {Name: "look"}}}
		f.await(f.submit(c, four))
		if d := time.Since(begin); d > 1200*time.Millisecond {
			t.Errorf("four calls of a second on four slots took %v", d)
		}
		begin = time.Now()
		p := f.submit(c, four)
		time.Sleep(500 * time.Millisecond)
		victim.kill()
		f.worker(4)
		for i, r := range f.await(p) {
			if r.Reason != events.ReasonOK {
				t.Errorf("call %d: got %s", i, r.Reason)
			}
		}
		if d := time.Since(begin); d > 15*time.Second {
			t.Errorf("taken over after %v", d)
		}
	})
}

// Work five times as long as the lease runs once (T-63), with a tool that is told to stop neither by
// a renewal nor by another worker.
func TestWorkLongerThanTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, o := range []*toolkit.Options{{}, {ReadOnly: true}} {
			ran := newEffects()
			f := newFleet(t, tool("long", o, func(ctx context.Context) (any, error) {
				ran.happen(ctx)
				time.Sleep(50 * time.Second)
				return "done", nil
			}))
			c := f.up(2)
			if r := f.one(c, "s", "long", ""); r.Reason != events.ReasonOK || ran.total.Load() != 1 {
				t.Errorf("got %s after %d runs", r.Reason, ran.total.Load())
			}
			f.stopAll()
			f.srv.Stop()
		}
	})
}

// Everything is off for longer than the window, an hour and a day: no call is lost, no fence opens.
func TestOutageLongerThanTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, outage := range []time.Duration{time.Hour, 24 * time.Hour} {
			ran := newEffects()
			f := newFleet(t,
				tool("patient", &toolkit.Options{QueueTimeout: 72 * time.Hour}, func(ctx context.Context) (any, error) { ran.happen(ctx); return "sent", nil }),
				tool("hasty", nil, func(ctx context.Context) (any, error) { ran.happen(ctx); return "sent", nil }),
				tool("slow", &toolkit.Options{Timeout: time.Hour}, func(ctx context.Context) (any, error) {
					ran.happen(ctx)
					select {
					case <-ctx.Done():
						return nil, ctx.Err()
					case <-time.After(30 * time.Minute):
						return "sent", nil
					}
				}))
			f.history = true // a turn may be older than the window by the time it is settled
			f.dispatcher()
			worker := f.worker(4)
			c, err := agent.New(f.srv.Lasting(nats.ReconnectWait(time.Minute)), agent.Config{})
			if err != nil {
				t.Fatal(err)
			}
			f.ready(c)
			running := f.submit(c, agent.Turn{Session: "s", ID: "running", Calls: []events.Call{{ID: "c1", Name: "slow"}}})
			time.Sleep(5 * time.Second)
			worker.kill() // what comes now waits
			waiting := f.submit(c, agent.Turn{Session: "s", ID: "waiting", Calls: []events.Call{{ID: "c1", Name: "patient"}, {ID: "c2", Name: "hasty"}}})
			time.Sleep(time.Second)
			f.off(outage)
			f.worker(4)
			f.dispatcher()
			for p, want := range map[*agent.Pending][]events.Reason{
				running: {events.ReasonOutcomeUnknown},
				waiting: {events.ReasonOK, events.ReasonQueueExpired},
			} {
				for i, r := range f.await(p) {
					if r.Reason != want[i] {
						t.Errorf("off for %v: turn %s, call %d: got %s, want %s", outage, p.Turn(), i+1, r.Reason, want[i])
					}
				}
			}
			for call, n := range ran.copy() {
				if n != 1 {
					t.Errorf("off for %v: %s ran %d times", outage, call, n)
				}
			}
			c.Close()
			f.stopAll()
			f.srv.Stop()
			time.Sleep(time.Minute)
		}
	})
}

// Nobody comes for a call: it ends at its time in the queue, with all workers gone, also when the
// dispatchers were away at that time; the agent's own deadline ends it earlier.
func TestNobodyComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, tool("look", &toolkit.Options{ReadOnly: true}, func(context.Context) (any, error) { return "seen", nil }))
		d := f.dispatcher()
		w := f.worker(1)
		c := f.agent("local")
		f.ready(c)
		w.kill()
		begin := time.Now()
		deadline := begin.Add(time.Minute)
		queued := f.submit(c, agent.Turn{Session: "s", Calls: []events.Call{{Name: "look"}}})
		hasty := f.submit(c, agent.Turn{Session: "s", Calls: []events.Call{{Name: "look"}}, Deadline: deadline})
		if r := f.await(hasty)[0]; r.Reason != events.ReasonTimeout || time.Since(begin) > 90*time.Second {
			t.Errorf("with a deadline: got %s after %v", r.Reason, time.Since(begin))
		}
		if r := f.await(queued)[0]; r.Reason != events.ReasonQueueExpired || time.Since(begin) > 11*time.Minute {
			t.Errorf("without: got %s after %v", r.Reason, time.Since(begin))
		}
		late := f.submit(c, agent.Turn{Session: "s", Calls: []events.Call{{Name: "look"}}})
		time.Sleep(time.Second)
		d.kill()
		time.Sleep(time.Hour)
		f.dispatcher()
		if r := f.await(late)[0]; r.Reason != events.ReasonQueueExpired {
			t.Errorf("with the dispatchers away: got %s", r.Reason)
		}
	})
}

// Cancel races the start of a call, 200 times: one result each, and a call that says it was
// cancelled before it ran did not run (T-57, T-64, T-68).
func TestCancelRacesStart(t *testing.T) {
	t.Parallel()
	ran := newEffects()
	f := newFleet(t, tool("mail", nil, func(ctx context.Context) (any, error) {
		ran.happen(ctx)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(5 * time.Millisecond):
			return "sent", nil
		}
	}))
	c := f.up(2)
	var wg sync.WaitGroup
	var cancelled atomic.Int32
	gate := make(chan struct{}, 32)
	for i := range 200 {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			turn := events.TurnID(strconv.Itoa(i))
			p, err := c.Submit(t.Context(), agent.Turn{Session: "s", ID: turn, Calls: []events.Call{{ID: "c1", Name: "mail"}}})
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := c.CancelNow(t.Context(), "s", turn, events.CancelCalls{}); err != nil {
				t.Error(err)
			}
			results, err := p.Await(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			n := ran.copy()["s/"+string(turn)+"/c1"]
			switch r := results[0]; {
			case r.Reason == events.ReasonCancelled && r.Meta.StartedAt == nil && n != 0:
				t.Errorf("turn %s: cancelled without running, but it ran", turn)
			case r.Reason == events.ReasonOK && n != 1:
				t.Errorf("turn %s: ok after %d runs", turn, n)
			case r.Reason == events.ReasonCancelled:
				cancelled.Add(1)
			case r.Reason != events.ReasonOK:
				t.Errorf("turn %s: got %s", turn, r.Reason)
			}
		})
	}
	wg.Wait()
	for call, n := range ran.copy() {
		if n > 1 {
			t.Errorf("%s ran %d times", call, n)
		}
	}
	if cancelled.Load() == 0 {
		t.Error("no call was cancelled")
	}
}
