package agent_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
)

// BenchmarkSubmit stores turns of one call, nobody runs them: one publish and its acknowledgement.
func BenchmarkSubmit(b *testing.B) {
	_, _, c := setup(b, nil)
	calls := []events.Call{call("a", "echo", `{"n":1}`)}
	b.ReportAllocs()
	for b.Loop() {
		p, err := c.Submit(b.Context(), agent.Turn{Session: "s", Calls: calls})
		if err != nil {
			b.Fatal(err)
		}
		p.Close()
	}
}

// BenchmarkCall is a call there and back, the test's fleet running it; 64 at once in the second.
func BenchmarkCall(b *testing.B) {
	for _, at := range []int{1, 64} {
		b.Run(strconv.Itoa(at)+"-at-once", func(b *testing.B) {
			_, _, c := setup(b, echo)
			b.ReportAllocs()
			b.SetParallelism(at)
			run := func() error { _, err := c.Call(b.Context(), "s", "echo", []byte(`{"n":1}`)); return err }
			if at == 1 {
				for b.Loop() {
					if err := run(); err != nil {
						b.Fatal(err)
					}
				}
				return
			}
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := run(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkPending is what a turn costs that waits: see B/op.
func BenchmarkPending(b *testing.B) {
	_, _, c := setup(b, nil)
	calls := []events.Call{call("a", "echo", `{"n":1}`)}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := c.Submit(b.Context(), agent.Turn{Session: events.SessionID(fmt.Sprint("s", i%10)), Calls: calls}); err != nil {
			b.Fatal(err)
		}
	}
}
