package dispatcher_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/internal/natstest"
)

// BenchmarkIntake measures how fast stored turns become stored work: decode, validate, one
// store, acknowledge. The turns are stored beforehand, so the figure is the dispatcher's own.
func BenchmarkIntake(b *testing.B) {
	for _, calls := range []int{1, 8} {
		b.Run(fmt.Sprint("calls=", calls), func(b *testing.B) { benchIntake(b, calls) })
	}
}

func benchIntake(b *testing.B, calls int) {
	b.Helper()
	b.ReportAllocs()
	srv := natstest.Start(b)
	bus := srv.Bus()
	registerForBench(b, bus)
	body := events.ToolCalls{}
	for i := range calls {
		body.Calls = append(body.Calls, call(fmt.Sprint("c", i), "look", `{"n":1,"note":"`+fmt.Sprintf("%0200d", 0)+`"}`))
	}
	for i := range b.N {
		turn := events.TurnID(fmt.Sprint("t", i))
		e, err := events.New(events.Attributes{ID: string(turn), Source: "/agents/local", Type: events.TypeToolCalls, Session: "s", Turn: turn}, body)
		if err != nil {
			b.Fatal(err)
		}
		h, data := events.Encode(e)
		if _, err := bus.JetStream().PublishMsgAsync(&nats.Msg{Subject: bus.Calls("local", "s", turn), Header: h, Data: data}); err != nil {
			b.Fatal(err)
		}
	}
	<-bus.JetStream().PublishAsyncComplete()
	d, err := dispatcher.New(srv.Conn(), dispatcher.Config{NoHistory: true})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	work, err := bus.JetStream().Stream(ctx, bus.WorkStream())
	if err != nil {
		b.Fatal(err)
	}
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	b.ResetTimer()
	go func() { done <- d.Run(ctx) }()
	for {
		<-tick.C
		info, err := work.Info(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if info.State.Msgs >= uint64(b.N*calls) {
			break
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N*calls)/b.Elapsed().Seconds(), "calls/s")
	cancel()
	if err := <-done; err != nil {
		b.Error(err)
	}
}

// registerForBench has a dispatcher learn of the tool look.
func registerForBench(b *testing.B, bus *jet.Bus) {
	b.Helper()
	value, err := events.Marshal(map[string]any{
		"definition": lookDef(), "hash": lookDef().Hash(), "pool": "shop", "source": "shop", "startedAt": time.Now(),
	})
	if err != nil {
		b.Fatal(err)
	}
	kv, err := bus.JetStream().KeyValue(b.Context(), bus.RegistryBucket())
	if err == nil {
		_, err = kv.Put(b.Context(), "tool.look", value)
	}
	if err != nil {
		b.Fatal(err)
	}
}
