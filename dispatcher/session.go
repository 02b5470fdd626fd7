package dispatcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit/permission"
)

// record is what is stored of a session: what its model sees, and what may run. It never changes;
// a newer one replaces it.
type record struct {
	Agent     events.AgentID `json:"agent"`             // whose it is: who touched it first
	Active    []string       `json:"active"`            // groups that are on, by name
	Applied   []applied      `json:"applied,omitempty"` // the last calls that changed it, oldest first
	CreatedAt time.Time      `json:"createdAt"`

	Mode  permission.Mode      `json:"mode,omitempty"` // "": the installation's
	Rules []events.SessionRule `json:"rules,omitempty"`

	active   map[string]bool
	revision uint64
	at       time.Time // when it was stored
}

// applied is a call that changed the record, and what it was told. A call that is delivered again
// is told the same, and changes nothing.
type applied struct {
	Turn events.TurnID `json:"turn"`
	Call events.CallID `json:"call"`
	Text string        `json:"text"`
}

// maxApplied is how many such calls are remembered, more than can be under way in one session.
const maxApplied = 16

// newRecord is the record of a session that is still to come.
func newRecord(agent events.AgentID, active []string) *record {
	rec := &record{Agent: agent, Active: active, CreatedAt: time.Now().UTC()}
	rec.index()
	return rec
}

func readRecord(r *jet.Record) (*record, error) {
	rec := record{revision: r.Revision, at: r.At}
	if err := json.Unmarshal(r.Data, &rec); err != nil {
		return nil, fmt.Errorf("session record: %w", err)
	}
	rec.index()
	return &rec, nil
}

func (r *record) index() {
	r.active = make(map[string]bool, len(r.Active))
	for _, name := range r.Active {
		r.active[name] = true
	}
}

// result returns what a call was told that changed the record before.
func (r *record) result(turn events.TurnID, call events.CallID) (string, bool) {
	for _, a := range r.Applied {
		if a.Turn == turn && a.Call == call {
			return a.Text, true
		}
	}
	return "", false
}

// aging says whether a record in use should be written again, lest it expire.
func (r *record) aging(now time.Time) bool { return now.Sub(r.at) >= jet.SessionAge/2 }

// info is the record as the API tells it.
func (r *record) info(session events.SessionID) events.SessionInfo {
	return events.SessionInfo{
		Session: session, Agent: r.Agent, Revision: r.revision, Active: append([]string{}, r.Active...),
		CreatedAt: r.CreatedAt, ChangedAt: r.at, Mode: string(r.Mode), Rules: r.Rules,
	}
}

// sessions reads and writes the session records. What it keeps in memory saves parsing, never
// reading: each answer is what the bucket held after it was asked for.
type sessions struct {
	bus *jet.Bus

	mu     sync.Mutex
	parsed map[events.SessionID]*record
	reads  map[events.SessionID]*sessionReads
}

// sessionReads is at most one read of a session under way, and one that is to follow it, for all who
// came after the first began.
type sessionReads struct{ next *sessionRead }

type sessionRead struct {
	done chan struct{}
	rec  *record
	err  error
}

// maxParsed is how many records are kept in parsed form.
const maxParsed = 10_000

func newSessions(bus *jet.Bus) *sessions {
	return &sessions{bus: bus, parsed: make(map[events.SessionID]*record), reads: make(map[events.SessionID]*sessionReads)}
}

// get reads the record of a session; [jet.ErrNone]: it has none. Turns of one session that come at
// once share reads, none of which began before they came.
func (s *sessions) get(ctx context.Context, id events.SessionID) (*record, error) {
	s.mu.Lock()
	under := s.reads[id]
	if under == nil {
		under = &sessionReads{}
		s.reads[id] = under
		s.mu.Unlock()
		rec, err := s.read(ctx, id)
		s.follow(ctx, id, under)
		return rec, err
	}
	if under.next == nil {
		under.next = &sessionRead{done: make(chan struct{})}
	}
	next := under.next
	s.mu.Unlock()
	select {
	case <-next.done:
		return next.rec, next.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// follow makes the reads that were asked for while one was under way.
func (s *sessions) follow(ctx context.Context, id events.SessionID, under *sessionReads) {
	next := s.following(id, under)
	if next == nil {
		return
	}
	ctx = context.WithoutCancel(ctx) // who read first has its answer, and may be gone
	go func() {
		for ; next != nil; next = s.following(id, under) {
			rctx, cancel := finishing(ctx)
			next.rec, next.err = s.read(rctx, id)
			cancel()
			close(next.done)
		}
	}()
}

// following takes over the read that is to follow; nil: nobody waits for one.
func (s *sessions) following(id events.SessionID, under *sessionReads) *sessionRead {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := under.next
	if under.next = nil; next == nil {
		delete(s.reads, id)
	}
	return next
}

func (s *sessions) read(ctx context.Context, id events.SessionID) (*record, error) {
	r, err := s.bus.Record(ctx, s.bus.SessionsBucket(), events.Token(id))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	rec := s.parsed[id]
	s.mu.Unlock()
	if rec != nil && rec.revision == r.Revision {
		return rec, nil
	}
	if rec, err = readRecord(r); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.parsed) >= maxParsed {
		clear(s.parsed)
	}
	s.parsed[id] = rec
	return rec, nil
}

// touch reads the record of a session, and creates it for agent if it has none. A record that has
// not been written for long is written again, for records of sessions in use never expire.
func (s *sessions) touch(ctx context.Context, id events.SessionID, agent events.AgentID, reg *snapshot) (*record, error) {
	for {
		rec, err := s.get(ctx, id)
		switch {
		case err == nil && !rec.aging(time.Now()):
			return rec, nil
		case err == nil:
			rec, err = s.put(ctx, id, rec, func(*record) {})
		case errors.Is(err, jet.ErrNone):
			rec, err = s.put(ctx, id, newRecord(agent, reg.initial()), func(*record) {})
		}
		if !errors.Is(err, jet.ErrConflict) {
			return rec, err
		}
	}
}

// put writes a changed record in the place of old. [jet.ErrConflict]: another one is there by now.
func (s *sessions) put(ctx context.Context, id events.SessionID, old *record, change func(next *record)) (*record, error) {
	next := record{
		Agent: old.Agent, CreatedAt: old.CreatedAt, Active: append([]string{}, old.Active...), Applied: slices.Clone(old.Applied),
		Mode: old.Mode, Rules: slices.Clone(old.Rules),
	}
	change(&next)
	next.Applied = next.Applied[max(0, len(next.Applied)-maxApplied):]
	data, err := events.Marshal(next)
	if err != nil {
		return nil, err
	}
	revision, err := s.bus.PutRecord(ctx, s.bus.SessionsBucket(), events.Token(id), data, old.revision)
	if err != nil {
		return nil, err
	}
	return readRecord(&jet.Record{Data: data, Revision: revision, At: time.Now()})
}

// errForeign is returned when a session belongs to another agent.
var errForeign = errors.New("dispatcher: the session belongs to another agent")

// session returns the record of a turn's session, created if need be. [errForeign]: it is
// another agent's.
func (d *Dispatcher) session(ctx context.Context, t *turn, reg *snapshot) (*record, error) {
	rec, err := d.sessions.touch(ctx, t.session, t.agent, reg)
	if err != nil {
		return nil, err
	}
	if rec.Agent != t.agent {
		return nil, errForeign
	}
	return rec, nil
}

// errTrespass is returned when a turn has the session and the id of another agent's turn.
var errTrespass = errors.New("dispatcher: the turn has the session and id of another agent's turn")

// trespass returns [errTrespass] for a turn in a session of another agent who has a turn of the same id.
// Facts do not say whose call they are of: those of such a turn are the other agent's, so nothing of
// it may be settled, cancelled or shown.
func (d *Dispatcher) trespass(ctx context.Context, t *turn) error {
	rec, err := d.sessions.get(ctx, t.session)
	switch {
	case errors.Is(err, jet.ErrNone):
		return nil
	case err != nil:
		return err
	case rec.Agent == t.agent:
		return nil
	}
	turns, err := d.bus.Subjects(ctx, d.bus.CallsStream(), d.bus.CallsOfTurn(t.session, t.id))
	if err != nil {
		return err
	}
	own := d.bus.Calls(t.agent, t.session, t.id)
	if slices.ContainsFunc(turns, func(subject string) bool { return subject != own }) {
		return errTrespass
	}
	return nil
}
