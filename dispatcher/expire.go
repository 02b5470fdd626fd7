package dispatcher

import (
	"context"
	"errors"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
)

// answersFirst is how long an expiry waits for answers that were given in time and are not judged yet.
const answersFirst = time.Second

// handleAskDue ends a question whose time is over, unless somebody answered in time.
func (d *Dispatcher) handleAskDue(ctx context.Context, del *jet.Delivery) error {
	k, request, err := d.bus.ParseAskDue(del.Subject)
	if err != nil {
		d.log.Warn().Err(err).Msg("timer ignored")
		return del.Ack()
	}
	wait, err := d.expireAsk(ctx, k, request, del.Stored, del.Count > 1)
	switch {
	case err != nil:
		return err
	case wait:
		return del.Nak(answersFirst)
	}
	if err := d.at("expire.ack"); err != nil {
		return err
	}
	return del.Ack()
}

// expireAsk ends a question whose time is over at now. wait: an answer given in time is still to be judged.
func (d *Dispatcher) expireAsk(ctx context.Context, k events.CallKey, request string, now time.Time, again bool) (wait bool, err error) {
	s, t, revision, err := d.stagedTurn(ctx, k.Session, k.Turn)
	if errors.Is(err, jet.ErrNone) {
		return false, nil // it ended, and its question with it
	}
	if err != nil {
		return false, err
	}
	place := s.asking(request)
	if place < 0 {
		return false, nil
	}
	a, call := s.Calls[place].Ask, t.body.Calls[place]
	if a.ExpiresAt == nil || now.Before(*a.ExpiresAt) {
		return false, nil
	}
	if !a.Put {
		_, err := d.bus.Fact(ctx, d.bus.Require(a.Kind, call.Name, k, request))
		if errors.Is(err, jet.ErrNone) { // nobody can have seen it
			return false, d.step(ctx, k.Session, k.Turn, true)
		}
		if err != nil {
			return false, err
		}
		// It may have been put just now, and given its time anew before that.
		_, _, since, err := d.stagedTurn(ctx, k.Session, k.Turn)
		if err != nil && !errors.Is(err, jet.ErrNone) {
			return false, err
		}
		if since != revision {
			return d.expireAsk(ctx, k, request, now, again)
		}
	}
	_, at, err := d.bus.At(ctx, d.bus.InboxStream(), 1, d.bus.AnswersTo(k, request))
	if err == nil && at.Before(*a.ExpiresAt) {
		return true, nil
	}
	if err != nil && !errors.Is(err, jet.ErrNone) {
		return false, err
	}
	h := &events.Decided{Outcome: events.OutcomeExpired, At: *a.ExpiresAt, Reason: "nobody answered in time"}
	if a.OnExpiry == toolkit.ExpiryEscalate {
		h.Outcome, h.Reason = events.OutcomeEscalated, "nobody answered in time; others are asked"
	}
	return false, d.end(ctx, held{s, t, revision, place}, h, again)
}

// end decides a question by policy, unless it is decided already, and carries out what follows.
func (d *Dispatcher) end(ctx context.Context, q held, h *events.Decided, again bool) error {
	a, call := q.s.Calls[q.place].Ask, q.t.body.Calls[q.place]
	stored, err := d.decided(ctx, q.t, call, a, h)
	if err != nil {
		return err
	}
	k := q.t.key(call.ID)
	if !stored {
		if h, err = d.decidedAs(ctx, k, a.Request); err != nil || h == nil {
			return err
		}
		q.place = -1
	}
	return d.follow(ctx, q, k, a.Request, h, again)
}
