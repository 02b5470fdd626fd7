package dispatcher

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

// opLife returns what is recorded of a session, a turn or a call, oldest first, and then its open questions.
func (d *Dispatcher) opLife(ctx context.Context, r *request) (any, error) {
	var q events.LifeRequest
	if err := r.read(&q); err != nil {
		return nil, err
	}
	if err := d.mayRead(ctx, r.actor, q.Session); err != nil {
		return nil, err
	}
	out := events.LifeReply{Events: []events.LifeEvent{}}
	size, looked := 0, 0
	more := false
	err := d.recorded(ctx, q.Session, q.After, func(m *jet.Stored, fresh bool) (done bool) {
		if looked++; !fresh && (looked > maxLooked || size > pageBytes) {
			more = true
			return true
		}
		if !fresh {
			out.After = m.Seq
		}
		if d.concerns(m.Subject, q) {
			out.Events = append(out.Events, lifeEvent(m))
			size += len(m.Data)
		}
		return false
	})
	turnsFirst(out.Events)
	if err != nil || more {
		return out, err
	}
	out.After = 0
	return out, d.lifeOpen(ctx, q, &out)
}

// turnsFirst puts each turn before what became of it. They come from two streams, which the history follows
// in no order of theirs.
func turnsFirst(all []events.LifeEvent) {
	first := make(map[string]int) // by session and turn
	for i, e := range all {
		t := strings.Split(e.Subject, ".")
		call := t[1] == "call"
		if call {
			t = t[1:] // the agent stands before the session
		}
		turn := t[2] + "." + t[3]
		at, seen := first[turn]
		if !seen {
			first[turn] = i
		}
		if call && seen {
			copy(all[at+1:i+1], all[at:i])
			all[at] = e
			for other, n := range first {
				if n >= at && n < i {
					first[other] = n + 1
				}
			}
		}
	}
}

// mayRead says whether an actor may read the record of a session: its owner, and operators.
func (d *Dispatcher) mayRead(ctx context.Context, actor string, session events.SessionID) error {
	_, err := d.sessionFor(ctx, actor, session)
	if bad, ok := errors.AsType[*refusedError](err); ok && bad.code == http.StatusNotFound && d.operator(actor) {
		return nil // its record is gone; its history may be there
	}
	return err
}

// recorded goes through what is kept of a session: the history, and then what CALLS and JOURNAL have and the
// history has not yet (fresh). It follows them within a moment, but after a restart that may be seconds.
func (d *Dispatcher) recorded(ctx context.Context, session events.SessionID, after uint64, visit func(m *jet.Stored, fresh bool) (done bool)) error {
	has := make(map[string]uint64)
	if !d.cfg.NoHistory {
		var err error
		if has, err = d.followed(ctx); err != nil {
			return err
		}
		done := false
		err = d.pastAfter(ctx, session, after, func(m *jet.Stored) bool {
			stream, seq, _ := origin(m.Header.Get(headerSource))
			has[stream] = max(has[stream], seq)
			done = visit(m, false)
			return done
		})
		if err != nil || done {
			return err
		}
	}
	token := events.Token(session)
	for _, part := range []struct{ stream, filter string }{
		{d.bus.CallsStream(), d.bus.Prefix() + ".call.*." + token + ".>"},
		{d.bus.JournalStream(), d.bus.Prefix() + ".*." + token + ".>"},
	} {
		for seq := has[part.stream] + 1; ; seq++ {
			m, err := d.bus.Next(ctx, part.stream, seq, part.filter)
			if errors.Is(err, jet.ErrNone) {
				break
			}
			if err != nil {
				return err
			}
			if seq = m.Seq; visit(m, true) {
				return nil
			}
		}
	}
	return nil
}

// followed is how far the history has followed each stream: it takes their messages in their order.
func (d *Dispatcher) followed(ctx context.Context) (map[string]uint64, error) {
	has := make(map[string]uint64)
	s, err := d.bus.JetStream().Stream(ctx, d.bus.HistoryStream())
	if err != nil {
		return nil, err
	}
	state := s.CachedInfo().State
	for seq, looked := state.LastSeq, 0; seq >= state.FirstSeq && seq > 0 && looked < maxLooked && len(has) < 2; seq, looked = seq-1, looked+1 {
		raw, err := s.GetMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if stream, at, ok := origin(raw.Header.Get(headerSource)); ok {
			has[stream] = max(has[stream], at)
		}
	}
	return has, nil
}

// concerns says whether a recorded message is about the turn or call that is asked about.
func (d *Dispatcher) concerns(subject string, q events.LifeRequest) bool {
	t := strings.Split(subject, ".")
	if len(t) < 5 || q.Turn == "" {
		return len(t) >= 5
	}
	if t[1] == "call" {
		return t[4] == events.Token(q.Turn)
	}
	return t[3] == events.Token(q.Turn) && (q.Call == "" || t[4] == events.Token(q.Call))
}

func lifeEvent(m *jet.Stored) events.LifeEvent {
	return events.LifeEvent{Seq: m.Seq, Subject: m.Subject, At: m.Time, Header: jet.WithoutOrders(m.Header), Data: m.Data}
}

// lifeOpen adds the open questions: they are recorded once they are decided.
func (d *Dispatcher) lifeOpen(ctx context.Context, q events.LifeRequest, out *events.LifeReply) error {
	for seq := uint64(1); ; seq++ {
		m, err := d.bus.Next(ctx, d.bus.QuestionsStream(), seq, d.bus.RequireAbout("", "", q.Session))
		if errors.Is(err, jet.ErrNone) {
			return nil
		}
		if err != nil {
			return err
		}
		seq = m.Seq
		_, _, k, _, err := d.bus.ParseRequire(m.Subject)
		if err == nil && (q.Turn == "" || k.Turn == q.Turn) && (q.Call == "" || k.Call == q.Call) {
			out.Events = append(out.Events, lifeEvent(m))
		}
	}
}

// pastDecision finds a decision in the history by its request; [jet.ErrNone]: it is not there.
func (d *Dispatcher) pastDecision(ctx context.Context, request string) (found *jet.Stored, err error) {
	if d.cfg.NoHistory {
		return nil, jet.ErrNone
	}
	for before := uint64(0); ; {
		before, err = d.backwards(ctx, before, func(m *jet.Stored) bool {
			if _, r, err := d.bus.ParseDecided(m.Subject); err == nil && r == request {
				found = m
			}
			return found != nil
		})
		if err != nil || found != nil {
			return found, err
		}
		if before == 0 {
			return nil, jet.ErrNone
		}
	}
}

// backwards goes through the history (or JOURNAL, where there is none), newest first, each message on its
// original subject, until visit is done or enough were looked at. It returns where to go on; 0: nowhere.
func (d *Dispatcher) backwards(ctx context.Context, before uint64, visit func(m *jet.Stored) (done bool)) (uint64, error) {
	name := d.bus.HistoryStream()
	if d.cfg.NoHistory {
		name = d.bus.JournalStream()
	}
	s, err := d.bus.JetStream().Stream(ctx, name)
	if err != nil {
		return 0, err
	}
	state := s.CachedInfo().State
	seq := state.LastSeq
	if before > 0 {
		seq = min(seq, before-1)
	}
	for looked := 0; seq > 0 && seq >= state.FirstSeq; seq-- {
		if looked++; looked > maxLooked {
			return seq + 1, nil
		}
		raw, err := s.GetMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return 0, err
		}
		m := &jet.Stored{Subject: originalSubject(raw.Subject, raw.Header.Get(headerSource)), Seq: seq, Time: raw.Time, Header: raw.Header, Data: raw.Data}
		if !strings.HasPrefix(m.Subject, d.bus.Prefix()+".decided.") {
			continue
		}
		m.Event, m.Err = d.bus.Open(ctx, m.Header, m.Data)
		if visit(m) {
			return seq, nil
		}
	}
	return 0, nil
}

// origin is the stream that a message of the history is from, and its sequence there.
func origin(source string) (stream string, seq uint64, ok bool) {
	f := strings.Fields(source)
	if len(f) < 2 {
		return "", 0, false
	}
	seq, err := strconv.ParseUint(f[1], 10, 64)
	return f[0], seq, err == nil
}

// originalSubject is where a message of the history was published.
func originalSubject(subject, source string) string {
	if f := slices.Collect(strings.SplitSeq(source, " ")); len(f) >= 5 {
		return f[4]
	}
	return subject
}
