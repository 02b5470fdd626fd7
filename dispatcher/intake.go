package dispatcher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

const (
	// congestedAt is how full JOURNAL or WORK may be, in per cent of its limit, before no more turns
	// are taken; below relievedAt they are again. What was begun needs the rest.
	congestedAt = 80
	relievedAt  = 75
	// hopelessTries is how often a turn is delivered before its missing body counts as lost.
	hopelessTries = 5
	// largeTurns is how many turns with their data in BODIES are handled at once, whatever the slots: a
	// small event may stand for [jet.BodyMax].
	largeTurns = 8
	// maxPassedOn is the most bytes of the attributes that travel on with every call of a turn.
	maxPassedOn = 4096
)

// takeTurns pulls turns while there is room for what follows from them, until ctx ends.
func (d *Dispatcher) takeTurns(ctx context.Context) error {
	for ctx.Err() == nil {
		if d.congested.Load() {
			select {
			case <-ctx.Done():
			case <-time.After(pressureTick):
			}
			continue
		}
		if err := d.takeUntilCongested(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d *Dispatcher) takeUntilCongested(ctx context.Context) error {
	pctx, stop := context.WithCancel(ctx)
	defer stop()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		defer stop()
		for !d.congested.Load() {
			select {
			case <-pctx.Done():
				return
			case <-time.After(pressureTick):
			}
		}
	}()
	err := d.pull(pctx, d.bus.CallsStream(), jet.IntakeConsumer, d.cfg.Slots, func(del *jet.Delivery) {
		d.takeTurn(ctx, del)
	})
	stop()
	<-watched
	return err
}

// takeTurn takes one turn from CALLS to work and results, and acknowledges it last. What goes
// wrong on the way leaves it to be delivered again.
func (d *Dispatcher) takeTurn(ctx context.Context, del *jet.Delivery) {
	ctx, cancel := finishing(ctx)
	defer cancel()
	if err := d.handleTurn(ctx, del); err != nil {
		d.giveBack(del, err)
		return
	}
	if d.at("intake.ack") != nil {
		return
	}
	if err := del.Ack(); err != nil {
		d.log.Debug().Err(err).Msg("turn will be delivered again")
	}
	d.metrics.turns.Inc()
	d.metrics.intake.Observe(time.Since(del.Stored).Seconds())
}

// giveBack lets a message come again later: at once something is missing, or full, or away.
func (d *Dispatcher) giveBack(del *jet.Delivery, err error) {
	if errors.Is(err, errDied) {
		return
	}
	delay := min(time.Duration(del.Count)*500*time.Millisecond, 10*time.Second)
	d.log.Warn().Err(err).Str("subject", del.Subject).Int("delivery", del.Count).Dur("delay", delay).Msg("tried again later")
	d.metrics.retries.Inc()
	_ = del.Nak(delay)
}

// errDied is how a test's fault stops a handler where it stands.
var errDied = errors.New("dispatcher: died here")

func (d *Dispatcher) handleTurn(ctx context.Context, del *jet.Delivery) error {
	if head, err := events.Decode(del.Header, del.Data); err == nil && head.DataRef != "" {
		select {
		case d.large <- struct{}{}:
			defer func() { <-d.large }()
		case <-ctx.Done():
			return fmt.Errorf("wait for other large turns: %w", context.Cause(ctx))
		}
	}
	t, e, err := d.readTurn(ctx, del.Subject, del.Header, del.Data)
	t.stored, t.began = del.Stored, del.Stored
	if err == nil {
		err = d.decideTurn(ctx, &t, del.Count)
	}
	if hopeless(err) && (del.Count >= hopelessTries || !errors.Is(err, jet.ErrBody)) {
		return d.refuseTurn(ctx, del, t, e, err)
	}
	return err
}

// decideTurn decides about a turn that was read, and stores what follows: of a turn whose calls may
// all run at once, their work; of another, a record, by which it goes on in steps.
func (d *Dispatcher) decideTurn(ctx context.Context, t *turn, delivery int) error {
	if delivery > 1 { // it may have a record, whatever it would be given now
		if joined, err := d.join(ctx, t, false); joined || err != nil {
			return err
		}
	}
	if len(t.body.Calls) > 1 {
		reg, err := d.registry.covering(ctx, t.body.Calls)
		if err != nil {
			return err
		}
		if sizes := stagesOf(t.body.Calls, reg); len(sizes) > 1 {
			// In a session of another agent it has no stages: all its calls are refused at once.
			if _, err := d.session(ctx, t, reg); !errors.Is(err, errForeign) {
				if err != nil {
					return err
				}
				return d.begin(ctx, t, sizes, delivery)
			}
		}
	}
	all, err := d.decideCalls(ctx, t, t.body.Calls)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(all, func(c decision) bool { return c.ask != "" }) {
		return d.begin(ctx, t, []int{len(t.body.Calls)}, delivery)
	}
	return d.fanOut(ctx, t, delivery, all)
}

// decideCalls decides about calls of a turn by what is registered and what its session may call now.
func (d *Dispatcher) decideCalls(ctx context.Context, t *turn, calls []events.Call) ([]decision, error) {
	b, err := d.basisOf(ctx, t, calls)
	if errors.Is(err, errForeign) {
		return foreign(calls), d.trespass(ctx, t)
	}
	if err != nil {
		return nil, err
	}
	return decide(t, calls, b), nil
}

// basisOf reads what decisions about calls of a turn rest on. [errForeign]: the session is another agent's.
func (d *Dispatcher) basisOf(ctx context.Context, t *turn, calls []events.Call) (basis, error) {
	reg, err := d.registry.covering(ctx, calls)
	if err != nil {
		return basis{}, err
	}
	rec, err := d.session(ctx, t, reg)
	if err != nil {
		return basis{}, err
	}
	own, err := d.checks(ctx, t, calls, reg, rec)
	return basis{reg: reg, rec: rec, own: own, now: time.Now()}, err
}

// foreign refuses the calls of a turn in a session that belongs to another agent.
func foreign(calls []events.Call) []decision {
	out := make([]decision, len(calls))
	for i, c := range calls {
		out[i] = decision{
			call: c, reason: events.ReasonDeniedByRule,
			text: "The session belongs to another agent. Use a session of your own.",
		}
	}
	return out
}

// away says whether an error is about reaching the server, rather than about what was asked of it.
func away(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrTimeout)
}

// hopeless says whether trying again cannot help: what is to be read or stored is itself at fault.
// (A missing body may only be late; a copy of its stream lags behind.)
func hopeless(err error) bool {
	switch api, ok := errors.AsType[*jetstream.APIError](err); {
	case away(err), errors.Is(err, jet.ErrFull):
		return false
	case errors.Is(err, events.ErrMalformed), errors.Is(err, events.ErrToken), errors.Is(err, jet.ErrBody), errors.Is(err, nats.ErrMaxPayload),
		errors.Is(err, errTrespass):
		return true
	default:
		return ok && api.Code < 500 && api.Code != 429
	}
}

// readTurn reads a ToolCalls event. On an error the turn holds what could be told from the
// subject, and the event what could be decoded.
func (d *Dispatcher) readTurn(ctx context.Context, subject string, h nats.Header, data []byte) (t turn, e events.Event, err error) {
	if t.agent, t.session, t.id, err = d.bus.ParseCalls(subject); err != nil {
		return t, e, err
	}
	e, err = d.bus.Open(ctx, h, data)
	t.attrs = passedOn(e.Attributes)
	if err != nil {
		return t, e, err
	}
	return t, e, t.read(e)
}

// read takes over the data of e, if it is a ToolCalls event and does not contradict the subject.
func (t *turn) read(e events.Event) error {
	switch {
	case e.Type != events.TypeToolCalls:
		return fmt.Errorf("%w: type %q, want %q", events.ErrMalformed, e.Type, events.TypeToolCalls)
	case e.Session != "" && e.Session != t.session:
		return fmt.Errorf("%w: session %q, the subject says %q", events.ErrMalformed, e.Session, t.session)
	case e.Turn != "" && e.Turn != t.id:
		return fmt.Errorf("%w: turn %q, the subject says %q", events.ErrMalformed, e.Turn, t.id)
	case len(e.ReplyID)+len(e.Parent) > maxPassedOn:
		return fmt.Errorf("%w: replyid and parent are %d bytes, at most %d are allowed", events.ErrMalformed, len(e.ReplyID)+len(e.Parent), maxPassedOn)
	}
	t.eventID, t.data, t.ref = e.ID, e.Data, e.DataRef
	if err := events.Unmarshal(e.Data, &t.body); err != nil {
		return err
	}
	return t.body.Check()
}

// passedOn are the attributes of a turn that each of its calls carries on. A trace beyond what its
// specification asks to be kept is dropped, rather than refused: it is about the call, not of it.
func passedOn(a events.Attributes) events.Attributes {
	out := events.Attributes{ReplyID: a.ReplyID, Parent: a.Parent}
	if len(a.ReplyID)+len(a.Parent) > maxPassedOn {
		out = events.Attributes{}
	}
	if len(a.TraceParent) <= 128 && len(a.TraceState) <= 512 {
		out.TraceParent, out.TraceState = a.TraceParent, a.TraceState
	}
	return out
}

// refuseTurn puts a turn that cannot be read to the dead letters, and answers every call whose
// id can be told, so that no agent waits for ever.
func (d *Dispatcher) refuseTurn(ctx context.Context, del *jet.Delivery, t turn, e events.Event, why error) error {
	reason := events.ReasonMalformed
	if !errors.Is(why, events.ErrMalformed) && !errors.Is(why, events.ErrToken) {
		reason = events.ReasonDeadLetter
	}
	d.log.Warn().Err(why).Str("subject", del.Subject).Msg("turn refused")
	if err := d.bury(ctx, letter{what: "calls", stream: d.bus.CallsStream(), del: del, why: why.Error()}); err != nil {
		return err
	}
	if t.id == "" {
		return nil // whose turn it is cannot be told
	}
	if err := d.trespass(ctx, &t); errors.Is(err, errTrespass) {
		return nil // its calls are another agent's
	} else if err != nil {
		return err
	}
	var refused []decision
	for _, c := range salvage(e, del.Data) {
		refused = append(refused, decision{call: c, reason: reason, text: refusalText(reason, why)})
	}
	return d.fanOut(ctx, &t, del.Count, refused)
}

// refusalText is what the model reads: what is wrong with the event, which is its agent's business;
// nothing of what is wrong with us.
func refusalText(reason events.Reason, why error) string {
	if reason == events.ReasonMalformed {
		return "The turn could not be read: " + bare(why) + ". Send it again, put right, as a new turn."
	}
	return sentence(reason)
}

// bare is an error without the names of our packages.
func bare(err error) string {
	text := err.Error()
	for _, known := range []error{events.ErrMalformed, events.ErrToken} {
		text = strings.TrimPrefix(text, known.Error()+": ")
	}
	return text
}

// salvage finds the calls of an event that is broken, in binary or structured mode.
func salvage(e events.Event, raw []byte) []events.Call {
	if len(e.Data) > 0 {
		return capped(events.ReadableCalls(e.Data))
	}
	if calls := events.ReadableCalls(raw); len(calls) > 0 {
		return capped(calls)
	}
	_, data, ok := bytes.Cut(raw, []byte(`"data"`))
	if i := bytes.IndexByte(data, '{'); ok && i >= 0 {
		return capped(events.ReadableCalls(data[i:]))
	}
	return nil
}

// capped keeps a broken turn from costing more than a whole one.
func capped(calls []events.Call) []events.Call { return calls[:min(len(calls), events.MaxCalls)] }
