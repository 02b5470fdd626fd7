package dispatcher_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/permission"
)

// Whoever answers is faster than the dispatcher that asks: before it has noted that the question is out, the
// answer has taken effect. The call has its one result, and it is not asked about again.
func TestAnsweredBeforeNoted(t *testing.T) {
	for name, c := range map[string]events.Call{"outside": call("outside", "boss", `{}`), "approved": call("approved", "book", `{}`)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { answeredBeforeNoted(t, c) })
		})
	}
}

func answeredBeforeNoted(t *testing.T, c events.Call) {
	t.Helper()
	w := newWorld(t)
	first := w.dispatcher()
	x := w.worker([]toolkit.Definition{bookDef()})
	w.registered(first, 1)
	w.apply(toolkit.Config{
		External:    []toolkit.Definition{bossDef()},
		Permissions: permission.Context{Mode: permission.Bypass, Rules: []permission.Rule{{Tool: "book", Behavior: permission.Ask}}},
	})
	first.stop()
	d, err := dispatcher.New(w.srv.Conn(), dispatcher.Config{NoHistory: true, Logger: w.logs})
	if err != nil {
		t.Fatal(err)
	}
	people := w.approver()
	var once sync.Once
	d.SetFault(func(step string) error {
		if step == "ask.look" {
			once.Do(func() {
				for range 100 { // until it has its result
					if w.result(key("t", string(c.ID))) != nil && w.records() == 0 {
						return
					}
					wait(100 * time.Millisecond)
				}
				t.Error("the answer took no effect")
			})
		}
		return nil
	})
	p := w.start(d)
	w.registered(p, 2)
	w.submit("t", c)
	w.want(key("t", string(c.ID)), time.Minute, events.ReasonOK)
	wait(time.Minute)
	people.stop()
	if got := len(people.asked[c.ID]); got != 1 {
		t.Errorf("asked about %d times", got)
	}
	if got := x.runs(key("t", string(c.ID))); c.Name == "book" && got != 1 {
		t.Errorf("it ran %d times", got)
	}
	for what, got := range map[string]int{
		"records": w.records(), "inbox": w.count(w.bus.InboxStream(), ">"), "turns": w.unacked(),
		"questions": w.count(w.bus.QuestionsStream(), ">"), "timers": w.count(w.bus.TimersStream(), w.bus.Under("timer.ask")),
	} {
		if got != 0 {
			t.Errorf("%d left of %s", got, what)
		}
	}
}
