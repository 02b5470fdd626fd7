package spine_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// What tools do wrong, and what is made of it: retries (A-30, T11), time-outs of their own length
// (A-41, T10), panics (T2), handlers that ignore their context (T-54), errors for ever.
func TestFailuresOfTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := newEffects()
		fail := func(err func(attempt int) error) func(context.Context) (any, error) {
			return func(ctx context.Context) (any, error) {
				ran.happen(ctx)
				call, _ := toolkit.CallFrom(ctx)
				return "done", err(call.Attempt)
			}
		}
		work := func(d time.Duration) func(context.Context) (any, error) {
			return func(ctx context.Context) (any, error) {
				ran.happen(ctx)
				select {
				case <-ctx.Done():
					return nil, ctx.Err()
				case <-time.After(d):
					return "done", nil
				}
			}
		}
		release := make(chan struct{})
		cases := []struct {
			tool    *toolkit.Tool
			want    events.Reason
			runs    int
			attempt int
			text    string
			lasts   time.Duration // at least; 0: it does not matter
		}{
			{tool("flaky", &toolkit.Options{Attempts: 3, ReadOnly: true}, fail(func(n int) error {
				if n == 1 {
					return toolkit.Retryable(errors.New("connection reset"))
				}
				return nil
			})), events.ReasonOK, 2, 2, "done", 0},
			{tool("hopeless", &toolkit.Options{Attempts: 3, ReadOnly: true}, fail(func(int) error { return toolkit.Retryable(errors.New("always away")) })), events.ReasonToolError, 3, 3, "always away", 0},
			{tool("final", &toolkit.Options{Attempts: 3, ReadOnly: true}, fail(func(int) error { return errors.New("no such city") })), events.ReasonToolError, 1, 1, "no such city", 0},
			{tool("panics", &toolkit.Options{Attempts: 3, ReadOnly: true}, fail(func(int) error { panic("secret") })), events.ReasonToolPanic, 1, 1, "internal error", 0}, //nolint:forbidigo // tools do
			{tool("default", nil, work(9*time.Minute)), events.ReasonTimeout, 1, 1, "in time", 5 * time.Minute},
			{tool("patient", &toolkit.Options{Timeout: 10 * time.Minute}, work(9*time.Minute)), events.ReasonOK, 1, 1, "done", 9 * time.Minute},
			{tool("again", &toolkit.Options{Timeout: time.Minute, Attempts: 3, Idempotent: true}, work(time.Hour)), events.ReasonTimeout, 3, 3, "in time", 3 * time.Minute},
			{tool("deaf", &toolkit.Options{Timeout: time.Minute}, func(ctx context.Context) (any, error) { ran.happen(ctx); <-release; return "done", nil }), events.ReasonTimeout, 1, 1, "in time", time.Minute},
		}
		f := newFleet(t)
		for _, cs := range cases {
			if err := f.tools.Add(cs.tool); err != nil {
				t.Fatal(err)
			}
		}
		f.dispatcher()
		w := f.worker(len(cases))
		c := f.agent("local")
		f.ready(c)
		turn := agent.Turn{Session: "s", ID: "t"}
		for _, cs := range cases {
			name := cs.tool.Definition().Name
			turn.Calls = append(turn.Calls, events.Call{ID: events.CallID(name), Name: name})
		}
		p := f.submit(c, turn)
		time.Sleep(9*time.Minute + 30*time.Second)
		for i, r := range f.await(p) {
			cs, name := cases[i], turn.Calls[i].Name
			if r.Reason != cs.want || r.Meta.Attempt != cs.attempt || !strings.Contains(r.Text(), cs.text) || strings.Contains(r.Text(), "secret") {
				t.Errorf("%s: got %s, attempt %d, %q", name, r.Reason, r.Meta.Attempt, r.Text())
			}
			if n := ran.copy()["s/t/"+string(name)]; n != cs.runs {
				t.Errorf("%s ran %d times, want %d", name, n, cs.runs)
			}
			if d := r.Meta.FinishedAt.Sub(*r.Meta.StartedAt); cs.lasts > 0 && (d < cs.lasts || d > cs.lasts+20*time.Second) {
				t.Errorf("%s took %v, want %v", name, d, cs.lasts)
			}
		}
		if err := w.health(); err == nil {
			t.Error("a worker with a deaf tool counts as healthy")
		}
		if r := f.one(c, "s", "flaky", ""); r.Reason != events.ReasonOK { // in the slots that are left
			t.Errorf("afterwards: got %s", r.Reason)
		}
		close(release)
		time.Sleep(time.Second)
		if err := w.health(); err != nil {
			t.Errorf("once the tool has ended: %v", err)
		}
		f.workIsEmpty()
	})
}

// A call is cancelled while it waits, while it runs, when it is settled, and before any dispatcher
// has seen it: one result, which tells the cases apart (T-57, T-64, T-65, T-68, H8).
func TestCancelInEveryState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := newEffects()
		run := func(ctx context.Context) (any, error) {
			ran.happen(ctx)
			select {
			case <-ctx.Done():
				return nil, toolkit.Retryable(errors.New("late failure")) // T-57: no reason to try again
			case <-time.After(time.Minute):
				return "done", nil
			}
		}
		o := toolkit.Options{Attempts: 3, Idempotent: true}
		f := newFleet(t, tool("mail", &toolkit.Options{Attempts: 3}, run), tool("look", &o, run))
		d := f.dispatcher()
		w := f.worker(16)
		c := f.agent("local")
		f.ready(c)
		live := f.spy("toolwire.live.result.>")
		submit := func(id events.TurnID) *agent.Pending {
			return f.submit(c, agent.Turn{Session: "s", ID: id, Calls: []events.Call{{ID: "mail", Name: "mail"}, {ID: "look", Name: "look"}}})
		}
		check := func(p *agent.Pending, want events.Reason, runs int) {
			t.Helper()
			for _, r := range f.await(p) {
				if r.Reason != want || (r.Meta.StartedAt != nil) != (runs > 0) {
					t.Errorf("%s, %s: got %s, started %v", p.Turn(), r.Name, r.Reason, r.Meta.StartedAt)
				}
				if n := ran.copy()[fmt.Sprintf("s/%s/%s", p.Turn(), r.Name)]; n != runs {
					t.Errorf("%s, %s: ran %d times, want %d", p.Turn(), r.Name, n, runs)
				}
			}
		}
		cancel := func(id events.TurnID, outcomes ...string) {
			t.Helper()
			reply, err := c.CancelNow(t.Context(), "s", id, events.CancelCalls{})
			if err != nil {
				t.Fatal(err)
			}
			for i, o := range reply.Calls {
				if o.Outcome != outcomes[i] {
					t.Errorf("%s, %s: outcome %s, want %s", id, o.CallID, o.Outcome, outcomes[i])
				}
			}
		}

		settled := submit("settled")
		check(settled, events.ReasonOK, 1)
		cancel("settled", "too_late", "too_late")

		running := submit("running")
		time.Sleep(15 * time.Second)
		cancel("running", "stopping", "stopping")
		begin := time.Now()
		check(running, events.ReasonCancelled, 1)
		if d := time.Since(begin); d > 2*time.Second {
			t.Errorf("running calls were stopped after %v", d)
		}

		w.drain()
		queued := submit("queued")
		time.Sleep(time.Second)
		cancel("queued", "cancelled", "cancelled")
		check(queued, events.ReasonCancelled, 0)

		d.drain()
		unseen := submit("unseen")
		if err := c.Cancel(t.Context(), "s", "unseen", events.CancelCalls{}); err != nil {
			t.Fatal(err)
		}
		f.dispatcher()
		check(unseen, events.ReasonCancelled, 0)
		time.Sleep(5 * time.Second)

		f.worker(16) // what was cancelled does not come back
		time.Sleep(time.Minute)
		check(queued, events.ReasonCancelled, 0)
		check(unseen, events.ReasonCancelled, 0)
		for subject, n := range live.copy() {
			if n != 1 {
				t.Errorf("%s: %d results", subject, n)
			}
		}
		f.workIsEmpty()
		if n := f.state("TOOLWIRE_INBOX").Msgs; n != 0 {
			t.Errorf("%d cancels are left in INBOX", n)
		}
	})
}

// The end of the time in the queue races the start of a call, 200 times: a call that ran says so,
// one that says it expired did not run (T-50, T-68).
func TestQueueDeadlineRacesStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := newEffects()
		o := &toolkit.Options{QueueTimeout: 20 * time.Second}
		f := newFleet(t, tool("mail", o, func(ctx context.Context) (any, error) {
			ran.happen(ctx)
			time.Sleep(700 * time.Millisecond)
			return "sent", nil
		}))
		f.dispatcher()
		f.dispatcher()
		first := f.worker(4)
		c := f.agent("local")
		f.ready(c)
		first.drain()
		live := f.spy("toolwire.live.result.>")
		var turns []*agent.Pending
		for i := range 200 {
			turns = append(turns, f.submit(c, agent.Turn{Session: "s", ID: events.TurnID(strconv.Itoa(i)), Calls: []events.Call{{ID: "c1", Name: "mail"}}}))
			time.Sleep(25 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		f.worker(4) // slow enough for the deadlines and the sweep to overtake it
		f.worker(4)
		n := map[events.Reason]int{}
		for _, p := range turns {
			r := f.await(p)[0]
			n[r.Reason]++
			runs := ran.copy()[fmt.Sprintf("s/%s/c1", p.Turn())]
			if r.Reason == events.ReasonOK && runs != 1 || r.Reason == events.ReasonQueueExpired && (runs != 0 || r.Meta.StartedAt != nil) {
				t.Errorf("turn %s: %s after %d runs", p.Turn(), r.Reason, runs)
			}
		}
		if n[events.ReasonOK] < 20 || n[events.ReasonQueueExpired] < 20 || len(n) != 2 {
			t.Errorf("no race: %v", n)
		}
		time.Sleep(30 * time.Second)
		got := live.copy()
		if len(got) != len(turns) {
			t.Errorf("%d calls have results", len(got))
		}
		for subject, n := range got {
			if n != 1 {
				t.Errorf("%s: %d results", subject, n)
			}
		}
		f.workIsEmpty()
	})
}

// Results come as their calls finish, and Await has them in the order of the calls (A-32, T12).
func TestResultsAsTheyFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nap := func(d time.Duration) func(context.Context) (any, error) {
			return func(context.Context) (any, error) { time.Sleep(d); return d.String(), nil }
		}
		f := newFleet(t, tool("slow", nil, nap(20*time.Second)), tool("medium", nil, nap(5*time.Second)), tool("fast", nil, nap(0)))
		c := f.up(2)
		p := f.submit(c, agent.Turn{Session: "s", Calls: []events.Call{{Name: "slow"}, {Name: "medium"}, {Name: "nothing"}, {Name: "fast"}}})
		begin := time.Now()
		var order []string
		for r, err := range p.Results(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			order = append(order, string(r.Name))
			if r.Name == "medium" && time.Since(begin) > 6*time.Second {
				t.Errorf("it waited for a slower one: %v", time.Since(begin))
			}
		}
		if len(order) != 4 || order[2] != "medium" || order[3] != "slow" {
			t.Errorf("finished as %v", order)
		}
		for i, r := range f.await(p) {
			if want := []string{"20s", "5s", "", "0s"}[i]; want != "" && r.Text() != want {
				t.Errorf("call %d: got %q, want %q", i+1, r.Text(), want)
			}
		}
	})
}
