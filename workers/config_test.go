package workers_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/internal/natstest"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/workers"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	nc := natstest.Start(t).Conn()
	var runs atomic.Int32
	full := toolkit.New()
	if err := full.Add(counted("x", &runs, nil, nil)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		kit *toolkit.Toolkit
		cfg workers.Config
	}{
		"no name":         {full, workers.Config{}},
		"long name":       {full, workers.Config{Name: strings.Repeat("n", 129)}},
		"pool of a lane":  {full, workers.Config{Name: "w", Pool: "lane-x"}},
		"named as a lane": {full, workers.Config{Name: "lane-x"}},
		"bad prefix":      {full, workers.Config{Name: "w", Prefix: "a.b"}},
		"negative slots":  {full, workers.Config{Name: "w", Slots: -1}},
		"no tools":        {toolkit.New(), workers.Config{Name: "w"}},
	} {
		if _, err := workers.New(nc, c.kit, c.cfg); !errors.Is(err, workers.ErrConfig) {
			t.Errorf("%s: got %v, want ErrConfig", name, err)
		}
	}
}

func TestFigures(t *testing.T) {
	bubble(t, func(b *bench) {
		var runs atomic.Int32
		w := b.start(workers.Config{},
			counted("quick", &runs, nil, nil), counted("slow", &runs, nil, working(2*time.Second)))
		b.dispatch("quick", "c1", nil)
		b.dispatch("quick", "c2", func(_ *jet.Out, w *events.ToolWork) { w.QueueUntil = time.Now() })
		b.dispatch("slow", "c3", nil)
		time.Sleep(time.Second)
		if n := w.Stats().InFlight; n != 1 {
			b.Errorf("in flight: got %d, want 1", n)
		}
		time.Sleep(5 * time.Second)
		want := workers.Stats{Settled: map[events.ToolName]map[events.Reason]uint64{
			"quick": {events.ReasonOK: 1, events.ReasonQueueExpired: 1},
			"slow":  {events.ReasonOK: 1},
		}}
		if diff := cmp.Diff(want, w.Stats()); diff != "" {
			b.Errorf("stats (-want +got):\n%s", diff)
		}
		r := prometheus.NewPedanticRegistry()
		if err := r.Register(w.Collector()); err != nil {
			b.Fatal(err)
		}
		families, err := r.Gather()
		if err != nil {
			b.Fatal(err)
		}
		sum := 0.0
		for _, f := range families {
			for _, m := range f.GetMetric() {
				switch f.GetName() {
				case "toolwire_worker_calls_total":
					sum += m.GetCounter().GetValue()
				case "toolwire_worker_call_duration_seconds":
					sum += 10 * m.GetHistogram().GetSampleSum()
				}
			}
		}
		if sum != 23 { // three calls, and two seconds of running
			b.Errorf("calls + 10 × seconds: got %v, want 23", sum)
		}
	})
}
