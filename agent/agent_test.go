package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/internal/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func submit(tb testing.TB, c *agent.Client, t agent.Turn) *agent.Pending {
	tb.Helper()
	p, err := c.Submit(tb.Context(), t)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func await(tb testing.TB, p *agent.Pending) []events.ToolResult {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 2*time.Minute)
	defer cancel()
	rs, err := p.Await(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	return rs
}

func TestResultsComeAsTheyFinishAndAwaitKeepsTheOrder(t *testing.T) {
	t.Parallel()
	_, f, c := setup(t, hold)
	p := submit(t, c, agent.Turn{Session: "s", Calls: []events.Call{{Name: "a"}, {Name: "b"}, {Name: "c"}}})
	if got := p.Calls(); !slices.Equal(got, []events.CallID{"c1", "c2", "c3"}) {
		t.Fatalf("ids %v, want c1 c2 c3", got)
	}
	order := []events.CallID{"c3", "c1", "c2"}
	settle := func(id events.CallID) {
		if err := f.settle(t.Context(), events.CallKey{Session: "s", Turn: p.Turn(), Call: id}, answer(id, string(id))); err != nil {
			t.Error(err)
		}
	}
	settle(order[0])
	var got []events.CallID
	for r, err := range p.Results(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, r.CallID); len(got) < len(order) {
			settle(order[len(got)]) // the next comes only after this one was read
		}
	}
	if !slices.Equal(got, order) {
		t.Errorf("results came as %v, want %v", got, order)
	}
	for i, r := range await(t, p) {
		if r.CallID != p.Calls()[i] {
			t.Errorf("awaited[%d] is %s, want %s", i, r.CallID, p.Calls()[i])
		}
	}
	if f.questions(events.OpTurn) > 0 {
		t.Errorf("the dispatcher was asked though all results came live")
	}
}

func TestCall(t *testing.T) {
	t.Parallel()
	_, _, c := setup(t, echo)
	r, err := c.Call(t.Context(), "s", "echo", json.RawMessage(`{"n":1}`))
	if err != nil || text(t, r) != `{"n":1}` || r.CallID != "c1" {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestManyCallsInOneTurn(t *testing.T) {
	t.Parallel()
	_, _, c := setup(t, echo)
	var calls []events.Call
	for i := range events.MaxCalls {
		calls = append(calls, call("", "echo", fmt.Sprintf(`{ "n": %d12345678901234567890, "<&>": null }`, i+1)))
	}
	p := submit(t, c, agent.Turn{Session: "s", Calls: calls})
	for _, err := range p.Results(t.Context()) { // a reader may stop
		if err != nil {
			t.Error(err)
		}
		break
	}
	for i, r := range await(t, p) {
		if got, want := text(t, r), string(calls[i].Input); got != want || r.CallID != p.Calls()[i] {
			t.Errorf("%s: got %s, want %s", r.CallID, got, want)
		}
	}
}

func TestSubmittingAgainAttaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, f, c := setup(t, echo)
		turn := agent.Turn{Session: "s", ID: "t", ReplyID: "r", Calls: []events.Call{call("x", "echo", `{"n":1}`)}}
		first := await(t, submit(t, c, turn))
		other := newClient(t, srv.Lasting(), agent.Config{})
		for _, after := range []time.Duration{0, time.Second, 3 * time.Minute, time.Hour} { // the server's dedupe window is 2 min
			time.Sleep(after)
			for _, c := range []*agent.Client{c, other} {
				if diff := cmp.Diff(first, await(t, submit(t, c, turn))); diff != "" {
					t.Errorf("after %v (-first +again):\n%s", after, diff)
				}
			}
		}
		if n := f.runs(events.CallKey{Session: "s", Turn: "t", Call: "x"}); n != 1 {
			t.Errorf("ran %d times, want once", n)
		}
	})
}

func TestSubmittingAgainWhilePendingSharesTheResult(t *testing.T) {
	t.Parallel()
	_, f, c := setup(t, hold)
	turn := agent.Turn{Session: "s", ID: "t", Calls: []events.Call{call("x", "echo", `1`)}}
	p, q := submit(t, c, turn), submit(t, c, turn)
	if err := f.settle(t.Context(), events.CallKey{Session: "s", Turn: "t", Call: "x"}, answer("x", "one")); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*agent.Pending{p, q} {
		if got := text(t, await(t, p)[0]); got != "one" {
			t.Errorf("got %q", got)
		}
	}
}

func TestAnotherTurnOfTheSameID(t *testing.T) {
	t.Parallel()
	_, f, c := setup(t, echo)
	base := agent.Turn{Session: "s", ID: "t", ReplyID: "r", Parent: "p", Calls: []events.Call{call("x", "echo", `{"n":1}`)}}
	await(t, submit(t, c, base))
	for name, change := range map[string]func(*agent.Turn){
		"input":    func(t *agent.Turn) { t.Calls = []events.Call{call("x", "echo", `{"n":2}`)} },
		"call id":  func(t *agent.Turn) { t.Calls = []events.Call{call("y", "echo", `{"n":1}`)} },
		"context":  func(t *agent.Turn) { t.Context = &events.Context{User: "u"} },
		"reply":    func(t *agent.Turn) { t.ReplyID = "r2" },
		"parent":   func(t *agent.Turn) { t.Parent = "" },
		"deadline": func(t *agent.Turn) { t.Deadline = time.Now().Add(time.Hour) },
	} {
		turn := base
		change(&turn)
		if _, err := c.Submit(t.Context(), turn); !errors.Is(err, agent.ErrTurnReused) {
			t.Errorf("other %s: got %v, want ErrTurnReused", name, err)
		}
	}
	if n := f.runs(events.CallKey{Session: "s", Turn: "t", Call: "x"}); n != 1 {
		t.Errorf("ran %d times, want once", n)
	}
}

// A second result is refused by the server, but whoever listens to the raw subject sees it.
func TestRefusedSecondResultIsNeverSeen(t *testing.T) {
	t.Parallel()
	_, f, c := setup(t, hold)
	p := submit(t, c, agent.Turn{Session: "s", ID: "t", Calls: []events.Call{call("a", "x", ""), call("b", "x", "")}})
	a, b := events.CallKey{Session: "s", Turn: "t", Call: "a"}, events.CallKey{Session: "s", Turn: "t", Call: "b"}
	if err := f.settle(t.Context(), a, answer("a", "first")); err != nil {
		t.Fatal(err)
	}
	if err := f.settle(t.Context(), a, answer("a", "second")); !errors.Is(err, jet.ErrExists) {
		t.Fatalf("second result: got %v, want ErrExists", err)
	}
	if err := f.settle(t.Context(), b, answer("b", "last")); err != nil {
		t.Fatal(err)
	}
	var got []string
	for r, err := range p.Results(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, text(t, r))
	}
	if diff := cmp.Diff([]string{"first", "last"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestTwoAgentsInterleaved(t *testing.T) {
	t.Parallel()
	srv, f, _ := setup(t, echo)
	var wg sync.WaitGroup
	for _, name := range []events.AgentID{"ann", "bob"} {
		c := newClient(t, srv.Conn(), agent.Config{Agent: name})
		for i := range 100 {
			wg.Go(func() {
				session := events.SessionID(fmt.Sprintf("%s-%d", name, i%5))
				id := events.TurnID(fmt.Sprintf("t%d", i))
				var calls []events.Call
				for j := range 1 + i%3 {
					calls = append(calls, call(fmt.Sprint("c", j), "echo", fmt.Sprintf(`"%s/%s/%d"`, session, id, j)))
				}
				p, err := c.Submit(t.Context(), agent.Turn{Session: session, ID: id, Calls: calls})
				if err != nil {
					t.Error(err)
					return
				}
				rs, err := p.Await(t.Context())
				if err != nil || len(rs) != len(calls) {
					t.Errorf("%d results, %v", len(rs), err)
					return
				}
				for j, r := range rs {
					if got, want := text(t, r), string(calls[j].Input); got != want {
						t.Errorf("got %s, want %s", got, want)
					}
				}
			})
		}
	}
	wg.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for k, n := range f.ran {
		if n != 1 {
			t.Errorf("%s ran %d times", k, n)
		}
	}
}

func TestInvalidTurnsAreNotPublished(t *testing.T) {
	t.Parallel()
	_, f, c := setup(t, echo)
	long := strings.Repeat("x", 300)
	ok := []events.Call{call("a", "x", "")}
	for name, turn := range map[string]agent.Turn{
		"no session":     {Calls: ok},
		"long session":   {Session: events.SessionID(long), Calls: ok},
		"long turn":      {Session: "s", ID: events.TurnID(long), Calls: ok},
		"long call":      {Session: "s", Calls: []events.Call{call(long, "x", "")}},
		"long escaped":   {Session: events.SessionID(strings.Repeat("會", 15)), Calls: ok},
		"no tool":        {Session: "s", Calls: []events.Call{{ID: "a"}}},
		"long tool":      {Session: "s", Calls: []events.Call{call("a", long, "")}},
		"no calls":       {Session: "s"},
		"same id":        {Session: "s", Calls: []events.Call{call("a", "x", ""), call("a", "y", "")}},
		"id given twice": {Session: "s", Calls: []events.Call{call("c2", "x", ""), {Name: "y"}}},
		"broken input":   {Session: "s", Calls: []events.Call{call("a", "x", `{"a":`)}},
		"long reply":     {Session: "s", ReplyID: strings.Repeat(long, 10), Calls: ok},
		"bad UTF-8":      {Session: "s", Parent: "\xff", Calls: ok},
	} {
		if _, err := c.Submit(t.Context(), turn); !errors.Is(err, agent.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
	}
	if err := c.Cancel(t.Context(), "s", events.TurnID(long), events.CancelCalls{}); !errors.Is(err, agent.ErrInvalid) {
		t.Errorf("cancel: got %v, want ErrInvalid", err)
	}
	if _, err := agent.New(f.Conn(), agent.Config{Agent: events.AgentID(long)}); !errors.Is(err, agent.ErrInvalid) {
		t.Errorf("agent: got %v, want ErrInvalid", err)
	}
	if _, err := agent.New(f.Conn(), agent.Config{Prefix: "a.b"}); !errors.Is(err, agent.ErrInvalid) {
		t.Errorf("prefix: got %v, want ErrInvalid", err)
	}
	s, err := f.JetStream().Stream(t.Context(), f.CallsStream())
	if err != nil {
		t.Fatal(err)
	}
	if n := s.CachedInfo().State.Msgs; n != 0 {
		t.Errorf("%d turns were stored", n)
	}
}

func TestStrangeIdentifiers(t *testing.T) {
	t.Parallel()
	srv, _, _ := setup(t, echo)
	c := newClient(t, srv.Conn(), agent.Config{Agent: "an agent.*"})
	for _, id := range []string{"a.b", "*", ">", "a b", "會話", "a=2E", "\t", "%41", "=", "🙂", strings.Repeat("y", 128)} {
		p := submit(t, c, agent.Turn{
			Session: events.SessionID(id), ID: events.TurnID(id), ReplyID: id, Parent: id,
			Calls: []events.Call{call(id, id, `"`+strings.ReplaceAll(id, "\t", "")+`"`), call("2", id, "2")},
		})
		rs := await(t, p)
		if rs[0].CallID != events.CallID(id) || text(t, rs[1]) != "2" {
			t.Errorf("%q: got %+v", id, rs)
		}
		if r, err := c.Result(t.Context(), events.CallKey{Session: p.Session(), Turn: p.Turn(), Call: events.CallID(id)}); err != nil || r.CallID != events.CallID(id) {
			t.Errorf("result of %q: got %+v, %v", id, r, err)
		}
	}
}

func TestLargeBodiesGoByReference(t *testing.T) {
	t.Parallel()
	srv, f, c := setup(t, echo)
	big := `"` + strings.Repeat("x", 2<<20) + `"`
	turn := agent.Turn{Session: "s", ID: "t", Calls: []events.Call{call("a", "echo", big)}}
	check := func(rs []events.ToolResult) {
		t.Helper()
		if got := text(t, rs[0]); got != big {
			t.Errorf("got %d bytes, want %d", len(got), len(big))
		}
	}
	check(await(t, submit(t, c, turn)))
	check(await(t, submit(t, newClient(t, srv.Conn(), agent.Config{}), turn)))
	for _, subject := range []string{f.Calls("local", "s", "t"), f.Result(events.CallKey{Session: "s", Turn: "t", Call: "a"})} {
		if stored, err := f.Fact(t.Context(), subject); err != nil || len(stored.Data) > 0 || stored.Header.Get("ce-dataref") == "" {
			t.Errorf("%s: %d bytes inline, %v; want a reference", subject, len(stored.Data), err)
		}
	}
	r, err := c.Result(t.Context(), events.CallKey{Session: "s", Turn: "t", Call: "a"})
	if err != nil {
		t.Fatal(err)
	}
	check([]events.ToolResult{r})
	turn.Calls[0].Input = json.RawMessage(`"` + strings.Repeat("x", jet.BodyMax) + `"`)
	if _, err := c.Submit(t.Context(), turn); !errors.Is(err, agent.ErrInvalid) {
		t.Errorf("over the limit: got %v, want ErrInvalid", err)
	}
}

func TestPendingTurnsCostNoGoroutine(t *testing.T) { // not parallel: it counts
	_, _, c := setup(t, hold)
	p := submit(t, c, agent.Turn{Session: "s0", Calls: []events.Call{call("a", "x", "")}})
	before := runtime.NumGoroutine()
	all := []*agent.Pending{p}
	for i := range 500 {
		all = append(all, submit(t, c, agent.Turn{Session: events.SessionID(fmt.Sprint("s", i%50)), Calls: []events.Call{call("a", "x", "")}}))
	}
	if n := runtime.NumGoroutine() - before; n > 80 { // 64 slots of the fleet come and go
		t.Errorf("500 pending turns cost %d goroutines", n)
	}
	for _, p := range all {
		p.Close()
		p.Close()
	}
	if _, err := p.Await(t.Context()); !errors.Is(err, agent.ErrClosed) {
		t.Errorf("closed: got %v, want ErrClosed", err)
	}
}

func TestIdleSessionsLetGoOfTheirSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := natstest.Start(t)
		startFleet(t, srv.Bus(), echo)
		nc := srv.Lasting()
		c := newClient(t, nc, agent.Config{})
		none := nc.NumSubscriptions()
		for i := range 20 {
			await(t, submit(t, c, agent.Turn{Session: events.SessionID(fmt.Sprint("s", i%2)), Calls: []events.Call{call("a", "x", "1")}}))
		}
		if n := nc.NumSubscriptions() - none; n > 3 { // two sessions, and the inbox of requests
			t.Errorf("%d subscriptions for two sessions", n)
		}
		time.Sleep(time.Minute)
		if n := nc.NumSubscriptions() - none; n > 1 {
			t.Errorf("%d subscriptions for idle sessions", n)
		}
		await(t, submit(t, c, agent.Turn{Session: "s0", Calls: []events.Call{call("a", "x", "1")}}))
	})
}

func TestCloseAndCancelledContextEndTheWait(t *testing.T) {
	t.Parallel()
	srv, _, c := setup(t, hold)
	turn := agent.Turn{Session: "s", Calls: []events.Call{call("a", "x", "")}}
	ctx, cancel := context.WithCancel(t.Context())
	p := submit(t, c, turn)
	cancel()
	if _, err := p.Await(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want Canceled", err)
	}
	ended := make(chan error)
	go func() { _, err := p.Await(t.Context()); ended <- err }()
	c.Close()
	c.Close()
	if err := <-ended; !errors.Is(err, agent.ErrClosed) {
		t.Errorf("client closed: got %v, want ErrClosed", err)
	}
	if _, err := c.Submit(t.Context(), turn); !errors.Is(err, agent.ErrClosed) {
		t.Errorf("submit after close: got %v, want ErrClosed", err)
	}
	nc := srv.Conn()
	p = submit(t, newClient(t, nc, agent.Config{}), turn)
	go func() { _, err := p.Await(t.Context()); ended <- err }()
	nc.Close()
	if err := <-ended; !errors.Is(err, agent.ErrClosed) {
		t.Errorf("connection closed: got %v, want ErrClosed", err)
	}
}
