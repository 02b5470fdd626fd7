package dispatcher

import (
	"context"
	"errors"
	"net/http"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

// headerSource is set by the server on what a stream sources: stream, sequence, filters,
// transforms, original subject, by single blanks; the lists have other white space inside.
const headerSource = "Nats-Stream-Source"

// past goes through what the history keeps of a session, oldest first, each message on its
// original subject, until visit is done. It reads message by message rather than by a consumer:
// there is none to leave behind, and few ask for what is past.
func (d *Dispatcher) past(ctx context.Context, session events.SessionID, visit func(m *jet.Stored) (done bool)) error {
	if d.cfg.NoHistory {
		return nil
	}
	return d.pastAfter(ctx, session, 0, visit)
}

// pastAfter is past from a sequence on.
func (d *Dispatcher) pastAfter(ctx context.Context, session events.SessionID, after uint64, visit func(m *jet.Stored) (done bool)) error {
	for seq := after + 1; ; seq++ {
		m, err := d.bus.Next(ctx, d.bus.HistoryStream(), seq, d.bus.History(session))
		if errors.Is(err, jet.ErrNone) {
			return nil
		}
		if err != nil {
			return err
		}
		seq = m.Seq
		m.Subject = originalSubject(m.Subject, m.Header.Get(headerSource))
		if visit(m) {
			return nil
		}
	}
}

// pastTurn says how a turn ended that the facts no longer know. An id that was used again
// after the window means the last turn of that id. Turns and results come from two streams, so a
// result may stand before its turn.
func (d *Dispatcher) pastTurn(ctx context.Context, actor string, q events.TurnRequest) (any, error) {
	var t turn
	var found bool
	results := make(map[events.CallID]*jet.Stored)
	err := d.past(ctx, q.Session, func(m *jet.Stored) bool {
		if a, session, id, err := d.bus.ParseCalls(m.Subject); err == nil && session == q.Session && id == q.Turn {
			t, found = turn{agent: a, session: session, id: id, stored: m.Time, eventID: m.Event.ID}, true
			if m.Err == nil {
				_ = t.read(m.Event)
			}
		} else if k, err := d.bus.ParseCall("result", m.Subject); err == nil && k.Turn == q.Turn {
			results[k.Call] = m
		}
		return false
	})
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, refused(http.StatusNotFound, "no such turn is known")
	case string(t.agent) != actor && !d.operator(actor):
		return nil, refused(http.StatusForbidden, "the turn belongs to another agent")
	}
	out := events.TurnReply{Agent: t.agent, AcceptedAt: t.stored, EventID: t.eventID, Calls: []events.CallStatus{}}
	for _, c := range t.body.Calls {
		s := events.CallStatus{CallID: c.ID, Name: c.Name, State: events.CallFinished}
		if m := results[c.ID]; m != nil {
			finished(&s, m)
		} else { // the history began after it, or is younger than its facts
			s.Result, s.Reason = events.StateError, events.ReasonOutcomeUnknown
		}
		out.Calls = append(out.Calls, s)
	}
	return out, nil
}

// pastResult finds the result of a call in the history.
func (d *Dispatcher) pastResult(ctx context.Context, actor string, q events.ResultRequest) (any, error) {
	var result *jet.Stored
	var owner events.AgentID
	err := d.past(ctx, q.Session, func(m *jet.Stored) bool {
		if a, session, id, err := d.bus.ParseCalls(m.Subject); err == nil && session == q.Session && id == q.Turn {
			owner = a
		} else if k, err := d.bus.ParseCall("result", m.Subject); err == nil && k == events.CallKey(q) {
			result = m
		}
		return false
	})
	switch {
	case err != nil:
		return nil, err
	case string(owner) != actor && !d.operator(actor) && (owner != "" || result != nil):
		return nil, refused(http.StatusForbidden, "the turn belongs to another agent")
	case result == nil:
		return nil, refused(http.StatusNotFound, "no such result is known")
	}
	return result, nil
}
