package dispatcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

const (
	stepSlots = 64
)

// takeSteps moves staged turns on until ctx ends.
func (d *Dispatcher) takeSteps(ctx context.Context) error {
	return d.pull(ctx, d.bus.InboxStream(), jet.StepConsumer, stepSlots, func(del *jet.Delivery) {
		ctx, cancel := finishing(ctx)
		defer cancel()
		session, id, err := d.bus.ParseStep(del.Subject)
		if err != nil { // by nobody of ours
			d.log.Warn().Err(err).Msg("step ignored")
			_ = del.Ack()
			return
		}
		if err := d.steps.once(turnKey(session, id), func() error { return d.step(ctx, session, id, del.Count > 1) }); err != nil {
			d.giveBack(del, err)
			return
		}
		if d.at("step.ack") != nil {
			return
		}
		_ = del.Ack()
	})
}

// begin takes the first step of a turn that runs in stages or asks somebody, and stores its record with
// it. The record may be there already, from an earlier delivery.
func (d *Dispatcher) begin(ctx context.Context, t *turn, sizes []int, delivery int) error {
	if err := d.at("turn.record"); err != nil {
		return err
	}
	t.staged = true
	s := newStagedTurn(t, sizes)
	if delivery > 1 { // it may have had a record before, and have ended
		results, err := d.results(ctx, t.session, t.id)
		if err != nil {
			return err
		}
		s.advance(func(i int) bool { return results[events.Token(t.body.Calls[i].ID)] }, time.Now().UTC())
		if s.finished() {
			return nil
		}
	}
	again, err := d.move(ctx, s, t, 0, false)
	if err != nil || !again {
		return err
	}
	joined, err := d.join(ctx, t, true)
	if err == nil && !joined {
		return errRecordGone
	}
	return err
}

// errRecordGone is returned when a record was there a moment ago. The turn is decided about anew: it may
// have ended, or be another of the same id.
var errRecordGone = errors.New("dispatcher: the record of the turn has just been dropped")

// join goes on with a turn by the record that is stored under its session and id. joined: there is one. It
// may be of an earlier turn of this id, which still waits for somebody: calls that it does not have are
// refused then, for no call is left without a result. A record of suspended calls says nothing of the others,
// which go on without it, or with it if they need a record.
func (d *Dispatcher) join(ctx context.Context, t *turn, need bool) (joined bool, err error) {
	s, recorded, revision, err := d.stagedTurn(ctx, t.session, t.id)
	switch {
	case errors.Is(err, jet.ErrNone), err == nil && (s.Agent != t.agent || s.Partial && !need):
		return false, nil
	case err != nil:
		return false, err
	case s.Partial:
		if err := s.take(recorded, t.body.Calls...); err != nil {
			return false, err
		}
		_, err := d.keepTurn(ctx, t.session, t.id, s, revision)
		if errors.Is(err, jet.ErrConflict) { // looked at again when the turn is delivered again
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	var strange []decision
	for _, c := range t.body.Calls {
		if recorded.place(c.ID) < 0 {
			strange = append(strange, decision{
				call: c, reason: events.ReasonMalformed,
				text: fmt.Sprintf("Turn id %q is that of an earlier turn of this session, which still waits. Send the calls in a turn with an id of its own.", t.id),
			})
		}
	}
	if err := d.fanOut(ctx, t, redelivered, strange); err != nil {
		return true, err
	}
	return true, d.step(ctx, t.session, t.id, true)
}

// step brings a staged turn as far as it can go now: it notes results and decisions, moves on to the
// next stage when one is complete, and publishes what is due. It looks at what is stored, not at why it
// was called, so it may be called at any time, by several at once, and die anywhere. again puts open
// questions once more: whoever was to put them may have died.
func (d *Dispatcher) step(ctx context.Context, session events.SessionID, id events.TurnID, again bool) error {
	for {
		s, t, revision, err := d.stagedTurn(ctx, session, id)
		if errors.Is(err, jet.ErrNone) {
			return nil // finished
		}
		if err != nil {
			return err
		}
		more, err := d.move(ctx, s, t, revision, again)
		if err != nil || !more {
			return err
		}
	}
}

// move takes one step of a turn whose record was read at revision (0: it is still to be stored). more
// says that there is another one to take.
func (d *Dispatcher) move(ctx context.Context, s *stagedTurn, t *turn, revision uint64, again bool) (more bool, err error) {
	changed := revision == 0
	now := time.Now().UTC()
	var heard map[int]*events.Decided
	if revision != 0 {
		results, err := d.results(ctx, t.session, t.id)
		if err != nil {
			return false, err
		}
		noted, over := s.advance(func(i int) bool { return results[events.Token(t.body.Calls[i].ID)] }, now)
		changed = changed || noted
		if err := d.withdraw(ctx, t, s, over); err != nil {
			return false, err
		}
		if s.finished() {
			if err := d.at("turn.drop"); err != nil {
				return false, err
			}
			err := d.bus.DropRecord(ctx, d.bus.TurnsBucket(), revision)
			if errors.Is(err, jet.ErrConflict) { // somebody noted something just now
				return true, nil
			}
			return false, err
		}
		if heard, err = d.hear(ctx, t, s); err != nil {
			return false, err
		}
	}
	t.began, t.waited = s.Began, s.Waited
	p, err := d.planStage(ctx, t, s, heard, now)
	if err != nil {
		return false, err
	}
	out, asks := p.out, p.asks
	if again {
		changed = d.renew(t, s, s.unanswered(heard), now) || changed
	}
	if changed || p.changed || len(asks) > 0 {
		if revision, err = d.keepTurn(ctx, t.session, t.id, s, revision); errors.Is(err, jet.ErrConflict) {
			return true, nil
		} else if err != nil {
			return false, err
		}
	}
	if again {
		asks = s.unanswered(heard)
	}
	if err := d.put(ctx, t, s, asks); err != nil {
		return false, err
	}
	if again { // nothing is noted of those that were put before, so the record is read
		if err := d.takeBack(ctx, t, s, asks); err != nil {
			return false, err
		}
		asks = nil
	}
	if err := d.fanOut(ctx, t, redelivered, out); err != nil {
		return false, err
	}
	return d.moved(ctx, t, s, revision, out, asks)
}

// moved notes what is on its way. That the record can be written says that the questions put are still open.
// more: some calls have their results already, or another step came between.
func (d *Dispatcher) moved(ctx context.Context, t *turn, s *stagedTurn, revision uint64, out []decision, asks []int) (more bool, err error) {
	sent := len(asks) > 0
	for _, i := range asks {
		s.Calls[i].Ask.Put = true
	}
	for i := range out {
		c := &s.Calls[t.place(out[i].call.ID)]
		if more = more || out[i].settled(); out[i].work != nil {
			c.State, sent = events.CallSubmitted, true
		}
	}
	if !sent {
		return more, nil
	}
	_, err = d.keepTurn(ctx, t.session, t.id, s, revision)
	if errors.Is(err, jet.ErrConflict) {
		return true, d.takeBack(ctx, t, s, asks)
	}
	return more, err
}

// place is where a call stands in the turn.
func (t *turn) place(id events.CallID) int {
	for i := range t.body.Calls {
		if t.body.Calls[i].ID == id {
			return i
		}
	}
	return -1
}

// redelivered is the delivery of a turn that may have been decided about before.
const redelivered = 2

// stagedTurn reads the record of a turn; [jet.ErrNone]: it has none.
func (d *Dispatcher) stagedTurn(ctx context.Context, session events.SessionID, id events.TurnID) (*stagedTurn, *turn, uint64, error) {
	r, err := d.bus.Record(ctx, d.bus.TurnsBucket(), turnKey(session, id))
	if err != nil {
		return nil, nil, 0, err
	}
	var s stagedTurn
	if err := json.Unmarshal(r.Data, &s); err != nil {
		return nil, nil, 0, fmt.Errorf("record of turn %s: %w", id, err)
	}
	data := s.Data
	if s.DataRef != "" {
		if data, err = d.bus.GetBody(ctx, s.DataRef); err != nil {
			return nil, nil, 0, err
		}
	}
	t, err := s.turn(session, id, data)
	return &s, t, r.Revision, err
}

func (d *Dispatcher) keepTurn(ctx context.Context, session events.SessionID, id events.TurnID, s *stagedTurn, revision uint64) (uint64, error) {
	if err := d.at("turn.keep"); err != nil {
		return 0, err
	}
	data, err := events.Marshal(s)
	if err != nil {
		return 0, err
	}
	return d.bus.PutRecord(ctx, d.bus.TurnsBucket(), turnKey(session, id), data, revision)
}

// results are the calls of a turn that have their results, by token.
func (d *Dispatcher) results(ctx context.Context, session events.SessionID, id events.TurnID) (map[string]bool, error) {
	subjects, err := d.bus.Subjects(ctx, d.bus.JournalStream(), d.bus.ResultsOfTurn(session, id))
	if err != nil {
		return nil, err
	}
	out := make(map[string]bool, len(subjects))
	for _, subject := range subjects {
		if k, err := d.bus.ParseCall("result", subject); err == nil {
			out[events.Token(k.Call)] = true
		}
	}
	return out, nil
}

// said leaves word that a staged turn may move on, because a call of it was settled.
func (d *Dispatcher) said(ctx context.Context, e *ending) error {
	if err := d.at("settle.step"); err != nil {
		return err
	}
	a := d.attributes(e.key, e.attrs, "step", events.TypeTurnStep, e.name)
	_, err := d.bus.Store(ctx, jet.Out{Subject: d.bus.Step(e.key.Session, e.key.Turn), Event: events.Event{Attributes: a}})
	return err
}

// stepper has one goroutine at a time step a turn, and those who come meanwhile share the next run:
// of a stage of a thousand calls, a thousand steps are sent.
type stepper struct {
	mu    sync.Mutex
	turns map[string]*stepLane
}

type stepLane struct {
	turn  chan struct{} // holds one token while nobody runs
	next  *stepRun      // has not begun yet; nil: none
	users int
}

type stepRun struct {
	done chan struct{}
	err  error
}

// once runs f for a turn. Who comes after a run began has the next one.
func (s *stepper) once(key string, f func() error) error {
	s.mu.Lock()
	l := s.turns[key]
	if l == nil {
		if s.turns == nil {
			s.turns = make(map[string]*stepLane)
		}
		l = &stepLane{turn: make(chan struct{}, 1)}
		l.turn <- struct{}{}
		s.turns[key] = l
	}
	if run := l.next; run != nil {
		s.mu.Unlock()
		<-run.done
		return run.err
	}
	run := &stepRun{done: make(chan struct{})}
	l.next = run
	l.users++
	s.mu.Unlock()

	<-l.turn
	s.mu.Lock()
	l.next = nil
	s.mu.Unlock()
	run.err = f()
	l.turn <- struct{}{}
	close(run.done)

	s.mu.Lock()
	defer s.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(s.turns, key)
	}
	return run.err
}
