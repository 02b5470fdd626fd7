package spine_test

import (
	"context"
	"fmt"
	"strings"
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
	points := []struct {
		point
		mail events.Reason // the result of a call with side effects
		sent int           // how often it ran
		look int           // how often one without ran; 0: the point is not on its way
	}{
		{point{"toolwire.start.", "", cutBefore}, events.ReasonOK, 1, 0},
		{point{"toolwire.start.", "", cutAfter}, events.ReasonOutcomeUnknown, 0, 0},
		{point{"toolwire.result.", "", cutBefore}, events.ReasonOutcomeUnknown, 1, 2},
		{point{"toolwire.result.", "", cutAfter}, events.ReasonOK, 1, 1},
		{point{workAck, "+ACK", cutBefore}, events.ReasonOK, 1, 1},
		{point{workAck, "+ACK", cutAfter}, events.ReasonOK, 1, 1},
	}
	synctest.Test(t, func(t *testing.T) {
		ran := newEffects()
		happen := func(ctx context.Context) (any, error) { ran.happen(ctx); return "done", nil }
		f := newFleet(t,
			tool("mail", &toolkit.Options{QueueTimeout: time.Hour}, happen),
			tool("look", &toolkit.Options{ReadOnly: true, QueueTimeout: time.Hour}, happen))
		f.dispatcher()
		c := f.agent("local")
		live := f.spy("toolwire.live.result.>")
		for i, p := range points {
			for _, pause := range []time.Duration{time.Second, 10 * time.Minute} {
				for name, want := range map[string]int{"mail": p.sent, "look": p.look} {
					if name == "look" && p.look == 0 {
						continue
					}
					k := &killer{point: p.point}
					victim := f.worker(1, tapped(k.judge))
					f.ready(c)
					time.Sleep(2 * time.Second) // it has asked for work by now
					k.armed.Store(true)
					turn := events.TurnID(fmt.Sprintf("%s-%d-%v", name, i, pause))
					pending := f.submit(c, agent.Turn{Session: "s", ID: turn, Calls: []events.Call{{ID: "c1", Name: events.ToolName(name)}}})
					time.Sleep(pause)
					if !k.fired.Load() {
						t.Fatalf("%s: the worker lives", turn)
					}
					rescue := []*process{f.worker(1), f.worker(1)}
					reason := events.ReasonOK
					if name == "mail" {
						reason = p.mail
					}
					if r := f.await(pending)[0]; r.Reason != reason {
						t.Errorf("%s: killed at %v: got %s, want %s", turn, p.point, r.Reason, reason)
					}
					time.Sleep(15 * time.Second) // whatever is delivered again is by now
					if n := ran.copy()["s/"+string(turn)+"/c1"]; n != want {
						t.Errorf("%s: killed at %v: it ran %d times, want %d", turn, p.point, n, want)
					}
					if n := live.copy()["toolwire.live.result.s."+events.Token(turn)+".c1"]; n != 1 {
						t.Errorf("%s: killed at %v: %d results", turn, p.point, n)
					}
					for _, r := range append(rescue, victim) {
						r.drain()
					}
				}
			}
		}
		f.workIsEmpty()
	})
}

// A worker dies inside its tool, before the effect and after it (T-61, T-69).
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
			}))
		f.dispatcher()
		c := f.agent("local")
		live := f.spy("toolwire.live.result.>")
		for _, name := range []events.ToolName{"before", "after"} {
			victim = f.worker(4)
			f.ready(c)
			time.Sleep(2 * time.Second)
			p := f.submit(c, agent.Turn{Session: "s", ID: events.TurnID(name), Calls: []events.Call{{ID: "c1", Name: name}}})
			time.Sleep(time.Second)
			rescue := []*process{f.worker(4), f.worker(4)}
			if r := f.await(p)[0]; r.Reason != events.ReasonOutcomeUnknown || r.Meta.StartedAt == nil && r.Meta.Worker != "" {
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
		if got := live.copy(); len(got) != 2 {
			t.Errorf("results: %v", got)
		}
		f.workIsEmpty()
	})
}

// A worker lives, but its renewals are lost, so its work is delivered again while it runs: a tool
// with side effects is left to it, and in any case there is one result (T-56, T-60).
func TestRenewalsAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := newEffects()
		slow := func(ctx context.Context) (any, error) { ran.happen(ctx); time.Sleep(45 * time.Second); return "done", nil }
		f := newFleet(t, tool("mail", nil, slow), tool("look", &toolkit.Options{ReadOnly: true}, slow))
		f.dispatcher()
		f.worker(4, tapped(func(subject, data string) verdict {
			if strings.HasPrefix(subject, workAck) && data == "+WPI" {
				return drop
			}
			return pass
		}))
		c := f.agent("local")
		f.ready(c)
		live := f.spy("toolwire.live.result.>")
		time.Sleep(2 * time.Second)
		p := f.submit(c, agent.Turn{Session: "s", ID: "t", Calls: []events.Call{{ID: "c1", Name: "mail"}, {ID: "c2", Name: "look"}}})
		time.Sleep(time.Second)
		f.worker(4)
		for _, r := range f.await(p) {
			if r.Reason != events.ReasonOK {
				t.Errorf("%s: got %s", r.Name, r.Reason)
			}
		}
		time.Sleep(2 * time.Minute)
		if n := ran.copy()["s/t/c1"]; n != 1 {
			t.Errorf("the mail was sent %d times", n)
		}
		for subject, n := range live.copy() {
			if n != 1 {
				t.Errorf("%s: %d results", subject, n)
			}
		}
		f.workIsEmpty()
	})
}

// A worker's start is late by more than the lease, and another takes the call meanwhile: the late
// one does not run it too (T-56, T-60).
func TestStartComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := newEffects()
		f := newFleet(t, tool("mail", nil, func(ctx context.Context) (any, error) {
			ran.happen(ctx)
			time.Sleep(time.Minute)
			return "sent", nil
		}))
		f.dispatcher()
		k := &killer{point: point{what: "toolwire.start.", verdict: hold}}
		f.worker(4, tapped(k.judge))
		c := f.agent("local")
		f.ready(c)
		live := f.spy("toolwire.live.result.>")
		time.Sleep(2 * time.Second)
		k.armed.Store(true)
		p := f.submit(c, agent.Turn{Session: "s", ID: "t", Calls: []events.Call{{ID: "c1", Name: "mail"}}})
		time.Sleep(time.Second)
		if !k.fired.Load() {
			t.Fatal("no start was published")
		}
		f.worker(4)
		if r := f.await(p)[0]; r.Reason != events.ReasonOK {
			t.Errorf("got %s", r.Reason)
		}
		time.Sleep(2 * time.Minute)
		if n := ran.total.Load(); n != 1 {
			t.Errorf("the mail was sent %d times", n)
		}
		if got := live.copy(); len(got) != 1 || got["toolwire.live.result.s.t.c1"] != 1 {
			t.Errorf("results: %v", got)
		}
		f.workIsEmpty()
	})
}
