package dispatcher

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

// maxLetters is the most dead letters of one page.
const maxLetters = 500

// opDead lists dead letters, newest first.
func (d *Dispatcher) opDead(ctx context.Context, r *request) (any, error) {
	var q events.DeadRequest
	if err := r.read(&q); err != nil {
		return nil, err
	}
	if q.Limit <= 0 || q.Limit > maxLetters {
		q.Limit = 50
	}
	s, err := d.bus.JetStream().Stream(ctx, d.bus.DeadStream())
	if err != nil {
		return nil, err
	}
	state := s.CachedInfo().State
	seq := state.LastSeq
	if q.Before > 0 {
		seq = min(seq, q.Before-1)
	}
	out := events.DeadReply{Letters: []events.DeadLetter{}}
	for ; seq > 0 && seq >= state.FirstSeq; seq-- {
		m, err := s.GetMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue // dropped
		}
		if err != nil {
			return nil, err
		}
		if len(out.Letters) == q.Limit {
			out.More = true
			break
		}
		l := letterOf(m)
		l.Header = nil
		out.Letters = append(out.Letters, l)
	}
	return out, nil
}

// letterOf describes a stored dead letter, without its bytes.
func letterOf(m *jetstream.RawStreamMsg) events.DeadLetter {
	h := jet.WithoutOrders(m.Header)
	delete(h, events.HeaderDeadReason)
	delete(h, events.HeaderDeadSubject)
	delete(h, jet.HeaderDeadBody)
	return events.DeadLetter{
		Seq: m.Sequence, At: m.Time, Size: len(m.Data), Header: h,
		Subject: m.Header.Get(events.HeaderDeadSubject), Reason: m.Header.Get(events.HeaderDeadReason),
	}
}

// letter reads one dead letter whole.
func (d *Dispatcher) letter(ctx context.Context, r *request) (events.DeadLetter, error) {
	var q events.DeadRef
	if err := r.read(&q); err != nil {
		return events.DeadLetter{}, err
	}
	s, err := d.bus.JetStream().Stream(ctx, d.bus.DeadStream())
	if err != nil {
		return events.DeadLetter{}, err
	}
	m, err := s.GetMsg(ctx, max(q.Seq, 1))
	if errors.Is(err, jetstream.ErrMsgNotFound) || q.Seq == 0 {
		return events.DeadLetter{}, refused(http.StatusNotFound, "there is no dead letter %d", q.Seq)
	}
	if err != nil {
		return events.DeadLetter{}, err
	}
	l := letterOf(m)
	l.Data = m.Data
	if ref := m.Header.Get(jet.HeaderDeadBody); ref != "" {
		if l.Data, err = d.bus.GetBody(ctx, ref); err != nil {
			return l, refused(http.StatusNotFound, "the bytes of dead letter %d are no longer kept", q.Seq)
		}
		l.Size = len(l.Data)
	}
	return l, nil
}

func (d *Dispatcher) opDeadShow(ctx context.Context, r *request) (any, error) {
	l, err := d.letter(ctx, r)
	if err == nil && len(l.Data) > pageBytes {
		l.Data = l.Data[:pageBytes] // its size says that there is more
	}
	return l, err
}

// opDeadRetry publishes a dead letter again, bytes and headers as they were, on its subject, and
// drops it. Letters of turns and work have conditions, because a call has one result:
//
//   - If any of its calls that can be told is settled, it is refused: a second try could not
//     be answered.
//   - A turn whose subject is taken by another event is refused. By the same event: that one is
//     removed first, if it was taken in; if not, nothing needs to be retried. Dying in
//     between leaves the letter.
func (d *Dispatcher) opDeadRetry(ctx context.Context, r *request) (any, error) {
	l, err := d.letter(ctx, r)
	if err != nil {
		return nil, err
	}
	if d.bus.StreamOf(l.Subject) == "" {
		return nil, refused(http.StatusConflict, "its subject %q belongs to no stream", l.Subject)
	}
	if err := d.makeWay(ctx, l); err != nil {
		return nil, err
	}
	m := &nats.Msg{Subject: l.Subject, Header: nats.Header(l.Header), Data: l.Data}
	if err := d.bus.Republish(ctx, m); err != nil {
		if api, ok := errors.AsType[*jetstream.APIError](err); ok {
			return nil, refused(http.StatusConflict, "the stream refuses it: %s", api.Description)
		}
		return nil, err
	}
	return struct{}{}, d.bus.Delete(ctx, d.bus.DeadStream(), l.Seq)
}

// makeWay checks that a letter may be tried again, and removes what is in its way.
func (d *Dispatcher) makeWay(ctx context.Context, l events.DeadLetter) error {
	if _, _, k, err := d.bus.ParseWork(l.Subject); err == nil {
		return d.unsettled(ctx, k)
	}
	a, session, id, err := d.bus.ParseCalls(l.Subject)
	if err != nil {
		return nil //nolint:nilerr // neither work nor turn: nothing can be in its way
	}
	t, e, _ := d.readTurn(ctx, l.Subject, l.Header, l.Data)
	calls := t.body.Calls
	if len(calls) == 0 {
		calls = salvage(e, l.Data)
	}
	for _, c := range calls {
		if err := d.unsettled(ctx, t.key(c.ID)); err != nil {
			return err
		}
	}
	m, err := d.bus.Fact(ctx, d.bus.Calls(a, session, id))
	switch {
	case errors.Is(err, jet.ErrNone):
		return nil
	case err != nil:
		return err
	case !bytes.Equal(m.Data, l.Data):
		return refused(http.StatusConflict, "the turn was published again with other content meanwhile")
	}
	floor, err := d.oldestTurn(ctx)
	if err != nil {
		return err
	}
	if !floor.IsZero() && !floor.After(m.Time) {
		return refused(http.StatusConflict, "the turn is still being taken in; try again when it was")
	}
	return d.bus.Delete(ctx, d.bus.CallsStream(), m.Seq)
}

// unsettled refuses the retry of a call that has its result.
func (d *Dispatcher) unsettled(ctx context.Context, k events.CallKey) error {
	done, err := d.hasResult(ctx, k)
	if err == nil && done {
		return refused(http.StatusConflict, "call %s was answered already; send it again as a new turn", k)
	}
	return err
}

func (d *Dispatcher) opDeadDrop(ctx context.Context, r *request) (any, error) {
	var q events.DeadRef
	if err := r.read(&q); err != nil {
		return nil, err
	}
	s, err := d.bus.JetStream().Stream(ctx, d.bus.DeadStream())
	if err != nil {
		return nil, err
	}
	if _, err := s.GetMsg(ctx, max(q.Seq, 1)); errors.Is(err, jetstream.ErrMsgNotFound) || q.Seq == 0 {
		return nil, refused(http.StatusNotFound, "there is no dead letter %d", q.Seq)
	} else if err != nil {
		return nil, err
	}
	return struct{}{}, d.bus.Delete(ctx, d.bus.DeadStream(), q.Seq)
}
