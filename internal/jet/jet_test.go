package jet_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/internal/natstest"
)

// A server that is stopped soon after a stream with sources was made or deleted keeps a goroutine of
// its own for up to 30 s; it is not ours.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*stream).tryDeleteSourcingConsumer.func1"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*stream).trySetupSourceConsumer.func3"))
}

func result(call string) jet.Out {
	k := events.CallKey{Session: "s", Turn: "t", Call: events.CallID(call)}
	e, _ := events.New(events.Attributes{ID: call, Source: "/t", Type: events.TypeToolResult}, events.ToolResult{CallID: k.Call})
	return jet.Out{Subject: events.Subjects{}.Result(k), Event: e}
}

func TestOneResultPerCall(t *testing.T) {
	t.Parallel()
	b := natstest.Start(t).Bus()
	if _, err := b.Store(t.Context(), result("c1")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Store(t.Context(), result("c1")); !errors.Is(err, jet.ErrExists) {
		t.Errorf("second result: got %v, want ErrExists", err)
	}
	got, err := b.Fact(t.Context(), result("c1").Subject)
	if err != nil || got.Event.ID != "c1" {
		t.Errorf("fact: got %+v, %v", got, err)
	}
	if _, err := b.Fact(t.Context(), result("c2").Subject); !errors.Is(err, jet.ErrNone) {
		t.Errorf("no fact: got %v, want ErrNone", err)
	}
}

func TestPullDeliversAndWaitsForHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := natstest.Start(t).Bus()
		ctx, cancel := context.WithCancel(t.Context())
		var got, open atomic.Int32
		done := make(chan error, 1)
		go func() {
			done <- b.Pull(ctx, jet.PullConfig{Stream: b.WorkStream(), Consumer: "p", Slots: 2}, func(d *jet.Delivery) {
				if n := open.Add(1); n > 2 {
					t.Errorf("%d handlers at once, want at most 2", n)
				}
				time.Sleep(time.Second)
				open.Add(-1)
				got.Add(1)
				_ = d.Ack()
			})
		}()
		time.Sleep(3 * time.Second) // the consumer comes later
		if err := jet.EnsurePool(ctx, b.JetStream(), b.Names, "p", 0); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			k := events.CallKey{Session: "s", Turn: "t", Call: events.CallID(rune('a' + i))}
			e, _ := events.New(events.Attributes{ID: "x", Source: "/t", Type: events.TypeToolWork}, events.ToolWork{Call: events.Call{ID: k.Call}})
			if _, err := b.Store(ctx, jet.Out{Subject: b.Work("p", "tool", k), Event: e}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		if got.Load() != 5 {
			t.Errorf("handled %d, want 5", got.Load())
		}
		time.Sleep(2 * time.Hour)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
