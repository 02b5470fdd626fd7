package agent

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

// Cancel asks to cancel calls of a turn; no ids means all. The wish is stored and carried out by
// whatever dispatcher runs next; each call still gets its one result, interrupted or not.
// Errors: [ErrInvalid], [ErrDenied], [ErrFull], [ErrUnavailable], [ErrClosed].
func (c *Client) Cancel(ctx context.Context, session events.SessionID, turn events.TurnID, what events.CancelCalls) error {
	if err := checkCancel(session, turn, what); err != nil {
		return err
	}
	e, err := events.New(events.Attributes{
		ID: "cancel/" + uuid.NewString(), Source: "/agents/" + events.Token(c.agent), Type: events.TypeCancelCalls,
		Session: session, Turn: turn,
	}, what)
	if err != nil {
		return fmt.Errorf("%w: cancel: %w", ErrInvalid, err)
	}
	if err := c.store(ctx, jet.Out{Subject: c.bus.Cancel(c.agent, session, turn), Event: e, MsgID: e.ID}); err != nil {
		return storeError(fmt.Sprintf("cancel turn %q", turn), err)
	}
	return nil
}

// CancelNow cancels calls of a turn, none named means all, and says what became of each.
// Errors: [ErrInvalid], [ErrNotFound], [ErrDenied], [ErrUnavailable] (it may have been carried
// out or not; [Client.Cancel] waits for a dispatcher).
func (c *Client) CancelNow(ctx context.Context, session events.SessionID, turn events.TurnID, what events.CancelCalls) (events.CancelReply, error) {
	var reply events.CancelReply
	if err := checkCancel(session, turn, what); err != nil {
		return reply, err
	}
	err := c.ask(ctx, events.OpCancel, events.CancelRequest{Session: session, Turn: turn, CancelCalls: what}, &reply)
	return reply, err
}

func checkCancel(session events.SessionID, turn events.TurnID, what events.CancelCalls) error {
	if err := checkTurn(session, turn); err != nil {
		return err
	}
	for _, id := range what.Calls {
		if err := events.CheckID("call", id); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	return nil
}
