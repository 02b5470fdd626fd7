package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

const (
	// askPatience bounds one question to the process that started a call.
	askPatience = time.Second
	// askAgain is how long after "not here" the question is put a second time.
	askAgain = 2 * time.Second
)

// errStopping is returned when the worker stops before it knows whether it may run a call.
var errStopping = errors.New("workers: stopping")

// fence wins the start of a call, to run it or to settle it as want, or finds out what to do
// instead. ctx outlives the call's own: whether the start was won must be known.
func (w *Worker) fence(ctx context.Context, c *call, want events.Reason) (move, events.Reason, error) {
	w.at("before start", c.key)
	err := w.storeStart(ctx, c, want)
	for errors.Is(err, jet.ErrFull) { // not given back: that would count as a delivery
		w.note(c).Warn().Err(err).Msg("start not stored yet")
		if !w.pause(ctx, time.Second) {
			return 0, "", errStopping
		}
		err = w.storeStart(ctx, c, want)
	}
	w.at("after start", c.key)
	switch {
	case err == nil && want == "":
		return moveRun, "", nil
	case err == nil:
		return moveSettle, want, nil
	case !errors.Is(err, jet.ErrExists):
		return 0, "", err
	}
	return w.refused(ctx, c, want)
}

// refused goes by the start that somebody else, or a lost try of this worker, has stored.
func (w *Worker) refused(ctx context.Context, c *call, want events.Reason) (move, events.Reason, error) {
	start, err := w.readStart(ctx, c.key)
	if err != nil {
		return 0, "", err
	}
	f := facts{nonce: c.nonce, want: want, fenced: c.fenced, start: start}
	if f.result, err = w.settled(ctx, c.key); err != nil {
		return 0, "", err
	}
	for {
		m, reason := decide(f)
		switch m {
		case moveAsk, movePause:
		default:
			return m, reason, nil
		}
		if m == movePause && !w.pause(ctx, askAgain) {
			return 0, "", errStopping
		}
		running := w.ask(ctx, c.key, start)
		switch {
		case running:
			f.presence = presenceRunning
		case f.presence == presenceUnknown:
			f.presence = presenceGoneOnce
		default:
			f.presence = presenceGone
		}
		// Read after asking: who has just finished says that it runs no more, and has its result stored.
		if f.result, err = w.settled(ctx, c.key); err != nil {
			return 0, "", err
		}
	}
}

// ask asks the process of a start whether it still runs the call. No answer is a no: the lease
// has lapsed, and the process is asked twice.
func (w *Worker) ask(ctx context.Context, k events.CallKey, start events.ToolResultStart) bool {
	if start.Instance == w.instance {
		return w.calls.has(k, start.Nonce)
	}
	if events.CheckID("instance", start.Instance) != nil {
		return false // no process listens under such a name, and the server would hang up
	}
	b, err := json.Marshal(events.AliveRequest{Session: k.Session, Turn: k.Turn, Call: k.Call, Nonce: start.Nonce})
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	m, err := w.bus.Conn().RequestWithContext(ctx, w.bus.Alive(start.Instance), b)
	var reply events.AliveReply
	return err == nil && json.Unmarshal(m.Data, &reply) == nil && reply.Running
}

// pause waits; false if the worker stops meanwhile.
func (w *Worker) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.stopping:
	case <-ctx.Done():
	}
	return false
}

// storeStart stores the start of a call: to run it, or to settle it so. It carries no message id:
// an acknowledged duplicate would look like a win.
func (w *Worker) storeStart(ctx context.Context, c *call, settle events.Reason) error {
	a := w.attributes(c)
	a.ID, a.Type, a.Time = "start/"+c.key.String()+"/"+c.nonce, events.TypeToolResultStart, time.Now()
	e, err := events.New(a, events.ToolResultStart{
		CallID: c.key.Call, Instance: w.instance, Nonce: c.nonce, Settle: settle, Worker: w.cfg.Name, At: a.Time,
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", c.key, err)
	}
	_, err = w.bus.Store(ctx, jet.Out{Subject: w.bus.Start(c.key), Event: e})
	return err
}

// readStart reads the stored start. One that cannot be read counts as that of a process that
// nobody can ask.
func (w *Worker) readStart(ctx context.Context, k events.CallKey) (start events.ToolResultStart, err error) {
	s, err := w.bus.Fact(ctx, w.bus.Start(k))
	if err != nil {
		return start, err
	}
	if s.Err == nil {
		s.Err = events.Unmarshal(s.Event.Data, &start)
	}
	if s.Err != nil {
		w.log.Error().Err(s.Err).Stringer("call", k).Msg("stored start is malformed")
		start = events.ToolResultStart{}
	}
	return start, nil
}

// settled says whether a result is stored.
func (w *Worker) settled(ctx context.Context, k events.CallKey) (bool, error) {
	_, _, err := w.bus.At(ctx, w.bus.JournalStream(), 1, w.bus.Result(k))
	if errors.Is(err, jet.ErrNone) {
		return false, nil
	}
	return err == nil, err
}
