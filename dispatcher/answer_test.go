package dispatcher_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/events"
)

// raw publishes bytes as they are, and waits until the server has them.
func (w *world) raw(m *nats.Msg) {
	w.Helper()
	if err := w.bus.Conn().PublishMsg(m); err != nil {
		w.Fatal(err)
	}
	if err := w.bus.Conn().Flush(); err != nil {
		w.Fatal(err)
	}
}

// An answer is published with the rights of a dispatcher, and whoever asks names its subject: it
// must not become an order to the server, nor a fact.
func TestAnswersGoToInboxesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.dispatcher()
		w.register(d, bookDef())
		w.submit("t", call("c", "nothing", ""))
		w.want(key("t", "c"), 5*time.Second, events.ReasonNotFound)
		stolen := key("t", "stolen")
		result := []byte(`{"session":"s","turn":"t","call":"c"}`)
		for _, reply := range []string{
			"$JS.API.STREAM.PURGE." + w.bus.JournalStream(), "$JS.API.STREAM.DELETE." + w.bus.CallsStream(),
			"$KV." + w.bus.RegistryBucket() + ".tool.book", w.bus.Result(stolen), w.bus.Start(stolen),
		} {
			for _, op := range []string{events.OpResult, events.OpTool, "nonsense"} {
				w.raw(&nats.Msg{Subject: w.bus.API("mallory", op), Reply: reply, Data: result})
				w.raw(&nats.Msg{Subject: w.bus.API("local", op), Reply: reply, Data: result})
			}
		}
		wait(time.Second)
		if n := w.count(w.bus.JournalStream(), w.bus.Under("result")); n != 1 {
			t.Errorf("%d results, want the one there was", n)
		}
		if n := w.count(w.bus.JournalStream(), w.bus.Start(stolen)); n != 0 {
			t.Error("an answer became a start")
		}
		if n := w.count(w.bus.CallsStream(), ">"); n != 1 {
			t.Errorf("%d turns left, want 1", n)
		}
		if n := d.Tools(); n != 1 {
			t.Errorf("%d tools left, want 1", n)
		}
	})
}
