package agent_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/internal/natstest"
	"github.com/toolwire/toolwire/toolkit"
)

func TestAttachFromAnotherProcess(t *testing.T) {
	t.Parallel()
	srv, f, c := setup(t, hold)
	p := submit(t, c, agent.Turn{Session: "s", ID: "t", Calls: []events.Call{call("a", "x", ""), call("b", "y", "")}})
	a, b := events.CallKey{Session: "s", Turn: "t", Call: "a"}, events.CallKey{Session: "s", Turn: "t", Call: "b"}
	if err := f.settle(t.Context(), b, answer("b", "before")); err != nil {
		t.Fatal(err)
	}
	other := newClient(t, srv.Conn(), agent.Config{})
	q, err := other.Attach(t.Context(), "s", "t")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(q.Calls(), p.Calls()) || q.Session() != "s" || q.Turn() != "t" {
		t.Errorf("attached to %v, want %v", q.Calls(), p.Calls())
	}
	var got []string
	for r, err := range q.Results(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, text(t, r)); len(got) == 1 {
			if err := f.settle(t.Context(), a, answer("a", "after")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if diff := cmp.Diff([]string{"before", "after"}, got); diff != "" {
		t.Error(diff)
	}
	if r, err := other.Result(t.Context(), a); err != nil || text(t, r) != "after" {
		t.Errorf("result: %+v, %v", r, err)
	}
	if s, err := other.Status(t.Context(), "s", "t"); err != nil || s.Agent != "local" || len(s.Calls) != 2 || s.Calls[0].State != events.CallFinished {
		t.Errorf("status: %+v, %v", s, err)
	}
	if _, err := other.Attach(t.Context(), "s", "none"); !errors.Is(err, agent.ErrNotFound) {
		t.Errorf("no such turn: got %v, want ErrNotFound", err)
	}
	if _, err := other.Result(t.Context(), events.CallKey{Session: "s", Turn: "t", Call: "none"}); !errors.Is(err, agent.ErrNotFound) {
		t.Errorf("no such result: got %v, want ErrNotFound", err)
	}
	if _, err := other.Result(t.Context(), events.CallKey{Session: "s", Turn: "t"}); !errors.Is(err, agent.ErrInvalid) {
		t.Errorf("no call: got %v, want ErrInvalid", err)
	}
	if _, err := other.Attach(t.Context(), "", "t"); !errors.Is(err, agent.ErrInvalid) {
		t.Errorf("no session: got %v, want ErrInvalid", err)
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	_, f, c := setup(t, hold)
	got := make(chan events.ToolResultDelta, 8)
	p := submit(t, c, agent.Turn{
		Session: "s.1", ID: "t", Calls: []events.Call{call("a.b", "x", "")},
		Progress: func(d events.ToolResultDelta) { got <- d },
	})
	say := func(call events.CallID, typ events.Type, seq uint64) {
		e, err := events.New(events.Attributes{ID: "d", Source: "/w", Type: typ}, events.ToolResultDelta{CallID: "forged", Seq: seq, Message: "half"})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Send(f.Delta(events.CallKey{Session: "s.1", Turn: "t", Call: call}), e); err != nil {
			t.Fatal(err)
		}
	}
	say("other", events.TypeToolResultDelta, 1)
	say("a.b", events.TypeToolResult, 2)
	say("a.b", events.TypeToolResultDelta, 3)
	if d := <-got; d.CallID != "a.b" || d.Seq != 3 || d.Message != "half" {
		t.Errorf("got %+v", d)
	}
	if err := f.settle(t.Context(), events.CallKey{Session: "s.1", Turn: "t", Call: "a.b"}, answer("a.b", "done")); err != nil {
		t.Fatal(err)
	}
	await(t, p)
}

func TestCancelIsStored(t *testing.T) {
	t.Parallel()
	_, f, c := setup(t, nil)
	what := events.CancelCalls{Calls: []events.CallID{"a"}, Reason: "user left"}
	if err := c.Cancel(t.Context(), "s", "t", what); err != nil {
		t.Fatal(err)
	}
	stored, err := f.Fact(t.Context(), f.Cancel("local", "s", "t"))
	if err != nil || stored.Event.Type != events.TypeCancelCalls {
		t.Fatalf("got %+v, %v", stored, err)
	}
	var got events.CancelCalls
	if err := events.Unmarshal(stored.Event.Data, &got); err != nil || !cmp.Equal(got, what) {
		t.Errorf("got %+v, %v, want %+v", got, err, what)
	}
}

func TestCancelNow(t *testing.T) {
	t.Parallel()
	_, f, c := setup(t, hold)
	p := submit(t, c, agent.Turn{Session: "s", ID: "t", Calls: []events.Call{call("a", "x", ""), call("b", "y", "")}})
	if err := f.settle(t.Context(), events.CallKey{Session: "s", Turn: "t", Call: "a"}, answer("a", "done")); err != nil {
		t.Fatal(err)
	}
	got, err := c.CancelNow(t.Context(), "s", "t", events.CancelCalls{Reason: "enough"})
	want := events.CancelReply{Calls: []events.CancelOutcome{{CallID: "a", Outcome: "too_late"}, {CallID: "b", Outcome: "cancelled"}}}
	if err != nil || !cmp.Equal(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	rs := await(t, p)
	if rs[0].State != events.StateSuccess || rs[1].State != events.StateInterrupted {
		t.Errorf("got %+v", rs)
	}
	if _, err := c.CancelNow(t.Context(), "s", "none", events.CancelCalls{}); !errors.Is(err, agent.ErrNotFound) {
		t.Errorf("no such turn: got %v, want ErrNotFound", err)
	}
}

func TestTools(t *testing.T) {
	t.Parallel()
	_, f, c := setup(t, nil)
	names := []string{"add", "bake", "call", "dig", "eat"}
	for _, n := range names {
		def := `{"name":"` + n + `","description":"Does it.","inputSchema":{"type":"object","x-big":12345678901234567890}}`
		f.listed = append(f.listed, events.ToolInfo{Definition: json.RawMessage(def), Hash: "h", Pool: "p"})
	}
	var got []string
	for tool, err := range c.Tools(t.Context(), "s") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(tool.Name))
	}
	if diff := cmp.Diff(names, got); diff != "" {
		t.Error(diff)
	}
	for _, err := range c.Tools(t.Context(), "s") {
		if err != nil {
			t.Error(err)
		}
		break // a reader may stop
	}
	tool, err := c.Tool(t.Context(), "bake")
	if err != nil || tool.Info.Pool != "p" {
		t.Fatalf("got %+v, %v", tool, err)
	}
	if _, err := c.Tool(t.Context(), "none"); !errors.Is(err, agent.ErrNotFound) {
		t.Errorf("no such tool: got %v, want ErrNotFound", err)
	}
	if _, err := c.Tool(t.Context(), ""); !errors.Is(err, agent.ErrInvalid) {
		t.Errorf("no name: got %v, want ErrInvalid", err)
	}
}

// A listing is of one revision: it begins again if a page is of another, and not for ever.
func TestList(t *testing.T) {
	t.Parallel()
	_, f, c := setup(t, nil)
	for _, n := range []string{"1st", "bake", "call"} {
		def := `{"name":"` + n + `","description":"Does it.","inputSchema":{"type":"object","x-big":12345678901234567890}}`
		f.listed = append(f.listed, events.ToolInfo{Definition: json.RawMessage(def), Hash: "h", Pool: "p"})
	}
	f.next(1, 2, 2, 2) // of the pages: the first two differ
	l, err := c.List(t.Context(), "s")
	if err != nil || len(l.Tools) != 3 || l.Session != "s" || l.SessionRevision != 2 || l.ConfigRevision != 12 {
		t.Fatalf("got %+v, %v", l, err)
	}
	const schema = `{"type":"object","x-big":12345678901234567890`
	for name, c := range map[string]struct {
		got  toolkit.Exported
		want string
	}{
		"mcp":       {l.MCP(), `{"name":"bake","description":"Does it.","inputSchema":` + schema + `},"annotations":{"destructiveHint":true,"idempotentHint":false,"readOnlyHint":false}}`},
		"openai":    {l.OpenAI(), `{"type":"function","function":{"name":"bake","description":"Does it.","parameters":` + schema + `,"properties":{},"required":[]}}}`},
		"responses": {l.Responses(), `{"type":"function","name":"bake","description":"Does it.","parameters":` + schema + `,"properties":{}},"strict":false}`},
		"anthropic": {l.Anthropic(), `{"name":"bake","description":"Does it.","input_schema":` + schema + `,"properties":{}}}`},
	} {
		if len(c.got.Tools) != 3 || string(c.got.Tools[1]) != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, c.got.Tools, c.want)
		}
	}
	if got := l.OpenAI().Resolve("_1st_e01ddf65"); got != "1st" {
		t.Errorf("the alias leads to %q: %s", got, l.OpenAI().Tools[0])
	}

	f.next(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
	if _, err := c.List(t.Context(), "s"); !errors.Is(err, agent.ErrConflict) {
		t.Errorf("changed all the time: got %v, want ErrConflict", err)
	}
	if _, err := c.List(t.Context(), "\xff"); !errors.Is(err, agent.ErrInvalid) {
		t.Errorf("no session's id: got %v, want ErrInvalid", err)
	}
	f.next()
	f.listed = nil
	if l, err := c.List(t.Context(), ""); err != nil || len(l.Tools) != 0 || string(l.Anthropic().JSON()) != "[]" {
		t.Errorf("no tools: got %+v, %v", l, err)
	}
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	srv, f, c := setup(t, nil)
	for _, seq := range []uint64{3, 4, 7, 8, 9} {
		f.letter[seq] = events.DeadLetter{Seq: seq, Reason: "malformed", Data: []byte("x")}
	}
	list := func() (got []uint64) {
		for l, err := range c.Dead(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, l.Seq)
		}
		return got
	}
	if diff := cmp.Diff([]uint64{9, 8, 7, 4, 3}, list()); diff != "" {
		t.Error(diff)
	}
	if l, err := c.DeadShow(t.Context(), 7); err != nil || string(l.Data) != "x" {
		t.Errorf("show: %+v, %v", l, err)
	}
	if err := c.DeadRetry(t.Context(), 7); err != nil {
		t.Error(err)
	}
	if err := c.DeadDrop(t.Context(), 8); err != nil {
		t.Error(err)
	}
	if err := c.DeadDrop(t.Context(), 8); !errors.Is(err, agent.ErrNotFound) {
		t.Errorf("dropped twice: got %v, want ErrNotFound", err)
	}
	if err := newClient(t, srv.Conn(), agent.Config{Agent: "eve"}).DeadDrop(t.Context(), 9); !errors.Is(err, agent.ErrDenied) {
		t.Errorf("not allowed: got %v, want ErrDenied", err)
	}
	if diff := cmp.Diff([]uint64{9, 4, 3}, list()); diff != "" {
		t.Error(diff)
	}
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, f, c := setup(t, hold)
		k := events.CallKey{Session: "a session", Turn: "t", Call: "c"}
		seen := make(chan events.Type)
		watcher := newClient(t, srv.Conn(), agent.Config{})
		go func() {
			defer close(seen)
			for e, err := range watcher.Watch(t.Context(), "a session") {
				switch {
				case errors.Is(err, agent.ErrClosed):
					return
				case err != nil:
					seen <- "error"
				default:
					if (events.CallKey{Session: e.Session, Turn: e.Turn, Call: e.Call}) != k {
						t.Errorf("fact of %v", e)
					}
					seen <- e.Type
				}
			}
		}()
		synctest.Wait() // it listens
		time.Sleep(time.Second)
		start, err := events.New(events.Attributes{ID: "s", Source: "/w", Type: events.TypeToolResultStart}, events.ToolResultStart{CallID: "c"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Store(t.Context(), jet.Out{Subject: f.Start(k), Event: start}); err != nil {
			t.Fatal(err)
		}
		if got := <-seen; got != events.TypeToolResultStart {
			t.Errorf("got %q, want the start", got)
		}
		if err := f.Conn().Publish(f.Live(f.Result(k)), []byte("nonsense")); err != nil {
			t.Fatal(err)
		}
		if got := <-seen; got != "error" {
			t.Errorf("got %q, want an error", got)
		}
		other := k
		other.Session = "b"
		for _, k := range []events.CallKey{other, k} {
			if err := f.settle(t.Context(), k, answer("c", "x")); err != nil {
				t.Fatal(err)
			}
		}
		if got := <-seen; got != events.TypeToolResult {
			t.Errorf("got %q, want the result", got)
		}
		watcher.Close()
		if _, open := <-seen; open {
			t.Error("watching goes on after Close")
		}
		for _, err := range c.Watch(t.Context(), events.SessionID(strings.Repeat("x", 300))) {
			if !errors.Is(err, agent.ErrInvalid) {
				t.Errorf("no session: got %v, want ErrInvalid", err)
			}
		}
	})
}

// Without a session, all are watched.
func TestWatchAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, f, _ := setup(t, hold)
		watcher := newClient(t, srv.Conn(), agent.Config{})
		seen := make(chan events.SessionID)
		go func() {
			defer close(seen)
			for e, err := range watcher.Watch(t.Context(), "") {
				if err == nil {
					seen <- e.Session
				}
			}
		}()
		synctest.Wait() // it listens
		time.Sleep(time.Second)
		for _, session := range []events.SessionID{"a session", "b"} {
			k := events.CallKey{Session: session, Turn: "t", Call: "c"}
			if err := f.settle(t.Context(), k, answer("c", "x")); err != nil {
				t.Fatal(err)
			}
			if got := <-seen; got != session {
				t.Errorf("got a fact of %q, want %q", got, session)
			}
		}
		watcher.Close()
		if _, open := <-seen; open {
			t.Error("watching goes on after Close")
		}
	})
}

func TestFullStreamRefusesAndForgetsNothing(t *testing.T) {
	t.Parallel()
	_, f, c := setup(t, nil)
	turn := func(id events.TurnID) agent.Turn {
		return agent.Turn{Session: "s", ID: id, Calls: []events.Call{call("a", "x", "")}}
	}
	submit(t, c, turn("t1"))
	s, err := f.JetStream().Stream(t.Context(), f.CallsStream())
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	cfg.MaxMsgs = 1
	if _, err := f.JetStream().UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Submit(t.Context(), turn("t2")); !errors.Is(err, agent.ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
	submit(t, c, turn("t1")) // already there: attached to
}

func TestForbiddenPublishIsDenied(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t, natstest.User{
		Name: "eve", Publish: []string{"toolwire.call.eve.>"}, Subscribe: []string{"_INBOX.>", "toolwire.live.>"},
	})
	srv.Bus()
	eve := srv.Conn(natstest.As("eve"))
	turn := agent.Turn{Session: "s", ID: "t", Calls: []events.Call{call("a", "x", "")}}
	submit(t, newClient(t, eve, agent.Config{Agent: "eve"}), turn)
	other := newClient(t, eve, agent.Config{Agent: "ann"})
	if _, err := other.Submit(t.Context(), turn); !errors.Is(err, agent.ErrDenied) {
		t.Errorf("submit as another: got %v, want ErrDenied", err)
	}
	if _, err := other.Status(t.Context(), "s", "t"); !errors.Is(err, agent.ErrDenied) {
		t.Errorf("status: got %v, want ErrDenied", err)
	}
}
