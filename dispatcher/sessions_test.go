package dispatcher_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
)

// apply declares a configuration.
func (w *world) apply(c toolkit.Config) events.ConfigReply {
	w.Helper()
	now := ask[events.ConfigReply](w, "local", events.OpConfig, struct{}{})
	b, err := json.Marshal(c)
	if err != nil {
		w.Fatal(err)
	}
	return ask[events.ConfigReply](w, "local", events.OpConfigSet, events.ConfigSet{Revision: now.Revision, Config: b})
}

func twoGroups() toolkit.Config {
	return toolkit.Config{Groups: []toolkit.Group{
		{Name: "read", Tools: []string{"look"}, Description: "Looking.", Active: true},
		{Name: "write", Tools: []string{"book"}, Description: "Booking."},
		{Name: "ops", Tools: []string{"write"}, Scope: toolkit.ScopeExternal},
	}}
}

func (w *world) set(actor string, q events.SessionSet) events.SessionInfo {
	w.Helper()
	return ask[events.SessionInfo](w, actor, events.OpSessionSet, q)
}

func (w *world) listed(actor string, session events.SessionID) (names []string, revision uint64) {
	w.Helper()
	l := ask[events.ToolsReply](w, actor, events.OpTools, events.ToolsRequest{Session: session})
	for _, info := range l.Tools {
		var def toolkit.Definition
		if err := json.Unmarshal(info.Definition, &def); err != nil {
			w.Fatal(err)
		}
		names = append(names, string(def.Name))
	}
	return names, l.SessionRevision
}

// A session begins with the configured defaults, is switched by application code and by the agent, and
// says its revision wherever it shows (G7, G8).
func TestSessionFromFirstTouchToDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		w.worker([]toolkit.Definition{bookDef(), lookDef(), stepDef()})
		w.registered(d, 3)
		w.apply(twoGroups())
		w.status("404", "local", events.OpSession, events.SessionRequest{Session: "s"})
		if names, revision := w.listed("local", "s"); !slices.Equal(names, []string{"look", "reset_tools"}) || revision != 0 {
			t.Errorf("before the first turn: %v at %d", names, revision)
		}
		w.submit("t1", call("1", "look", ""))
		w.want(key("t1", "1"), time.Minute, events.ReasonOK)
		info := ask[events.SessionInfo](w, "local", events.OpSession, events.SessionRequest{Session: "s"})
		if info.Agent != "local" || !slices.Equal(info.Active, []string{"read"}) || info.Revision == 0 {
			t.Fatalf("got %+v", info)
		}
		w.submit("t2", call("1", "book", ""))
		if r := w.want(key("t2", "1"), time.Minute, events.ReasonInactive); r.Meta.SessionRevision != info.Revision || !strings.Contains(text(r), "reset_tools") {
			t.Errorf("got %+v", r)
		}
		w.submit("t3", call("1", "reset_tools", `{"write":true}`))
		if r := w.want(key("t3", "1"), time.Minute, events.ReasonOK); !strings.Contains(text(r), "Booking.") || r.Meta.SessionRevision != info.Revision {
			t.Errorf("got %s %+v", text(r), r.Meta)
		}
		names, revision := w.listed("local", "s")
		if !slices.Equal(names, []string{"book", "reset_tools"}) || revision <= info.Revision {
			t.Errorf("got %v at %d, after %d", names, revision, info.Revision)
		}
		w.submit("t4", call("1", "book", ""))
		w.want(key("t4", "1"), time.Minute, events.ReasonOK)
		after := w.set("local", events.SessionSet{Session: "s", On: []string{"ops", "read"}, Off: []string{"write"}})
		if !slices.Equal(after.Active, []string{"ops", "read"}) {
			t.Errorf("got %+v", after)
		}
		w.submit("t5", call("1", "reset_tools", `{}`))
		w.want(key("t5", "1"), time.Minute, events.ReasonOK)
		if names, _ := w.listed("local", "s"); !slices.Equal(names, []string{"reset_tools", "write"}) {
			t.Errorf("a group of application code did not stay: %v", names)
		}
		w.status("409", "local", events.OpSessionSet, events.SessionSet{Session: "s", Revision: info.Revision, On: []string{"read"}})
		w.status("404", "local", events.OpSessionSet, events.SessionSet{Session: "s", On: []string{"read", "nope"}})
		if names, _ := w.listed("local", "s"); !slices.Equal(names, []string{"reset_tools", "write"}) {
			t.Errorf("a refused change changed something: %v", names)
		}
		ask[struct{}](w, "local", events.OpSessionDrop, events.SessionRequest{Session: "s"})
		w.submit("t6", call("1", "look", ""))
		w.want(key("t6", "1"), time.Minute, events.ReasonOK)
		if names, _ := w.listed("local", "s"); !slices.Equal(names, []string{"look", "reset_tools"}) {
			t.Errorf("after the drop: %v", names)
		}
	})
}

// A session belongs to the agent that first touched it (H11); operators see all.
func TestSessionsOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		w.worker([]toolkit.Definition{lookDef()})
		w.registered(d, 1)
		w.set("mallory", events.SessionSet{Session: "s"})
		w.submit("t", call("1", "look", ""), call("2", "reset_tools", ""))
		for _, id := range []string{"1", "2"} {
			if r := w.want(key("t", id), time.Minute, events.ReasonDeniedByRule); !strings.Contains(text(r), "another agent") {
				t.Errorf("got %s", text(r))
			}
		}
		for _, op := range []string{events.OpSession, events.OpSessionDrop} {
			w.status("403", "eve", op, events.SessionRequest{Session: "s"})
		}
		w.status("403", "eve", events.OpSessionSet, events.SessionSet{Session: "s", On: []string{"x"}})
		w.status("403", "eve", events.OpTools, events.ToolsRequest{Session: "s"})
		w.status("403", "eve", events.OpGroups, events.GroupsRequest{Session: "s"})
		w.status("403", "eve", events.OpState, events.StateRequest{Session: "s", Name: "todo"})
		w.status("403", "eve", events.OpConfig, struct{}{})
		w.status("403", "eve", events.OpConfigSet, events.ConfigSet{Config: json.RawMessage(`{}`)})
		w.set("local", events.SessionSet{Session: "theirs", Agent: "eve"})
		for actor, want := range map[string]string{"eve": "theirs", "mallory": "s", "local": "s theirs", "nobody": ""} {
			l := ask[events.SessionsReply](w, actor, events.OpSessions, events.SessionsRequest{})
			var got []string
			for _, s := range l.Sessions {
				got = append(got, string(s.Session))
			}
			if strings.Join(got, " ") != want {
				t.Errorf("%s sees %v, want %s", actor, got, want)
			}
		}
		one := ask[events.SessionsReply](w, "local", events.OpSessions, events.SessionsRequest{Limit: 1})
		if len(one.Sessions) != 1 || !one.More {
			t.Fatalf("got %+v", one)
		}
		rest := ask[events.SessionsReply](w, "local", events.OpSessions, events.SessionsRequest{After: one.Sessions[0].Session})
		if len(rest.Sessions) != 1 || rest.More || rest.Sessions[0].Session == one.Sessions[0].Session {
			t.Errorf("got %+v", rest)
		}
	})
}

// Ids of any kind make a key of their own (ST2).
func TestSessionsWithOddNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.dispatcher()
		odd := []events.SessionID{"a.b", "a b", "a*", "a>", "ä", "=41", "A", "a=2Eb"}
		w.apply(twoGroups())
		for i, id := range odd {
			w.set("local", events.SessionSet{Session: id, Active: &[]string{[]string{"read", "write", "ops"}[i%3]}})
		}
		for i, id := range odd {
			info := ask[events.SessionInfo](w, "local", events.OpSession, events.SessionRequest{Session: id})
			if want := []string{"read", "write", "ops"}[i%3]; !slices.Equal(info.Active, []string{want}) || info.Session != id {
				t.Errorf("%q: got %+v, want %s", id, info, want)
			}
		}
		if l := ask[events.SessionsReply](w, "local", events.OpSessions, events.SessionsRequest{}); len(l.Sessions) != len(odd) {
			t.Errorf("got %+v", l)
		}
	})
}

// A thousand calls of two sessions with different groups, over two dispatchers: neither ever sees the
// tools of the other (G7, ST3).
func TestSessionsNeverShareTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		d2 := w.dispatcher(func(c *dispatcher.Config) { c.Name = "second" })
		w.worker([]toolkit.Definition{bookDef(), lookDef()})
		w.registered(d, 2)
		w.registered(d2, 2)
		w.apply(twoGroups())
		w.set("local", events.SessionSet{Session: "reader", Active: &[]string{"read"}})
		w.set("local", events.SessionSet{Session: "writer", Active: &[]string{"write"}})
		sessions := []events.SessionID{"reader", "writer"}
		for i := range 250 {
			for _, s := range sessions {
				w.submitTo(s, strconv.Itoa(i), call("look", "look", ""), call("book", "book", ""))
			}
		}
		for i := range 250 {
			for _, s := range sessions {
				for _, id := range []string{"look", "book"} {
					want := events.ReasonInactive
					if (s == "reader") == (id == "look") {
						want = events.ReasonOK
					}
					w.want(events.CallKey{Session: s, Turn: events.TurnID(strconv.Itoa(i)), Call: events.CallID(id)}, 5*time.Minute, want)
				}
			}
		}
	})
}

// submitTo publishes a turn of agent local in some session.
func (w *world) submitTo(session events.SessionID, turn string, calls ...events.Call) {
	w.Helper()
	e, err := events.New(events.Attributes{ID: "calls/" + turn, Source: "/agents/local", Type: events.TypeToolCalls}, events.ToolCalls{Calls: calls})
	if err != nil {
		w.Fatal(err)
	}
	if _, err := w.bus.Store(w.Context(), jet.Out{Subject: w.bus.Calls("local", session, events.TurnID(turn)), Event: e}); err != nil {
		w.Fatal(err)
	}
}

// Resets that race over two dispatchers: each decides on what the one before left, and is told so.
func TestRacingResets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.dispatcher()
		w.dispatcher(func(c *dispatcher.Config) { c.Name = "second" })
		config := toolkit.Config{}
		for i := range 12 {
			config.Groups = append(config.Groups, toolkit.Group{Name: fmt.Sprintf("g%d", i)})
		}
		w.apply(config)
		var wg sync.WaitGroup
		for i := range 12 {
			wg.Go(func() { w.submit(strconv.Itoa(i), call("c", "reset_tools", fmt.Sprintf(`{"g%d":true}`, i))) })
			wg.Go(func() {
				ask[events.SessionInfo](w, "local", events.OpSessionSet, events.SessionSet{Session: "s"})
			})
		}
		wg.Wait()
		for i := range 12 {
			r := w.want(key(strconv.Itoa(i), "c"), time.Minute, events.ReasonOK)
			if want := fmt.Sprintf("Active groups of tools: g%d.", i); !strings.Contains(text(r), want) {
				t.Errorf("%d: got %s", i, text(r))
			}
		}
		info := ask[events.SessionInfo](w, "local", events.OpSession, events.SessionRequest{Session: "s"})
		if len(info.Active) != 1 {
			t.Errorf("got %+v, want the groups of the last reset", info)
		}
	})
}

// A reset that was begun is finished though the meta tool was switched off since, and not refused.
func TestResetBegunBeforeItWasSwitchedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.dispatcher()
		config := twoGroups()
		config.NoMetaTool = true
		w.apply(config)
		e, err := events.New(events.Attributes{ID: "start", Source: "/dispatchers/dead", Type: events.TypeToolResultStart},
			events.ToolResultStart{CallID: "c", Instance: "dead", Nonce: "n", Settle: events.ReasonOK, At: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.bus.Store(t.Context(), jet.Out{Subject: w.bus.Start(key("t", "c")), Event: e}); err != nil {
			t.Fatal(err)
		}
		w.submit("t", call("c", "reset_tools", `{"write":true}`))
		w.want(key("t", "c"), time.Minute, events.ReasonOK)
		if info := ask[events.SessionInfo](w, "local", events.OpSession, events.SessionRequest{Session: "s"}); !slices.Equal(info.Active, []string{"write"}) {
			t.Errorf("got %+v", info)
		}
	})
}

// A group that is switched off while a call is queued or runs: what was let through goes on. A call
// that waits for its stage is decided about when that begins.
func TestGroupSwitchedOffMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		defs := []toolkit.Definition{lookDef(), bookDef(), stepDef()}
		w.register(d, defs...)
		config := twoGroups()
		config.Groups[1].Tools = []string{"book", "write"}
		config.Groups[2].Tools = nil
		w.apply(config)
		w.set("local", events.SessionSet{Session: "s", Active: &[]string{"write"}})
		w.submit("t", call("1", "book", ""), call("2", "write", ""))
		wait(time.Second)
		w.set("local", events.SessionSet{Session: "s", Active: &[]string{}})
		w.worker(defs)
		w.want(key("t", "1"), time.Minute, events.ReasonOK)
		w.want(key("t", "2"), time.Minute, events.ReasonInactive)
	})
}

// Whoever listens hears that the tools of a session changed; tools that take a reserved name are refused.
func TestToolsChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		w.apply(twoGroups())
		heard := make(chan *nats.Msg, 8)
		if _, err := w.bus.Conn().ChanSubscribe(w.bus.Changed("session"), heard); err != nil {
			t.Fatal(err)
		}
		w.submit("t", call("1", "reset_tools", `{"write":true}`))
		w.want(key("t", "1"), time.Minute, events.ReasonOK)
		m := <-heard
		e, err := events.Decode(m.Header, m.Data)
		if err != nil || e.Type != events.TypeToolsChanged || e.Session != "s" {
			t.Errorf("got %+v, %v", e, err)
		}
		def := lookDef()
		def.Name = "reset_tools"
		w.worker([]toolkit.Definition{def})
		wait(10 * time.Second)
		if n := d.Tools(); n != 0 {
			t.Errorf("%d tools; the name is reserved", n)
		}
	})
}

// What a tool keeps for a session can be read.
func TestStateOfASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.dispatcher()
		w.set("local", events.SessionSet{Session: "s"})
		if s := ask[events.StateReply](w, "local", events.OpState, events.StateRequest{Session: "s", Name: "todo"}); s.Revision != 0 {
			t.Errorf("got %+v", s)
		}
		if _, err := w.bus.JetStream().Publish(context.WithoutCancel(t.Context()), w.bus.State("s", "todo"), []byte(`{"tasks":[]}`)); err != nil {
			t.Fatal(err)
		}
		if s := ask[events.StateReply](w, "local", events.OpState, events.StateRequest{Session: "s", Name: "todo"}); s.Revision == 0 || string(s.Document) != `{"tasks":[]}` {
			t.Errorf("got %+v", s)
		}
		w.status("404", "local", events.OpState, events.StateRequest{Session: "none", Name: "todo"})
		w.status("400", "local", events.OpState, events.StateRequest{Session: "s"})
	})
}
