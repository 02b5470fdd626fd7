package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/permission"
)

// opPermit says what would happen to a call of a session, and why. Nothing happens.
func (d *Dispatcher) opPermit(ctx context.Context, r *request) (any, error) {
	var q events.PermitRequest
	if err := r.read(&q); err != nil {
		return nil, err
	}
	call := events.Call{ID: "permit", Name: q.Tool, Input: q.Input}
	reg, err := d.registry.covering(ctx, []events.Call{call})
	if err != nil {
		return nil, err
	}
	rec, err := d.seenBy(ctx, r.actor, q.Session, reg)
	if err != nil {
		return nil, err
	}
	if rec == nil {
		rec = newRecord(events.AgentID(r.actor), reg.initial())
	}
	t := &turn{agent: rec.Agent, session: q.Session, id: "permit", stored: time.Now(), began: time.Now(), body: events.ToolCalls{Calls: []events.Call{call}}}
	own, err := d.checks(ctx, t, t.body.Calls, reg, rec)
	if err != nil {
		return nil, err
	}
	dec := decideCall(t, call, basis{reg: reg, rec: rec, own: own, now: time.Now()})
	if dec.tool == nil {
		return nil, refused(http.StatusNotFound, "%s", dec.text)
	}
	return permitReply(&dec, reg), nil
}

func permitReply(dec *decision, reg *snapshot) events.PermitReply {
	out := events.PermitReply{
		Behavior: string(dec.permit.Behavior), Message: dec.permit.Message, Rule: dec.permit.Rule, Safety: dec.permit.Immune,
		Suggestions: asRules(helpful(dec.permit)),
	}
	if dec.reason != "" && dec.reason != events.ReasonDeniedByRule {
		out.Invalid = dec.text
	}
	if dec.ask != "" {
		a := asked{Kind: dec.ask, AskedAt: time.Now()}
		a.demand(reg.ApprovalFor(dec.call.Name))
		out.Roles, out.Quorum, out.Expiry = a.Roles, a.Quorum, "never"
		if a.ExpiresAt != nil {
			out.Expiry = fmt.Sprintf("%s after %v", a.OnExpiry, a.ExpiresAt.Sub(a.AskedAt))
		}
		if dec.ask == events.KindExternal && out.Behavior != string(permission.Ask) {
			out.Message += " It is answered by a person or another system."
		}
	}
	return out
}

// opPermitReplay says which recorded calls another configuration would decide otherwise. What a tool's
// own check would say is left out of both: it may depend on what is not recorded.
func (d *Dispatcher) opPermitReplay(ctx context.Context, r *request) (any, error) {
	var q events.ReplayRequest
	if err := r.read(&q); err != nil {
		return nil, err
	}
	if d.cfg.NoHistory {
		return nil, refused(http.StatusConflict, "this installation keeps no history that could be replayed")
	}
	var c toolkit.Config
	if err := events.Unmarshal(q.Config, &c); err != nil {
		return nil, refused(http.StatusBadRequest, "the configuration cannot be read: %v", err)
	}
	if err := c.Check(); err != nil {
		return nil, refused(http.StatusBadRequest, "%v", err)
	}
	if q.Limit <= 0 || q.Limit > 2000 {
		q.Limit = 500
	}
	now := d.registry.snapshot()
	then := *now
	then.Permissions, then.Approvals, then.Roles = c.Permissions, c.Approvals, c.Roles
	out := events.ReplayReply{After: q.After}
	for range q.Limit {
		m, err := d.bus.Next(ctx, d.bus.HistoryStream(), out.After+1, d.bus.Under("history"))
		if errors.Is(err, jet.ErrNone) {
			out.After = 0
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out.After = m.Seq
		subject := originalSubject(m.Subject, m.Header.Get(headerSource))
		if agent, session, id, err := d.bus.ParseCalls(subject); err == nil && m.Err == nil {
			t := turn{agent: agent, session: session, id: id}
			if t.read(m.Event) == nil {
				if err := d.replay(ctx, &t, now, &then, &out); err != nil {
					return nil, err
				}
			}
		}
	}
	return out, nil
}

// replay decides about the calls of a recorded turn by both policies.
func (d *Dispatcher) replay(ctx context.Context, t *turn, now, then *snapshot, out *events.ReplayReply) error {
	rec, err := d.sessions.get(ctx, t.session)
	if errors.Is(err, jet.ErrNone) {
		rec, err = newRecord(t.agent, nil), nil
	}
	if err != nil {
		return err
	}
	for _, c := range t.body.Calls {
		tl := now.tool(c.Name)
		if tl == nil || tl.schema == nil {
			continue
		}
		schema, err := tl.schema()
		if err != nil {
			continue
		}
		input, _, err := schema.Prepare(c.Input)
		if err != nil {
			continue
		}
		out.Calls++
		a, b := now.permit(rec, tl, input, nil), then.permit(rec, tl, input, nil)
		if a.Behavior != b.Behavior {
			out.Changes = append(out.Changes, events.ReplayChange{
				Session: t.session, Turn: t.id, CallID: c.ID, Tool: c.Name, Input: c.Input, Now: a.String(), Then: b.String(),
			})
		}
	}
	return nil
}
