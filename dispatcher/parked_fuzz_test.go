package dispatcher_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/permission"
)

// FuzzParkedCall does anything in any order to a call that waits for an approval: answers of two people,
// some twice, cancels, deadlines, dispatchers and the server that die and come back. After an odd number of
// these, another call of the turn was before it, and took its time. The call gets one result; it runs once if it
// was approved, and not at all else; and nothing is left of it.
func FuzzParkedCall(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte{1, 0, 0})
	f.Add([]byte{4, 0, 4, 2, 1})
	f.Add([]byte{3, 3, 3, 3, 0})
	f.Add([]byte{6, 0, 1, 2, 7, 0})
	f.Add([]byte{7, 7, 5, 5, 1})
	f.Add([]byte{4, 3, 3, 0, 3, 6, 1})
	f.Add([]byte{2, 6, 0})
	f.Fuzz(func(t *testing.T, ops []byte) {
		synctest.Test(t, func(t *testing.T) { doAnything(t, ops[:min(len(ops), 10)]) })
	})
}

func doAnything(t *testing.T, ops []byte) {
	t.Helper()
	w := newWorld(t)
	d := w.dispatcher()
	x := w.worker([]toolkit.Definition{bookDef(), stepDef()}, func(x *worker) {
		x.run = func(_ context.Context, k events.CallKey, _ events.ToolWork) string {
			if k.Call == "before" {
				wait(40 * time.Second)
			}
			return "done"
		}
	})
	w.registered(d, 2)
	w.apply(toolkit.Config{
		Permissions: permission.Context{Mode: permission.Bypass, Rules: []permission.Rule{{Tool: "book", Behavior: permission.Ask}}},
		Approvals:   []toolkit.Approval{{Tools: []string{"book"}, Expires: toolkit.Duration(time.Minute)}},
	})
	k := key("t", "c")
	calls := []events.Call{call("before", "write", ""), call("c", "book", `{"n":1}`)}
	w.submit("t", calls[(len(ops)+1)%2:]...)
	wait(time.Second)
	q := w.asked()
	for _, op := range ops {
		switch op % 8 {
		case 0:
			w.say("alice", k, q, events.UserConfirmResult{Decision: events.Approve})
		case 1:
			w.say("bob", k, q, events.UserConfirmResult{Decision: events.Refuse})
		case 2:
			w.cancel("t")
		case 3:
			wait(25 * time.Second)
		case 4:
			d.stop()
			d = w.dispatcher()
		case 5:
			w.say("alice", k, q, events.UserConfirmResult{Decision: events.Approve, Input: json.RawMessage(`{"n":2}`)})
		case 6: // everything goes at once from here
			d.stop()
		case 7:
			wait(100 * time.Millisecond)
		}
	}
	d.stop()
	d = w.dispatcher()
	w.registered(d, 2)
	r := w.await(k, 5*time.Minute)
	if len(ops)%2 == 1 {
		w.await(key("t", "before"), time.Minute)
	}
	wait(20 * time.Second)
	var h events.Decided
	if m, err := w.bus.Fact(t.Context(), w.bus.Decided(k, q.RequestID)); err != nil {
		t.Errorf("decided: %v", err)
	} else if err := errors.Join(m.Err, events.Unmarshal(m.Event.Data, &h)); err != nil {
		t.Error(err)
	}
	want := 0
	if r.Reason == events.ReasonOK {
		want = 1
	}
	if got := x.runs(k); got != want || want == 1 && h.Outcome != events.OutcomeApproved {
		t.Errorf("%v: ran %d times with result %s, decided %s", ops, got, r.Reason, h.Outcome)
	}
	for what, got := range map[string]int{
		"results": w.count(w.bus.JournalStream(), w.bus.Under("result")) - 1 - len(ops)%2, "records": w.records(), "work": w.count(w.bus.WorkStream(), ">"),
		"inbox": w.count(w.bus.InboxStream(), ">"), "questions": w.count(w.bus.QuestionsStream(), ">"), "timers": w.count(w.bus.TimersStream(), w.bus.Under("timer.ask")),
	} {
		if got != 0 {
			t.Errorf("%v: %d too many of %s", ops, got, what)
		}
	}
}

// asked is the one open question.
func (w *world) asked() *events.Question {
	w.Helper()
	m, err := w.bus.Next(w.Context(), w.bus.QuestionsStream(), 1, ">")
	var q events.Question
	if err == nil {
		err = errors.Join(m.Err, events.Unmarshal(m.Event.Data, &q))
	}
	if err != nil {
		w.Fatal(err)
	}
	return &q
}

// say publishes an answer to a question.
func (w *world) say(actor string, k events.CallKey, q *events.Question, a events.UserConfirmResult) {
	w.Helper()
	a.Digest = q.Digest
	e, err := events.New(events.Attributes{ID: "answer/" + actor, Source: "/approvers/" + actor, Type: events.TypeUserConfirmResult}, a)
	if err != nil {
		w.Fatal(err)
	}
	if _, err := w.bus.Store(w.Context(), jet.Out{Subject: w.bus.Answer(actor, k, q.RequestID), Event: e}); err != nil {
		w.Fatal(err)
	}
}
