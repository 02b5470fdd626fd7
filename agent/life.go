package agent

import (
	"context"
	"iter"

	"github.com/toolwire/toolwire/events"
)

// Life yields what is recorded of a session, of one turn or one call of it: every event as it was
// stored, oldest first, questions and decisions included.
// Errors: [ErrInvalid], [ErrNotFound], [ErrDenied], [ErrUnavailable].
func (c *Client) Life(ctx context.Context, q events.LifeRequest) iter.Seq2[events.LifeEvent, error] {
	return func(yield func(events.LifeEvent, error) bool) {
		for {
			var page events.LifeReply
			if err := c.askAbout(ctx, q.Session, events.OpLife, q, &page); err != nil {
				yield(events.LifeEvent{}, err)
				return
			}
			for _, e := range page.Events {
				if !yield(e, nil) {
					return
				}
			}
			if q.After = page.After; q.After == 0 {
				return
			}
		}
	}
}

// Permit says what would happen to a call of a session, and why. Nothing happens.
// Errors: [ErrInvalid], [ErrNotFound] (the tool), [ErrDenied], [ErrUnavailable].
func (c *Client) Permit(ctx context.Context, q events.PermitRequest) (events.PermitReply, error) {
	var reply events.PermitReply
	err := c.ask(ctx, events.OpPermit, q, &reply)
	return reply, err
}

// Replay yields the recorded calls that another configuration would have decided otherwise, page by
// page with the number of calls looked at. It is for operators.
// Errors: [ErrInvalid], [ErrDenied], [ErrUnavailable].
func (c *Client) Replay(ctx context.Context, q events.ReplayRequest) iter.Seq2[events.ReplayReply, error] {
	return func(yield func(events.ReplayReply, error) bool) {
		for {
			var page events.ReplayReply
			if err := c.ask(ctx, events.OpPermitReplay, q, &page); err != nil {
				yield(page, err)
				return
			}
			if !yield(page, nil) {
				return
			}
			if q.After = page.After; q.After == 0 {
				return
			}
		}
	}
}
