package dispatcher_test

import (
	"bufio"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
)

// broken publishes a message with headers that no client can read, by a client that does not care.
func (w *world) broken(subject, data string) {
	w.Helper()
	nc, err := w.srv.Dial()
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	const header = "NATS/1.0\r\nno colon\r\n\r\n"
	go func() {
		_, _ = fmt.Fprintf(nc, "CONNECT {\"headers\":true}\r\nHPUB %s %d %d\r\n%s%s\r\nPING\r\n", subject, len(header), len(header)+len(data), header, data)
	}()
	for in := bufio.NewScanner(nc); in.Scan(); {
		if in.Text() == "PONG" {
			return
		}
	}
	w.Fatal("no answer of the server")
}

// What lies in INBOX for nobody to take pins no fact: else one stray message filled JOURNAL for good.
func TestStrayInboxMessageHoldsNoHorizon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		w.register(d, bookDef())
		for _, s := range []string{"answer.mallory.s.t.c.r", "suspend.s.t.c", "answer.x", "step.x", "cancel.x", "step.s.t.u", "cancel.a.b=zz.c"} {
			w.raw(&nats.Msg{Subject: w.bus.Prefix() + "." + s, Data: []byte("junk")})
		}
		w.submit("t", call("c", "nothing", ""))
		w.want(key("t", "c"), 5*time.Second, events.ReasonNotFound)
		wait(20 * time.Minute)
		if n := w.count(w.bus.JournalStream(), ">"); n != 0 {
			t.Errorf("%d facts of a call that ended 20 minutes ago", n)
		}
	})
}

// A message whose headers no client can read is a dead letter like any other, and is in nobody's way:
// not of a cancellation, and not of the forgetting of older and younger facts.
func TestUnreadableHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		w.register(d, bookDef())
		body := `{"calls":[{"id":"c","name":"book"}]}`
		for _, turn := range []string{"bad1", "bad2"} {
			w.broken(w.bus.Calls("local", "s", events.TurnID(turn)), body)
		}
		w.broken(w.bus.Cancel("local", "s", "bad1"), `{}`)
		w.cancel("bad2")
		w.want(key("bad1", "c"), 5*time.Second, events.ReasonMalformed)
		w.want(key("bad2", "c"), 5*time.Second, events.ReasonMalformed)
		w.broken(w.bus.Work("shop", "book", key("bad3", "c")), `{}`)
		wait(time.Minute)
		w.status("404", "local", events.OpCancel, events.CancelRequest{Session: "s", Turn: "bad1"})
		if n := w.count(w.bus.InboxStream(), ">"); n != 0 {
			t.Errorf("%d cancels are tried again and again", n)
		}
		w.want(key("bad3", "c"), 15*time.Minute, events.ReasonDeadLetter)
		wait(20 * time.Minute)
		for _, stream := range []string{w.bus.CallsStream(), w.bus.JournalStream(), w.bus.WorkStream()} {
			if n := w.count(stream, ">"); n != 0 {
				t.Errorf("%s: %d messages are never forgotten", stream, n)
			}
		}
	})
}

// What is wrong with a turn is said to each of its calls, in few words however much of it is wrong.
func TestRefusalIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		w.register(d, bookDef())
		huge := strings.Repeat("x", 60<<10) // the server takes 64 KiB of headers
		for turn, h := range map[string]nats.Header{
			"type":    {"ce-specversion": {"1.0"}, "ce-id": {"i"}, "ce-source": {"/a"}, "ce-type": {huge}},
			"version": {"ce-specversion": {huge}},
			"escape":  {"ce-specversion": {"1.0"}, "ce-id": {huge + "%"}},
			"time":    {"ce-specversion": {"1.0"}, "ce-id": {"i"}, "ce-source": {"/a"}, "ce-type": {"t"}, "ce-time": {huge}},
			"content": {"ce-specversion": {"1.0"}, "ce-id": {"i"}, "ce-source": {"/a"}, "ce-type": {"t"}, "Content-Type": {huge}},
			"name":    {"ce-specversion": {"1.0"}, "ce-" + huge + "-": {"v"}},
			"media":   {"Content-Type": {"application/cloudevents" + huge}},
			"body":    nil,
		} {
			data := `{"calls":[{"id":"c","name":"book"}]}`
			if h == nil { // structured mode
				data = `{"specversion":"1.0","id":"i","source":"/a","type":"` + strings.Repeat(huge, 8) + `","data":` + data + `}`
			}
			w.raw(&nats.Msg{Subject: w.bus.Calls("local", "s", events.TurnID(turn)), Header: h, Data: []byte(data)})
			if r := w.want(key(turn, "c"), 5*time.Second, events.ReasonMalformed); len(text(r)) > 2048 {
				t.Errorf("%s: the refusal has %d bytes", turn, len(text(r)))
			}
		}
	})
}

// A start that names a process by more than a subject may hold is that of a process that nobody can
// ask: the question would cost the connection.
func TestStartOfAnImpossibleProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		w.register(d, []toolkit.Definition{quick(bookDef(), time.Minute)}...)
		w.submit("t", call("c", "book", ""))
		wait(time.Second)
		e, err := events.New(events.Attributes{ID: "start", Source: "/workers/x", Type: events.TypeToolResultStart},
			events.ToolResultStart{CallID: "c", Instance: strings.Repeat("i", 5000), Nonce: "n", Worker: "x", At: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.bus.Store(t.Context(), jet.Out{Subject: w.bus.Start(key("t", "c")), Event: e}); err != nil {
			t.Fatal(err)
		}
		w.want(key("t", "c"), 3*time.Minute, events.ReasonOutcomeUnknown)
	})
}

// Work on a subject that names no call is kept for an operator like any other message.
func TestWorkOnAnImpossibleSubject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.dispatcher()
		w.raw(&nats.Msg{Subject: w.bus.Prefix() + ".work.nobody.junk", Data: []byte("junk")})
		wait(12 * time.Minute)
		if n := w.count(w.bus.WorkStream(), ">"); n != 0 {
			t.Errorf("%d work left", n)
		}
		if n := w.count(w.bus.DeadStream(), w.bus.Prefix()+".dead.work.>"); n != 1 {
			t.Errorf("%d dead letters, want 1", n)
		}
	})
}

// Of turns that are large, a few are handled at once, and all of them in the end: hundreds of small events
// may stand for one body of 16 MiB each.
func TestLargeTurnsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d, err := dispatcher.New(w.srv.Conn(), dispatcher.Config{NoHistory: true, Logger: w.logs})
		if err != nil {
			t.Fatal(err)
		}
		var now, most atomic.Int32
		d.SetFault(func(step string) error {
			if step == "settle.start" {
				most.Store(max(most.Load(), now.Add(1)))
				wait(100 * time.Millisecond)
				now.Add(-1)
			}
			return nil
		})
		w.register(w.start(d), bookDef())
		ref, err := w.bus.PutBody(t.Context(), []byte(`{"calls":[{"id":"c","name":"nothing"}],"x":"`+strings.Repeat("x", 1<<20)+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		const turns = 100
		for i := range turns {
			e := events.Event{Attributes: events.Attributes{ID: "i", Source: "/a", Type: events.TypeToolCalls, DataRef: ref}}
			if _, err := w.bus.Store(t.Context(), jet.Out{Subject: w.bus.Calls("local", "s", events.TurnID(fmt.Sprint("t", i))), Event: e}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range turns {
			w.want(key(fmt.Sprint("t", i), "c"), time.Minute, events.ReasonNotFound)
		}
		if most.Load() > 8 {
			t.Errorf("%d large turns at once", most.Load())
		}
	})
}

// Announcements that are refused leave nothing behind, however many names they have.
func TestRefusedAnnouncementsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		const names = 500
		for i := range names {
			name := events.ToolName(fmt.Sprint("t", i))
			e, err := events.New(events.Attributes{ID: "a", Source: "/w", Type: events.TypeAnnounce},
				events.Announce{Worker: "evil", Instance: "i", Pool: "evil", Tool: name, Definition: "00", StartedAt: time.Now()})
			if err != nil {
				t.Fatal(err)
			}
			h, data := events.Encode(e)
			w.raw(&nats.Msg{Subject: w.bus.Announce("evil", name), Header: h, Data: data})
		}
		wait(time.Second)
		if n := d.Refusals(); n != names {
			t.Fatalf("%d refusals, want %d", n, names)
		}
		wait(time.Minute)
		if n := d.Refusals(); n != 0 {
			t.Errorf("%d refusals are remembered", n)
		}
	})
}
