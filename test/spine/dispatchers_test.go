package spine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// scene is something that dispatchers do, while one of them dies.
type scene struct {
	name   string
	turn   agent.Turn
	cancel time.Duration // after so long; 0: not
	lasts  time.Duration // until the dispatcher is done with it
	want   []events.Reason
	runs   int // of all calls together
	least  int // publishes that it takes a dispatcher
}

func scenes() []scene {
	call := func(name string) events.Call { return events.Call{Name: events.ToolName(name)} }
	wrong := events.Call{Name: "mail", Input: json.RawMessage(`[1]`)}
	return []scene{
		{
			name: "intake", turn: agent.Turn{Calls: []events.Call{call("mail"), call("nothing"), wrong, call("look")}, Deadline: time.Now().Add(24 * time.Hour)}, lasts: time.Second,
			want: []events.Reason{events.ReasonOK, events.ReasonNotFound, events.ReasonInvalidInput, events.ReasonOK}, runs: 2, least: 7,
		},
		{name: "cancel queued", turn: agent.Turn{Calls: []events.Call{call("gone")}}, cancel: time.Second, lasts: time.Second, want: []events.Reason{events.ReasonCancelled}, least: 4},
		{name: "cancel running", turn: agent.Turn{Calls: []events.Call{call("slow")}}, cancel: time.Second, lasts: 3 * time.Second, want: []events.Reason{events.ReasonCancelled}, runs: 1, least: 2},
		{name: "deadline", turn: agent.Turn{Calls: []events.Call{call("gone")}}, lasts: 25 * time.Second, want: []events.Reason{events.ReasonTimeout}, least: 3},
		{name: "queue", turn: agent.Turn{Calls: []events.Call{call("brief")}}, lasts: 40 * time.Second, want: []events.Reason{events.ReasonQueueExpired}, least: 3},
	}
}

// A dispatcher dies after each of its publishes, which is before the next, in the intake, a cancel, at a deadline
// and in the sweep; another goes on. Every call has the result it would have had, once, and tools run
// as if nothing had been (T-50, T-64, N-8, B3).
func TestDispatcherDiesAtEveryPublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := newEffects()
		happen := func(ctx context.Context) (any, error) { ran.happen(ctx); return "done", nil }
		f := newFleet(t,
			tool("mail", nil, happen), tool("look", &toolkit.Options{ReadOnly: true}, happen),
			tool("slow", nil, func(ctx context.Context) (any, error) { ran.happen(ctx); <-ctx.Done(); return nil, ctx.Err() }))
		gone := toolkit.New()
		if err := gone.Add(tool("gone", nil, happen), tool("brief", &toolkit.Options{QueueTimeout: 20 * time.Second}, happen)); err != nil {
			t.Fatal(err)
		}
		first := f.dispatcher()
		f.worker(16)
		w := f.program("gone", gone, 1)
		c := f.agent("local")
		f.known(c, gone)
		f.ready(c)
		w.kill()
		first.kill()
		live := f.spy("toolwire.live.result.>")
		calls := 0
		for _, s := range scenes() {
			n := int32(0) // dead after this publish is dead before the next
			for f.play(c, s, &killer{point: point{verdict: cutAfter}, nth: n}, ran) {
				n++
			}
			t.Logf("%s: died at %d points", s.name, n)
			if int(n) < s.least {
				t.Errorf("%s: the dispatcher died at %d points, there are at least %d", s.name, n, s.least)
			}
			calls += len(s.want) * int(n+1)
		}
		time.Sleep(time.Minute)
		got := live.copy()
		for subject, n := range got {
			if n != 1 {
				t.Errorf("%s: %d results", subject, n)
			}
		}
		if len(got) != calls {
			t.Errorf("%d calls have results, want %d", len(got), calls)
		}
		f.workIsEmpty()
	})
}

// play lets a dispatcher take part in a scene until k kills it, and another go on. It reports
// whether the first was killed.
func (f *fleet) play(c *agent.Client, s scene, k *killer, ran *effects) bool {
	f.Helper()
	victim := f.dispatcher(tapped(k.judge))
	f.ready(c)
	turn := s.turn
	turn.Session, turn.ID = "s", events.TurnID(fmt.Sprintf("%s/%d", s.name, k.nth))
	if s.name == "deadline" {
		turn.Deadline = time.Now().Add(20 * time.Second)
	}
	before := ran.total.Load()
	if s.cancel == 0 {
		k.armed.Store(true)
	}
	p := f.submit(c, turn)
	if s.cancel > 0 {
		time.Sleep(s.cancel)
		k.armed.Store(true)
		if err := c.Cancel(f.Context(), turn.Session, turn.ID, events.CancelCalls{}); err != nil {
			f.Errorf("%s: cancel: %v", turn.ID, err)
		}
	}
	time.Sleep(s.lasts)
	fired := k.fired.Load()
	k.armed.Store(false)
	other := f.dispatcher()
	for i, r := range f.await(p) {
		if r.Reason != s.want[i] {
			f.Errorf("%s: call %d: got %s, want %s", turn.ID, i+1, r.Reason, s.want[i])
		}
	}
	if n := int(ran.total.Load() - before); n != s.runs {
		f.Errorf("%s: tools ran %d times, want %d", turn.ID, n, s.runs)
	}
	victim.drain()
	other.drain()
	return fired
}

// Dispatchers die at random moments over a hundred turns, with another one running: nothing of
// it shows (T-50, B3).
func TestDispatchersDieAtRandom(t *testing.T) {
	seed := rand.Uint64() // outside the bubble, whose time is always the same
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 0))
		ran := newEffects()
		happen := func(ctx context.Context) (any, error) { ran.happen(ctx); return "done", nil }
		f := newFleet(t, tool("mail", nil, happen), tool("look", &toolkit.Options{Idempotent: true}, happen))
		c := f.up(2)
		live := f.spy("toolwire.live.result.>")
		var turns []*agent.Pending
		killed := 0
		victim := &killer{}
		for i := range 100 {
			if i == 0 || victim.fired.Load() {
				victim = &killer{point: point{verdict: cutBefore + verdict(random.IntN(2))}, nth: random.Int32N(12)}
				victim.armed.Store(true)
				f.dispatcher(tapped(victim.judge))
				killed++
			}
			turns = append(turns, f.submit(c, agent.Turn{Session: "s", ID: events.TurnID(strconv.Itoa(i)), Calls: []events.Call{{Name: "mail"}, {Name: "look"}, {Name: "nothing"}}}))
			time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
		}
		for _, p := range turns {
			for i, r := range f.await(p) {
				if want := []events.Reason{events.ReasonOK, events.ReasonOK, events.ReasonNotFound}[i]; r.Reason != want {
					t.Errorf("turn %s, call %d: got %s, want %s", p.Turn(), i+1, r.Reason, want)
				}
			}
		}
		if killed < 5 {
			t.Errorf("only %d dispatchers died", killed-1)
		}
		time.Sleep(time.Minute)
		for subject, n := range live.copy() {
			if n != 1 {
				t.Errorf("%s: %d results", subject, n)
			}
		}
		for call, n := range ran.copy() {
			if n != 1 {
				t.Errorf("%s ran %d times", call, n)
			}
		}
		f.workIsEmpty()
	})
}

// The server restarts twice under everybody, while tools run and turns are submitted: no call is
// lost, none with side effects runs twice (T-70).
func TestServerRestartsInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := newEffects()
		slow := func(ctx context.Context) (any, error) {
			ran.happen(ctx)
			time.Sleep(700 * time.Millisecond)
			return "done", nil
		}
		f := newFleet(t, tool("mail", nil, slow), tool("look", &toolkit.Options{ReadOnly: true}, slow))
		f.lasting = true
		f.dispatcher()
		f.dispatcher()
		f.worker(4)
		c := f.agent("local")
		f.ready(c)
		f.worker(4)
		var turns []*agent.Pending
		for i := range 40 {
			turns = append(turns, f.submit(c, agent.Turn{Session: "s", ID: events.TurnID(strconv.Itoa(i)), Calls: []events.Call{{ID: "mail", Name: "mail"}, {ID: "look", Name: "look"}}}))
			time.Sleep(130 * time.Millisecond)
			if i == 10 || i == 25 {
				f.srv.Restart()
			}
		}
		for _, p := range turns {
			for _, r := range f.await(p) {
				if r.Reason != events.ReasonOK && (r.Name != "mail" || r.Reason != events.ReasonOutcomeUnknown) {
					t.Errorf("turn %s, %s: got %s", p.Turn(), r.Name, r.Reason)
				}
			}
		}
		time.Sleep(time.Minute)
		for i := range turns {
			if n := ran.copy()[fmt.Sprintf("s/%d/mail", i)]; n > 1 {
				t.Errorf("turn %d: the mail was sent %d times", i, n)
			}
		}
		f.workIsEmpty()
	})
}
