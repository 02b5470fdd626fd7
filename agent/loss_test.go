package agent_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/internal/natstest"
)

// What may be lost on the way back, and how a wait ends all the same.

func TestLostLiveResultIsReadAfterTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, f, c := setup(t, hold)
		s, err := f.JetStream().Stream(t.Context(), f.JournalStream())
		if err != nil {
			t.Fatal(err)
		}
		cfg := s.CachedInfo().Config
		cfg.RePublish = nil // every live copy is lost
		if _, err := f.JetStream().UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		p := submit(t, c, agent.Turn{Session: "s", ID: "t", Calls: []events.Call{call("a", "x", "")}})
		if err := f.settle(t.Context(), events.CallKey{Session: "s", Turn: "t", Call: "a"}, answer("a", "found")); err != nil {
			t.Fatal(err)
		}
		if got := text(t, await(t, p)[0]); got != "found" {
			t.Errorf("got %q", got)
		}
		if took := time.Since(start); took > 2200*time.Millisecond {
			t.Errorf("found after %v, want about 2 s", took)
		}
	})
}

func TestLongWaitAsksSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, f, c := setup(t, hold)
		p := submit(t, c, agent.Turn{Session: "s", ID: "t", Calls: []events.Call{call("a", "x", "")}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := p.Await(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v, want the deadline", err)
		}
		awaited := f.questions(events.OpTurn)
		if awaited < 300 || awaited > 500 {
			t.Errorf("asked %d times in an hour of waiting, want about 390", awaited)
		}
		time.Sleep(time.Hour)
		if n := f.questions(events.OpTurn) - awaited; n > 20 {
			t.Errorf("asked %d times in an hour while nobody waited", n)
		}
		if err := f.settle(t.Context(), events.CallKey{Session: "s", Turn: "t", Call: "a"}, answer("a", "late")); err != nil {
			t.Fatal(err)
		}
		if got := text(t, await(t, p)[0]); got != "late" {
			t.Errorf("got %q", got)
		}
	})
}

func TestMalformedLiveResultIsReadFromTheFacts(t *testing.T) {
	t.Parallel()
	_, f, c := setup(t, hold)
	k := events.CallKey{Session: "s", Turn: "t", Call: "a"}
	p := submit(t, c, agent.Turn{Session: "s", ID: "t", Calls: []events.Call{call("a", "x", "")}})
	forged, _ := events.New(events.Attributes{ID: "f", Source: "/f", Type: events.TypeToolResult}, answer("b", "forged"))
	for _, e := range []events.Event{{}, {Attributes: events.Attributes{ID: "g", Source: "/g", Type: events.TypeToolResult}, Data: []byte("{")}, forged} {
		if err := f.Send(f.Live(f.Result(k)), e); err != nil {
			t.Fatal(err)
		}
	}
	for _, subject := range []string{f.Live(f.Result(k)) + ".more", f.Prefix() + ".live.result.s"} {
		if err := f.Send(subject, forged); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.settle(t.Context(), k, answer("a", "true")); err != nil {
		t.Fatal(err)
	}
	if got := text(t, await(t, p)[0]); got != "true" {
		t.Errorf("got %q, want the stored result", got)
	}
}

func TestUnreadableStoredResultStillEndsTheWait(t *testing.T) {
	t.Parallel()
	_, f, c := setup(t, hold)
	k := events.CallKey{Session: "s", Turn: "t", Call: "a"}
	p := submit(t, c, agent.Turn{Session: "s", ID: "t", Calls: []events.Call{call("a", "x", "")}})
	if _, err := f.JetStream().Publish(t.Context(), f.Result(k), []byte("nonsense")); err != nil {
		t.Fatal(err)
	}
	if r := await(t, p)[0]; r.Reason != events.ReasonMalformed || r.State != events.StateError || r.CallID != "a" {
		t.Errorf("got %+v, want an error that says malformed", r)
	}
}

func TestLostBodyStillEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, f, c := setup(t, hold)
		k := events.CallKey{Session: "s", Turn: "t", Call: "a"}
		p := submit(t, c, agent.Turn{Session: "s", ID: "t", Calls: []events.Call{call("a", "x", "")}})
		e, _ := events.New(events.Attributes{
			ID: "r", Source: "/t", Type: events.TypeToolResult,
			DataRef: "toolwire-body:gone?chunks=1&size=1&sha256=00",
		}, nil)
		e.Data = nil
		if _, err := f.Store(t.Context(), jet.Out{Subject: f.Result(k), Event: e}); err != nil {
			t.Fatal(err)
		}
		if r := await(t, p)[0]; r.Reason != events.ReasonUnavailable {
			t.Errorf("got %+v, want unavailable", r)
		}
	})
}

func TestForgottenTurnEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, f, c := setup(t, hold)
		p := submit(t, c, agent.Turn{Session: "s", ID: "t", Calls: []events.Call{call("a", "x", "")}})
		s, err := f.JetStream().Stream(t.Context(), f.CallsStream())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := p.Await(ctx); !errors.Is(err, agent.ErrNotFound) {
			t.Errorf("got %v, want ErrNotFound", err)
		}
	})
}

func TestWaitOutlivesARestartOfEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, f, c := setup(t, hold)
		p := submit(t, c, agent.Turn{Session: "s", ID: "t", Calls: []events.Call{call("a", "x", ""), call("b", "x", "")}})
		got := make(chan string)
		go func() {
			defer close(got)
			for r, err := range p.Results(t.Context()) {
				if err != nil {
					t.Error(err)
					return
				}
				got <- text(t, r)
			}
		}()
		f.stop()
		srv.Stop()
		time.Sleep(time.Minute)
		srv.Restart()
		f = startFleet(t, srv.Bus(), nil)
		for _, id := range []events.CallID{"a", "b"} {
			if err := f.settle(t.Context(), events.CallKey{Session: "s", Turn: "t", Call: id}, answer(id, "after "+string(id))); err != nil {
				t.Fatal(err)
			}
		}
		all := []string{<-got, <-got}
		slices.Sort(all)
		if diff := cmp.Diff([]string{"after a", "after b"}, all); diff != "" {
			t.Error(diff)
		}
		<-got
	})
}

func TestResultStoredWhileDisconnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		startFleet(t, srv.Bus(), hold)
		c := newClient(t, srv.Lasting(nats.ReconnectWait(time.Minute)), agent.Config{})
		p := submit(t, c, agent.Turn{Session: "s", ID: "t", Calls: []events.Call{call("a", "x", "")}})
		time.Sleep(time.Second)
		srv.Restart()
		f := startFleet(t, srv.Bus(), nil)
		if err := f.settle(t.Context(), events.CallKey{Session: "s", Turn: "t", Call: "a"}, answer("a", "missed")); err != nil {
			t.Fatal(err)
		}
		start := time.Now() // the client comes back in a minute, and need not wait for its next round
		if got := text(t, await(t, p)[0]); got != "missed" {
			t.Errorf("got %q", got)
		}
		if took := time.Since(start); took < 50*time.Second || took > 61*time.Second {
			t.Errorf("found after %v, want at the reconnect, after a minute", took)
		}
	})
}

func TestSubmitWaitsForTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, f, c := setup(t, echo)
		f.stop()
		srv.Stop()
		go func() {
			time.Sleep(20 * time.Second)
			srv.Restart()
			startFleet(t, srv.Bus(), echo)
		}()
		p := submit(t, c, agent.Turn{Session: "s", Calls: []events.Call{call("a", "x", `1`)}})
		if got := text(t, await(t, p)[0]); got != "1" {
			t.Errorf("got %q", got)
		}
	})
}

func TestNoDispatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		bus := srv.Bus()
		c := newClient(t, srv.Lasting(), agent.Config{})
		if _, err := c.Status(t.Context(), "s", "t"); !errors.Is(err, agent.ErrUnavailable) {
			t.Errorf("status: got %v, want ErrUnavailable", err)
		}
		for _, err := range c.Tools(t.Context(), "s") {
			if !errors.Is(err, agent.ErrUnavailable) {
				t.Errorf("tools: got %v, want ErrUnavailable", err)
			}
		}
		turn := agent.Turn{Session: "s", ID: "t", Calls: []events.Call{call("a", "x", `1`)}}
		p := submit(t, c, turn)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Submit(ctx, turn); !errors.Is(err, agent.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("submit again, nobody to ask: got %v, want ErrUnavailable", err)
		}
		go func() {
			time.Sleep(time.Hour)
			startFleet(t, bus, echo)
		}()
		rs, err := p.Await(t.Context())
		if err != nil || text(t, rs[0]) != "1" {
			t.Errorf("got %v, %v", rs, err)
		}
	})
}
