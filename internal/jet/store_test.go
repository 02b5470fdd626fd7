package jet_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/internal/natstest"
)

// Eight processes race for the result of each of 200 calls: one winner each.
func TestRacingResultsHaveOneWinner(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	s.Bus()
	var wins atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		b, err := jet.NewBus(s.Conn(), events.Subjects{})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for i := range 200 {
				_, err := b.Store(t.Context(), result("c"+strings.Repeat("x", i%50)+string(rune('a'+i/50))))
				switch {
				case err == nil:
					wins.Add(1)
				case !errors.Is(err, jet.ErrExists):
					t.Errorf("got %v, want ErrExists", err)
				}
			}
		})
	}
	wg.Wait()
	if wins.Load() != 200 {
		t.Errorf("got %d winners for 200 calls", wins.Load())
	}
}

// A full stream answers with the same code as a second message: they must not be confused, or a
// full JOURNAL would lose results.
func TestFullStreamIsNotAlreadyStored(t *testing.T) {
	t.Parallel()
	b := natstest.Start(t).Bus()
	if _, err := b.Store(t.Context(), result("first")); err != nil {
		t.Fatal(err)
	}
	st, err := b.JetStream().Stream(t.Context(), b.JournalStream())
	if err != nil {
		t.Fatal(err)
	}
	cfg := st.CachedInfo().Config
	cfg.MaxMsgs = 1
	if _, err := b.JetStream().UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Store(t.Context(), result("second")); !errors.Is(err, jet.ErrFull) {
		t.Errorf("full: got %v, want ErrFull", err)
	}
	if _, err := b.Store(t.Context(), result("first")); !errors.Is(err, jet.ErrExists) {
		t.Errorf("second of a full stream: got %v, want ErrExists", err)
	}
}

// A raw subscription sees a publish that the stream refused; the live copy does not.
func TestLiveCopyShowsOnlyWhatWasStored(t *testing.T) {
	t.Parallel()
	s := natstest.Start(t)
	b := s.Bus()
	nc := s.Conn()
	raw, err1 := nc.SubscribeSync(result("c1").Subject)
	live, err2 := nc.SubscribeSync(b.LiveResults("s"))
	if err := errors.Join(err1, err2, nc.Flush()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, _ = b.Store(t.Context(), result("c1"))
	}
	for range 2 {
		if _, err := raw.NextMsg(5 * time.Second); err != nil {
			t.Errorf("raw: %v, want both publishes", err)
		}
	}
	if _, err := b.Store(t.Context(), result("c2")); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"c1", "c2"} {
		m, err := live.NextMsg(5 * time.Second)
		if err != nil || !strings.HasSuffix(m.Subject, "."+want) {
			t.Errorf("live: got %v, %v, want %s", m, err, want)
		}
	}
}

func TestStoreWaitsForTheServer(t *testing.T) {
	t.Parallel()
	b, err := jet.NewBus(natstest.Start(t).Conn(), events.Subjects{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { _, err := b.Store(t.Context(), result("c1")); done <- err }()
	if err := jet.Ensure(t.Context(), b.JetStream(), b.Names, jet.Config{NoHistory: true}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Store(ctx, result("c2")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
}

func TestBodyRoundTrip(t *testing.T) {
	t.Parallel()
	b := natstest.Start(t).Bus()
	for _, size := range []int{0, 1, jet.InlineMax, jet.InlineMax + 1, 3 << 20} {
		data := bytes.Repeat([]byte{0, 'x', 0xff}, size/3+1)[:size]
		ref, err := b.PutBody(t.Context(), data)
		if err != nil {
			t.Fatal(err)
		}
		got, err := b.GetBody(t.Context(), ref)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("%d bytes: got %d bytes, %v", size, len(got), err)
		}
	}
}

// A body stays what it was, whoever knows its id: results and staged turns rest on it.
func TestBodyIsNotOverwritten(t *testing.T) {
	t.Parallel()
	b := natstest.Start(t).Bus()
	want := bytes.Repeat([]byte("x"), 300<<10)
	ref, err := b.PutBody(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(ref, "toolwire-body:"), "?")
	for i := range 3 {
		if _, err := b.Conn().Request(b.Body(id, i), []byte("forged"), time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := b.GetBody(t.Context(), ref); err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

func TestBodyRefused(t *testing.T) {
	t.Parallel()
	b := natstest.Start(t).Bus()
	ref, err := b.PutBody(t.Context(), []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"another scheme":   "http://169.254.169.254/?chunks=1&size=5&sha256=00",
		"no id":            "toolwire-body:?chunks=1&size=5&sha256=00",
		"wrong digest":     ref[:len(ref)-2] + "zz",
		"wrong size":       strings.Replace(ref, "size=5", "size=6", 1),
		"huge size":        strings.Replace(ref, "size=5", "size=999999999999", 1),
		"too many pieces":  strings.Replace(ref, "chunks=1", "chunks=99", 1),
		"unknown id":       "toolwire-body:nope?chunks=1&size=5&sha256=00",
		"wildcard as id":   "toolwire-body:*?chunks=1&size=5&sha256=00",
		"not even a value": "%",
	} {
		if _, err := b.GetBody(t.Context(), bad); !errors.Is(err, jet.ErrBody) {
			t.Errorf("%s: got %v, want ErrBody", name, err)
		}
	}
	if _, err := b.PutBody(t.Context(), make([]byte, jet.BodyMax+1)); !errors.Is(err, jet.ErrBody) {
		t.Errorf("too large: got %v, want ErrBody", err)
	}
}

// An event whose data is over the inline cap is stored by reference and comes back whole.
func TestLargeEventTravelsByReference(t *testing.T) {
	t.Parallel()
	b := natstest.Start(t).Bus()
	o := result("big")
	o.Event.Data = []byte(`{"callId":"big","x":"` + strings.Repeat("y", 2<<20) + `"}`)
	if _, err := b.Store(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	got, err := b.Fact(t.Context(), o.Subject)
	if err != nil || got.Err != nil {
		t.Fatal(err, got.Err)
	}
	if len(got.Data) != 0 || got.Event.DataRef == "" || !bytes.Equal(got.Event.Data, o.Event.Data) {
		t.Errorf("got %d bytes inline, reference %q, %d bytes of data", len(got.Data), got.Event.DataRef, len(got.Event.Data))
	}
}

func TestDelete(t *testing.T) {
	t.Parallel()
	b := natstest.Start(t).Bus()
	seq, err := b.Store(t.Context(), result("c"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it is gone already
		if err := b.Delete(t.Context(), b.JournalStream(), seq); err != nil {
			t.Error(err)
		}
	}
	if _, err := b.Next(t.Context(), b.JournalStream(), 1, "toolwire.>"); !errors.Is(err, jet.ErrNone) {
		t.Errorf("got %v, want ErrNone", err)
	}
}

func TestStoredTimeIsTheServers(t *testing.T) {
	t.Parallel()
	b := natstest.Start(t).Bus()
	before := time.Now().Add(-time.Second)
	if _, err := b.Store(t.Context(), result("c")); err != nil {
		t.Fatal(err)
	}
	got, err := b.Fact(t.Context(), result("c").Subject)
	if err != nil || got.Time.Before(before) || got.Time.After(time.Now().Add(time.Second)) {
		t.Errorf("got %v, %v", got, err)
	}
}

// HISTORY keeps calls and facts of a session under one subject, also after JOURNAL forgot them.
func TestHistoryKeepsWhatTheJournalForgets(t *testing.T) {
	t.Parallel()
	b := natstest.Start(t).Bus()
	if err := jet.Ensure(t.Context(), b.JetStream(), b.Names, jet.Config{}); err != nil {
		t.Fatal(err)
	}
	// A server stopped while a stream sources from another leaves a goroutine behind for a while.
	defer func() { _ = b.JetStream().DeleteStream(context.WithoutCancel(t.Context()), b.HistoryStream()) }()
	seq, err := b.Store(t.Context(), result("c1"))
	if err != nil {
		t.Fatal(err)
	}
	var got *jet.Stored
	for got == nil {
		got, err = b.Next(t.Context(), b.HistoryStream(), 1, b.History("s"))
		if err != nil && !errors.Is(err, jet.ErrNone) {
			t.Fatal(err)
		}
	}
	if err := b.Delete(t.Context(), b.JournalStream(), seq); err != nil {
		t.Fatal(err)
	}
	if got, err = b.Next(t.Context(), b.HistoryStream(), 1, b.History("s")); err != nil || got.Event.ID != "c1" {
		t.Errorf("got %v, %v, want the result of c1", got, err)
	}
}

// A reference that lies costs nothing of what it promises.
func TestLyingReferenceIsCheap(t *testing.T) {
	b := natstest.Start(t).Bus()
	const ref = "toolwire-body:none?chunks=128&size=16777216&sha256=00"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 20 {
		if _, err := b.GetBody(t.Context(), ref); !errors.Is(err, jet.ErrBody) {
			t.Fatalf("got %v, want ErrBody", err)
		}
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 16 {
		t.Errorf("20 references took %d MiB", got)
	}
}
