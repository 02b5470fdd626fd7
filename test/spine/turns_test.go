package spine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// A turn published again is the same turn: at once and by many, and after the server's dedupe
// window; other content is refused, and leaves the results of the first as they are. After the window
// it is a new turn, of whatever content (design §5).
func TestDuplicateTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := newEffects()
		f := newFleet(t, tool("mail", nil, func(ctx context.Context) (any, error) {
			ran.happen(ctx)
			return fmt.Sprint("sent ", ran.total.Load()), nil
		}))
		f.tick = time.Minute
		f.dispatcher()
		c := f.up(2)
		clients := []*agent.Client{c, f.agent("local"), f.agent("local")}
		turn := agent.Turn{Session: "s", ID: "t1", Calls: []events.Call{{ID: "c1", Name: "mail"}}}
		other := agent.Turn{Session: "s", ID: "t1", Calls: []events.Call{{ID: "c1", Name: "mail", Input: json.RawMessage(`{ }`)}}}
		live := f.spy("toolwire.live.result.>")
		want := func(c *agent.Client, turn agent.Turn, text string) {
			t.Helper()
			if r := f.await(f.submit(c, turn))[0]; r.Reason != events.ReasonOK || r.Text() != text {
				t.Errorf("got %s %q, want %q", r.Reason, r.Text(), text)
			}
		}
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() { want(clients[i%len(clients)], turn, "sent 1") })
		}
		wg.Wait()
		for _, pause := range []time.Duration{time.Second, 3 * time.Minute, 8 * time.Minute} {
			time.Sleep(pause)
			want(c, turn, "sent 1")
			if _, err := c.Submit(t.Context(), other); !errors.Is(err, agent.ErrTurnReused) {
				t.Errorf("other content: got %v, want ErrTurnReused", err)
			}
			r, err := c.Result(t.Context(), events.CallKey{Session: "s", Turn: "t1", Call: "c1"})
			if err != nil || r.Text() != "sent 1" {
				t.Errorf("the first turn's result: got %q, %v", r.Text(), err)
			}
		}
		if n := live.copy()["toolwire.live.result.s.t1.c1"]; n != 1 {
			t.Errorf("%d results", n)
		}
		time.Sleep(17 * time.Minute)
		want(clients[1], other, "sent 2")
		want(clients[2], other, "sent 2")
	})
}

// What has ended is forgotten after the window, and can be read from the history. What waits keeps
// its facts, however long: a worker that comes three windows later does not run what was started (N-8).
func TestHorizon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := newEffects()
		f := newFleet(t,
			tool("mail", nil, func(ctx context.Context) (any, error) { ran.happen(ctx); return "sent", nil }),
			tool("crash", &toolkit.Options{QueueTimeout: 72 * time.Hour}, func(ctx context.Context) (any, error) {
				ran.happen(ctx)
				<-ctx.Done()
				return nil, ctx.Err()
			}))
		f.history, f.tick = true, time.Minute
		f.dispatcher()
		victim := f.worker(1)
		c := f.agent("local")
		f.ready(c)
		time.Sleep(2 * time.Second)
		for i := range 20 {
			f.one(c, "s", "mail", "")
			f.await(f.submit(c, agent.Turn{Session: "s", ID: events.TurnID(strconv.Itoa(i)), Calls: []events.Call{{ID: "c1", Name: "mail"}}}))
		}
		time.Sleep(17 * time.Minute)
		for _, stream := range []string{"TOOLWIRE_CALLS", "TOOLWIRE_JOURNAL"} {
			if n := f.state(stream).Msgs; n != 0 {
				t.Errorf("%s holds %d facts after the window", stream, n)
			}
		}
		if r, err := c.Result(t.Context(), events.CallKey{Session: "s", Turn: "7", Call: "c1"}); err != nil || r.Text() != "sent" {
			t.Errorf("from the history: got %q, %v", r.Text(), err)
		}
		if p, err := c.Attach(t.Context(), "s", "7"); err != nil || f.await(p)[0].Text() != "sent" {
			t.Errorf("attached to the past: %v", err)
		}

		open := f.submit(c, agent.Turn{Session: "s", ID: "open", Calls: []events.Call{{ID: "c1", Name: "crash"}}})
		time.Sleep(5 * time.Second)
		victim.kill()
		time.Sleep(45 * time.Minute)
		if calls, journal := f.state("TOOLWIRE_CALLS").Msgs, f.state("TOOLWIRE_JOURNAL").Msgs; calls != 1 || journal != 1 {
			t.Errorf("an open call has %d turns and %d facts, want its turn and its start", calls, journal)
		}
		f.worker(1)
		if r := f.await(open)[0]; r.Reason != events.ReasonOutcomeUnknown {
			t.Errorf("the open call: got %s", r.Reason)
		}
		if n := ran.copy()["s/open/c1"]; n != 1 {
			t.Errorf("the open call ran %d times", n)
		}
		time.Sleep(17 * time.Minute)
		if calls, journal := f.state("TOOLWIRE_CALLS").Msgs, f.state("TOOLWIRE_JOURNAL").Msgs; calls+journal != 0 {
			t.Errorf("%d turns and %d facts are left", calls, journal)
		}
		c.Close()
		f.stopAll()
		f.srv.Stop()
		time.Sleep(time.Minute) // the history's sources end
	})
}

// Identifiers of any kind name one call and touch no foreign subject; what cannot be a token is
// refused before anything is published (T-97, ST2).
func TestOddIdentifiers(t *testing.T) {
	t.Parallel()
	f := newFleet(t, echo("echo"))
	c := f.up(1)
	ids := []string{"a.b", "*", ">", "a > b", "日本語", "tab\tnew\nline", "=41", "UPPER", "..", "$JS.API.>", "a\r\nPUB x 0", "\x00", strings.Repeat("é", 21), strings.Repeat("x", 128)}
	known := map[string]bool{"local": true, "echo": true, "test": true}
	for _, id := range ids {
		known[escaped(id)] = true
	}
	spy := f.spy(">")
	for i, id := range ids {
		input := fmt.Sprintf(`{"n":%d}`, i)
		p := f.submit(c, agent.Turn{Session: events.SessionID(id), ID: events.TurnID(id), Calls: []events.Call{{ID: events.CallID(id), Name: "echo", Input: json.RawMessage(input)}}})
		if r := f.await(p)[0]; string(r.CallID) != id || r.Text() != input {
			t.Errorf("%q: got %q, %s", id, r.CallID, r.Text())
		}
		if _, err := c.CancelNow(t.Context(), events.SessionID(id), events.TurnID(id), events.CancelCalls{}); err != nil {
			t.Errorf("%q: cancel: %v", id, err)
		}
	}
	for _, id := range []string{"", strings.Repeat("x", 300), strings.Repeat("x", 129), strings.Repeat("日", 100), "bad \xff"} {
		turns := []agent.Turn{
			{Session: events.SessionID(id), Calls: []events.Call{{Name: "echo"}}},
			{Session: "a.b", ID: events.TurnID(id), Calls: []events.Call{{Name: "echo"}}},
			{Session: "a.b", Calls: []events.Call{{ID: events.CallID(id), Name: "echo"}}},
		}
		if id == "" { // a turn or a call without one gets one
			turns = turns[:1]
		}
		for _, turn := range turns {
			if _, err := c.Submit(t.Context(), turn); !errors.Is(err, agent.ErrInvalid) {
				t.Errorf("%.20q: got %v, want ErrInvalid", id, err)
			}
		}
	}
	count := func() map[string]int { // the identifiers that were seen, by kind
		n := map[string]int{}
		for subject := range spy.copy() {
			for kind, tokens := range carriers {
				if strings.HasPrefix(subject, "toolwire."+kind+".") && strings.Count(subject, ".") == tokens+1 {
					n[kind]++
				}
			}
		}
		return n
	}
	all := map[string]int{}
	for kind := range carriers {
		all[kind] = len(ids)
	}
	n := count()
	for end := time.Now().Add(20 * time.Second); !maps.Equal(n, all) && time.Now().Before(end); n = count() {
		<-time.After(10 * time.Millisecond) // the spy has a connection of its own
	}
	if !maps.Equal(n, all) {
		t.Errorf("subjects by kind: %v, want %v", n, all)
	}
	for subject := range spy.copy() {
		if why := foreign(subject, known); why != "" {
			t.Errorf("subject %q: %s", subject, why)
		}
	}
}

// carriers are the subjects that carry identifiers of calls, and how many tokens each has after its kind.
var carriers = map[string]int{"call": 3, "work": 5, "result": 3, "live.result": 4}

// foreign says what is wrong with a subject that was published to.
func foreign(subject string, known map[string]bool) string {
	for _, prefix := range []string{"_INBOX.", "$JS.API.", "$JS.ACK.", "$KV.", "$JS.EVENT.", "$SRV.", "toolwire.announce.", "toolwire.changed.", "toolwire.due.", "toolwire.timer.", "toolwire.api.", "toolwire.alive."} {
		if strings.HasPrefix(subject, prefix) {
			return ""
		}
	}
	tokens := strings.Split(subject, ".")
	if len(tokens) < 3 || tokens[0] != "toolwire" {
		return "not one of ours"
	}
	kind, rest := tokens[1], tokens[2:]
	if kind == "live" {
		kind, rest = rest[0], rest[1:]
	}
	want := map[string]int{"call": 3, "work": 5, "start": 3, "result": 3, "cancel": 3, "stop": 3}[kind]
	if want != len(rest) {
		return fmt.Sprintf("%d tokens after %s, want %d", len(rest), kind, want)
	}
	for _, token := range rest {
		if !known[token] {
			return "token " + token + " is nobody's"
		}
	}
	return ""
}

// escaped is the encoding of an identifier, written a second time from docs/wire.md.
func escaped(id string) string {
	var b strings.Builder
	for _, c := range []byte(id) {
		if strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}
