package dispatcher_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// A tool that was removed is unknown (K2).
func TestRemovedTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		x := w.worker([]toolkit.Definition{lookDef()})
		w.registered(d, 1)
		w.status("409", "local", events.OpToolDrop, events.ToolRequest{Name: "look"})
		w.status("403", "eve", events.OpToolDrop, events.ToolRequest{Name: "look"})
		w.status("404", "local", events.OpToolDrop, events.ToolRequest{Name: "nope"})
		x.announce(true)
		x.stop()
		wait(time.Second)
		ask[struct{}](w, "local", events.OpToolDrop, events.ToolRequest{Name: "look"})
		w.submit("t", call("1", "look", ""))
		w.want(key("t", "1"), time.Minute, events.ReasonNotFound)
		w.worker([]toolkit.Definition{lookDef()})
		w.registered(d, 1)
		w.submit("u", call("1", "look", ""))
		w.want(key("u", "1"), time.Minute, events.ReasonOK)
	})
}

// A configuration comes into force as a whole or not at all, live on every dispatcher.
func TestConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		d2 := w.dispatcher(func(c *dispatcher.Config) { c.Name = "second" })
		w.worker([]toolkit.Definition{lookDef(), bookDef()})
		w.registered(d, 2)
		w.registered(d2, 2)
		first := w.apply(twoGroups())
		for _, bad := range []string{`{"groups":[{"name":"basic"}]}`, `{"groups":[{"name":"a"},{"name":"a"}]}`, `{"groups":7}`, `[]`, `{"tools":{"x":{"presets":{"p":{}}}}}`} {
			w.status("400", "local", events.OpConfigSet, events.ConfigSet{Revision: first.Revision, Config: json.RawMessage(bad)})
		}
		w.status("409", "local", events.OpConfigSet, events.ConfigSet{Revision: first.Revision - 1, Config: json.RawMessage(`{}`)})
		w.status("409", "local", events.OpConfigSet, events.ConfigSet{Config: json.RawMessage(`{}`)})
		if now := ask[events.ConfigReply](w, "local", events.OpConfig, struct{}{}); now.Revision != first.Revision {
			t.Errorf("a refused configuration is at %d, was %d", now.Revision, first.Revision)
		}
		heard := make(chan *nats.Msg, 8)
		if _, err := w.bus.Conn().ChanSubscribe(w.bus.Changed("group"), heard); err != nil {
			t.Fatal(err)
		}
		config := twoGroups()
		config.Groups[0].Tools = []string{"book"}
		config.NoMetaTool = true
		second := w.apply(config)
		if len(heard) != 1 {
			t.Errorf("%d notes of the change", len(heard))
		}
		for range 20 { // whichever dispatcher answers
			l := ask[events.GroupsReply](w, "local", events.OpGroups, events.GroupsRequest{})
			if l.ConfigRevision != second.Revision || len(l.Groups) != 3 {
				t.Fatalf("got %+v", l)
			}
			wait(10 * time.Millisecond)
		}
		w.submit("t", call("1", "book", ""), call("2", "look", ""), call("3", "reset_tools", ""))
		w.want(key("t", "1"), time.Minute, events.ReasonOK)
		w.want(key("t", "2"), time.Minute, events.ReasonOK) // in no group any more
		w.want(key("t", "3"), time.Minute, events.ReasonNotFound)
	})
}

// What is stored and cannot be used is left where it is, and the last good configuration stays.
func TestUnusableConfigurationIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		w.worker([]toolkit.Definition{lookDef()})
		w.registered(d, 1)
		first := w.apply(twoGroups())
		if _, err := w.bus.PutRecord(w.Context(), w.bus.SettingsBucket(), "config", []byte(`{"groups":[{"name":"basic"}]}`), first.Revision); err != nil {
			t.Fatal(err)
		}
		wait(time.Second)
		l := ask[events.GroupsReply](w, "local", events.OpGroups, events.GroupsRequest{})
		if l.ConfigRevision != first.Revision || len(l.Groups) != 3 {
			t.Errorf("got %+v", l)
		}
	})
}
