package spine_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// A worker lives, but its renewals are lost, so its work is delivered again while it runs: a tool
// with side effects is left to it, and in any case there is one result (T-56, T-60).
func TestRenewalsAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := newEffects()
		slow := func(ctx context.Context) (any, error) {
			ran.happen(ctx)
			time.Sleep(45 * time.Second)
			return "done", nil
		}
		f := newFleet(t, tool("mail", nil, slow), tool("look", &toolkit.Options{ReadOnly: true}, slow))
		f.dispatcher()
		f.worker(4, tapped(deafToRenewals))
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
		if n := ran.copy(); n["s/t/c1"] != 1 || n["s/t/c2"] != 2 {
			t.Errorf("runs: %v, want the mail once, and the other on both", n)
		}
		live.onePer(t, 2)
		f.workIsEmpty()
	})
}

// deafToRenewals loses the renewals of leases on their way to the server.
func deafToRenewals(subject, data string) verdict {
	if strings.HasPrefix(subject, workAck) && data == "+WPI" {
		return drop
	}
	return pass
}

// A worker that has lost its call to another learns of it while it runs: its tool is told why,
// and its own result counts for nothing (T-51, T-60).
func TestLostCallIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		told := make(chan error, 1)
		f := newFleet(t, tool("look", &toolkit.Options{ReadOnly: true}, func(ctx context.Context) (any, error) {
			if runs.Add(1) > 1 {
				return "second", nil
			}
			<-ctx.Done()
			told <- context.Cause(ctx)
			return "first", nil
		}))
		f.dispatcher()
		f.worker(4, tapped(deafToRenewals))
		c := f.agent("local")
		f.ready(c)
		time.Sleep(2 * time.Second)
		p := f.submit(c, agent.Turn{Session: "s", ID: "t", Calls: []events.Call{{ID: "c1", Name: "look"}}})
		time.Sleep(time.Second)
		f.worker(4)
		if r := f.await(p)[0]; r.Text() != "second" {
			t.Errorf("got %s %q", r.Reason, r.Text())
		}
		begin := time.Now()
		if err := <-told; !errors.Is(err, toolkit.ErrLost) || time.Since(begin) > 4*time.Second {
			t.Errorf("told %v after %v", err, time.Since(begin))
		}
		time.Sleep(time.Minute)
		r, err := c.Result(t.Context(), events.CallKey{Session: "s", Turn: "t", Call: "c1"})
		if err != nil || r.Text() != "second" {
			t.Errorf("later: got %q, %v", r.Text(), err)
		}
	})
}

// What a worker says of a call is late by more than its lease, and another takes the call
// meanwhile: a tool with side effects runs once, on whichever, and the later result is refused (T-56, T-60).
func TestWorkerIsLate(t *testing.T) {
	for _, at := range []struct {
		what string
		want events.Reason
	}{{"toolwire.start.", events.ReasonOK}, {"toolwire.result.", events.ReasonOutcomeUnknown}} {
		synctest.Test(t, func(t *testing.T) {
			ran := newEffects()
			f := newFleet(t, tool("mail", nil, func(ctx context.Context) (any, error) {
				ran.happen(ctx)
				time.Sleep(time.Minute)
				return "sent", nil
			}))
			f.dispatcher()
			k := &killer{point: point{what: at.what, verdict: hold}}
			f.worker(4, tapped(k.judge))
			c := f.agent("local")
			f.ready(c)
			live := f.spy("toolwire.live.result.>")
			time.Sleep(2 * time.Second)
			k.armed.Store(true)
			p := f.submit(c, agent.Turn{Session: "s", ID: "t", Calls: []events.Call{{ID: "c1", Name: "mail"}}})
			time.Sleep(time.Second)
			f.worker(4)
			if r := f.await(p)[0]; r.Reason != at.want {
				t.Errorf("late %s: got %s", at.what, r.Reason)
			}
			time.Sleep(2 * time.Minute)
			if n := ran.total.Load(); n != 1 || !k.fired.Load() {
				t.Errorf("late %s: the mail was sent %d times", at.what, n)
			}
			live.onePer(t, 1)
			f.workIsEmpty()
		})
	}
}

// The work that a dispatcher publishes is late, and another has taken the turn meanwhile: the work
// that is stored after the result does no harm, and goes away (T-50, N-8).
func TestDispatcherIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := newEffects()
		happen := func(ctx context.Context) (any, error) { ran.happen(ctx); return "done", nil }
		f := newFleet(t, tool("mail", nil, happen), tool("look", &toolkit.Options{ReadOnly: true}, happen))
		first := f.dispatcher()
		f.worker(4)
		c := f.agent("local")
		f.ready(c)
		first.drain()
		k := &killer{point: point{what: "toolwire.work.", verdict: hold}}
		f.dispatcher(tapped(k.judge))
		f.ready(c)
		time.Sleep(2 * time.Second)
		live := f.spy("toolwire.live.result.>")
		k.armed.Store(true)
		p := f.submit(c, agent.Turn{Session: "s", ID: "t", Calls: []events.Call{{ID: "c1", Name: "mail"}, {ID: "c2", Name: "look"}}})
		time.Sleep(time.Second)
		f.dispatcher()
		for _, r := range f.await(p) {
			if r.Reason != events.ReasonOK {
				t.Errorf("%s: got %s", r.Name, r.Reason)
			}
		}
		time.Sleep(2 * time.Minute)
		if n := ran.copy()["s/t/c1"]; n != 1 || !k.fired.Load() {
			t.Errorf("the mail was sent %d times", n)
		}
		live.onePer(t, 2)
		f.workIsEmpty()
	})
}
