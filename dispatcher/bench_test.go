package dispatcher_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/internal/natstest"
	"github.com/toolwire/toolwire/toolkit"
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

// BenchmarkListing lists 10,000 tools in 1,000 groups for a session, page by page. What a caller
// spends on reading 3 MB of JSON is its own.
func BenchmarkListing(b *testing.B) {
	b.ReportAllocs()
	srv := natstest.Start(b)
	bus := srv.Bus()
	const tools, groups = 10_000, 1000
	config := toolkit.Config{}
	for i := range groups {
		config.Groups = append(config.Groups, toolkit.Group{Name: fmt.Sprint("g", i), Active: true, Tools: []string{fmt.Sprint("t", i)}})
	}
	data, err := json.Marshal(config)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := bus.PutRecord(b.Context(), bus.SettingsBucket(), "config", data, 0); err != nil {
		b.Fatal(err)
	}
	for i := range tools {
		def := lookDef()
		def.Name = events.ToolName(fmt.Sprint("t", i))
		entry, err := json.Marshal(map[string]any{"definition": def, "hash": def.Hash(), "pool": "shop", "source": "shop", "startedAt": time.Now()})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := bus.PutRecord(b.Context(), bus.RegistryBucket(), "tool."+events.Token(def.Name), entry, 0); err != nil {
			b.Fatal(err)
		}
	}
	d, err := dispatcher.New(srv.Conn(), dispatcher.Config{NoHistory: true})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		<-tick.C
		if _, err := bus.Conn().Request(bus.API("local", events.OpTools), []byte(`{}`), time.Second); err == nil {
			break
		}
	}
	b.ResetTimer()
	for range b.N {
		n, req := 0, events.ToolsRequest{Session: "s", Limit: 1000}
		for more := true; more; {
			body, err := events.Marshal(req)
			if err != nil {
				b.Fatal(err)
			}
			m, err := bus.Conn().Request(bus.API("local", events.OpTools), body, 5*time.Second)
			if err != nil {
				b.Fatal(err)
			}
			n += bytes.Count(m.Data, []byte(`"definition":`))
			more = bytes.HasSuffix(m.Data, []byte(`"more":true}`))
			last := m.Data[bytes.LastIndex(m.Data, []byte(`"definition":{"name":"`))+len(`"definition":{"name":"`):]
			req.After = events.ToolName(last[:bytes.IndexByte(last, '"')])
		}
		if n != tools+1 { // reset_tools too
			b.Fatalf("listed %d", n)
		}
	}
	b.StopTimer()
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}
