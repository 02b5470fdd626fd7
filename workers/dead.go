package workers

import (
	"context"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

// bury puts a message aside that cannot be read: a copy for the operator, a result for the agent,
// and only then the end of it.
func (w *Worker) bury(ctx context.Context, c *call, d *jet.Delivery, why error) {
	log := w.log.With().Str("subject", d.Subject).Uint64("seq", d.Seq).Logger()
	log.Error().Err(why).Msg("dead letter")
	w.stats.dead.Add(1)
	if err := w.copyDead(ctx, d, why); err != nil {
		log.Error().Err(err).Msg("dead letter not copied, will be delivered again")
		_ = d.Nak(5 * time.Second)
		return
	}
	if c.nonce != "" && !w.settleDead(ctx, c) {
		return
	}
	if err := d.Term("unreadable"); err != nil {
		log.Debug().Err(err).Msg("not terminated")
	}
}

// settleDead reports whether the call has its result, and its turn knows.
func (w *Worker) settleDead(ctx context.Context, c *call) bool {
	c.fenced = true // its tool may be anything
	m, reason, err := w.fence(ctx, c, events.ReasonDeadLetter)
	switch {
	case err != nil || m == moveWait:
		w.nak(c, 2*time.Second)
		return false
	case m != moveAck && !w.publish(ctx, c, verdict(c, reason)):
		return false
	}
	w.at("after result", c.key)
	return w.say(ctx, c)
}

func (w *Worker) copyDead(ctx context.Context, d *jet.Delivery, why error) error {
	ctx, cancel := context.WithTimeout(ctx, jet.Lease/2)
	defer cancel()
	return w.bus.Bury(ctx, "work", w.bus.WorkStream(), d, why.Error())
}
