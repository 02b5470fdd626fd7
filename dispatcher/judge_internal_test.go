package dispatcher

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/toolwire/toolwire/events"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	mine := &events.ToolResultStart{Nonce: "me", Settle: events.ReasonQueueExpired}
	other := &events.ToolResultStart{Nonce: "x", Settle: events.ReasonCancelled}
	run := &events.ToolResultStart{Nonce: "y", Instance: "w"}
	expire := facts{self: "me", want: events.ReasonQueueExpired, fenced: true}
	cancel := facts{self: "me", want: events.ReasonCancelled, fenced: true}
	with := func(f facts, s *events.ToolResultStart, p presenceOf, more ...func(*facts)) facts {
		f.start, f.presence = s, p
		for _, m := range more {
			m(&f)
		}
		return f
	}
	open := func(f *facts) { f.fenced = false }
	manned := func(f *facts) { f.manned = true }
	for name, c := range map[string]struct {
		f      facts
		move   move
		reason events.Reason
	}{
		"nothing stored":                    {expire, moveClaim, ""},
		"it has its result":                 {with(expire, run, 0, func(f *facts) { f.result = true }), moveRemove, ""},
		"own start":                         {with(expire, mine, 0), moveFinish, events.ReasonQueueExpired},
		"another settlement, its author":    {with(expire, other, 0), moveFinish, events.ReasonCancelled},
		"cancel of a running call":          {with(cancel, run, 0), moveStop, ""},
		"expiry of a started call asks":     {with(expire, run, presenceUnknown), moveAsk, ""},
		"one silence is none":               {with(expire, run, presenceMissed), movePause, ""},
		"it runs":                           {with(expire, run, presenceRunning), moveLeave, ""},
		"lost, with side effects":           {with(expire, run, presenceGone), moveFinish, events.ReasonOutcomeUnknown},
		"lost, without, none to take over":  {with(expire, run, presenceGone, open), moveFinish, events.ReasonWorkerLost},
		"lost, without, others take over":   {with(expire, run, presenceGone, open, manned), moveLeave, ""},
		"side effects whoever else there":   {with(expire, run, presenceGone, manned), moveFinish, events.ReasonOutcomeUnknown},
		"a started call left to its worker": {with(expire, run, presenceUnknown, func(f *facts) { f.patient = true }), moveLeave, ""},
	} {
		if m, r := judge(c.f); m != c.move || r != c.reason {
			t.Errorf("%s: got %v %q, want %v %q", name, m, r, c.move, c.reason)
		}
	}
}

// store is what the server keeps of one call: each fact once.
type store struct {
	start   *events.ToolResultStart
	results []events.Reason
	work    bool
	runs    int
}

func (s *store) claim(x events.ToolResultStart) bool {
	if s.start != nil {
		return false
	}
	s.start = &x
	return true
}

func (s *store) result(r events.Reason) bool {
	s.results = append(s.results, r)
	return len(s.results) == 1
}

// actor is a process that takes one step at a time and may die between any two.
type actor func() (done bool)

// settler ends the call without running it, as settle does, step by step.
func settler(s *store, self string, want events.Reason, fenced bool, alive func() bool) actor {
	f := facts{self: self, want: want, fenced: fenced}
	looked := false
	return func() bool {
		if !looked {
			looked = true
			f.result = len(s.results) > 0
			return false
		}
		switch m, reason := judge(f); m {
		case moveClaim:
			s.claim(events.ToolResultStart{Nonce: self, Settle: want})
			f.start = s.start
			f.result = len(s.results) > 0 && s.start.Nonce != self
		case moveFinish:
			if len(s.results) == 0 {
				s.result(reason)
			}
			f.result = true
		case moveRemove:
			s.work = false
			return true
		case moveStop, moveLeave:
			return true
		case moveAsk, movePause:
			switch {
			case alive():
				f.presence = presenceRunning
			case m == moveAsk:
				f.presence = presenceMissed
			default:
				f.presence = presenceGone
			}
			f.result = f.result || len(s.results) > 0 && f.presence != presenceRunning
		}
		return false
	}
}

// runner is a worker that holds the work of a call with side effects.
func runner(s *store, self string, alive *bool, told func() bool) actor {
	step := 0
	return func() bool {
		step++
		switch step {
		case 1:
			if !s.work {
				return true
			}
		case 2:
			if s.claim(events.ToolResultStart{Nonce: self, Instance: "w"}) {
				*alive = true
				return false
			}
			if s.start.Settle != "" && len(s.results) == 0 {
				s.result(s.start.Settle)
			}
			if len(s.results) > 0 {
				s.work = false
			}
			return true
		case 3:
			s.runs++
		case 4:
			if r := events.ReasonOK; len(s.results) == 0 {
				if told() {
					r = events.ReasonCancelled
				}
				s.result(r)
			}
			*alive = false
		case 5:
			s.work = false
			return true
		}
		return false
	}
}

// However the steps of a cancel, two sweeps and two workers interleave, and whoever dies when: a
// call with side effects runs at most once, has at most one result, exactly one once all is
// quiet, and a result that says it did not run is true.
func TestSettlementsAndWorkersExcludeEachOther(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30_000) {
		if err := interleave(rand.New(rand.NewPCG(seed, 1))); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func interleave(r *rand.Rand) error {
	s := &store{work: true}
	var alive [2]bool
	living := func() bool { return alive[0] || alive[1] }
	quiet := func() bool { return false }
	actors := map[int]actor{
		0: settler(s, "cancel", events.ReasonCancelled, true, living),
		1: settler(s, "sweep1", events.ReasonQueueExpired, true, living),
		2: settler(s, "sweep2", events.ReasonQueueExpired, true, living),
		3: runner(s, "n1", &alive[0], quiet),
		4: runner(s, "n2", &alive[1], quiet),
	}
	for len(actors) > 0 {
		i := r.IntN(5)
		a := actors[i]
		if a == nil {
			continue
		}
		dies := r.IntN(12) == 0
		if dies || a() {
			delete(actors, i)
			if dies && i >= 3 {
				alive[i-3] = false
			}
		}
	}
	last := settler(s, "last", events.ReasonQueueExpired, true, living)
	for !last() { //nolint:revive // the loop is the test: whatever was left half done is finished
	}
	started := s.start != nil && s.start.Settle == ""
	switch {
	case len(s.results) != 1:
		return fmt.Errorf("%d results: %v", len(s.results), s.results)
	case s.runs > 1:
		return fmt.Errorf("ran %d times", s.runs)
	case s.runs == 1 && s.results[0] != events.ReasonOK && s.results[0] != events.ReasonOutcomeUnknown:
		return fmt.Errorf("it ran, and the result says %s", s.results[0])
	case !started && s.runs > 0:
		return fmt.Errorf("it ran without a start")
	case s.work:
		return fmt.Errorf("its work is left")
	}
	return nil
}
