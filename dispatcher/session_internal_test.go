package dispatcher

import (
	"slices"
	"testing"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/internal/natstest"
)

// The record of a session in use is written again long before it would expire, and is the same.
func TestRecordInUseIsWrittenAgain(t *testing.T) {
	t.Parallel()
	bus := natstest.Start(t).Bus()
	s, reg := newSessions(bus), shop()
	first, err := s.touch(t.Context(), "s", "a", reg)
	if err != nil {
		t.Fatal(err)
	}
	if first, err = s.put(t.Context(), "s", first, func(next *record) {
		next.Active, next.Applied = []string{"mail"}, append(next.Applied, applied{"t", "c", "said"})
	}); err != nil {
		t.Fatal(err)
	}
	if r, err := s.touch(t.Context(), "s", "a", reg); err != nil || r.revision != first.revision {
		t.Fatalf("a young record: got %+v, %v", r, err)
	}
	s.parsed["s"] = &record{Agent: "a", Active: []string{"mail"}, Applied: first.Applied, revision: first.revision, at: time.Now().Add(-jet.SessionAge / 2)}
	r, err := s.touch(t.Context(), "s", "b", reg)
	if err != nil || r.revision == first.revision || r.Agent != "a" || !slices.Equal(r.Active, []string{"mail"}) {
		t.Fatalf("an old record: got %+v, %v", r, err)
	}
	if text, ok := r.result("t", "c"); !ok || text != "said" {
		t.Errorf("what was applied is forgotten: %+v", r.Applied)
	}
}

// What is kept of applied calls is bounded.
func TestAppliedIsBounded(t *testing.T) {
	t.Parallel()
	s := newSessions(natstest.Start(t).Bus())
	rec, err := s.touch(t.Context(), "s", "a", newSnapshot(nil, settings{}))
	for i := range 3 * maxApplied {
		if err == nil {
			rec, err = s.put(t.Context(), "s", rec, func(next *record) {
				next.Applied = append(next.Applied, applied{events.TurnID(rune('a' + i)), "c", "x"})
			})
		}
	}
	if err != nil || len(rec.Applied) != maxApplied {
		t.Fatalf("got %d, %v", len(rec.Applied), err)
	}
	if _, ok := rec.result(events.TurnID(rune('a'+3*maxApplied-1)), "c"); !ok {
		t.Error("the last one is forgotten")
	}
}
