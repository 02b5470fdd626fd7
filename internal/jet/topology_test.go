package jet_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/internal/natstest"
)

// What decides is read from the leader: with more than one copy, no direct reads of sessions and
// turns; and of facts never.
func TestDirectReadsAreOffWhereItMatters(t *testing.T) {
	t.Parallel()
	n := jet.Names{}
	for replicas, sessions := range map[int]bool{1: true, 3: false} {
		c := jet.Config{Replicas: replicas}
		direct := map[string]bool{}
		for _, s := range slices.Concat(n.Streams(c), n.Buckets(c)) {
			direct[s.Name] = s.AllowDirect
		}
		for name, want := range map[string]bool{
			n.JournalStream(): false, n.CallsStream(): false, "KV_" + n.SessionsBucket(): sessions, "KV_" + n.TurnsBucket(): sessions,
			n.BodiesStream(): true, "KV_" + n.RegistryBucket(): true,
		} {
			if got := direct[name]; got != want {
				t.Errorf("%s with %d copies: direct reads %v, want %v", name, replicas, got, want)
			}
		}
	}
}

// Streams that untrusted roles may publish to allow neither schedules nor rollups: either lets the
// holder of one subject empty the stream or publish anywhere in it.
func TestNoRollupOrScheduleWhereOthersWrite(t *testing.T) {
	t.Parallel()
	n := jet.Names{}
	for _, s := range n.Streams(jet.Config{}) {
		if s.Name == n.TimersStream() {
			continue
		}
		if s.AllowRollup || s.AllowMsgSchedules {
			t.Errorf("%s: rollup %v, schedules %v, want neither", s.Name, s.AllowRollup, s.AllowMsgSchedules)
		}
	}
	b := natstest.Start(t).Bus()
	o := result("c1")
	if _, err := b.Store(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	o = result("c2")
	o.Header = nats.Header{"Nats-Rollup": {"all"}}
	if _, err := b.Store(t.Context(), o); err == nil {
		t.Error("a rollup of JOURNAL was accepted")
	}
	if _, err := b.Fact(t.Context(), result("c1").Subject); err != nil {
		t.Errorf("the first result is gone: %v", err)
	}
}

// Timers have no limit that would delete them unfired.
func TestTimersHaveNoLimits(t *testing.T) {
	t.Parallel()
	n := jet.Names{}
	for _, s := range n.Streams(jet.Config{}) {
		if s.Name == n.TimersStream() && (s.MaxAge != 0 || s.MaxBytes != 0 || s.MaxMsgs != 0 || s.Discard == jetstream.DiscardNew) {
			t.Errorf("timers are limited: %+v", s)
		}
	}
}

func TestEveryStoredSubjectHasItsStream(t *testing.T) {
	t.Parallel()
	b := natstest.Start(t).Bus()
	k := events.CallKey{Session: "s", Turn: "t", Call: "c"}
	for _, subject := range []string{
		b.Calls("a", "s", "t"), b.Work("p", "tool", k), b.Start(k), b.Result(k), b.Cancel("a", "s", "t"),
		b.Timer("x"), b.Due("x"), b.Body("id", 0), b.Dead("calls", b.Calls("a", "s", "t")),
	} {
		want, err := b.JetStream().StreamNameBySubject(t.Context(), subject)
		if err != nil {
			t.Errorf("%s: %v", subject, err)
		}
		if got := b.StreamOf(subject); got != want {
			t.Errorf("%s: got stream %q, want %q", subject, got, want)
		}
	}
	if got := b.StreamOf(b.Delta(k)); got != "" {
		t.Errorf("delta: got stream %q, want none", got)
	}
}

func TestEnsureTwiceAndPrefixesBesideEachOther(t *testing.T) {
	t.Parallel()
	b := natstest.Start(t).Bus()
	if err := jet.Ensure(t.Context(), b.JetStream(), b.Names, jet.Config{NoHistory: true, BodyAge: time.Hour}); err != nil {
		t.Errorf("again with another age: %v", err)
	}
	other, err := events.NewSubjects("staging")
	if err != nil {
		t.Fatal(err)
	}
	if err := jet.Ensure(t.Context(), b.JetStream(), jet.Names{Subjects: other}, jet.Config{NoHistory: true}); err != nil {
		t.Errorf("another prefix: %v", err)
	}
}

func TestEnsureExplains(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		prep func(t *testing.T, b *jet.Bus) jet.Config
		want string
	}{
		{"a stream of another kind", func(t *testing.T, b *jet.Bus) jet.Config {
			t.Helper()
			_, err := b.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{
				Name: b.WorkStream(), Subjects: []string{"toolwire.work.>"}, Retention: jetstream.InterestPolicy,
			})
			if err != nil {
				t.Fatal(err)
			}
			return jet.Config{NoHistory: true}
		}, "--prefix"},
		{"subjects taken", func(t *testing.T, b *jet.Bus) jet.Config {
			t.Helper()
			if _, err := b.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{Name: "ALL", Subjects: []string{"toolwire.>"}}); err != nil {
				t.Fatal(err)
			}
			return jet.Config{NoHistory: true}
		}, "--prefix"},
		{"more replicas than servers", func(*testing.T, *jet.Bus) jet.Config { return jet.Config{Replicas: 3, NoHistory: true} }, "--replicas"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b, err := jet.NewBus(natstest.Start(t).Conn(), events.Subjects{})
			if err != nil {
				t.Fatal(err)
			}
			cfg := c.prep(t, b)
			err = jet.Ensure(t.Context(), b.JetStream(), b.Names, cfg)
			if !errors.Is(err, jet.ErrTopology) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want ErrTopology naming %q", err, c.want)
			}
		})
	}
}

func TestEnsureWithoutJetStream(t *testing.T) {
	t.Parallel()
	s, err := server.NewServer(&server.Options{ServerName: "plain", DontListen: true, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("nats-server is not ready")
	}
	defer s.WaitForShutdown()
	defer s.Shutdown()
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	b, err := jet.NewBus(nc, events.Subjects{})
	if err != nil {
		t.Fatal(err)
	}
	if err := jet.Ensure(t.Context(), b.JetStream(), b.Names, jet.Config{NoHistory: true}); err == nil || !strings.Contains(err.Error(), "JetStream is off") {
		t.Errorf("got %v, want a word that JetStream is off", err)
	}
}
