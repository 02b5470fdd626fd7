package workers_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/workers"
)

// BenchmarkWorker takes stored work through a tool that does nothing, to stored results.
func BenchmarkWorker(b *testing.B) {
	for name, o := range map[string]*toolkit.Options{"open": {ReadOnly: true}, "fenced": {}} {
		b.Run(name, func(b *testing.B) { benchmarkWorker(b, o) })
	}
}

func benchmarkWorker(b *testing.B, o *toolkit.Options) {
	b.Helper()
	env := setup(b)
	tool := toolkit.MustDefine("noop", "does nothing", func(context.Context, none) (string, error) { return "done", nil }, o)
	hash := tool.Definition().Hash()
	out := make([]jet.Out, 0, 1000)
	dispatched := 0
	dispatch := func() {
		_, errs := env.bus.StoreAll(b.Context(), out)
		for _, err := range errs {
			if err != nil {
				b.Fatal(err)
			}
		}
		out = out[:0]
	}
	for ; dispatched < b.N; dispatched++ {
		k := events.CallKey{Session: "s", Turn: "t", Call: events.CallID(strconv.Itoa(dispatched))}
		e, err := events.New(events.Attributes{
			ID: "work/" + k.String(), Source: "/d", Type: events.TypeToolWork, Session: k.Session, Turn: k.Turn, Call: k.Call, Tool: "noop",
		}, events.ToolWork{Call: events.Call{ID: k.Call, Name: "noop", Input: []byte(`{}`)}, Agent: "local", Definition: hash})
		if err != nil {
			b.Fatal(err)
		}
		if out = append(out, jet.Out{Subject: env.bus.Work("pool", "noop", k), Event: e}); len(out) == cap(out) {
			dispatch()
		}
	}
	dispatch()
	results := make(chan *nats.Msg, b.N+1)
	if _, err := env.bus.Conn().ChanSubscribe(env.bus.LiveResults("s"), results); err != nil {
		b.Fatal(err)
	}
	p := env.prepare(workers.Config{}, tool)
	b.ReportAllocs()
	b.ResetTimer()
	env.run(p)
	for range b.N {
		<-results
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	_ = p.end()
}
