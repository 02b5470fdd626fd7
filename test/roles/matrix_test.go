package roles_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

// ensure sets the streams up, with the rights of nc.
func ensure(t *testing.T, nc *nats.Conn) error {
	t.Helper()
	b, err := jet.NewBus(nc, events.Subjects{})
	if err != nil {
		return err
	}
	return jet.Ensure(t.Context(), b.JetStream(), b.Names, jet.Config{NoHistory: true})
}

// grant is a subject, and the parties that may use it; the dispatcher may all of the installation.
type grant struct {
	subject string
	to      string
}

// publishing is every kind of subject, and what stands in the server's interfaces beside it.
var publishing = []grant{
	{"toolwire.call.ann.s.t", "ann"},
	{"toolwire.call.bob.s.t", "bob"},
	{"toolwire.call.app.s.t", ""},
	{"toolwire.call.shop.s.t", ""},
	{"toolwire.cancel.ann.s.t", "ann"},
	{"toolwire.cancel.bob.s.t", "bob"},
	{"toolwire.answer.ann.s.t.c.r", "ann"},
	{"toolwire.answer.app.s.t.c.r", "app"},
	{"toolwire.answer.bob.s.t.c.r", ""}, // an agent answers nobody, not even as itself
	{"toolwire.answer.shop.s.t.c.r", ""},
	{"toolwire.answer.local.s.t.c.r", ""},
	{"toolwire.api.ann.tools", "ann"},
	{"toolwire.api.bob.tools", "bob"},
	{"toolwire.api.app.tools", "app"},
	{"toolwire.api.ann.questions", "ann"},
	{"toolwire.api.app.questions", "app"},
	{"toolwire.api.bob.questions", ""}, // what others ask is none of an agent's business
	{"toolwire.api.bob.decisions", ""},
	{"toolwire.api.bob.question", "bob"},
	{"toolwire.api.local.tools", ""},
	{"toolwire.api.shop.tools", ""},
	{"toolwire.body.b1.0", "ann bob app worker"},
	{"toolwire.work.shop.look.s.t.c", ""},
	{"toolwire.announce.shop.look", "worker"},
	{"toolwire.announce.other.look", ""},
	{"toolwire.start.s.t.c", "worker"},
	{"toolwire.result.s.t.c", "worker"},
	{"toolwire.judged.s.t.c.r.app.1", ""},
	{"toolwire.decided.s.t.c.r", ""},
	{"toolwire.require.confirm.x.s.t.c.r", ""},
	{"toolwire.step.s.t", "worker"},
	{"toolwire.suspend.s.t.c", "worker"},
	{"toolwire.state.s.todo", "worker"},
	{"toolwire.delta.s.t.c", "worker"},
	{"toolwire.alive.i", "worker"},
	{"toolwire.check.shop.look", ""},
	{"toolwire.stop.s.t.c", ""},
	{"toolwire.changed.tool", ""},
	{"toolwire.timer.sweep", ""},
	{"toolwire.due.sweep", ""},
	{"toolwire.dead.work.x", "worker"},
	{"toolwire.dead.call.x", ""},
	{"toolwire.live.result.s.t.c", ""},
	{"toolwire.live.require.confirm.x.s.t.c.r", ""},
	{"toolwire.history.s", ""},
	{"$KV.toolwire_sessions.s", ""},
	{"$KV.toolwire_turns.s.t", ""},
	{"$KV.toolwire_registry.tool.look", ""},
	{"$KV.toolwire_config.config", ""},
	{"$JS.API.INFO", "ann bob app worker"},
	{"$JS.API.STREAM.INFO.TOOLWIRE_JOURNAL", "ann"},
	{"$JS.API.STREAM.INFO.KV_toolwire_sessions", "ann"},
	{"$JS.API.STREAM.INFO.OTHER", ""},
	{"$JS.API.CONSUMER.INFO.TOOLWIRE_CALLS.intake", "ann"},
	{"$JS.API.CONSUMER.INFO.TOOLWIRE_WORK.shop", ""},
	{"$JS.API.DIRECT.GET.TOOLWIRE_BODIES.toolwire.body.b1.0", "ann bob app worker"},
	{"$JS.API.DIRECT.GET.TOOLWIRE_WORK.toolwire.work.x", ""},
	{"$JS.API.DIRECT.GET.KV_toolwire_registry.x", ""},
	{"$JS.API.STREAM.MSG.GET.TOOLWIRE_JOURNAL", "worker"},
	{"$JS.API.STREAM.MSG.GET.TOOLWIRE_STATE", "worker"},
	{"$JS.API.STREAM.MSG.GET.TOOLWIRE_CALLS", ""},
	{"$JS.API.STREAM.MSG.GET.TOOLWIRE_QUESTIONS", ""},
	{"$JS.API.STREAM.MSG.GET.TOOLWIRE_INBOX", ""},
	{"$JS.API.STREAM.MSG.GET.TOOLWIRE_HISTORY", ""},
	{"$JS.API.STREAM.MSG.DELETE.TOOLWIRE_WORK", ""},
	{"$JS.API.STREAM.MSG.DELETE.TOOLWIRE_JOURNAL", ""},
	{"$JS.API.STREAM.PURGE.TOOLWIRE_CALLS", ""},
	{"$JS.API.STREAM.PURGE.TOOLWIRE_STATE", ""},
	{"$JS.API.STREAM.CREATE.X", ""},
	{"$JS.API.STREAM.UPDATE.TOOLWIRE_STATE", ""},
	{"$JS.API.STREAM.DELETE.TOOLWIRE_JOURNAL", ""},
	{"$JS.API.STREAM.LIST", ""},
	{"$JS.API.STREAM.NAMES", ""},
	{"$JS.API.CONSUMER.CREATE.TOOLWIRE_WORK", ""},
	{"$JS.API.CONSUMER.CREATE.TOOLWIRE_JOURNAL.c.toolwire.>", ""},
	{"$JS.API.CONSUMER.DURABLE.CREATE.TOOLWIRE_WORK.shop", ""},
	{"$JS.API.CONSUMER.DELETE.TOOLWIRE_WORK.shop", ""},
	{"$JS.API.CONSUMER.MSG.NEXT.TOOLWIRE_WORK.shop", "worker"},
	{"$JS.API.CONSUMER.MSG.NEXT.TOOLWIRE_WORK.Lane-Narrow", "worker"},
	{"$JS.API.CONSUMER.MSG.NEXT.TOOLWIRE_WORK.other", ""},
	{"$JS.API.CONSUMER.MSG.NEXT.TOOLWIRE_CALLS.intake", ""},
	{"$JS.API.CONSUMER.MSG.NEXT.TOOLWIRE_INBOX.answer", ""},
	// Both forms of an acknowledgement: without and with domain and account.
	{"$JS.ACK.TOOLWIRE_WORK.shop.1.1.1.1.1", "worker"},
	{"$JS.ACK.TOOLWIRE_WORK.Lane-Narrow.1.1.1.1.1", "worker"},
	{"$JS.ACK.TOOLWIRE_WORK.lane-Narrow.1.1.1.1.1", ""},
	{"$JS.ACK.TOOLWIRE_WORK.other.1.1.1.1.1", ""},
	{"$JS.ACK.TOOLWIRE_CALLS.intake.1.1.1.1.1", ""},
	{"$JS.ACK.TOOLWIRE_INBOX.answer.1.1.1.1.1", ""},
	{"$JS.ACK._.hash.TOOLWIRE_WORK.shop.1.1.1.1.1", "worker"},
	{"$JS.ACK._.hash.TOOLWIRE_WORK.other.1.1.1.1.1", ""},
	{"$JS.ACK._.hash.TOOLWIRE_INBOX.answer.1.1.1.1.1", ""},
	{"$SRV.PING", ""},
	{"elsewhere", ""},
	// Tokens that would be patterns, and what is short of a subject.
	{"toolwire.answer.app", ""},
	{"toolwire.answer", ""},
	{"other.answer.app.s.t.c.r", ""},
}

// subscribing is the same for what is heard.
var subscribing = []grant{
	{"_INBOX.x.*", "ann bob app worker"},
	{"toolwire.live.result.s.>", "ann bob"},
	{"toolwire.live.require.>", "ann app"},
	{"toolwire.live.require.confirm.*.s.*.*.*", "ann app"},
	{"toolwire.live.decided.>", "ann app"},
	{"toolwire.live.judged.s.t.c.r.app.*", "ann app"},
	{"toolwire.live.judged.s.t.c.r.ann.*", "ann"},
	{"toolwire.live.>", "ann"},
	{"toolwire.delta.s.t.*", "ann bob"},
	{"toolwire.changed.>", "ann bob app worker"},
	{"toolwire.stop.>", "worker"},
	{"toolwire.alive.i", "worker"},
	{"toolwire.check.shop.>", "worker"},
	{"toolwire.answer.>", ""},
	{"toolwire.answer.app.>", ""},
	{"toolwire.require.>", ""},
	{"toolwire.>", ""},
	{"toolwire.call.>", ""},
	{"toolwire.work.>", ""},
	{"toolwire.result.>", ""},
	{"toolwire.api.>", ""},
	{"toolwire.announce.>", ""},
	{"toolwire.timer.>", ""},
	{"$KV.>", ""},
	{"$JS.>", ""},
	{"$SYS.>", ""},
	{">", ""},
}

// noDispatcher is what even a dispatcher may not.
var noDispatcher = []string{"elsewhere", "other.answer.app.s.t.c.r", "$KV.>", "$JS.>", "$SYS.>", ">", "$SRV.PING"}

// What is granted works, what is not is refused: every role against every kind of subject.
func TestWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	for kind, start := range kinds() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			srv := start(t)
			if err := ensure(t, srv.Conn(srv.as("dispatcher"))); err != nil {
				t.Fatal(err)
			}
			for who := range parties() {
				walk(t, srv, who)
			}
		})
	}
}

func walk(t *testing.T, srv party, who string) {
	t.Helper()
	nc := srv.Conn(srv.as(who), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	// What the server says of one operation comes before its answer to the ping of Flush, so LastError is of it.
	wasRefused := func(subject string) bool {
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		return errors.Is(nc.LastError(), nats.ErrPermissionViolation) && strings.Contains(nc.LastError().Error(), `"`+subject+`"`)
	}
	check := func(what string, g grant, refused bool) {
		t.Helper()
		may := slices.Contains(strings.Fields(g.to), who) || who == "dispatcher" && !slices.Contains(noDispatcher, g.subject)
		if may == refused {
			t.Errorf("%s may %s %s: %v, want %v", who, what, g.subject, !refused, may)
		}
	}
	for _, g := range publishing {
		if who == "dispatcher" && strings.HasPrefix(g.subject, "$JS.") {
			continue // it owns the streams, and would end this test
		}
		if err := nc.Publish(g.subject, nil); err != nil {
			t.Fatal(err)
		}
		check("publish to", g, wasRefused(g.subject))
	}
	for _, g := range subscribing {
		sub, err := nc.SubscribeSync(g.subject)
		if err != nil {
			t.Fatal(err)
		}
		check("subscribe to", g, wasRefused(g.subject))
		_ = sub.Unsubscribe()
	}
}

// A worker may write the documents of tools, but not empty them, nor make the server write other subjects: the
// headers for it are refused by every stream that anybody but a dispatcher writes to.
func TestNoOrdersToTheServer(t *testing.T) {
	t.Parallel()
	srv := withCredentials(t)
	if err := ensure(t, srv.Conn(srv.as("dispatcher"))); err != nil {
		t.Fatal(err)
	}
	worker := srv.Conn(srv.as("worker"))
	publish := func(subject string, header nats.Header) error {
		m := &nats.Msg{Subject: subject, Header: header, Data: []byte("1")}
		js, err := jetstream.New(worker)
		if err != nil {
			return err
		}
		_, err = js.PublishMsg(t.Context(), m, jetstream.WithRetryAttempts(0))
		return err
	}
	if err := publish("toolwire.state.s.mine", nil); err != nil {
		t.Fatal(err)
	}
	if err := publish("toolwire.state.s.theirs", nil); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"toolwire.state.s.mine", "toolwire.result.s.t.c1", "toolwire.step.s.t1", "toolwire.body.b9.0"} {
		for what, h := range map[string]nats.Header{
			"rollup of all":     {"Nats-Rollup": {"all"}},
			"rollup of subject": {"Nats-Rollup": {"sub"}},
			"schedule":          {"Nats-Schedule": {"@at 2030-01-01T00:00:00Z"}, "Nats-Schedule-Target": {subject + "x"}},
			"time to live":      {"Nats-TTL": {"1s"}},
			"counter":           {"Nats-Incr": {"1"}},
			"batch":             {"Nats-Batch-Id": {"b"}, "Nats-Batch-Sequence": {"1"}, "Nats-Batch-Commit": {"1"}},
		} {
			if err := publish(subject, h); err == nil {
				t.Errorf("%s to %s is taken", what, subject)
			}
		}
	}
	js, err := jetstream.New(srv.Conn(srv.as("dispatcher")))
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), "TOOLWIRE_STATE")
	if err != nil {
		t.Fatal(err)
	}
	if n := s.CachedInfo().State.Msgs; n != 2 {
		t.Errorf("%d documents, want 2", n)
	}
}
