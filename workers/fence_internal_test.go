package workers

import (
	"testing"

	"github.com/toolwire/toolwire/events"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	const mine, theirs = "mine", "theirs"
	run := func(nonce string) events.ToolResultStart { return events.ToolResultStart{Nonce: nonce} }
	settle := func(nonce string, r events.Reason) events.ToolResultStart {
		return events.ToolResultStart{Nonce: nonce, Settle: r}
	}
	for name, c := range map[string]struct {
		facts  facts
		move   move
		reason events.Reason
	}{
		"own start, its answer lost":              {facts{fenced: true, start: run(mine)}, moveRun, ""},
		"own settlement, its answer lost":         {facts{fenced: true, want: events.ReasonQueueExpired, start: settle(mine, events.ReasonQueueExpired)}, moveSettle, events.ReasonQueueExpired},
		"result stored":                           {facts{fenced: true, start: run(theirs), result: true}, moveAck, ""},
		"result stored, own start":                {facts{fenced: true, start: run(mine), result: true}, moveAck, ""},
		"a dispatcher cancelled it":               {facts{fenced: true, start: settle(theirs, events.ReasonCancelled)}, moveSettle, events.ReasonCancelled},
		"cancelled, but expired here":             {facts{fenced: true, want: events.ReasonQueueExpired, start: settle(theirs, events.ReasonCancelled)}, moveSettle, events.ReasonCancelled},
		"cancelled, no fence":                     {facts{start: settle(theirs, events.ReasonCancelled)}, moveSettle, events.ReasonCancelled},
		"T-61 another worker's start":             {facts{fenced: true, start: run(theirs)}, moveAsk, ""},
		"T-61 it runs":                            {facts{fenced: true, start: run(theirs), presence: presenceRunning}, moveWait, ""},
		"T-61 it does not":                        {facts{fenced: true, start: run(theirs), presence: presenceGoneOnce}, movePause, ""},
		"T-61 it does not, twice":                 {facts{fenced: true, start: run(theirs), presence: presenceGone}, moveSettle, events.ReasonOutcomeUnknown},
		"T-61 expired, but it has started":        {facts{fenced: true, want: events.ReasonQueueExpired, start: run(theirs)}, moveAsk, ""},
		"T-61 delivered too often, and it runs":   {facts{fenced: true, want: events.ReasonWorkerLost, start: run(theirs), presence: presenceRunning}, moveWait, ""},
		"no fence, another's start":               {facts{start: run(theirs)}, moveRun, ""},
		"no fence, expired after it had started":  {facts{want: events.ReasonQueueExpired, start: run(theirs)}, moveRun, ""},
		"no fence, deadline after it had started": {facts{want: events.ReasonTimeout, start: run(theirs)}, moveSettle, events.ReasonTimeout},
		"no fence, delivered too often":           {facts{want: events.ReasonWorkerLost, start: run(theirs)}, moveSettle, events.ReasonWorkerLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.facts.nonce = mine
			if m, r := decide(c.facts); m != c.move || r != c.reason {
				t.Errorf("got move %d %q, want %d %q", m, r, c.move, c.reason)
			}
		})
	}
}

// world is one call with side effects, its two facts, and processes that are killed at any step.
type world struct {
	start   *events.ToolResultStart
	result  *events.Reason
	results int
	runs    int
	procs   []*proc
}

// proc is one process that holds a delivery of the call.
type proc struct {
	f    facts
	at   int // 0: to store start, 1: to decide, 2: run, 3: to store a result, 4: done or dead
	then events.Reason
}

// step lets one process do one thing. Whether the answer to a stored start is lost, and whether
// the process dies instead, is the scheduler's.
func (w *world) step(p *proc, die, loseAnswer bool) {
	if die {
		p.at = 4
		return
	}
	switch p.at {
	case 0:
		won := w.start == nil
		if won {
			w.start = &events.ToolResultStart{Nonce: p.f.nonce, Settle: p.f.want}
		}
		switch {
		case won && !loseAnswer && p.f.want == "":
			p.at = 2
		case won && !loseAnswer:
			p.at, p.then = 3, p.f.want
		default:
			p.at = 1
		}
	case 1:
		p.f.start, p.f.result = *w.start, w.result != nil
		p.decide(w)
	case 2:
		w.runs++
		p.at, p.then = 3, events.ReasonOK
	case 3:
		if w.result == nil {
			w.result, w.results = &p.then, w.results+1
		}
		p.at = 4
	}
}

func (p *proc) decide(w *world) {
	m, reason := decide(p.f)
	switch m {
	case moveRun:
		p.at = 2
	case moveSettle:
		p.at, p.then = 3, reason
	case moveAck, moveWait:
		p.at = 4
	case moveAsk, movePause:
		switch {
		case w.running(p.f.start.Nonce):
			p.f.presence = presenceRunning
		case p.f.presence == presenceUnknown:
			p.f.presence = presenceGoneOnce
		default:
			p.f.presence = presenceGone
		}
	}
}

func (w *world) running(nonce string) bool {
	for _, p := range w.procs {
		if p.f.nonce == nonce && p.at < 4 {
			return true
		}
	}
	return false
}

// FuzzFence lets processes run, settle and die in any order: the tool runs at most once, one
// result is stored, and a call that was never run is never reported as run.
func FuzzFence(f *testing.F) {
	f.Add([]byte{0, 1, 2, 0, 1, 2, 0, 1, 2})
	f.Add([]byte{0x80, 0, 1, 1, 1, 1, 1, 1})
	f.Add([]byte{0, 0x40, 1, 1, 1, 1, 2, 2, 2, 2})
	f.Add([]byte{3, 3, 0, 0, 0})
	f.Fuzz(func(t *testing.T, schedule []byte) {
		w := &world{}
		for i, want := range []events.Reason{"", "", "", events.ReasonQueueExpired, events.ReasonCancelled} {
			w.procs = append(w.procs, &proc{f: facts{nonce: string(rune('a' + i)), fenced: true, want: want}})
		}
		for _, b := range schedule {
			w.step(w.procs[int(b&0x3f)%len(w.procs)], b&0x40 != 0, b&0x80 != 0)
			if w.runs > 1 || w.results > 1 {
				t.Fatalf("%d runs, %d results", w.runs, w.results)
			}
		}
		if w.result == nil {
			return
		}
		switch r := *w.result; {
		case r == events.ReasonOK && w.runs != 1:
			t.Error("ok without a run")
		case (r == events.ReasonQueueExpired || r == events.ReasonCancelled) && w.runs != 0:
			t.Errorf("%s, but it ran", r)
		}
	})
}

func TestReturnDelayOutlastsTheQueue(t *testing.T) {
	t.Parallel()
	left := 10 * returnDelay(1, 0) * 60 // ten minutes
	for count := 1; count <= maxDeliveries; count++ {
		left -= returnDelay(count, left)
	}
	if left > 0 {
		t.Errorf("after %d returns %s of the queue time are left", maxDeliveries, left)
	}
}
