package dispatcher

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

// ending is one call that is to end without running, and why.
type ending struct {
	key    events.CallKey
	name   events.ToolName
	agent  events.AgentID
	attrs  events.Attributes // passed on from the turn
	reason events.Reason
	text   string // for the model; "": a sentence for the reason

	definition string                          // hash
	fenced     bool                            // the tool has side effects
	patient    bool                            // leave a started call to its worker
	manned     bool                            // its pool has live workers
	first      bool                            // nothing is known to be stored of it, so begin with the claim
	taking     bool                            // its turn is in hand, not acknowledged yet
	work       uint64                          // its work's sequence; 0: look for it
	staged     bool                            // other calls of its turn wait for it
	session    uint64                          // revision of the session's record by which it was decided
	judged     string                          // permission decision, and who answered
	answer     *events.ExternalExecutionResult // the result itself, from outside
	yielded    bool                            // its worker has let go of it, to be answered outside

	// run is the tool, where the dispatcher itself runs it: between winning the start and storing the
	// result, perhaps more than once. It returns what the model reads.
	run func(context.Context) (text string, reason events.Reason, err error)
}

// outcome is what an attempt to end a call came to.
type outcome int

const (
	outcomeSettled  outcome = iota // it has its result now, by this settlement or one begun before
	outcomeStopping                // it runs, and its worker was told to stop
	outcomeTooLate                 // it had its result
	outcomeLeft                    // its worker ends it
)

// aliveAgain is the pause between two questions whether a process lives.
const aliveAgain = 2 * time.Second

// settle ends a call without running it, whatever others do at the same time: it wins the start,
// stores the result, removes the work, in this order. It may die between any two, and be
// begun again by anybody; see the package comment for who does. Every settlement by a dispatcher
// goes through here, refusals at intake included, so that a worker that holds the work of
// an earlier decision and this settlement exclude each other.
func (d *Dispatcher) settle(ctx context.Context, e ending) (outcome, error) {
	f := facts{self: uuid.NewString(), want: e.reason, fenced: e.fenced, patient: e.patient, manned: e.manned, control: control(e.name), runs: e.run != nil, yielded: e.yielded}
	if !e.first {
		// The work before the result: where neither is there, the call did not end in between.
		if err := d.findWork(ctx, &e); err != nil {
			return 0, err
		}
		var err error
		if f.result, err = d.hasResult(ctx, e.key); err != nil {
			return 0, err
		}
	}
	for {
		next, reason := judge(f)
		switch next {
		case moveClaim:
			gone, err := d.claim(ctx, &e, &f)
			if gone || err != nil {
				return outcomeTooLate, err
			}
		case moveFinish:
			return d.finish(ctx, &e, &f, reason)
		case moveRemove:
			return outcomeTooLate, d.release(ctx, &e)
		case moveStop:
			return outcomeStopping, d.stop(&e)
		case moveLeave:
			return outcomeLeft, nil
		case moveAsk, movePause:
			if err := d.askAfter(ctx, &e, &f, next == movePause); err != nil {
				return 0, err
			}
		}
	}
}

// findWork looks for the call's work, in whatever pool, and takes over what it says of the call.
func (d *Dispatcher) findWork(ctx context.Context, e *ending) error {
	if e.work != 0 {
		return nil
	}
	m, err := d.bus.Next(ctx, d.bus.WorkStream(), 1, d.bus.WorkOfCall(e.key))
	switch {
	case errors.Is(err, jet.ErrNone):
		return nil
	case err != nil:
		return err
	}
	d.fromWork(e, m)
	return nil
}

// fromWork takes over what a work message says of its call.
func (d *Dispatcher) fromWork(e *ending, m *jet.Stored) {
	e.work = m.Seq
	if _, name, _, err := d.bus.ParseWork(m.Subject); err == nil {
		e.name = name
	}
	var w events.ToolWork
	if m.Err != nil || events.Unmarshal(m.Event.Data, &w) != nil {
		e.fenced = true
		return
	}
	e.agent, e.attrs = w.Agent, passedOn(m.Event.Attributes)
	e.definition, e.fenced = w.Definition, d.registry.fenced(e.name, w.Definition)
	e.staged, e.session = w.Staged, w.SessionRevision
}

// claim tries to win the start. Lost, f.start is whose it is. gone: the call is no longer known
// at all; it ended so long ago that its facts were forgotten.
func (d *Dispatcher) claim(ctx context.Context, e *ending, f *facts) (gone bool, err error) {
	if err := d.at("settle.start"); err != nil {
		return false, err
	}
	start := events.ToolResultStart{CallID: e.key.Call, Instance: d.cfg.Instance, Nonce: f.self, Settle: e.reason, At: time.Now()}
	ev, err := events.New(d.attributes(e.key, e.attrs, "start/"+f.self, events.TypeToolResultStart, e.name), start)
	if err != nil {
		return false, err
	}
	_, err = d.bus.Store(ctx, jet.Out{Subject: d.bus.Start(e.key), Event: ev})
	switch {
	case errors.Is(err, jet.ErrExists):
		stored, err := d.startOf(ctx, e.key)
		if err == nil && stored == nil {
			err = errors.New("start was refused and is not there")
		}
		f.start = stored
		if err != nil || stored.Settle == "" {
			return false, err
		}
		// It may have been finished meanwhile.
		f.result, err = d.hasResult(ctx, e.key)
		return false, err
	case err != nil:
		return false, err
	}
	f.start = &start
	if e.taking || e.work != 0 {
		return false, nil // which keeps its facts from being forgotten
	}
	_, err = d.bus.Fact(ctx, d.bus.Calls(e.agent, e.key.Session, e.key.Turn))
	if errors.Is(err, jet.ErrNone) {
		return true, nil
	}
	return false, err
}

// finish stores the result and then removes the work.
func (d *Dispatcher) finish(ctx context.Context, e *ending, f *facts, reason events.Reason) (outcome, error) {
	if e.run != nil && reason == events.ReasonOK {
		if err := d.at("settle.run"); err != nil {
			return 0, err
		}
		var err error
		if e.text, reason, err = e.run(ctx); err != nil {
			return 0, err
		}
		e.reason = reason
	}
	if err := d.at("settle.result"); err != nil {
		return 0, err
	}
	ev, err := d.resultEvent(e, f, reason)
	if err != nil {
		return 0, err
	}
	out := outcomeSettled
	_, err = d.bus.Store(ctx, jet.Out{Subject: d.bus.Result(e.key), Event: ev})
	switch {
	case errors.Is(err, jet.ErrExists):
		out = outcomeTooLate
	case err != nil:
		return 0, err
	default:
		d.metrics.settled.WithLabelValues(string(reason)).Inc()
		d.log.Debug().Str("call", e.key.String()).Str("tool", string(e.name)).Str("reason", string(reason)).Msg("settled without running")
	}
	return out, d.release(ctx, e)
}

func (d *Dispatcher) resultEvent(e *ending, f *facts, reason events.Reason) (events.Event, error) {
	text := e.text
	if text == "" || reason != e.reason {
		text = sentence(reason)
	}
	r := events.ToolResult{
		CallID: e.key.Call, Name: e.name, State: reason.Outcome().State, Reason: reason,
		Content: []events.Content{events.Text(text)}, IsError: reason != events.ReasonOK,
		Meta: events.ResultMeta{FinishedAt: time.Now(), Definition: e.definition, SessionRevision: e.session, Decision: e.judged},
	}
	if e.answer != nil && reason == e.reason {
		r.StructuredContent = e.answer.StructuredContent
		if r.Content = e.answer.Content; len(r.Content) == 0 { // models read text
			r.Content = []events.Content{events.Text(wordless(e.answer))}
		}
	}
	if s := f.start; s != nil && s.Settle == "" { // it did start, and was lost
		r.Meta.StartedAt, r.Meta.Worker = &s.At, s.Worker
	}
	return events.New(d.attributes(e.key, e.attrs, "result", events.TypeToolResult, e.name), r)
}

// wordless is what a model reads of an answer without content.
func wordless(a *events.ExternalExecutionResult) string {
	switch {
	case len(a.StructuredContent) > 0:
		return string(a.StructuredContent)
	case answerReason(a) != events.ReasonOK:
		return "The call failed, and whoever answered did not say why."
	}
	return "The call was answered without a result."
}

// release lets go of a call that has its result: word to those who wait for it first, then the work.
func (d *Dispatcher) release(ctx context.Context, e *ending) error {
	if e.staged {
		if err := d.said(ctx, e); err != nil {
			return err
		}
	}
	return d.remove(ctx, e)
}

// remove deletes the work by sequence: a purge would not wake a waiting pull.
func (d *Dispatcher) remove(ctx context.Context, e *ending) error {
	if e.work == 0 {
		return nil
	}
	if err := d.at("settle.remove"); err != nil {
		return err
	}
	return d.bus.Delete(ctx, d.bus.WorkStream(), e.work)
}

// stop tells whichever worker runs the call to stop; the worker settles it.
func (d *Dispatcher) stop(e *ending) error {
	ev, err := events.New(d.attributes(e.key, events.Attributes{}, "stop", events.TypeCancelCalls, e.name),
		events.CancelCalls{Calls: []events.CallID{e.key.Call}, Reason: string(e.reason)})
	if err != nil {
		return err
	}
	return d.bus.Send(d.bus.Stop(e.key), ev)
}

// askAfter asks the process that started the call whether it still runs it. A denial or silence
// counts only when it is repeated: the first answer may have crossed the result.
func (d *Dispatcher) askAfter(ctx context.Context, e *ending, f *facts, again bool) error {
	if again {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(aliveAgain):
		}
	}
	running, err := d.runs(ctx, e.key, f.start)
	switch {
	case err != nil:
		return err
	case running:
		f.presence = presenceRunning
	case again:
		f.presence = presenceGone
	default:
		f.presence = presenceMissed
	}
	if !running {
		f.result, err = d.hasResult(ctx, e.key)
	}
	return err
}

// runs asks the process of a start. Nobody there is an answer; our own connection being
// down is an error.
func (d *Dispatcher) runs(ctx context.Context, k events.CallKey, s *events.ToolResultStart) (bool, error) {
	if events.CheckID("instance", s.Instance) != nil {
		return false, nil // no process listens under such a name, and the server would hang up
	}
	body, err := events.Marshal(events.AliveRequest{Session: k.Session, Turn: k.Turn, Call: k.Call, Nonce: s.Nonce})
	if err != nil {
		return false, err
	}
	rctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	m, err := d.bus.Conn().RequestWithContext(rctx, d.bus.Alive(s.Instance), body)
	switch {
	case err == nil:
		var reply events.AliveReply
		err = events.Unmarshal(m.Data, &reply)
		return reply.Running, err
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && d.bus.Conn().IsConnected():
		return false, nil
	}
	return false, err
}

// hasResult says whether a call has its result.
func (d *Dispatcher) hasResult(ctx context.Context, k events.CallKey) (bool, error) {
	_, _, err := d.bus.At(ctx, d.bus.JournalStream(), 1, d.bus.Result(k))
	if errors.Is(err, jet.ErrNone) {
		return false, nil
	}
	return err == nil, err
}

// startOf reads the start of a call from the leader; nil: none.
func (d *Dispatcher) startOf(ctx context.Context, k events.CallKey) (*events.ToolResultStart, error) {
	m, err := d.bus.Fact(ctx, d.bus.Start(k))
	switch {
	case errors.Is(err, jet.ErrNone):
		return nil, nil //nolint:nilnil // no start is an answer
	case err != nil:
		return nil, err
	}
	var s events.ToolResultStart
	if m.Err != nil || events.Unmarshal(m.Event.Data, &s) != nil {
		// Whoever wrote it, it started the call, and nobody will answer for it.
		return &events.ToolResultStart{CallID: k.Call, At: m.Time}, nil //nolint:nilerr // an unreadable start is a start
	}
	return &s, nil
}
