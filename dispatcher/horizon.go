package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

// margin is how much older than the oldest thing that could still be delivered a fact must be to be
// forgotten: what takes longer is looked up (fanout.go), what takes less is under way.
const margin = time.Minute

// forget purges CALLS and JOURNAL up to the horizon: what is older than the window, and older
// than the oldest thing that could still be delivered. So however long an outage lasts, no
// call and no fence is forgotten that a delivery may still ask for.
//
// What waits holds the horizon by its own age, not by its age and the window: else a JOURNAL filled
// within one window stopped the intake, and the turn then waiting kept the JOURNAL full for good.
//
// It is sound because of the order in which a call travels, and in which this reads. A
// call is un-acknowledged in CALLS until its work is stored, and its work is stored until its result
// is; CALLS is looked at before WORK, so a call under way is seen in one of them. Of a staged turn the
// record knows what came of it: each result is noted there by a step, and word that there is one is
// stored in INBOX before the work is removed, and stays until the step is done; so do answers. INBOX is
// looked at after WORK. So a turn may be parked for as long as it takes, and holds nothing up. A call's facts are
// stored after its turn, whose time WORK knows (AcceptedAt). A call whose work is stored only
// long after its turn has its facts looked up first (fanout.go), so none older than the margin
// matters to it. CALLS is purged before JOURNAL: where the turn is there, so are all its facts.
func (d *Dispatcher) forget(ctx context.Context, now time.Time) error {
	var bounds []time.Time
	for _, bound := range []func(context.Context) (time.Time, error){d.oldestTurn, d.oldestWork, d.oldestSaid, d.oldestDue} {
		t, err := bound(ctx)
		if err != nil {
			return fmt.Errorf("horizon: %w", err)
		}
		bounds = append(bounds, t)
	}
	cut := horizon(now.Add(-d.cfg.Window), bounds...)
	for _, name := range []string{d.bus.CallsStream(), d.bus.JournalStream()} {
		if err := d.at("horizon.purge"); err != nil {
			return err
		}
		if err := d.purge(ctx, name, cut); err != nil {
			return fmt.Errorf("horizon of %s: %w", name, err)
		}
	}
	d.metrics.horizon.Set(float64(cut.Unix()))
	return nil
}

// horizon is the time before which facts are forgotten: the start of the window, or a margin
// before the earliest bound. Zero bounds bind nothing.
func horizon(window time.Time, bounds ...time.Time) time.Time {
	cut := window
	for _, b := range bounds {
		if b = b.Add(-margin); !b.Add(margin).IsZero() && b.Before(cut) {
			cut = b
		}
	}
	return cut
}

// oldestTurn is when the oldest turn was stored that may still be delivered.
func (d *Dispatcher) oldestTurn(ctx context.Context) (time.Time, error) {
	c, err := d.bus.JetStream().Consumer(ctx, d.bus.CallsStream(), jet.IntakeConsumer)
	if err != nil {
		return time.Time{}, err
	}
	return d.oldest(ctx, d.bus.CallsStream(), c.CachedInfo().AckFloor.Stream+1, d.bus.Under("call"))
}

// oldestWork is when the turn of the oldest work was accepted.
func (d *Dispatcher) oldestWork(ctx context.Context) (time.Time, error) {
	m, err := d.bus.Next(ctx, d.bus.WorkStream(), 1, d.bus.Under("work"))
	if errors.Is(err, jet.ErrNone) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	var w events.ToolWork
	if m.Err == nil && events.Unmarshal(m.Event.Data, &w) == nil && !w.AcceptedAt.IsZero() && w.AcceptedAt.Before(m.Time) {
		return w.AcceptedAt, nil
	}
	return m.Time, nil
}

func (d *Dispatcher) oldestSaid(ctx context.Context) (time.Time, error) {
	return d.oldest(ctx, d.bus.InboxStream(), 1, ">")
}

func (d *Dispatcher) oldestDue(ctx context.Context) (time.Time, error) {
	return d.oldest(ctx, d.bus.TimersStream(), 1, d.bus.Under("due"))
}

// oldest is when the first message at or after seq was stored; zero: there is none.
func (d *Dispatcher) oldest(ctx context.Context, stream string, seq uint64, filter string) (time.Time, error) {
	_, at, err := d.bus.At(ctx, stream, seq, filter)
	if errors.Is(err, jet.ErrNone) {
		return time.Time{}, nil
	}
	return at, err
}

// purge removes what a stream stored before cut, and what the history has copied.
func (d *Dispatcher) purge(ctx context.Context, name string, cut time.Time) error {
	s, err := d.bus.JetStream().Stream(ctx, name)
	if err != nil {
		return err
	}
	state := s.CachedInfo().State
	if state.Msgs == 0 || !state.FirstTime.Before(cut) {
		return nil
	}
	end, err := firstSince(state.FirstSeq, state.LastSeq, cut, func(seq uint64) (uint64, time.Time, error) {
		return d.bus.At(ctx, name, seq, ">")
	})
	if err != nil {
		return err
	}
	copied, err := d.copied(ctx, name, state.LastSeq)
	if err != nil {
		return err
	}
	if end = min(end, copied+1); end <= state.FirstSeq {
		return nil
	}
	return s.Purge(ctx, jetstream.WithPurgeSequence(end))
}

// copied is up to where the history has the messages of a stream.
func (d *Dispatcher) copied(ctx context.Context, name string, last uint64) (uint64, error) {
	if d.cfg.NoHistory {
		return last, nil
	}
	s, err := d.bus.JetStream().Stream(ctx, d.bus.HistoryStream())
	if err != nil {
		return 0, err
	}
	for _, src := range s.CachedInfo().Sources {
		if src.Name == name {
			return last - min(src.Lag, last), nil
		}
	}
	return last, nil
}

// firstSince finds the first sequence in [first, last] that was stored at or after cut, by
// halving; last+1 if there is none. next reads the first message at or after a sequence.
func firstSince(first, last uint64, cut time.Time, next func(uint64) (seq uint64, at time.Time, err error)) (uint64, error) {
	low, high := first, last+1 // all before low are older; high and after are not
	for low < high {
		mid := low + (high-low)/2
		seq, at, err := next(mid)
		switch {
		case errors.Is(err, jet.ErrNone):
			high = mid
		case err != nil:
			return 0, err
		case at.Before(cut):
			low = seq + 1
		default:
			high = mid
		}
	}
	return low, nil
}
