package dispatcher

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// pressureTick is how often the streams are looked at that intake fills; while they are less
// than half as full as would stop it, only every pressureIdle ticks.
const (
	pressureTick = time.Second
	pressureIdle = 5
)

// watchPressure stops the intake while JOURNAL or WORK is nearly full, so that what was begun can
// end, until ctx ends.
func (d *Dispatcher) watchPressure(ctx context.Context) error {
	tick := time.NewTicker(pressureTick)
	defer tick.Stop()
	for idle := 0; ; idle-- {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if idle > 0 {
			continue
		}
		limit := congestedAt
		was := d.congested.Load()
		if was {
			limit = relievedAt
		}
		is, most := false, 0
		for _, name := range []string{d.bus.JournalStream(), d.bus.WorkStream()} {
			tctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			s, err := d.bus.JetStream().Stream(tctx, name)
			cancel()
			if err != nil { // away: nothing can be stored, so nothing is taken from it either
				is = is || was
				continue
			}
			most = max(most, fullness(s.CachedInfo()))
		}
		is = is || most > limit
		if most < congestedAt/2 && !is {
			idle = pressureIdle
		}
		if is != was {
			d.congested.Store(is)
			d.log.Warn().Bool("congested", is).Msg("intake follows the fullness of the streams")
		}
	}
}

// fullness is how much of its limits a stream has used, in per cent.
func fullness(info *jetstream.StreamInfo) int {
	used := 0
	if most := info.Config.MaxBytes; most > 0 {
		used = int(float64(info.State.Bytes) / float64(most) * 100)
	}
	if most := info.Config.MaxMsgs; most > 0 {
		used = max(used, int(float64(info.State.Msgs)/float64(most)*100))
	}
	return used
}
