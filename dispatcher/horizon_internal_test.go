package dispatcher

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestHorizon(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		bounds []time.Time
		want   time.Time
	}{
		"nothing under way":    {[]time.Time{now, {}, {}}, now.Add(-time.Minute)},
		"work of an hour ago":  {[]time.Time{now, {}, now.Add(-time.Hour)}, now.Add(-61 * time.Minute)},
		"the oldest counts":    {[]time.Time{now, now.Add(-time.Second), now.Add(-time.Hour), now.Add(-time.Minute)}, now.Add(-61 * time.Minute)},
		"something to come":    {[]time.Time{now, now.Add(time.Hour)}, now.Add(-time.Minute)},
		"a clock that is slow": {[]time.Time{now, now.Add(-time.Nanosecond)}, now.Add(-time.Minute - time.Nanosecond)},
	} {
		if got := horizon(time.Minute, c.bounds...); !got.Equal(c.want) {
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
			return 0, time.Time{}, jetstream.ErrMsgNotFound
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
