package dispatcher

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

// opTurn says how the calls of a turn stand: from the facts while they are kept, then from the
// history.
func (d *Dispatcher) opTurn(ctx context.Context, r *request) (any, error) {
	var q events.TurnRequest
	if err := r.read(&q); err != nil {
		return nil, err
	}
	t, err := d.turnFor(ctx, r.actor, q.Session, q.Turn)
	switch {
	case errors.Is(err, errUnknownTurn):
		return d.pastTurn(ctx, r.actor, q)
	case hopeless(err) && len(t.body.Calls) == 0:
		return nil, refused(http.StatusNotFound, "the turn cannot be read: %v", err)
	case err != nil && !hopeless(err):
		return nil, err
	}
	out := events.TurnReply{Agent: t.agent, AcceptedAt: t.stored, EventID: t.eventID, Calls: make([]events.CallStatus, len(t.body.Calls))}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i, c := range t.body.Calls {
		g.Go(func() (err error) {
			out.Calls[i], err = d.callStatus(gctx, &t, c)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return out, d.fromRecord(ctx, &t, out.Calls)
}

// fromRecord adds what the record of a turn knows of calls that facts say nothing of: that somebody is
// asked about them, or that they ended so long ago that their results are in the history.
func (d *Dispatcher) fromRecord(ctx context.Context, t *turn, calls []events.CallStatus) error {
	if !slices.ContainsFunc(calls, func(c events.CallStatus) bool { return c.State != events.CallFinished }) {
		return nil
	}
	s, recorded, _, err := d.stagedTurn(ctx, t.session, t.id)
	if errors.Is(err, jet.ErrNone) {
		return nil
	}
	if err != nil {
		return err
	}
	for i := range calls {
		c := &calls[i]
		place := recorded.place(c.CallID)
		if place < 0 || c.State == events.CallFinished {
			continue
		}
		switch s.Calls[place].State {
		case events.CallAsking:
			c.State = events.CallAsking
			c.Request = s.Calls[place].Ask.Request
		case events.CallAllowed:
			c.State = events.CallAllowed
		case events.CallFinished:
			m, err := d.pastResultOf(ctx, t.key(c.CallID))
			if err != nil {
				return err
			}
			if c.State = events.CallFinished; m != nil {
				finished(c, m)
			} else {
				c.Result, c.Reason = events.StateError, events.ReasonOutcomeUnknown
			}
		default:
		}
	}
	return nil
}

// pastResultOf finds the result of a call in the history; nil: it is not there.
func (d *Dispatcher) pastResultOf(ctx context.Context, k events.CallKey) (result *jet.Stored, err error) {
	err = d.past(ctx, k.Session, func(m *jet.Stored) bool {
		if of, err := d.bus.ParseCall("result", m.Subject); err == nil && of == k {
			result = m
		}
		return false
	})
	return result, err
}

// turnFor reads the turn that actor means: its own, or for an operator anyone's.
func (d *Dispatcher) turnFor(ctx context.Context, actor string, session events.SessionID, id events.TurnID) (turn, error) {
	if err := errors.Join(events.CheckID("session", session), events.CheckID("turn", id)); err != nil {
		return turn{}, refused(http.StatusBadRequest, "%v", err)
	}
	t, err := d.storedTurn(ctx, events.AgentID(actor), session, id)
	if !errors.Is(err, errUnknownTurn) {
		if d.operator(actor) {
			return t, err
		}
		if bad := d.trespass(ctx, &t); errors.Is(bad, errTrespass) {
			return t, refused(http.StatusNotFound, "the session belongs to another agent, and so does its turn of this id; use a session of your own")
		} else if bad != nil {
			return t, bad
		}
		return t, err
	}
	// Nobody else's name is in the request; the subject of the turn has it.
	pattern := d.bus.CallsOfTurn(session, id)
	m, err := d.bus.Next(ctx, d.bus.CallsStream(), 1, pattern)
	switch {
	case errors.Is(err, jet.ErrNone):
		return t, errUnknownTurn
	case err != nil:
		return t, err
	}
	owner, _, _, err := d.bus.ParseCalls(m.Subject)
	if err != nil {
		return t, err
	}
	if !d.operator(actor) {
		return t, refused(http.StatusForbidden, "the turn belongs to another agent")
	}
	return d.storedTurn(ctx, owner, session, id)
}

// callStatus reads how one call stands. The work is looked for before the result, and the turn was
// read before both: a call that has neither had neither.
func (d *Dispatcher) callStatus(ctx context.Context, t *turn, c events.Call) (events.CallStatus, error) {
	k := t.key(c.ID)
	s := events.CallStatus{CallID: c.ID, Name: c.Name, State: events.CallPending}
	_, err := d.bus.Next(ctx, d.bus.WorkStream(), 1, d.bus.WorkOfCall(k))
	queued := err == nil
	if err != nil && !errors.Is(err, jet.ErrNone) {
		return s, err
	}
	result, err := d.bus.Fact(ctx, d.bus.Result(k))
	if err == nil {
		finished(&s, result)
		return s, nil
	}
	if !errors.Is(err, jet.ErrNone) {
		return s, err
	}
	start, err := d.startOf(ctx, k)
	switch {
	case err != nil:
		return s, err
	case start != nil && start.Settle == "":
		s.State, s.StartedAt, s.Worker = events.CallSubmitted, &start.At, start.Worker
	case start != nil, queued:
		s.State = events.CallSubmitted
	case d.overdue(t, c):
		return s, d.settleLost(ctx, t, c, &s)
	}
	return s, nil
}

func finished(s *events.CallStatus, m *jet.Stored) {
	s.State = events.CallFinished
	var r events.ToolResult
	if m.Err != nil || events.Unmarshal(m.Event.Data, &r) != nil {
		s.Result, s.Reason = events.StateError, events.ReasonMalformed
		return
	}
	s.Result, s.Reason, s.StartedAt, s.Worker = r.State, r.Reason, r.Meta.StartedAt, r.Meta.Worker
}

// overdue says whether a call must have ended by now: beyond its time in the queue, and
// its turn was taken in.
func (d *Dispatcher) overdue(t *turn, c events.Call) bool {
	limit := 10 * time.Minute
	if tool := d.registry.snapshot().tool(c.Name); tool != nil {
		limit = tool.def.QueueLimit()
	}
	end := t.stored.Add(limit)
	if dl := t.body.Deadline; dl != nil && dl.Before(end) {
		end = *dl
	}
	return time.Since(end) > 2*d.cfg.Tick
}

// settleLost ends a call that is nowhere to be found. It cannot happen while streams keep what
// they stored; if one was restored from a backup, the agent still gets its answer.
func (d *Dispatcher) settleLost(ctx context.Context, t *turn, c events.Call, s *events.CallStatus) error {
	if taken, err := d.taken(ctx, t); err != nil || !taken {
		return err // it may still be waiting to be taken in
	}
	_, err := d.bus.Record(ctx, d.bus.TurnsBucket(), turnKey(t.session, t.id))
	if !errors.Is(err, jet.ErrNone) {
		return err // it waits for its stage
	}
	d.log.Error().Str("call", t.key(c.ID).String()).Msg("call without work, start or result")
	_, err = d.settle(ctx, ending{
		key: t.key(c.ID), name: c.Name, agent: t.agent, attrs: t.attrs, reason: events.ReasonOutcomeUnknown, fenced: true,
		text: "The call was lost. Whether it took effect is not known: check before you call again.",
	})
	if err != nil {
		return err
	}
	m, err := d.bus.Fact(ctx, d.bus.Result(t.key(c.ID)))
	if errors.Is(err, jet.ErrNone) {
		return nil
	}
	if err == nil {
		finished(s, m)
	}
	return err
}

// opResult returns the stored result of a call as it is, from the history after the window.
func (d *Dispatcher) opResult(ctx context.Context, r *request) (any, error) {
	var q events.ResultRequest
	if err := r.read(&q); err != nil {
		return nil, err
	}
	if err := events.CheckID("call", q.Call); err != nil {
		return nil, refused(http.StatusBadRequest, "%v", err)
	}
	t, err := d.turnFor(ctx, r.actor, q.Session, q.Turn)
	if errors.Is(err, errUnknownTurn) {
		return d.lateResult(ctx, r.actor, q)
	}
	unreadable := hopeless(err)
	if err != nil && !unreadable {
		return nil, err
	}
	m, err := d.bus.Fact(ctx, d.bus.Result(events.CallKey(q)))
	switch {
	case errors.Is(err, jet.ErrNone) && unreadable:
		return d.settleUnreadable(ctx, &t, q)
	case errors.Is(err, jet.ErrNone) && strangers(&t, []events.CallID{q.Call}) != "":
		return nil, refused(http.StatusNotFound, "the turn has no call %q", q.Call)
	case errors.Is(err, jet.ErrNone) && t.staged: // CALLS has forgotten the turn, so JOURNAL may have forgotten this
		if m, err = d.pastResultOf(ctx, events.CallKey(q)); m != nil || err != nil {
			return m, err
		}
		return nil, refused(http.StatusNotFound, "the call has no result yet")
	case errors.Is(err, jet.ErrNone):
		return nil, refused(http.StatusNotFound, "the call has no result yet")
	case err != nil:
		return nil, err
	}
	return m, nil
}

// lateResult finds the result of a call whose turn is forgotten: it may have been parked for long, and have
// its result only now. Whose it is, its session says.
func (d *Dispatcher) lateResult(ctx context.Context, actor string, q events.ResultRequest) (any, error) {
	if _, err := d.sessionFor(ctx, actor, q.Session); err == nil {
		m, err := d.bus.Fact(ctx, d.bus.Result(events.CallKey(q)))
		if !errors.Is(err, jet.ErrNone) {
			return m, err
		}
	}
	return d.pastResult(ctx, actor, q)
}

// settleUnreadable answers a call whose id only its agent knows, because its turn cannot be read.
func (d *Dispatcher) settleUnreadable(ctx context.Context, t *turn, q events.ResultRequest) (any, error) {
	_, err := d.settle(ctx, ending{
		key: events.CallKey(q), agent: t.agent, reason: events.ReasonDeadLetter, fenced: true,
	})
	if err != nil {
		return nil, err
	}
	return d.bus.Fact(ctx, d.bus.Result(events.CallKey(q)))
}

// opCancel ends calls of a turn and says of each what that came to.
func (d *Dispatcher) opCancel(ctx context.Context, r *request) (any, error) {
	var q events.CancelRequest
	if err := r.read(&q); err != nil {
		return nil, err
	}
	t, err := d.turnFor(ctx, r.actor, q.Session, q.Turn)
	switch {
	case errors.Is(err, errUnknownTurn):
		return nil, refused(http.StatusNotFound, "no such turn is stored")
	case hopeless(err):
		return nil, refused(http.StatusNotFound, "the turn cannot be read: %v", err)
	case err != nil:
		return nil, err
	}
	if who := strangers(&t, q.Calls); who != "" {
		return nil, refused(http.StatusNotFound, "not in the turn: %s", who)
	}
	taken, err := d.taken(ctx, &t)
	if err != nil {
		return nil, err
	}
	calls := named(&t, q.Calls)
	outcomes, err := d.cancelCalls(ctx, &t, calls)
	if err != nil {
		return nil, err
	}
	out := events.CancelReply{Calls: make([]events.CancelOutcome, len(calls))}
	var rest []events.CallID
	for i, c := range calls {
		out.Calls[i] = events.CancelOutcome{CallID: c.ID, Outcome: outcomes[i].String()}
		if outcomes[i] == outcomeStopping || outcomes[i] == outcomeSettled && !taken {
			rest = append(rest, c.ID)
		}
	}
	return out, d.keepStopping(ctx, &t, rest, q.Reason)
}

// keepStopping leaves word that calls are to be stopped until they have their results: a stop is
// heard by whoever listens at the moment, and their worker may just be dying; and that work of
// calls which were settled before it was stored is to be removed.
func (d *Dispatcher) keepStopping(ctx context.Context, t *turn, calls []events.CallID, why string) error {
	if len(calls) == 0 {
		return nil
	}
	e, err := events.New(events.Attributes{
		ID: "cancel/" + events.Token(t.session) + "/" + events.Token(t.id), Source: d.source(), Type: events.TypeCancelCalls,
		Session: t.session, Turn: t.id, Time: time.Now(),
	}, events.CancelCalls{Calls: calls, Reason: why})
	if err != nil {
		return err
	}
	_, err = d.bus.Store(ctx, jet.Out{Subject: d.bus.Cancel(t.agent, t.session, t.id), Event: e})
	return err
}
