package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/toolwire/toolwire/events"
)

// Sessions lists the sessions: an agent its own, an operator all. Errors: [ErrDenied], [ErrUnavailable].
func (c *Client) Sessions(ctx context.Context) iter.Seq2[events.SessionInfo, error] {
	return func(yield func(events.SessionInfo, error) bool) {
		var req events.SessionsRequest
		for {
			var page events.SessionsReply
			if err := c.ask(ctx, events.OpSessions, req, &page); err != nil {
				yield(events.SessionInfo{}, err)
				return
			}
			for _, s := range page.Sessions {
				if !yield(s, nil) {
					return
				}
				req.After = s.Session
			}
			if !page.More || len(page.Sessions) == 0 {
				return
			}
		}
	}
}

// Session returns the record of a session: what its model sees, and what may run.
// Errors: [ErrInvalid], [ErrNotFound] (no turn has touched it yet), [ErrDenied], [ErrUnavailable].
func (c *Client) Session(ctx context.Context, session events.SessionID) (events.SessionInfo, error) {
	var s events.SessionInfo
	err := c.askAbout(ctx, session, events.OpSession, events.SessionRequest{Session: session}, &s)
	return s, err
}

// SetSession switches groups of a session, of either scope, and creates it if need be. All of the
// change is made, or nothing.
// Errors: [ErrInvalid], [ErrNotFound] (a group), [ErrConflict] (of a change at a revision), [ErrDenied], [ErrUnavailable].
func (c *Client) SetSession(ctx context.Context, change events.SessionSet) (events.SessionInfo, error) {
	var s events.SessionInfo
	err := c.askAbout(ctx, change.Session, events.OpSessionSet, change, &s)
	return s, err
}

// DropSession forgets the record of a session. Its next turn begins with the defaults.
// Errors: [ErrInvalid], [ErrNotFound], [ErrDenied], [ErrUnavailable].
func (c *Client) DropSession(ctx context.Context, session events.SessionID) error {
	return c.askAbout(ctx, session, events.OpSessionDrop, events.SessionRequest{Session: session}, new(struct{}))
}

// Groups lists the groups of tools by name, and how they stand for a session if one is named.
// Errors: [ErrInvalid], [ErrDenied], [ErrUnavailable].
func (c *Client) Groups(ctx context.Context, session events.SessionID) (events.GroupsReply, error) {
	if session != "" {
		if err := events.CheckID("session", session); err != nil {
			return events.GroupsReply{}, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	var g events.GroupsReply
	err := c.ask(ctx, events.OpGroups, events.GroupsRequest{Session: session}, &g)
	return g, err
}

// State reads into v a document that a tool keeps for a session, such as todo_write's "todo". It
// returns the document's revision; 0: there is none, and v is as it was.
// Errors: [ErrInvalid], [ErrNotFound] (the session), [ErrDenied], [ErrUnavailable].
func (c *Client) State(ctx context.Context, session events.SessionID, name string, v any) (revision uint64, err error) {
	var s events.StateReply
	if err := c.askAbout(ctx, session, events.OpState, events.StateRequest{Session: session, Name: name}, &s); err != nil {
		return 0, err
	}
	if s.Revision == 0 {
		return 0, nil
	}
	if err := json.Unmarshal(s.Document, v); err != nil {
		return s.Revision, fmt.Errorf("state %q of session %q: %w", name, session, err)
	}
	return s.Revision, nil
}

// askAbout asks about a session whose id is checked first.
func (c *Client) askAbout(ctx context.Context, session events.SessionID, op string, req, into any) error {
	if err := events.CheckID("session", session); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return c.ask(ctx, op, req, into)
}
