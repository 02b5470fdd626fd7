package dispatcher

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
)

// What the history has of a turn before the turn itself is told after it.
func TestTurnsFirst(t *testing.T) {
	t.Parallel()
	var all []events.LifeEvent
	for _, s := range []string{
		"toolwire.decided.s.t1.c1.r", "toolwire.call.a.s.t0", "toolwire.start.s.t1.c1", "toolwire.result.s.t0.c1",
		"toolwire.call.a.s.t1", "toolwire.result.s.t1.c1",
	} {
		all = append(all, events.LifeEvent{Subject: s})
	}
	turnsFirst(all)
	var got []string
	for _, e := range all {
		got = append(got, e.Subject)
	}
	want := []string{
		"toolwire.call.a.s.t1", "toolwire.decided.s.t1.c1.r", "toolwire.call.a.s.t0", "toolwire.start.s.t1.c1",
		"toolwire.result.s.t0.c1", "toolwire.result.s.t1.c1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
