package dispatcher_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
)

// ask puts a question to the API as actor; an error has the status first.
func (w *world) ask(actor, op string, req any) (*nats.Msg, error) {
	w.Helper()
	body, err := events.Marshal(req)
	if err != nil {
		w.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.Context(), 10*time.Second)
	defer cancel()
	m, err := w.bus.Conn().RequestWithContext(ctx, w.bus.API(actor, op), body)
	if err != nil {
		w.Fatalf("%s: %v", op, err)
	}
	if code := m.Header.Get(micro.ErrorCodeHeader); code != "" {
		return nil, errors.New(code + " " + m.Header.Get(micro.ErrorHeader))
	}
	return m, nil
}

func ask[T any](w *world, actor, op string, req any) (out T) {
	w.Helper()
	m, err := w.ask(actor, op, req)
	if err == nil {
		err = json.Unmarshal(m.Data, &out)
	}
	if err != nil {
		w.Fatalf("%s: %v", op, err)
	}
	return out
}

func (w *world) tool(name events.ToolName) events.ToolInfo {
	w.Helper()
	return ask[events.ToolInfo](w, "local", events.OpTool, events.ToolRequest{Name: name})
}

// status checks that a question is refused with a status.
func (w *world) status(code, actor, op string, req any) {
	w.Helper()
	if _, err := w.ask(actor, op, req); err == nil || !strings.HasPrefix(err.Error(), code+" ") {
		w.Errorf("%s as %s: got %v, want %s", op, actor, err, code)
	}
}

func TestToolListing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		x := w.worker([]toolkit.Definition{lookDef(), bookDef()})
		w.registered(d, 2)
		first := ask[events.ToolsReply](w, "anyone", events.OpTools, events.ToolsRequest{Limit: 1})
		if len(first.Tools) != 1 || !first.More || first.Tools[0].Hash != bookDef().Hash() || first.Tools[0].Workers != 1 {
			t.Fatalf("got %+v", first)
		}
		next := ask[events.ToolsReply](w, "anyone", events.OpTools, events.ToolsRequest{After: "book"})
		if len(next.Tools) != 1 || next.More || next.Tools[0].Hash != lookDef().Hash() {
			t.Fatalf("got %+v", next)
		}
		x.announce(true)
		x.stop()
		w.submit("t", call("a", "look", ""), call("b", "look", ""))
		wait(5 * time.Second)
		if got := w.tool("look"); got.Workers != 0 || got.Backlog != 2 || got.Pool != "shop" {
			t.Errorf("got %+v", got)
		}
		w.status("404", "anyone", events.OpTool, events.ToolRequest{Name: "nope"})
	})
}

func TestTurnStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		w.register(d, toolkit.Definition{Name: "idle", ConcurrencySafe: true, Description: "-", InputSchema: json.RawMessage(object), MaxInFlight: 1})
		w.worker([]toolkit.Definition{bookDef()}, func(x *worker) {
			x.run = func(ctx context.Context, k events.CallKey, work events.ToolWork) string {
				if k.Call == "slow" {
					return untilStopped(ctx, k, work)
				}
				return "done"
			}
		})
		w.registered(d, 2)
		w.submit("t", call("quick", "book", ""), call("slow", "book", ""), call("waits", "idle", ""), call("bad", "nope", ""))
		w.want(key("t", "quick"), 5*time.Second, events.ReasonOK)
		wait(time.Second)
		req := events.TurnRequest{Session: "s", Turn: "t"}
		got := ask[events.TurnReply](w, "local", events.OpTurn, req)
		if got.Agent != "local" || got.EventID != "calls/t" || got.AcceptedAt.IsZero() || len(got.Calls) != 4 {
			t.Fatalf("got %+v", got)
		}
		for i, want := range []events.CallStatus{
			{CallID: "quick", Name: "book", State: events.CallFinished, Result: events.StateSuccess, Reason: events.ReasonOK, Worker: "shop"},
			{CallID: "slow", Name: "book", State: events.CallSubmitted, Worker: "shop"},
			{CallID: "waits", Name: "idle", State: events.CallSubmitted},
			{CallID: "bad", Name: "nope", State: events.CallFinished, Result: events.StateError, Reason: events.ReasonNotFound},
		} {
			c := got.Calls[i]
			if started := c.StartedAt != nil; started != (i == 1) {
				t.Errorf("%s: started: %v", c.CallID, c.StartedAt)
			}
			if c.StartedAt = nil; c != want {
				t.Errorf("got %+v, want %+v", c, want)
			}
		}
		m, err := w.ask("local", events.OpResult, events.ResultRequest(key("t", "quick")))
		if err != nil {
			t.Fatal(err)
		}
		if e, err := events.Decode(m.Header, m.Data); err != nil || e.Type != events.TypeToolResult || e.Call != "quick" {
			t.Errorf("got %+v, %v", e, err)
		}
		w.status("404", "local", events.OpResult, events.ResultRequest(key("t", "slow")))
		w.status("404", "local", events.OpTurn, events.TurnRequest{Session: "s", Turn: "other"})
		w.status("400", "local", events.OpTurn, events.TurnRequest{Session: "s"})
	})
}

// Only the turn's own agent and operators reach a turn; only operators the dead letters.
func TestActors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.dispatcher(func(c *dispatcher.Config) { c.Operators = []string{"root"} })
		w.submit("t", call("c", "nope", ""))
		w.want(key("t", "c"), time.Second, events.ReasonNotFound)
		turn, result := events.TurnRequest{Session: "s", Turn: "t"}, events.ResultRequest(key("t", "c"))
		cancel := events.CancelRequest{Session: "s", Turn: "t"}
		for _, actor := range []string{"local", "root"} {
			if got := ask[events.TurnReply](w, actor, events.OpTurn, turn); got.Agent != "local" {
				t.Errorf("%s: got %+v", actor, got)
			}
			if _, err := w.ask(actor, events.OpResult, result); err != nil {
				t.Errorf("%s: %v", actor, err)
			}
			if got := ask[events.CancelReply](w, actor, events.OpCancel, cancel); len(got.Calls) != 1 || got.Calls[0].Outcome != "too_late" {
				t.Errorf("%s: got %+v", actor, got)
			}
		}
		w.status("403", "evil", events.OpTurn, turn)
		w.status("403", "evil", events.OpResult, result)
		w.status("403", "evil", events.OpCancel, cancel)
		for _, op := range []string{events.OpDead, events.OpDeadShow, events.OpDeadRetry, events.OpDeadDrop} {
			w.status("403", "local", op, events.DeadRef{Seq: 1})
		}
		wait(time.Hour) // after the window the rule is the same
		w.status("404", "evil", events.OpTurn, turn)
	})
}

func TestCancelOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		w.register(d, toolkit.Definition{Name: "idle", ConcurrencySafe: true, Description: "-", InputSchema: json.RawMessage(object), MaxInFlight: 1})
		w.worker([]toolkit.Definition{bookDef()}, func(x *worker) {
			x.run = func(ctx context.Context, k events.CallKey, work events.ToolWork) string {
				if k.Call == "slow" {
					return untilStopped(ctx, k, work)
				}
				return "done"
			}
		})
		w.registered(d, 2)
		w.submit("t", call("quick", "book", ""), call("slow", "book", ""), call("waits", "idle", ""))
		w.want(key("t", "quick"), 5*time.Second, events.ReasonOK)
		wait(time.Second)
		w.status("404", "local", events.OpCancel, events.CancelRequest{Session: "s", Turn: "t", CancelCalls: events.CancelCalls{Calls: []events.CallID{"slow", "ghost"}}})
		got := ask[events.CancelReply](w, "local", events.OpCancel, events.CancelRequest{Session: "s", Turn: "t"})
		want := []events.CancelOutcome{{CallID: "quick", Outcome: "too_late"}, {CallID: "slow", Outcome: "stopping"}, {CallID: "waits", Outcome: "cancelled"}}
		for i := range want {
			if got.Calls[i] != want[i] {
				t.Errorf("got %+v, want %+v", got.Calls[i], want[i])
			}
		}
		w.want(key("t", "slow"), time.Second, events.ReasonCancelled)
		w.want(key("t", "waits"), time.Second, events.ReasonCancelled)
		wait(time.Minute)
		if n := w.count(w.bus.InboxStream(), ">"); n != 0 {
			t.Errorf("%d cancels left", n)
		}
	})
}

// After the window, turns and results are read from the history.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		if err := jet.Ensure(t.Context(), w.bus.JetStream(), w.bus.Names, jet.Config{}); err != nil {
			t.Fatal(err)
		}
		d := w.dispatcher(func(c *dispatcher.Config) { c.NoHistory = false; c.Operators = []string{"root"} })
		w.worker([]toolkit.Definition{bookDef()})
		w.registered(d, 1)
		w.submit("t", call("a", "book", ""), call("b", "nope", ""))
		w.want(key("t", "a"), 5*time.Second, events.ReasonOK)
		wait(30 * time.Minute)
		if n := w.count(w.bus.CallsStream(), ">") + w.count(w.bus.JournalStream(), ">"); n != 0 {
			t.Fatalf("%d facts are left after the window", n)
		}
		req := events.TurnRequest{Session: "s", Turn: "t"}
		got := ask[events.TurnReply](w, "local", events.OpTurn, req)
		if got.Agent != "local" || len(got.Calls) != 2 || got.Calls[0].Reason != events.ReasonOK || got.Calls[1].Reason != events.ReasonNotFound {
			t.Errorf("got %+v", got)
		}
		m, err := w.ask("root", events.OpResult, events.ResultRequest(key("t", "a")))
		if err != nil {
			t.Fatal(err)
		}
		if e, err := events.Decode(m.Header, m.Data); err != nil || e.Call != "a" {
			t.Errorf("got %+v, %v", e, err)
		}
		w.status("403", "evil", events.OpTurn, req)
		w.status("403", "evil", events.OpResult, events.ResultRequest(key("t", "a")))
		if err := w.bus.JetStream().DeleteStream(t.Context(), w.bus.HistoryStream()); err != nil {
			t.Error(err)
		}
		wait(time.Minute) // for the server's own goroutines
	})
}

// A call that is nowhere, as after a restored backup, is settled when somebody asks after it.
func TestLostCallIsSettledOnAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		w.register(d, bookDef())
		w.submit("t", call("c", "book", ""))
		wait(time.Second)
		m, err := w.bus.Next(t.Context(), w.bus.WorkStream(), 1, ">")
		if err != nil {
			t.Fatal(err)
		}
		if err := w.bus.Delete(t.Context(), w.bus.WorkStream(), m.Seq); err != nil {
			t.Fatal(err)
		}
		req := events.TurnRequest{Session: "s", Turn: "t"}
		if got := ask[events.TurnReply](w, "local", events.OpTurn, req); got.Calls[0].State != events.CallPending {
			t.Errorf("before its time: got %+v", got.Calls[0])
		}
		wait(11 * time.Minute)
		if got := ask[events.TurnReply](w, "local", events.OpTurn, req); got.Calls[0].Reason != events.ReasonOutcomeUnknown {
			t.Errorf("got %+v", got.Calls[0])
		}
		w.want(key("t", "c"), time.Second, events.ReasonOutcomeUnknown)
	})
}

func TestDeadLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		x := w.worker([]toolkit.Definition{bookDef()})
		w.registered(d, 1)
		publish := func(turn, body string) {
			h, _ := events.Encode(events.Event{Attributes: events.Attributes{ID: "1", Source: "/a", Type: events.TypeToolCalls}})
			m := &nats.Msg{Subject: w.bus.Calls("local", "s", events.TurnID(turn)), Header: h, Data: []byte(body)}
			if _, err := w.bus.JetStream().PublishMsg(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			wait(100 * time.Millisecond) // turns beside each other have no order
		}
		for i := range 3 {
			publish(fmt.Sprint("t", i), fmt.Sprintf(`{"calls":%d}`, i))
		}
		publish("answered", `{"calls":[{"id":"c","name":"book"},]}`)
		publish("big", `{"calls":"`+strings.Repeat("x", 900<<10)+`"}`)
		wait(time.Second)
		page := ask[events.DeadReply](w, "local", events.OpDead, events.DeadRequest{Limit: 2})
		if len(page.Letters) != 2 || !page.More || !strings.HasSuffix(page.Letters[0].Subject, ".big") || page.Letters[1].Reason == "" {
			t.Fatalf("got %+v", page)
		}
		big, answered := page.Letters[0].Seq, page.Letters[1].Seq
		page = ask[events.DeadReply](w, "local", events.OpDead, events.DeadRequest{Before: answered})
		if len(page.Letters) != 3 || page.More || !strings.HasSuffix(page.Letters[0].Subject, ".t2") {
			t.Fatalf("got %+v", page)
		}
		if got := ask[events.DeadLetter](w, "local", events.OpDeadShow, events.DeadRef{Seq: page.Letters[0].Seq}); string(got.Data) != `{"calls":2}` || got.Header["ce-type"] == nil {
			t.Errorf("got %+v", got)
		}
		if got := ask[events.DeadLetter](w, "local", events.OpDeadShow, events.DeadRef{Seq: big}); got.Size < 900<<10 {
			t.Errorf("big: got %d bytes", got.Size)
		}
		w.status("409", "local", events.OpDeadRetry, events.DeadRef{Seq: answered})
		w.status("404", "local", events.OpDeadShow, events.DeadRef{Seq: 999})
		w.status("404", "local", events.OpDeadDrop, events.DeadRef{Seq: 999})
		// Tried again it fails again: the letter is new, the old one gone.
		ask[struct{}](w, "local", events.OpDeadRetry, events.DeadRef{Seq: page.Letters[0].Seq})
		wait(time.Second)
		w.status("404", "local", events.OpDeadShow, events.DeadRef{Seq: page.Letters[0].Seq})
		ask[struct{}](w, "local", events.OpDeadDrop, events.DeadRef{Seq: page.Letters[1].Seq})
		page = ask[events.DeadReply](w, "local", events.OpDead, events.DeadRequest{})
		if len(page.Letters) != 4 || !strings.HasSuffix(page.Letters[0].Subject, ".t2") {
			t.Errorf("got %+v", page.Letters)
		}
		if n := x.runs(key("answered", "c")); n != 0 {
			t.Errorf("ran %d times", n)
		}
	})
}

// A turn of which nothing can be read is answered when its agent asks, because only the agent knows
// its calls.
func TestUnreadableTurnAnswersWhoAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.dispatcher()
		h, _ := events.Encode(events.Event{Attributes: events.Attributes{ID: "1", Source: "/a", Type: events.TypeToolCalls}})
		m := &nats.Msg{Subject: w.bus.Calls("local", "s", "t"), Header: h, Data: []byte(`not json`)}
		if _, err := w.bus.JetStream().PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		wait(time.Second)
		w.status("404", "local", events.OpTurn, events.TurnRequest{Session: "s", Turn: "t"})
		if _, err := w.ask("local", events.OpResult, events.ResultRequest(key("t", "c"))); err != nil {
			t.Error(err)
		}
		w.want(key("t", "c"), time.Second, events.ReasonDeadLetter)
	})
}
