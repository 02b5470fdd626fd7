package workers

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/toolwire/toolwire/events"
)

// buckets are the upper bounds of the histogram of run times.
const bucketCount = 14

func bucketBounds() [bucketCount]time.Duration {
	return [bucketCount]time.Duration{
		time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
		50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
		time.Second, 5 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute,
	}
}

// stats are plain counters; Prometheus reads them when it asks, and costs a call nothing.
type stats struct {
	leaked      atomic.Int64
	redelivered atomic.Uint64
	returned    atomic.Uint64
	unknown     atomic.Uint64
	dead        atomic.Uint64
	elsewhere   toolStats // calls settled here of tools that are not
}

// toolStats count the calls of one tool.
type toolStats struct {
	settled [32]atomic.Uint64 // by place in events.Reasons
	buckets [bucketCount + 1]atomic.Uint64
	nanos   atomic.Int64
}

func (s *toolStats) took(d time.Duration) {
	i := 0
	for _, bound := range bucketBounds() {
		if d <= bound {
			break
		}
		i++
	}
	s.buckets[i].Add(1)
	s.nanos.Add(int64(d))
}

func (w *Worker) count(name events.ToolName, r events.Reason) {
	s := &w.stats.elsewhere
	if t := w.tools[name]; t != nil {
		s = t.stats
	}
	s.settled[place(r)].Add(1)
}

// place is 0 for ok, without a search.
func place(r events.Reason) int {
	if r == events.ReasonOK {
		return 0
	}
	for i, known := range events.Reasons() {
		if r == known {
			return i
		}
	}
	return len(toolStats{}.settled) - 1
}

// Stats are the figures of a worker since it was made.
type Stats struct {
	Settled     map[events.ToolName]map[events.Reason]uint64 // results stored by this process; "" for tools not here
	InFlight    int                                          // calls taken in and not settled
	Leaked      int                                          // slots held by tools that ignore the end of their context
	Redelivered uint64                                       // deliveries that were not the first of their call
	Returned    uint64                                       // calls given back
	Unknown     uint64                                       // of these: because the tool is not here
	Dead        uint64                                       // dead letters
}

// Stats returns the figures as they are now.
func (w *Worker) Stats() Stats {
	s := Stats{
		Settled:  map[events.ToolName]map[events.Reason]uint64{},
		InFlight: w.calls.len(), Leaked: int(w.stats.leaked.Load()),
		Redelivered: w.stats.redelivered.Load(), Returned: w.stats.returned.Load(),
		Unknown: w.stats.unknown.Load(), Dead: w.stats.dead.Load(),
	}
	w.eachSettled(func(name events.ToolName, r events.Reason, n uint64) {
		if s.Settled[name] == nil {
			s.Settled[name] = map[events.Reason]uint64{}
		}
		s.Settled[name][r] = n
	})
	return s
}

func (w *Worker) eachSettled(f func(events.ToolName, events.Reason, uint64)) {
	each := func(name events.ToolName, s *toolStats) {
		for i, r := range events.Reasons() {
			if n := s.settled[i].Load(); n > 0 {
				f(name, r, n)
			}
		}
	}
	for _, t := range w.order {
		each(t.name, t.stats)
	}
	each("", &w.stats.elsewhere)
}

// Collector offers the figures to Prometheus, all named toolwire_worker_….
func (w *Worker) Collector() prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("toolwire_worker_"+name, help, labels, nil)
	}
	return &collector{
		w:           w,
		settled:     desc("calls_total", "Calls settled by this process.", "tool", "reason"),
		duration:    desc("call_duration_seconds", "Time tools ran, attempts and pauses between them included.", "tool"),
		flight:      desc("in_flight", "Calls taken in and not settled."),
		leaked:      desc("leaked_slots", "Slots held by tools that ignore the end of their context."),
		redelivered: desc("redelivered_total", "Deliveries that were not the first of their call."),
		returned:    desc("returned_total", "Calls given back."),
		unknown:     desc("unknown_tool_total", "Calls given back because the tool is not here."),
		dead:        desc("dead_letters_total", "Messages put aside because they cannot be read."),
	}
}

type collector struct {
	w *Worker

	settled, duration, flight, leaked, redelivered, returned, unknown, dead *prometheus.Desc
}

// Describe names all figures.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.settled, c.duration, c.flight, c.leaked, c.redelivered, c.returned, c.unknown, c.dead} {
		ch <- d
	}
}

// Collect reads the counters.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	put := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	c.w.eachSettled(func(name events.ToolName, r events.Reason, n uint64) {
		put(c.settled, prometheus.CounterValue, float64(n), string(name), string(r))
	})
	for _, t := range c.w.order {
		var total uint64
		cumulative := make(map[float64]uint64, bucketCount)
		for i, bound := range bucketBounds() {
			total += t.stats.buckets[i].Load()
			cumulative[bound.Seconds()] = total
		}
		total += t.stats.buckets[bucketCount].Load()
		sum := time.Duration(t.stats.nanos.Load()).Seconds()
		ch <- prometheus.MustNewConstHistogram(c.duration, total, sum, cumulative, string(t.name))
	}
	s := c.w.Stats()
	put(c.flight, prometheus.GaugeValue, float64(s.InFlight))
	put(c.leaked, prometheus.GaugeValue, float64(s.Leaked))
	put(c.redelivered, prometheus.CounterValue, float64(s.Redelivered))
	put(c.returned, prometheus.CounterValue, float64(s.Returned))
	put(c.unknown, prometheus.CounterValue, float64(s.Unknown))
	put(c.dead, prometheus.CounterValue, float64(s.Dead))
}
