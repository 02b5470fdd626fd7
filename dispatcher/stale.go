package dispatcher

import (
	"context"
	"errors"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

const (
	// staleAfter is how old a record or question is at least before a sweep looks whether it was left alone.
	staleAfter = time.Minute
	// staleAtOnce is how many of each one sweep looks at. The next one goes on from there.
	staleAtOnce = 250
)

// lookStale looks at some records of turns and some questions, in case a step was lost or a question is
// left over. All that matters is done by whoever is told; this is for what nobody foresaw, so it may take
// its time, and costs the same however many calls are parked.
func (d *Dispatcher) lookStale(ctx context.Context, now time.Time) error {
	return errors.Join(d.stepStale(ctx, now), d.closeStale(ctx, now))
}

// stepStale moves on turns whose step was lost.
func (d *Dispatcher) stepStale(ctx context.Context, now time.Time) error {
	var bad error
	for range staleAtOnce {
		key, r, err := d.bus.RecordAfter(ctx, d.bus.TurnsBucket(), d.staleTurn.Load()+1)
		if errors.Is(err, jet.ErrNone) || err == nil && now.Sub(r.At) < staleAfter {
			d.staleTurn.Store(0)
			return bad
		}
		if err != nil {
			return errors.Join(bad, err)
		}
		d.staleTurn.Store(r.Revision)
		session, id, err := parseTurnKey(d.bus.Names, key)
		if err == nil {
			err = d.steps.once(key, func() error { return d.lookAt(ctx, session, id, now) })
		}
		if errors.Is(err, errDied) {
			return err
		}
		if err != nil {
			d.log.Error().Err(err).Str("turn", key).Msg("turn does not move on")
			bad = err
		}
	}
	return bad
}

// lookAt moves a turn on if it can move, and ends questions whose timers were lost.
func (d *Dispatcher) lookAt(ctx context.Context, session events.SessionID, id events.TurnID, now time.Time) error {
	s, t, _, err := d.stagedTurn(ctx, session, id)
	if errors.Is(err, jet.ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	for i := range s.Calls {
		c := &s.Calls[i]
		if c.State != events.CallAsking || c.Ask.ExpiresAt == nil || now.Before(c.Ask.ExpiresAt.Add(staleAfter)) {
			continue
		}
		if _, err := d.expireAsk(ctx, t.key(t.body.Calls[i].ID), c.Ask.Request, now, true); err != nil {
			return err
		}
	}
	return d.step(ctx, session, id, !s.parked())
}

// closeStale removes questions that are no longer open: whoever put them died before looking again.
func (d *Dispatcher) closeStale(ctx context.Context, now time.Time) error {
	stored, err := d.bus.Batch(ctx, d.bus.QuestionsStream(), d.bus.Under("require"), d.staleQuestion.Load(), staleAtOnce)
	if err != nil {
		return err
	}
	if len(stored) == 0 {
		d.staleQuestion.Store(0)
	}
	for _, m := range stored {
		if now.Sub(m.Time) < staleAfter {
			d.staleQuestion.Store(0)
			return nil
		}
		d.staleQuestion.Store(m.Seq)
		kind, name, k, request, err := d.bus.ParseRequire(m.Subject)
		if err != nil {
			continue
		}
		s, _, _, err := d.stagedTurn(ctx, k.Session, k.Turn)
		if err != nil && !errors.Is(err, jet.ErrNone) {
			continue // its body may turn up
		}
		if s == nil || s.asking(request) < 0 {
			if err := d.close(ctx, k, name, &asked{Kind: kind, Request: request}); err != nil {
				return err
			}
		}
	}
	return nil
}
