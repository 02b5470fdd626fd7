package dispatcher_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
)

// An agent that uses the session, turn and call ids of another, in whatever form, neither ends the
// other's calls nor reads their results; what it sent is kept for an operator.
func TestTurnOfAnotherAgentIsNotTouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		first := bookDef()
		first.Name, first.ConcurrencySafe, first.ReadOnly = "first", false, true
		w.worker([]toolkit.Definition{lookDef(), first}, func(x *worker) {
			x.run = func(_ context.Context, _ events.CallKey, _ events.ToolWork) string {
				wait(2 * time.Second)
				return "secret"
			}
		})
		w.registered(d, 2)
		w.submit("t", call("c", "look", ""))
		w.submit("staged", call("a", "first", ""), call("b", "look", ""))
		wait(100 * time.Millisecond)
		publish := func(subject string, typ events.Type, data any) {
			e, err := events.New(events.Attributes{ID: "m", Source: "/agents/mallory", Type: typ}, data)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.bus.Store(t.Context(), jet.Out{Subject: subject, Event: e}); err != nil {
				t.Fatal(err)
			}
		}
		publish(w.bus.Calls("mallory", "s", "t"), events.TypeToolCalls, events.ToolCalls{Calls: []events.Call{call("c", "look", "")}})
		publish(w.bus.Cancel("mallory", "s", "t"), events.TypeCancelCalls, events.CancelCalls{})
		publish(w.bus.Calls("mallory", "s", "staged"), events.TypeToolCalls, events.ToolCalls{Calls: []events.Call{call("b", "first", ""), call("a", "look", "")}})
		w.raw(&nats.Msg{Subject: w.bus.Calls("eve", "s", "t"), Data: []byte(`{"specversion":"1.0","data":{"calls":[{"id":"c"}]}}`)})
		w.raw(&nats.Msg{Subject: w.bus.Cancel("eve", "s", "t"), Data: []byte(`{}`)})
		w.status("404", "mallory", events.OpCancel, events.CancelRequest{Session: "s", Turn: "t"})
		for _, k := range []events.CallKey{key("t", "c"), key("staged", "a"), key("staged", "b")} {
			w.want(k, 10*time.Second, events.ReasonOK)
			for _, who := range []string{"mallory", "eve"} {
				if m, err := w.ask(who, events.OpResult, events.ResultRequest(k)); err == nil {
					t.Errorf("%s read %s", who, m.Data)
				}
			}
		}
		if n := w.count(w.bus.DeadStream(), ">"); n != 5 {
			t.Errorf("%d dead letters, want three turns and two cancels", n)
		}
		// In a turn of its own it hears that it is refused, staged or not.
		publish(w.bus.Calls("mallory", "s", "own"), events.TypeToolCalls, events.ToolCalls{Calls: []events.Call{call("b", "first", ""), call("a", "look", "")}})
		w.want(key("own", "a"), 5*time.Second, events.ReasonDeniedByRule)
		w.want(key("own", "b"), 5*time.Second, events.ReasonDeniedByRule)
		if _, err := w.ask("mallory", events.OpResult, events.ResultRequest(key("own", "a"))); err != nil {
			t.Error(err)
		}
	})
}
