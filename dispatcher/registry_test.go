package dispatcher_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// A changed definition replaces the old one; going back does too; an old process does not.
func TestRollingUpdate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		v1, v2 := bookDef(), bookDef()
		v2.Description = "Books, better."
		old := w.worker([]toolkit.Definition{v1}, func(x *worker) { x.instance = "i1" })
		w.registered(d, 1)
		wait(time.Minute)
		w.worker([]toolkit.Definition{v2}, func(x *worker) { x.instance = "i2" })
		wait(time.Minute) // both announce
		if got := w.tool("book"); got.Hash != v2.Hash() || got.Workers != 2 {
			t.Errorf("got hash %s, %d workers, want the newer, 2", got.Hash, got.Workers)
		}
		old.stop()
		w.worker([]toolkit.Definition{v1}, func(x *worker) { x.instance = "i3" })
		wait(time.Minute)
		if got := w.tool("book"); got.Hash != v1.Hash() {
			t.Errorf("after going back: got %s, want %s", got.Hash, v1.Hash())
		}
	})
}

// A name belongs to one worker program while its workers live. The other is refused, and that
// can be seen; once the owner is gone it takes the name over.
func TestForeignOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		owner := w.worker([]toolkit.Definition{bookDef()})
		w.registered(d, 1)
		other := bookDef()
		other.Description = "Also books."
		w.worker([]toolkit.Definition{other}, func(x *worker) { x.name, x.pool, x.instance = "mill", "mill", "m1" })
		wait(time.Minute)
		got := w.tool("book")
		if got.Source != "shop" || len(got.Unhealthy) != 1 || !strings.Contains(got.Unhealthy[0], "mill") {
			t.Errorf("got source %s, unhealthy %q", got.Source, got.Unhealthy)
		}
		owner.stop()
		wait(time.Minute)
		if got := w.tool("book"); got.Source != "mill" || got.Pool != "mill" || len(got.Unhealthy) != 0 {
			t.Errorf("after the owner's end: got %+v", got)
		}
	})
}

// A dispatcher that has just begun to listen cannot tell silence from absence.
func TestFreshDispatcherTakesNoNameAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		x := w.worker([]toolkit.Definition{bookDef()})
		w.registered(d, 1)
		d.stop()
		x.stop()
		y := w.worker([]toolkit.Definition{bookDef()}, func(x *worker) { x.name, x.pool, x.instance = "mill", "mill", "m1" })
		w.dispatcher()
		wait(12 * time.Second)
		if got := w.tool("book"); got.Source != "shop" {
			t.Errorf("got source %s after 12 s", got.Source)
		}
		wait(20 * time.Second)
		if got := w.tool("book"); got.Source != "mill" {
			t.Errorf("got source %s after 32 s", got.Source)
		}
		y.stop()
	})
}

// Definitions outlive their workers, and a restart.
func TestDefinitionsAreDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		w.register(d, bookDef())
		wait(time.Hour)
		if got := w.tool("book"); got.Workers != 0 {
			t.Errorf("got %d workers", got.Workers)
		}
		d.stop()
		w.restart(time.Hour)
		w.dispatcher()
		w.submit("t", call("c", "book", ""))
		wait(5 * time.Second)
		if r := w.result(key("t", "c")); r != nil {
			t.Errorf("got %s, want it queued", r.Reason)
		}
		w.worker([]toolkit.Definition{bookDef()})
		w.want(key("t", "c"), 5*time.Second, events.ReasonOK)
	})
}

// A tool with a limit over the fleet has a lane of its own, and there are only so many.
func TestLanes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		var defs []toolkit.Definition
		for i := range 65 {
			def := lookDef()
			def.Name, def.MaxInFlight = events.ToolName(fmt.Sprintf("lane%02d", i)), 2
			defs = append(defs, def)
		}
		x := w.worker(defs)
		w.registered(d, 64)
		wait(30 * time.Second)
		if d.Tools() != 64 {
			t.Errorf("got %d tools, want 64", d.Tools())
		}
		c, err := w.bus.JetStream().Consumer(t.Context(), w.bus.WorkStream(), "lane-lane00")
		if err != nil || c.CachedInfo().Config.MaxAckPending != 2 {
			t.Errorf("lane: got %+v, %v", c, err)
		}
		w.submit("t", call("c", "lane00", ""))
		w.want(key("t", "c"), 5*time.Second, events.ReasonOK)
		x.stop()
		refused := 0
		for i := range 65 {
			if _, err := w.ask("local", events.OpTool, events.ToolRequest{Name: events.ToolName(fmt.Sprintf("lane%02d", i))}); err != nil {
				refused++
				if !strings.Contains(err.Error(), "maxInFlight") {
					t.Errorf("got %v, want why", err)
				}
			}
		}
		if refused != 1 {
			t.Errorf("%d tools refused, want 1", refused)
		}
	})
}

// What must not get into the registry: a definition that does not check, is another's, has another
// hash, comes from a subject that is no inbox, or is announced under a foreign name.
func TestBadAnnouncements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		nc := w.bus.Conn()
		good := bookDef()
		bad := bookDef()
		bad.InputSchema = json.RawMessage(`{"type":"strnig"}`)
		remote := bookDef()
		remote.InputSchema = json.RawMessage(`{"$ref":"http://169.254.169.254/x"}`) // T-89
		announce := func(def toolkit.Definition, hash, reply, subject string) {
			if reply == "" {
				reply = fmt.Sprintf("_INBOX.x%p", &def)
				if _, err := nc.Subscribe(reply, func(m *nats.Msg) { b, _ := json.Marshal(def); _ = m.Respond(b) }); err != nil {
					t.Fatal(err)
				}
			}
			if subject == "" {
				subject = w.bus.Announce("shop", "book")
			}
			e, _ := events.New(events.Attributes{ID: "1", Source: "/w", Type: events.TypeAnnounce}, events.Announce{
				Worker: "shop", Instance: "i", Pool: "shop", Tool: "book", Definition: hash, StartedAt: time.Now(),
			})
			h, data := events.Encode(e)
			_ = nc.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Header: h, Data: data})
			wait(10 * time.Second)
			if n := d.Tools(); n != 0 {
				t.Fatalf("registered: hash %s, reply %s, subject %s", hash, reply, subject)
			}
		}
		announce(bad, bad.Hash(), "", "")
		announce(remote, remote.Hash(), "", "")
		announce(lookDef(), lookDef().Hash(), "", "")
		announce(good, "00", "", "")
		announce(good, good.Hash(), "", w.bus.Announce("shop", "other"))
		// A confused deputy: the dispatcher would publish with its own rights.
		if _, err := nc.Subscribe("victim", func(*nats.Msg) { t.Error("a message was sent to where an announcement pointed") }); err != nil {
			t.Fatal(err)
		}
		announce(good, good.Hash(), "victim", "")
		_ = nc.Publish(w.bus.Announce("shop", "book"), []byte("garbage"))
		w.submit("t", call("c", "book", ""))
		w.want(key("t", "c"), time.Second, events.ReasonNotFound)
	})
}
