package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rs/zerolog"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
)

const (
	// maxDeliveries is how often a call is delivered before it is given up: it kills its workers.
	maxDeliveries = 50
	// bodyTries is how often the body of a call is looked for before the call is given up.
	bodyTries = 5
)

// handle takes one delivery through decode, fence and tool to its result. work ends the tools,
// last ends even the settling.
func (w *Worker) handle(work, last context.Context, d *jet.Delivery) {
	_, name, key, err := w.bus.ParseWork(d.Subject)
	if err != nil {
		w.bury(last, &call{}, d, err)
		return
	}
	ctx, stop := context.WithCancelCause(work)
	defer stop(nil)
	c := w.calls.enter(key, name, d, stop)
	if c == nil { // it is here already, and its lease had lapsed
		_ = d.InProgress()
		return
	}
	defer w.linger(c)
	defer w.calls.leave(c)
	l := keep(func() { w.renew(last, c) })
	defer l.end()
	w.process(ctx, last, c, d)
}

// process decides what becomes of a call that this process has just taken in, and does it.
func (w *Worker) process(ctx, last context.Context, c *call, d *jet.Delivery) {
	if d.Count > 1 {
		w.stats.redelivered.Add(1)
		done, err := w.settled(last, c.key)
		if done {
			err = w.read(last, c, d) // whether others wait for the call; unreadable, they might
			w.note(c).Debug().Err(err).Msg("settled already")
		}
		if err != nil || done {
			w.finish(last, c, done, err)
			return
		}
	}
	if err := w.read(last, c, d); err != nil {
		w.unreadable(last, c, d, err)
		return
	}
	t := w.tools[c.tool]
	c.fenced = t == nil || t.fenced
	want := refusal(d, &c.work, time.Now())
	if c.work.Digest != "" && c.work.Digest != events.Digest(c.tool, c.work.Definition, c.work.Call.Input, c.key, c.work.Request) {
		w.note(c).Error().Str("request", c.work.Request).Msg("the call is not the one that people approved")
		want = events.ReasonDeniedByRule
	}
	if t == nil && want == "" {
		w.giveBack(c, d)
		return
	}
	m, reason, err := w.admit(last, c, d, want)
	switch {
	case errors.Is(err, errStopping):
		w.nak(c, 0)
	case err != nil:
		w.note(c).Warn().Err(err).Msg("start not decided, given back")
		w.nak(c, time.Second)
	case m == moveAck:
		w.finish(last, c, true, nil)
	case m == moveWait:
		w.nak(c, 2*time.Second+rand.N(3*time.Second)) //nolint:gosec // spreads questions, guards nothing
	case m == moveSettle:
		w.settle(last, c, verdict(c, reason))
	case t == nil: // may run, but not here
		w.giveBack(c, d)
	default:
		w.run(ctx, last, c, t)
	}
}

// admit says whether the call may run. A call without a fence may, at once, unless it is to be
// settled, or was delivered before and somebody has ruled since.
func (w *Worker) admit(ctx context.Context, c *call, d *jet.Delivery, want events.Reason) (move, events.Reason, error) {
	if c.fenced || want != "" {
		return w.fence(ctx, c, want)
	}
	if d.Count == 1 {
		return moveRun, "", nil
	}
	start, err := w.readStart(ctx, c.key)
	if errors.Is(err, jet.ErrNone) {
		return moveRun, "", nil
	}
	if err != nil {
		return 0, "", err
	}
	m, reason := decide(facts{nonce: c.nonce, start: start})
	return m, reason, nil
}

// read opens the work; what it says must be what its subject says.
func (w *Worker) read(ctx context.Context, c *call, d *jet.Delivery) error {
	e, err := w.bus.Open(ctx, d.Header, d.Data)
	if err != nil {
		return err
	}
	switch {
	case e.Type != events.TypeToolWork:
		return fmt.Errorf("%w: type %q, only %s is work", events.ErrMalformed, e.Type, events.TypeToolWork)
	case e.Session != "" && e.Session != c.key.Session, e.Turn != "" && e.Turn != c.key.Turn,
		e.Call != "" && e.Call != c.key.Call, e.Tool != "" && e.Tool != c.tool:
		return fmt.Errorf("%w: the attributes contradict the subject", events.ErrMalformed)
	}
	var work events.ToolWork
	if err := events.Unmarshal(e.Data, &work); err != nil {
		return err
	}
	if work.Call.ID != c.key.Call || work.Call.Name != c.tool {
		return fmt.Errorf("%w: the call is not that of the subject", events.ErrMalformed)
	}
	e.Data = nil
	c.event, c.work, c.legible = e, work, true
	return nil
}

func (w *Worker) unreadable(last context.Context, c *call, d *jet.Delivery, err error) {
	switch {
	case errors.Is(err, events.ErrMalformed), errors.Is(err, jet.ErrBody) && d.Count >= bodyTries:
		w.bury(last, c, d, err)
	default: // the body is not there yet, or its server is away
		w.note(c).Warn().Err(err).Msg("work not readable now, given back")
		w.nak(c, time.Duration(d.Count)*time.Second)
	}
}

// refusal says why a call must not run any more, if so; empty: it may. The server's clock told
// when the work was stored, so now is never before that.
func refusal(d *jet.Delivery, work *events.ToolWork, now time.Time) events.Reason {
	if d.Stored.After(now) {
		now = d.Stored
	}
	switch {
	case work.Deadline != nil && !now.Before(*work.Deadline):
		return events.ReasonTimeout
	case !work.QueueUntil.IsZero() && !now.Before(work.QueueUntil):
		return events.ReasonQueueExpired
	case d.Count > maxDeliveries:
		return events.ReasonWorkerLost
	}
	return ""
}

// run runs the tool and settles what comes of it.
func (w *Worker) run(ctx, last context.Context, c *call, t *tool) {
	if ctx.Err() != nil { // stopped while its start was being decided
		w.settleEnded(last, c, verdict(c, toolkit.Classify(context.Cause(ctx)).Reason))
		return
	}
	if c.work.Deadline != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, *c.work.Deadline, toolkit.ErrDeadline)
		defer cancel()
	}
	tuned, presets, err := w.tune(c, t)
	if err != nil {
		w.note(c).Error().Err(err).Msg("tool cannot run as it is configured")
		w.settle(last, c, verdict(c, events.ReasonUnavailable))
		return
	}
	began := time.Now()
	c.running.Store(true)
	e := w.execution(c, presets)
	var pending *toolkit.PendingError
	e.Pending = func(p *toolkit.PendingError) { pending = p }
	r := tuned.Execute(ctx, e)
	c.running.Store(false)
	t.stats.took(time.Since(began))
	w.at("after run", c.key)

	switch ruled := c.ruled.Load(); {
	case c.lost.Load():
		w.note(c).Info().Msg("settled elsewhere while it ran")
		w.finish(last, c, true, nil)
		return
	case ruled != nil:
		r = verdict(c, *ruled)
	case pending != nil:
		w.suspend(last, c, pending)
		return
	default:
		r.Meta.Definition, r.Meta.SessionRevision = c.work.Definition, c.work.SessionRevision
		r.Meta.Decision, r.Meta.ArgsRepaired = c.work.Decision, c.work.ArgsRepaired
	}
	w.settleEnded(last, c, r)
}

// settleEnded settles a call, or gives it back if it only ended because this worker stops and
// another may run it.
func (w *Worker) settleEnded(last context.Context, c *call, r events.ToolResult) {
	if r.Reason == events.ReasonShutdown && !c.fenced {
		w.nak(c, 0)
		return
	}
	w.settle(last, c, r)
}

func (w *Worker) execution(c *call, presets map[string]json.RawMessage) toolkit.Execution {
	return toolkit.Execution{
		Call: toolkit.Call{
			Agent: c.work.Agent, Key: c.key, ReplyID: c.event.ReplyID, Tool: c.tool, Worker: w.cfg.Name,
			TraceParent: c.event.TraceParent, TraceState: c.event.TraceState,
		},
		Input: c.work.Call.Input, Checked: c.work.Definition, Presets: presets,
		Context: c.work.Context, State: documents{w.bus}, Middleware: w.cfg.Middleware, Grace: w.cfg.Grace,
		Go:     w.runners.run,
		Emit:   func(d events.ToolResultDelta) { w.emit(c, d) },
		Failed: func(attempt int, err error) { w.failed(c, attempt, err) },
		Leaked: func(ended <-chan struct{}) { c.leaks = append(c.leaks, ended) },
	}
}

// emit publishes progress. It is lost if nobody listens, and if the connection is away.
func (w *Worker) emit(c *call, d events.ToolResultDelta) {
	a := w.attributes(c)
	a.ID = fmt.Sprintf("delta/%s/%d/%d", c.key, d.Attempt, d.Seq)
	a.Type, a.Time = events.TypeToolResultDelta, time.Now()
	e, err := events.New(a, d)
	if err == nil {
		err = w.bus.Send(w.bus.Delta(c.key), e)
	}
	if err != nil {
		w.note(c).Debug().Err(err).Msg("progress not sent")
	}
}

// failed logs what the wire does not tell.
func (w *Worker) failed(c *call, attempt int, err error) {
	if p, ok := errors.AsType[*toolkit.PanicError](err); ok {
		w.note(c).Error().Int("attempt", attempt).Interface("panic", p.Value).Bytes("stack", p.Stack).Msg("tool panicked")
		return
	}
	level := zerolog.DebugLevel
	if toolkit.Classify(err).Reason == events.ReasonUnavailable { // a person should look
		level = zerolog.ErrorLevel
	}
	w.note(c).WithLevel(level).Int("attempt", attempt).Err(err).Msg("attempt failed")
}

// linger keeps the slot of a tool that ignored the end of its context: what runs takes room. The
// call is settled by now.
func (w *Worker) linger(c *call) {
	if len(c.leaks) == 0 {
		return
	}
	w.stats.leaked.Add(1)
	defer w.stats.leaked.Add(-1)
	w.note(c).Error().Msg("tool ignores the end of its context and keeps its slot")
	for _, ended := range c.leaks {
		select {
		case <-ended:
		case <-w.stopping:
			return
		}
	}
}
