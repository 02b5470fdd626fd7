package bench_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/bench"
	"github.com/toolwire/toolwire/internal/natstest"
)

// A small run measures everything and breaks nothing, of both kinds.
func TestPark(t *testing.T) {
	for _, kind := range []events.Kind{events.KindExternal, events.KindConfirm} {
		t.Run(string(kind), func(t *testing.T) {
			server := func(context.Context) (*bench.Served, error) {
				s := natstest.Start(t)
				return &bench.Served{Connect: func() (*nats.Conn, error) { return s.Conn(), nil }, Stop: func() {}, Store: t.TempDir()}, nil
			}
			r, err := bench.Park(t.Context(), server, bench.ParkedOptions{
				Options: bench.Options{Calls: 100, Window: 16}, Parked: 60, Kind: kind, Sessions: 7, Singles: 10, Burst: 20, Alone: 100 * time.Millisecond,
			}, func(string) {})
			if err != nil {
				t.Fatal(err)
			}
			rep := r.Report()
			if rep.Broken() || rep.ParkedPerSecond <= 0 || rep.BurstPerSecond <= 0 || rep.RestPerSecond <= 0 {
				t.Errorf("%+v", rep)
			}
			for name, d := range map[string]time.Duration{
				"few": r.FewP99, "deep": r.DeepP99, "burst": r.BurstP99, "alone": r.AloneP99, "beside": r.BesideP99, "list": r.Listed,
			} {
				if d <= 0 && name != "beside" { // the burst may be over before an ordinary call is due
					t.Errorf("%s was not measured", name)
				}
			}
		})
	}
}
