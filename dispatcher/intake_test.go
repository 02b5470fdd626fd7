package dispatcher_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

func TestCallTravelsToItsWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		got := make(chan events.ToolWork, 1)
		w.worker([]toolkit.Definition{bookDef(), lookDef()}, func(x *worker) {
			x.run = func(_ context.Context, _ events.CallKey, work events.ToolWork) string { got <- work; return "seen" }
		})
		w.registered(d, 2)
		w.submit("t", call("c", "look", `{"n": 9007199254740993 }`))
		w.want(key("t", "c"), 5*time.Second, events.ReasonOK)
		work := <-got
		if string(work.Call.Input) != `{"n": 9007199254740993 }` {
			t.Errorf("input: got %s", work.Call.Input)
		}
		if want := work.AcceptedAt.Add(toolkit.DefaultQueueTimeout); !work.QueueUntil.Equal(want) || work.Agent != "local" || work.Definition != lookDef().Hash() {
			t.Errorf("got %+v", work)
		}
	})
}
