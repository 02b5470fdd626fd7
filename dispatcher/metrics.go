package dispatcher

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/toolwire/toolwire/internal/jet"
)

// metrics are what this process counts. What waits and what runs is asked of the leaders at each
// scrape instead, so that it is true whichever process is asked.
type metrics struct {
	turns, retries, sweeps, forged                       prometheus.Counter
	dispatched, settled, cancels, answers, decided, dead *prometheus.CounterVec
	intake                                               prometheus.Histogram
	horizon                                              prometheus.Gauge
}

func newMetrics() *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "toolwire", Subsystem: "dispatcher", Name: name, Help: help})
	}
	vec := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "toolwire", Subsystem: "dispatcher", Name: name, Help: help}, []string{label})
	}
	return &metrics{
		turns:      counter("turns_total", "Turns taken in."),
		retries:    counter("retries_total", "Messages given back to be tried again."),
		sweeps:     counter("sweeps_total", "Sweeps begun."),
		dispatched: vec("calls_dispatched_total", "Calls sent to workers, by tool.", "tool"),
		settled:    vec("calls_settled_total", "Calls settled without running, by reason.", "reason"),
		cancels:    vec("cancels_total", "Calls asked to be cancelled, by outcome.", "outcome"),
		answers:    vec("answers_total", "Answers to questions, by judgement.", "judgement"),
		decided:    vec("questions_decided_total", "Questions decided, by outcome.", "outcome"),
		forged:     counter("forged_calls_total", "Parked calls whose record was altered after they were asked about."),
		dead:       vec("dead_letters_total", "Messages put to the dead letters, by kind.", "kind"),
		intake: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "toolwire", Subsystem: "dispatcher", Name: "intake_seconds",
			Help:    "From the moment a turn was accepted to the moment all that follows from it was stored.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}),
		horizon: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "toolwire", Subsystem: "dispatcher", Name: "horizon_timestamp_seconds",
			Help: "Facts stored before this time may have been forgotten (last sweep of this process).",
		}),
	}
}

func (m *metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.turns, m.retries, m.sweeps, m.dispatched, m.settled, m.cancels, m.answers, m.decided, m.forged, m.dead, m.intake, m.horizon}
}

// gauges are asked for at each scrape.
type gauges struct {
	backlog, inFlight, missing, workers, tools, intake, ready *prometheus.Desc
}

func newGauges() gauges {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("toolwire_"+name, help, labels, nil)
	}
	return gauges{
		backlog:  desc("pool_backlog", "Calls waiting for a worker, from the consumer's leader.", "pool"),
		inFlight: desc("pool_in_flight", "Calls at workers, from the consumer's leader.", "pool"),
		missing:  desc("pool_consumer_missing", "1: the pool has no consumer, so its backlog is not known and shown as 0.", "pool"),
		workers:  desc("tool_workers", "Worker processes alive, by tool.", "tool"),
		tools:    desc("tools", "Tools registered."),
		intake:   desc("intake_backlog", "Turns accepted and not taken in, from the consumer's leader."),
		ready:    desc("dispatcher_ready", "1: this dispatcher takes turns."),
	}
}

// Describe implements [prometheus.Collector].
func (d *Dispatcher) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range d.metrics.all() {
		c.Describe(ch)
	}
	g := newGauges()
	for _, desc := range []*prometheus.Desc{g.backlog, g.inFlight, g.missing, g.workers, g.tools, g.intake, g.ready} {
		ch <- desc
	}
}

// scrapeTimeout bounds the questions of one scrape.
const scrapeTimeout = 3 * time.Second

// Collect implements [prometheus.Collector]. It asks the leader of every pool's consumer.
func (d *Dispatcher) Collect(ch chan<- prometheus.Metric) {
	for _, c := range d.metrics.all() {
		c.Collect(ch)
	}
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	one := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	g, snap := newGauges(), d.registry.snapshot()
	gauge(g.ready, one(d.Ready() == nil))
	gauge(g.tools, float64(len(snap.tools)))
	for name := range snap.tools {
		n, _ := d.presence.alive(name, "")
		gauge(g.workers, float64(n), string(name))
	}
	for _, pool := range slices.Sorted(maps.Keys(snap.pools())) {
		p := d.infos.get(ctx, d.bus, pool)
		gauge(g.backlog, float64(p.backlog), pool)
		gauge(g.inFlight, float64(p.inFlight), pool)
		gauge(g.missing, one(p.missing), pool)
	}
	if c, err := d.bus.JetStream().Consumer(ctx, d.bus.CallsStream(), jet.IntakeConsumer); err == nil {
		info := c.CachedInfo()
		gauge(g.intake, float64(info.NumPending)+float64(info.NumAckPending))
	}
}
