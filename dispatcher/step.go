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
	// staleStep is how long after its last change a record is looked at again, in case a step was
	// lost. The horizon follows what was noted then.
	staleStep = time.Minute
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
		if err := d.steps.once(turnKey(session, id), func() error { return d.step(ctx, session, id, false) }); err != nil {
			d.giveBack(del, err)
			return
		}
		if d.at("step.ack") != nil {
			return
		}
		_ = del.Ack()
	})
}

// begin stores the record of a turn that runs in stages, and takes its first step. The record may
// be there already, from an earlier delivery.
func (d *Dispatcher) begin(ctx context.Context, t *turn, sizes []int) error {
	if err := d.at("turn.record"); err != nil {
		return err
	}
	data, err := events.Marshal(newStagedTurn(t, sizes))
	if err != nil {
		return err
	}
	_, err = d.bus.PutRecord(ctx, d.bus.TurnsBucket(), turnKey(t.session, t.id), data, 0)
	if err != nil && !errors.Is(err, jet.ErrConflict) {
		return err
	}
	return d.step(ctx, t.session, t.id, false)
}

// recordedFor tells whose turn has a record under the session and id of t; "": none has.
func (d *Dispatcher) recordedFor(ctx context.Context, t *turn) (events.AgentID, error) {
	r, err := d.bus.Record(ctx, d.bus.TurnsBucket(), turnKey(t.session, t.id))
	if errors.Is(err, jet.ErrNone) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var s stagedTurn
	if err := json.Unmarshal(r.Data, &s); err != nil {
		return "", fmt.Errorf("record of turn %s: %w", t.id, err)
	}
	return s.Agent, nil
}

// step brings a staged turn as far as it can go now: it notes results, moves on to the next stage
// when one is complete, and publishes what is due. It looks at what is stored, not at why it was
// called, so it may be called at any time, by several at once, and die anywhere. touch stores the record
// though nothing has changed.
func (d *Dispatcher) step(ctx context.Context, session events.SessionID, id events.TurnID, touch bool) error {
	for {
		s, t, revision, err := d.stagedTurn(ctx, session, id)
		if errors.Is(err, jet.ErrNone) {
			return nil // finished
		}
		if err != nil {
			return err
		}
		results, err := d.results(ctx, session, id)
		if err != nil {
			return err
		}
		moved := s.advance(func(i int) bool { return results[events.Token(t.body.Calls[i].ID)] }, time.Now().UTC())
		if s.finished() {
			if err := d.at("turn.drop"); err != nil {
				return err
			}
			return d.bus.DropRecord(ctx, d.bus.TurnsBucket(), revision)
		}
		if s.Published && !moved && !touch {
			return nil // its calls are on their way
		}
		if moved || touch {
			if revision, err = d.keepTurn(ctx, session, id, s, revision); errors.Is(err, jet.ErrConflict) {
				continue
			} else if err != nil {
				return err
			}
			touch = false
		}
		if s.Published {
			return nil
		}
		t.began = s.Began
		settled, err := d.publishStage(ctx, t, s.open())
		if err != nil {
			return err
		}
		s.Published = true
		if _, err := d.keepTurn(ctx, session, id, s, revision); err != nil && !errors.Is(err, jet.ErrConflict) {
			return err
		} else if err == nil && !settled {
			return nil
		}
	}
}

// publishStage decides about calls of a staged turn by what the session may call now, and stores what
// follows. settled: some have their results already.
func (d *Dispatcher) publishStage(ctx context.Context, t *turn, places []int) (settled bool, err error) {
	calls := make([]events.Call, len(places))
	for n, i := range places {
		calls[n] = t.body.Calls[i]
	}
	all, err := d.decideCalls(ctx, t, calls)
	if err != nil {
		return false, err
	}
	for _, c := range all {
		settled = settled || c.work == nil
	}
	return settled, d.fanOut(ctx, t, again, all)
}

// again is the delivery of a turn that may have been decided about before.
const again = 2

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
	data := []byte(s.Data)
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

// stepStale moves on turns whose step was lost with whoever was to take it, and keeps the records of
// the others as young as what they know.
func (d *Dispatcher) stepStale(ctx context.Context, now time.Time) error {
	var bad error
	for revision := uint64(1); ; {
		key, r, err := d.bus.RecordAfter(ctx, d.bus.TurnsBucket(), revision)
		if errors.Is(err, jet.ErrNone) || err == nil && now.Sub(r.At) < staleStep {
			return bad
		}
		if err != nil {
			return errors.Join(bad, err)
		}
		revision = r.Revision + 1
		session, id, err := parseTurnKey(d.bus.Names, key)
		if err == nil {
			err = d.steps.once(key, func() error { return d.step(ctx, session, id, true) })
		}
		if errors.Is(err, errDied) {
			return err
		}
		if err != nil {
			d.log.Error().Err(err).Str("turn", key).Msg("staged turn does not move on")
			bad = err
		}
	}
}

// oldestStaged is when the staged turn that was longest left alone was last looked at.
func (d *Dispatcher) oldestStaged(ctx context.Context) (time.Time, error) {
	_, r, err := d.bus.RecordAfter(ctx, d.bus.TurnsBucket(), 1)
	if errors.Is(err, jet.ErrNone) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, err
	}
	return r.At, nil
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
