package dispatcher

import (
	"encoding/json"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// Calls side by side that may run together are one stage, any other is one of its own (T13).
func TestStages(t *testing.T) {
	t.Parallel()
	reg := groupsOf(toolkit.Config{}, toolkit.Definition{Name: "safe", ConcurrencySafe: true}, toolkit.Definition{Name: "unsafe"})
	for order, want := range map[string][]int{
		"s": {1}, "u": {1}, "sss": {3}, "uu": {1, 1}, "ssuss": {2, 1, 2}, "us": {1, 1}, "su": {1, 1},
		"sns": {3}, "nu": {1, 1}, "srs": {1, 1, 1}, "rr": {1, 1}, "nnn": {3},
	} {
		var calls []events.Call
		for i, c := range order {
			name := map[rune]events.ToolName{'s': "safe", 'u': "unsafe", 'n': "nope", 'r': resetTools}[c]
			calls = append(calls, events.Call{ID: events.CallID(strconv.Itoa(i)), Name: name})
		}
		if got := stagesOf(calls, reg); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", order, got, want)
		}
	}
}

// The record of a turn, driven by results in any order: no call is due before its stage, none is due
// once it has its result, and the turn is finished exactly when all have theirs.
func FuzzStagedTurn(f *testing.F) {
	f.Add([]byte{1, 2, 1}, []byte{0, 1, 2, 3})
	f.Add([]byte{3, 1}, []byte{3, 0, 0, 1, 2})
	f.Fuzz(func(t *testing.T, sizes, order []byte) {
		tn := &turn{id: "t", session: "s"}
		var stages, stageOf []int
		for i, n := range sizes {
			if n %= 4; n > 0 && i < 16 {
				stages = append(stages, int(n))
				for range n {
					tn.body.Calls = append(tn.body.Calls, events.Call{ID: events.CallID(strconv.Itoa(len(stageOf))), Name: "x"})
					stageOf = append(stageOf, len(stages)-1)
				}
			}
		}
		if len(stageOf) == 0 {
			return
		}
		data, err := events.Marshal(tn.body)
		if err != nil {
			t.Fatal(err)
		}
		tn.data = data
		s := newStagedTurn(tn, stages)
		results := make([]bool, len(stageOf))
		stored := func(i int) bool { return results[i] }
		for _, o := range order {
			results[int(o)%len(results)] = true
			before := s.Stage
			if changed, over := s.advance(stored, time.Unix(1, 0)); !changed && s.Stage != before || len(over) > 0 {
				t.Fatalf("changed %v from stage %d to %d, questions %v", changed, before, s.Stage, over)
			}
			if again, _ := s.advance(stored, time.Unix(2, 0)); again {
				t.Fatal("the same results are news twice")
			}
			// Any other dispatcher reads the same out of it.
			b, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			var other stagedTurn
			if err := json.Unmarshal(b, &other); err != nil {
				t.Fatal(err)
			}
			if _, err := other.turn("s", "t", other.Data); err != nil {
				t.Fatal(err)
			}
			for _, i := range other.open() {
				if stageOf[i] != s.Stage || results[i] {
					t.Fatalf("call %d of stage %d is due in stage %d, result %v", i, stageOf[i], s.Stage, results[i])
				}
				for j := range i {
					if stageOf[j] < stageOf[i] && !results[j] {
						t.Fatalf("call %d is due before call %d has its result", i, j)
					}
				}
			}
			if s.finished() != !slices.Contains(results, false) {
				t.Fatalf("finished %v with results %v", s.finished(), results)
			}
			if !s.finished() && len(s.open()) == 0 {
				t.Fatal("nothing is due, and it is not finished")
			}
		}
	})
}
