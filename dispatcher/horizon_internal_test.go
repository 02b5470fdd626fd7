package dispatcher

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/toolwire/toolwire/internal/jet"
)

func TestHorizon(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		bounds []time.Time
		want   time.Time
	}{
		"nothing under way":   {[]time.Time{{}, {}}, now},
		"work of an hour ago": {[]time.Time{{}, now.Add(-time.Hour)}, now.Add(-time.Hour - margin)},
		"the oldest counts":   {[]time.Time{now.Add(-time.Second), now.Add(-time.Hour), now.Add(-time.Minute)}, now.Add(-time.Hour - margin)},
		"within the window":   {[]time.Time{now.Add(time.Hour)}, now},
		"just outside of it":  {[]time.Time{now.Add(margin - 1)}, now.Add(-1)},
		"just within it":      {[]time.Time{now.Add(margin)}, now},
	} {
		if got := horizon(now, c.bounds...); !got.Equal(c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// In any stream with any gaps, all that is older than the cut is before the sequence found, and
// nothing else is.
func TestFirstSince(t *testing.T) {
	t.Parallel()
	t0 := time.Unix(1_700_000_000, 0)
	for seed := range uint64(5_000) {
		r := rand.New(rand.NewPCG(seed, 7))
		first := uint64(r.IntN(5) + 1)
		last := first + uint64(r.IntN(60))
		at := make(map[uint64]time.Time)
		now := t0
		for seq := first; seq <= last; seq++ {
			now = now.Add(time.Duration(r.IntN(3)) * time.Second)
			if seq == first || r.IntN(3) > 0 {
				at[seq] = now
			}
		}
		cut := t0.Add(time.Duration(r.IntN(70)-5) * time.Second)
		got, err := firstSince(first, last, cut, func(seq uint64) (uint64, time.Time, error) {
			for ; seq <= last; seq++ {
				if v, ok := at[seq]; ok {
					return seq, v, nil
				}
			}
			return 0, time.Time{}, jet.ErrNone
		})
		if err != nil {
			t.Fatal(err)
		}
		for seq, v := range at {
			if v.Before(cut) != (seq < got) {
				t.Fatalf("seed %d: cut at %d, message %d of %v, cut %v", seed, got, seq, v, cut)
			}
		}
	}
}

// lived is one call in a model of the streams, in which time passes and facts are forgotten.
type lived struct {
	accepted           time.Time
	turn, acked        bool // in CALLS; acknowledged
	deliveries         int
	work, start, final time.Time // when stored; zero: not (any more)
	settled            bool      // the start is a settlement
	runs, results      int       // ever
}

// model is a fleet that takes, runs and cancels calls, dies between any two steps, and sweeps
// between any two.
type model struct {
	r      *rand.Rand
	now    time.Time
	window time.Duration
	calls  []*lived
}

// step passes a little time, in which a sweep may run. True: the process dies here.
func (m *model) step() (dies bool) {
	m.now = m.now.Add(time.Duration(m.r.IntN(3000)) * time.Millisecond)
	if m.r.IntN(4) == 0 {
		m.forget()
	}
	return m.r.IntN(10) == 0
}

// forget is what Dispatcher.forget does.
func (m *model) forget() {
	var bounds []time.Time
	var oldest *lived
	for _, c := range m.calls {
		if c.turn && !c.acked {
			bounds = append(bounds, c.accepted)
		}
		if !c.work.IsZero() && (oldest == nil || c.work.Before(oldest.work)) {
			oldest = c
		}
	}
	if oldest != nil {
		bounds = append(bounds, oldest.accepted)
	}
	cut := horizon(m.now.Add(-m.window), bounds...)
	for _, c := range m.calls {
		c.turn = c.turn && !c.accepted.Before(cut)
		if c.start.Before(cut) {
			c.start = time.Time{}
		}
		if c.final.Before(cut) {
			c.final = time.Time{}
		}
	}
}

func (m *model) take(c *lived) {
	if !c.turn || c.acked {
		return
	}
	c.deliveries++
	known := false
	if c.deliveries > 1 || m.now.Sub(c.accepted) > margin/2 { // fanOut looks before it publishes
		known = !c.start.IsZero() || !c.final.IsZero()
		if !c.start.IsZero() && c.settled && c.final.IsZero() {
			c.finish(m.now)
		}
	}
	if m.step() {
		return
	}
	if !known && c.work.IsZero() {
		c.work = m.now
	}
	if !m.step() {
		c.acked = true
	}
}

func (c *lived) finish(now time.Time) {
	if c.final.IsZero() {
		c.final = now
		c.results++
	}
}

func (m *model) run(c *lived) {
	if c.work.IsZero() {
		return
	}
	if c.start.IsZero() {
		c.start, c.settled = m.now, false
		if m.step() {
			return
		}
		c.runs++
	}
	if m.step() {
		return
	}
	c.finish(m.now) // with its own result, another's reason, or outcome_unknown
	if !m.step() {
		c.work = time.Time{}
	}
}

func (m *model) cancel(c *lived) {
	if !c.turn {
		return
	}
	working, done := !c.work.IsZero(), !c.final.IsZero()
	if m.step() || done {
		return
	}
	if c.start.IsZero() {
		c.start, c.settled = m.now, true
		if !working && !c.turn { // looked at again after the claim
			return
		}
	}
	if m.step() || !c.settled {
		return
	}
	c.finish(m.now)
	if !m.step() {
		c.work = time.Time{}
	}
}

// Whatever is off for however long, and whoever dies where: no call with side effects runs twice or
// after it was settled, and none has two results, because a fact was forgotten too early.
func TestNoFactIsForgottenTooEarly(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20_000) {
		m := &model{r: rand.New(rand.NewPCG(seed, 3)), now: time.Unix(1_700_000_000, 0), window: 15 * time.Minute}
		for range 120 {
			switch m.r.IntN(8) {
			case 0:
				m.now = m.now.Add(time.Duration(m.r.IntN(40)) * time.Minute)
			case 1:
				m.forget()
			case 2:
				if len(m.calls) < 6 {
					m.calls = append(m.calls, &lived{accepted: m.now, turn: true})
				}
			default:
				if len(m.calls) == 0 {
					continue
				}
				c := m.calls[m.r.IntN(len(m.calls))]
				[]func(*lived){m.take, m.run, m.cancel}[m.r.IntN(3)](c)
			}
		}
		for i, c := range m.calls {
			if c.runs > 1 || c.results > 1 {
				t.Fatalf("seed %d: call %d ran %d times, %d results", seed, i, c.runs, c.results)
			}
		}
	}
}
