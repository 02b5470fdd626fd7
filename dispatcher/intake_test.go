package dispatcher_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
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
		w.publish("t", events.ToolCalls{
			Calls:   []events.Call{call("c", "look", `{"n": 9007199254740993 }`)},
			Context: &events.Context{User: "u"},
		})
		w.want(key("t", "c"), 5*time.Second, events.ReasonOK)
		work := <-got
		if string(work.Call.Input) != `{"n": 9007199254740993 }` { // T-80
			t.Errorf("input: got %s", work.Call.Input)
		}
		if want := work.AcceptedAt.Add(toolkit.DefaultQueueTimeout); !work.QueueUntil.Equal(want) || work.Agent != "local" ||
			work.Definition != lookDef().Hash() || work.Context == nil || work.Context.User != "u" {
			t.Errorf("got %+v", work)
		}
	})
}

// What AgentScope and tracing follow a call by passes on.
func TestAttributesPassOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		x := w.worker([]toolkit.Definition{lookDef()})
		w.registered(d, 1)
		x.stop()
		w.submit("t", call("c", "look", ""), call("d", "nope", ""))
		w.want(key("t", "d"), time.Second, events.ReasonNotFound)
		work, err1 := w.bus.Fact(t.Context(), w.bus.Work("shop", "look", key("t", "c")))
		result, err2 := w.bus.Fact(t.Context(), w.bus.Result(key("t", "d")))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		for _, e := range []events.Event{work.Event, result.Event} {
			if e.ReplyID != "reply-1" || e.Parent != "p/q/r" || e.TraceParent == "" || e.Session != "s" || e.Turn != "t" {
				t.Errorf("got %+v", e.Attributes)
			}
		}
		if work.Event.ID != "work/s/t/c" || result.Event.ID != "result/s/t/d" {
			t.Errorf("ids: got %q, %q", work.Event.ID, result.Event.ID)
		}
	})
}

// A bad call is answered at once; its siblings run (T-35).
func TestBadCallsDoNotHoldUpTheirSiblings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		x := w.worker([]toolkit.Definition{lookDef()})
		w.registered(d, 1)
		w.submit("t", call("a", "lok", ""), call("b", "look", `{"n":"two"}`), call("c", "look", `"{\"n\":3}"`))
		if r := w.want(key("t", "a"), time.Second, events.ReasonNotFound); !strings.Contains(text(r), "look") || !r.IsError {
			t.Errorf("got %s", text(r))
		}
		w.want(key("t", "b"), time.Second, events.ReasonInvalidInput)
		w.want(key("t", "c"), 5*time.Second, events.ReasonOK)
		if x.runs(key("t", "b")) != 0 {
			t.Error("the invalid call ran")
		}
	})
}

// Nobody waits for ever for a turn that cannot be read, and its bytes are kept.
func TestMalformedTurnIsAnsweredAndKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.dispatcher()
		binary := func(typ, body string) *nats.Msg {
			h, _ := events.Encode(events.Event{Attributes: events.Attributes{ID: "1", Source: "/a", Type: events.Type(typ), Session: "s"}})
			return &nats.Msg{Header: h, Data: []byte(body)}
		}
		typ := string(events.TypeToolCalls)
		for name, m := range map[string]*nats.Msg{
			"cut":        binary(typ, `{"calls":[{"id":"c","name":"look","input":{"n":1}},{"id":"d","na`),
			"duplicate":  binary(typ, `{"calls":[{"id":"c","name":"look","id":"c"}]}`),
			"same-id":    binary(typ, `{"calls":[{"id":"c","name":"look"},{"id":"c","name":"look"}]}`),
			"wrong-case": binary(typ, `{"Calls":[{"id":"c","name":"look"}]}`),
			"type":       binary("com.example.Other", `{"calls":[{"id":"c","name":"look"}]}`),
			"structured": {Data: []byte(`{"specversion":"1.0","type":"io.toolwire.v1.ToolCalls","data":{"calls":[{"id":"c","name":"look"}]}}`)}, // no id
			"nul":        binary(typ, "{\"calls\":[{\"id\":\"c\",\"name\":\"look\\u0000\"}],\x00}"),
			"long":       binary(typ, `{"calls":[{"id":"c","name":"`+strings.Repeat("x", 300)+`"}]}`),
		} {
			m.Subject = w.bus.Calls("local", "s", events.TurnID(name))
			if _, err := w.bus.JetStream().PublishMsg(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			w.want(key(name, "c"), 2*time.Second, events.ReasonMalformed)
			l, err := w.bus.Fact(t.Context(), w.bus.Dead("calls", m.Subject))
			if err != nil || string(l.Data) != string(m.Data) || l.Header.Get(events.HeaderDeadSubject) != m.Subject ||
				l.Header.Get(events.HeaderDeadReason) == "" || l.Header.Get("ce-type") != m.Header.Get("ce-type") {
				t.Errorf("%s: letter: got %+v, %v", name, l, err)
			}
		}
	})
}

// The subject is the authority: an event that claims another session is nobody's.
func TestExtensionsThatContradictTheSubject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.dispatcher()
		for turn, a := range map[events.TurnID]events.Attributes{
			"session": {Session: "other"},
			"turn":    {Session: "s", Turn: "another"},
			"replyid": {ReplyID: strings.Repeat("r", 5000)},
		} {
			a.ID, a.Source, a.Type = "1", "/a", events.TypeToolCalls
			e, err := events.New(a, events.ToolCalls{Calls: []events.Call{call("c", "look", "")}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.bus.Store(t.Context(), jet.Out{Subject: w.bus.Calls("local", "s", turn), Event: e}); err != nil {
				t.Fatal(err)
			}
			w.want(key(string(turn), "c"), 2*time.Second, events.ReasonMalformed)
		}
		if n := w.count(w.bus.DeadStream(), ">"); n != 3 {
			t.Errorf("got %d dead letters, want 3", n)
		}
	})
}

// Tokens cannot smuggle anything into a subject (T-97), and long ids are refused.
func TestIdentifiersAreEscaped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		w.worker([]toolkit.Definition{lookDef()})
		w.registered(d, 1)
		k := events.CallKey{Session: "a.b > *", Turn: "日本 1", Call: "c.d/*"}
		e, err := events.New(events.Attributes{ID: "1", Source: "/a", Type: events.TypeToolCalls}, events.ToolCalls{Calls: []events.Call{{ID: k.Call, Name: "look"}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.bus.Store(t.Context(), jet.Out{Subject: w.bus.Calls("me.*", k.Session, k.Turn), Event: e}); err != nil {
			t.Fatal(err)
		}
		w.want(k, 5*time.Second, events.ReasonOK)
	})
}

// A body that is lost is a dead letter; the agent that asks for its call is answered.
func TestLostBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.dispatcher()
		e := events.Event{Attributes: events.Attributes{
			ID: "1", Source: "/a", Type: events.TypeToolCalls,
			DataRef: "toolwire-body:gone?chunks=1&size=5&sha256=2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824",
		}}
		if _, err := w.bus.Store(t.Context(), jet.Out{Subject: w.bus.Calls("local", "s", "t"), Event: e}); err != nil {
			t.Fatal(err)
		}
		wait(time.Minute)
		if n := w.count(w.bus.DeadStream(), ">"); n != 1 {
			t.Errorf("got %d dead letters, want 1", n)
		}
		w.status("404", "local", events.OpTurn, events.TurnRequest{Session: "s", Turn: "t"})
		if _, err := w.ask("local", events.OpResult, events.ResultRequest(key("t", "c"))); err != nil {
			t.Error(err)
		}
		w.want(key("t", "c"), time.Second, events.ReasonDeadLetter)
	})
}

// A turn over the inline cap travels by reference.
func TestLargeTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		var n int
		w.worker([]toolkit.Definition{lookDef()}, func(x *worker) {
			x.run = func(_ context.Context, _ events.CallKey, work events.ToolWork) string {
				n = len(work.Call.Input)
				return ""
			}
		})
		w.registered(d, 1)
		in := `{"note":"` + strings.Repeat("x", 3<<20) + `"}`
		w.submit("t", call("c", "look", in))
		w.want(key("t", "c"), 5*time.Second, events.ReasonOK)
		if n != len(in) {
			t.Errorf("got %d bytes, want %d", n, len(in))
		}
	})
}

// While JOURNAL is nearly full no turn is taken, and none is lost.
func TestBackPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		limit := func(n int64) {
			s, err := w.bus.JetStream().Stream(t.Context(), w.bus.JournalStream())
			if err != nil {
				t.Fatal(err)
			}
			cfg := s.CachedInfo().Config
			cfg.MaxMsgs = n
			if _, err := w.bus.JetStream().UpdateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
		}
		limit(10)
		for i := range 5 { // two facts each: full
			w.submit(fmt.Sprint("t", i), call("c", "nope", ""))
		}
		wait(10 * time.Second)
		if d.Ready() == nil {
			t.Error("ready, though JOURNAL is full")
		}
		w.submit("last", call("c", "nope", ""))
		wait(time.Minute)
		if r := w.result(key("last", "c")); r != nil {
			t.Errorf("got %+v, want nothing yet", r)
		}
		limit(1000)
		for i := range 5 {
			w.want(key(fmt.Sprint("t", i), "c"), time.Minute, events.ReasonNotFound)
		}
		w.want(key("last", "c"), time.Minute, events.ReasonNotFound)
		if err := d.Ready(); err != nil {
			t.Error(err)
		}
	})
}

// A JOURNAL that was filled within one window empties again though turns wait, and those that wait
// beyond the window are not forgotten.
func TestBackPressureEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		s, err := w.bus.JetStream().Stream(t.Context(), w.bus.JournalStream())
		if err != nil {
			t.Fatal(err)
		}
		cfg := s.CachedInfo().Config
		cfg.MaxMsgs = 10
		if _, err := w.bus.JetStream().UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			w.submit(fmt.Sprint("t", i), call("c", "nope", ""))
			wait(time.Second)
		}
		wait(2 * time.Minute)
		for i := range 3 {
			w.submit(fmt.Sprint("late", i), call("c", "nope", ""))
		}
		wait(10 * time.Minute)
		if d.Ready() == nil || w.result(key("late0", "c")) != nil {
			t.Error("turns are taken, though JOURNAL is full")
		}
		for i := range 3 {
			w.want(key(fmt.Sprint("late", i), "c"), 20*time.Minute, events.ReasonNotFound)
		}
	})
}

// Two dispatchers take a stream of turns: each call once, none lost.
func TestTwoDispatchersShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d1, d2 := w.dispatcher(), w.dispatcher()
		x := w.worker([]toolkit.Definition{bookDef()})
		w.registered(d1, 1)
		w.registered(d2, 1)
		for i := range 100 {
			w.submit(fmt.Sprint("t", i), call("a", "book", ""), call("b", "book", ""))
		}
		for i := range 100 {
			for _, id := range []string{"a", "b"} {
				k := key(fmt.Sprint("t", i), id)
				w.want(k, time.Minute, events.ReasonOK)
				if n := x.runs(k); n != 1 {
					t.Errorf("%s ran %d times", k, n)
				}
			}
		}
	})
}

// The same turn published again is refused by the stream; nothing happens twice.
func TestSameTurnTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		x := w.worker([]toolkit.Definition{bookDef()})
		w.registered(d, 1)
		w.submit("t", call("c", "book", ""))
		w.want(key("t", "c"), 5*time.Second, events.ReasonOK)
		wait(3 * time.Minute) // beyond the server's own window for duplicates
		e, _ := events.New(events.Attributes{ID: "calls/t", Source: "/agents/local", Type: events.TypeToolCalls}, events.ToolCalls{Calls: []events.Call{call("c", "book", "")}})
		if _, err := w.bus.Store(t.Context(), jet.Out{Subject: w.bus.Calls("local", "s", "t"), Event: e}); !errors.Is(err, jet.ErrExists) {
			t.Errorf("got %v, want ErrExists", err)
		}
		wait(time.Minute)
		if n := x.runs(key("t", "c")); n != 1 {
			t.Errorf("ran %d times", n)
		}
	})
}

// A dispatcher is killed between any two publishes; another takes over. Whatever the step,
// each call has one result, and the one with side effects ran at most once.
func TestKilledBetweenAnyTwoPublishes(t *testing.T) {
	for n := 1; ; n++ {
		var at string
		t.Run(fmt.Sprint("step", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { at = killAt(t, n) })
		})
		if at == "" || t.Failed() {
			if n < 8 {
				t.Errorf("only %d steps seen", n)
			}
			return
		}
	}
}

func killAt(t *testing.T, n int) string {
	t.Helper()
	w := newWorld(t)
	first := w.dispatcher()
	x := w.worker([]toolkit.Definition{bookDef(), lookDef()})
	w.registered(first, 2)
	first.stop()
	w.submit("t", call("a", "book", ""), call("b", "look", `{"n":"x"}`), call("c", "look", ""), call("d", "nope", ""))
	deadline := time.Now().Add(3 * time.Minute)
	w.publish("u", events.ToolCalls{Calls: []events.Call{call("a", "book", ""), call("b", "look", "")}, Deadline: &deadline})
	dying, died := w.faulty(n)
	wait(15 * time.Second) // longer than a lease: the first may have got a turn in its last moment
	dying.stop()
	second := w.dispatcher(func(c *dispatcher.Config) { c.Name = "second" })
	w.registered(second, 2)
	for k, reason := range map[events.CallKey]events.Reason{
		key("t", "a"): events.ReasonOK, key("t", "b"): events.ReasonInvalidInput,
		key("t", "c"): events.ReasonOK, key("t", "d"): events.ReasonNotFound,
		key("u", "a"): events.ReasonOK, key("u", "b"): events.ReasonOK,
	} {
		w.want(k, 5*time.Minute, reason)
	}
	wait(5 * time.Minute) // the deadline's timer too finds nothing to do
	for _, turn := range []string{"t", "u"} {
		if got := x.runs(key(turn, "a")); got != 1 {
			t.Errorf("died at %s: the call with side effects ran %d times", died(), got)
		}
	}
	for _, k := range []events.CallKey{key("t", "c"), key("u", "b")} {
		// Nothing is published for a call that has its result, so not even this runs again.
		if got := x.runs(k); got != 1 {
			t.Errorf("died at %s: %s ran %d times", died(), k, got)
		}
	}
	if got := w.count(w.bus.JournalStream(), w.bus.Under("result")); got != 6 {
		t.Errorf("died at %s: got %d results, want 6", died(), got)
	}
	if got := w.count(w.bus.WorkStream(), ">"); got != 0 {
		t.Errorf("died at %s: %d work left", died(), got)
	}
	return died()
}
