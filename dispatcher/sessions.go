package dispatcher

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit/permission"
)

// opSessions lists the sessions: to an operator all, to an agent its own.
func (d *Dispatcher) opSessions(ctx context.Context, r *request) (any, error) {
	var q events.SessionsRequest
	if err := r.read(&q); err != nil {
		return nil, err
	}
	if q.Limit <= 0 || q.Limit > 1000 {
		q.Limit = 100
	}
	bucket := d.bus.SessionsBucket()
	prefix := "$KV." + bucket + "."
	keys, err := d.bus.Subjects(ctx, "KV_"+bucket, prefix+">")
	if err != nil {
		return nil, err
	}
	slices.Sort(keys)
	after := ""
	if q.After != "" {
		after = prefix + events.Token(q.After)
	}
	out := events.SessionsReply{Sessions: []events.SessionInfo{}}
	for _, key := range keys {
		if key <= after {
			continue
		}
		id, err := events.Untoken[events.SessionID](strings.TrimPrefix(key, prefix))
		if err != nil {
			continue
		}
		rec, err := d.sessions.get(ctx, id)
		if errors.Is(err, jet.ErrNone) { // removed meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		if !d.owns(r.actor, rec) {
			continue
		}
		if len(out.Sessions) == q.Limit {
			out.More = true
			break
		}
		out.Sessions = append(out.Sessions, rec.info(id))
	}
	return out, nil
}

// owns says whether an actor may ask about and change a session.
func (d *Dispatcher) owns(actor string, rec *record) bool {
	return string(rec.Agent) == actor || d.operator(actor)
}

// sessionFor reads the record of a session that actor may see.
func (d *Dispatcher) sessionFor(ctx context.Context, actor string, id events.SessionID) (*record, error) {
	if err := events.CheckID("session", id); err != nil {
		return nil, refused(http.StatusBadRequest, "%v", err)
	}
	rec, err := d.sessions.get(ctx, id)
	switch {
	case errors.Is(err, jet.ErrNone):
		return nil, refused(http.StatusNotFound, "there is no session %q; its first turn creates it", id)
	case err != nil:
		return nil, err
	case !d.owns(actor, rec):
		return nil, refused(http.StatusForbidden, "the session belongs to another agent")
	}
	return rec, nil
}

// opSession shows the record of a session.
func (d *Dispatcher) opSession(ctx context.Context, r *request) (any, error) {
	var q events.SessionRequest
	if err := r.read(&q); err != nil {
		return nil, err
	}
	rec, err := d.sessionFor(ctx, r.actor, q.Session)
	if err != nil {
		return nil, err
	}
	return rec.info(q.Session), nil
}

// opSessionSet switches groups of a session, of either scope.
func (d *Dispatcher) opSessionSet(ctx context.Context, r *request) (any, error) {
	var q events.SessionSet
	if err := r.read(&q); err != nil {
		return nil, err
	}
	if err := events.CheckID("session", q.Session); err != nil {
		return nil, refused(http.StatusBadRequest, "%v", err)
	}
	for {
		rec, err := d.setSession(ctx, r.actor, q)
		switch {
		case errors.Is(err, jet.ErrConflict) && q.Revision == 0:
			continue
		case errors.Is(err, jet.ErrConflict):
			return nil, refused(http.StatusConflict, "the session is no longer at revision %d; read it again", q.Revision)
		case err != nil:
			return nil, err
		}
		return rec.info(q.Session), d.toolsChanged(q.Session, rec.revision)
	}
}

func (d *Dispatcher) setSession(ctx context.Context, actor string, q events.SessionSet) (*record, error) {
	reg := d.registry.snapshot()
	rec, err := d.sessions.get(ctx, q.Session)
	switch {
	case errors.Is(err, jet.ErrNone):
		rec = newRecord(events.AgentID(actor), reg.initial())
		if q.Agent != "" && d.operator(actor) {
			rec.Agent = q.Agent
		}
	case err != nil:
		return nil, err
	case !d.owns(actor, rec):
		return nil, refused(http.StatusForbidden, "the session belongs to another agent")
	}
	if q.Revision != 0 && q.Revision != rec.revision {
		return nil, jet.ErrConflict
	}
	active, unknown := reg.switched(rec.Active, q.Active, q.On, q.Off)
	if len(unknown) > 0 {
		return nil, refused(http.StatusNotFound, "no such group: %s; nothing was changed", strings.Join(unknown, ", "))
	}
	permit, err := d.sessionPermissions(actor, q)
	if err != nil {
		return nil, err
	}
	return d.sessions.put(ctx, q.Session, rec, func(next *record) {
		next.Active = active
		permit(next)
	})
}

// maxSessionRules is the most permission rules of one session.
const maxSessionRules = 1000

// sessionPermissions is what a request changes about the permissions of a session.
func (d *Dispatcher) sessionPermissions(actor string, q events.SessionSet) (change func(*record), err error) {
	if q.Mode == nil && len(q.Rules) == 0 && len(q.Drop) == 0 {
		return func(*record) {}, nil
	}
	if !d.operator(actor) {
		return nil, refused(http.StatusForbidden, "only operators may change permissions, %q is none", actor)
	}
	var mode permission.Mode
	if q.Mode != nil && *q.Mode != "" {
		if err := mode.UnmarshalText([]byte(*q.Mode)); err != nil {
			return nil, refused(http.StatusBadRequest, "%v", err)
		}
	}
	for _, r := range q.Rules {
		if err := asRule(r).Check(); err != nil {
			return nil, refused(http.StatusBadRequest, "%v", err)
		}
	}
	if len(q.Rules) > maxSessionRules {
		return nil, refused(http.StatusRequestEntityTooLarge, "%d rules, at most %d are allowed in a session", len(q.Rules), maxSessionRules)
	}
	return func(next *record) {
		if q.Mode != nil {
			next.Mode = mode
		}
		next.Rules = slices.DeleteFunc(next.Rules, func(have events.SessionRule) bool {
			return slices.ContainsFunc(q.Drop, func(r events.Rule) bool { return sameRule(have.Rule, r) })
		})
		next.allow(q.Rules, "", actor, time.Now())
	}, nil
}

// opSessionDrop removes the record of a session. Its next turn begins with the defaults again.
func (d *Dispatcher) opSessionDrop(ctx context.Context, r *request) (any, error) {
	var q events.SessionRequest
	if err := r.read(&q); err != nil {
		return nil, err
	}
	rec, err := d.sessionFor(ctx, r.actor, q.Session)
	if err != nil {
		return nil, err
	}
	err = d.bus.DropRecord(ctx, d.bus.SessionsBucket(), rec.revision)
	if errors.Is(err, jet.ErrConflict) {
		return nil, refused(http.StatusConflict, "the session was changed just now; try again")
	}
	if err != nil {
		return nil, err
	}
	return struct{}{}, d.toolsChanged(q.Session, rec.revision)
}

// seenBy is the record by which a listing shows a session to an actor: its own, or that of a
// session which is still to come. No session at all is nil: everything is shown.
func (d *Dispatcher) seenBy(ctx context.Context, actor string, id events.SessionID, reg *snapshot) (*record, error) {
	if id == "" {
		return nil, nil //nolint:nilnil // no session is asked about
	}
	if err := events.CheckID("session", id); err != nil {
		return nil, refused(http.StatusBadRequest, "%v", err)
	}
	rec, err := d.sessions.get(ctx, id)
	switch {
	case errors.Is(err, jet.ErrNone):
		return newRecord(events.AgentID(actor), reg.initial()), nil
	case err != nil:
		return nil, err
	case !d.owns(actor, rec):
		return nil, refused(http.StatusForbidden, "the session belongs to another agent")
	}
	return rec, nil
}

// opGroups lists the groups, and how they stand for a session.
func (d *Dispatcher) opGroups(ctx context.Context, r *request) (any, error) {
	var q events.GroupsRequest
	if err := r.read(&q); err != nil {
		return nil, err
	}
	reg := d.registry.snapshot()
	rec, err := d.seenBy(ctx, r.actor, q.Session, reg)
	if err != nil {
		return nil, err
	}
	out := events.GroupsReply{ConfigRevision: reg.revision, Groups: []events.GroupInfo{}}
	if rec != nil {
		out.SessionRevision = rec.revision
	}
	for _, g := range reg.sorted {
		info := events.GroupInfo{
			Name: g.Name, Description: g.Description, Instructions: g.Instructions, Scope: g.scope(),
			Initial: g.Active, Declared: g.declared, Tools: g.size, Members: slices.Concat(g.Tools, g.Servers, g.Skills),
			Active: rec != nil && rec.active[g.Name],
		}
		out.Groups = append(out.Groups, info)
	}
	return out, nil
}

// opState returns a document that a tool keeps for a session.
func (d *Dispatcher) opState(ctx context.Context, r *request) (any, error) {
	var q events.StateRequest
	if err := r.read(&q); err != nil {
		return nil, err
	}
	if err := events.CheckID("name", q.Name); err != nil {
		return nil, refused(http.StatusBadRequest, "%v", err)
	}
	if _, err := d.sessionFor(ctx, r.actor, q.Session); err != nil {
		return nil, err
	}
	doc, err := d.bus.Document(ctx, q.Session, q.Name)
	if errors.Is(err, jet.ErrNone) {
		return events.StateReply{}, nil
	}
	if err != nil {
		return nil, err
	}
	return events.StateReply{Revision: doc.Revision, Document: doc.Data}, nil
}
