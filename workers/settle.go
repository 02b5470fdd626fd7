package workers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

// settlePatience is how long results are still tried to be stored after the last tool was
// cancelled. What is not stored by then is delivered again.
const settlePatience = 10 * time.Second

// settle stores the result and then lets go of the work. It tries until the result is stored or
// ctx ends; the lease goes on meanwhile. [jet.ErrExists] is as good as stored.
func (w *Worker) settle(ctx context.Context, c *call, r events.ToolResult) {
	if w.publish(ctx, c, r) {
		w.at("after result", c.key)
		w.finish(ctx, c, true, nil)
	}
}

// publish reports whether the call has its result, this or another.
func (w *Worker) publish(ctx context.Context, c *call, r events.ToolResult) bool {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := w.store(ctx, c, r)
		switch {
		case err == nil:
			w.count(c.tool, r.Reason)
			return true
		case errors.Is(err, jet.ErrExists):
			return true
		case unfit(err) && r.Reason != events.ReasonResultTooLarge:
			w.note(c).Error().Err(err).Msg("result cannot be stored")
			r = replaced(r, err)
			continue
		}
		if ctx.Err() != nil || w.bus.Conn().IsClosed() {
			w.note(c).Error().Err(err).Msg("result lost, its call will be delivered again")
			return false
		}
		w.note(c).Warn().Err(err).Msg("result not stored yet")
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

var errNoJSON = errors.New("workers: result is no JSON")

func (w *Worker) store(ctx context.Context, c *call, r events.ToolResult) error {
	a := w.attributes(c)
	a.ID, a.Type, a.Time = "result/"+c.key.String(), events.TypeToolResult, r.Meta.FinishedAt
	e, err := events.New(a, r)
	switch {
	case err != nil && size(r) > events.MaxSize-64<<10: // the rest of an event is small
		return fmt.Errorf("%w: %w", jet.ErrBody, err)
	case err != nil:
		return fmt.Errorf("%w: %w", errNoJSON, err)
	}
	_, err = w.bus.Store(ctx, jet.Out{Subject: w.bus.Result(c.key), Event: e})
	return err
}

func size(r events.ToolResult) int {
	n := len(r.StructuredContent)
	for _, c := range r.Content {
		n += len(c)
	}
	return n
}

// unfit says whether a result will never be stored as it is.
func unfit(err error) bool {
	api, refused := errors.AsType[*jetstream.APIError](err)
	return errors.Is(err, errNoJSON) || errors.Is(err, jet.ErrBody) || errors.Is(err, nats.ErrMaxPayload) ||
		refused && api.ErrorCode == 10054 // larger than the stream takes
}

// replaced is the small result in place of one that cannot be stored.
func replaced(r events.ToolResult, err error) events.ToolResult {
	r.Reason, r.Content = events.ReasonResultTooLarge, []events.Content{events.Text("The result is too large to be delivered. Ask for less, or in parts.")}
	if errors.Is(err, errNoJSON) {
		r.Reason, r.Content = events.ReasonToolError, []events.Content{events.Text("The tool returned a result that is not valid JSON.")}
	}
	r.State, r.IsError, r.StructuredContent = r.Reason.Outcome().State, true, nil
	return r
}

// attributes are those of the work, for whatever follows from it.
func (w *Worker) attributes(c *call) events.Attributes {
	a := c.event.Attributes
	a.Source, a.Subject, a.DataRef = w.source, "", ""
	a.Session, a.Turn, a.Call, a.Tool = c.key.Session, c.key.Turn, c.key.Call, c.tool
	return a
}

// verdict is the result of a call that is settled without its tool's own.
func verdict(c *call, reason events.Reason) events.ToolResult {
	return events.ToolResult{
		CallID: c.key.Call, Name: c.tool, State: reason.Outcome().State, Reason: reason, IsError: true,
		Content: []events.Content{events.Text(sentence(reason))},
		Meta: events.ResultMeta{
			FinishedAt: time.Now(), Definition: c.work.Definition, SessionRevision: c.work.SessionRevision,
			Decision: c.work.Decision, ArgsRepaired: c.work.ArgsRepaired,
		},
	}
}

// sentence tells a model what happened and what to do next.
func sentence(r events.Reason) string {
	switch r {
	case events.ReasonQueueExpired:
		return "No worker was free to run the tool in time. Call again later if it is still needed."
	case events.ReasonTimeout:
		return "The deadline had passed before the tool could run."
	case events.ReasonWorkerLost:
		return "The workers that took this call were lost one after the other. Do not repeat it unchanged."
	case events.ReasonOutcomeUnknown:
		return "The worker was lost while the tool ran. Its effects may have happened or not: check before calling again."
	case events.ReasonDeadLetter:
		return "The call could not be read by a worker and was put aside for an operator."
	case events.ReasonUnavailable:
		return "The tool cannot be used at present, and calling it again right away will not help. An operator has been told."
	case events.ReasonCancelled:
		return "The call was cancelled before the tool ran to its end."
	case events.ReasonShutdown:
		return "The worker was shut down before the call finished. Call again if it is still needed."
	default:
		return "The call was settled without a result of its tool: " + string(r) + "."
	}
}

// finish lets go of the work if the call is settled, else gives it back.
func (w *Worker) finish(ctx context.Context, c *call, settled bool, err error) {
	if !settled {
		w.note(c).Warn().Err(err).Msg("journal not readable, given back")
		w.nak(c, time.Second)
		return
	}
	if !w.say(ctx, c) {
		return
	}
	if err := c.delivery.Load().Ack(); err != nil {
		w.note(c).Debug().Err(err).Msg("not acknowledged")
	}
}

// say leaves word that the turn may move on, if other calls of it wait for this one. It reports
// whether the work may go; if not, it has been given back.
func (w *Worker) say(ctx context.Context, c *call) bool {
	if c.legible && !c.work.Staged {
		return true
	}
	a := w.attributes(c)
	a.ID, a.Type, a.Time = "step/"+c.key.String(), events.TypeTurnStep, time.Now()
	_, err := w.bus.Store(ctx, jet.Out{Subject: w.bus.Step(c.key.Session, c.key.Turn), Event: events.Event{Attributes: a}})
	if err != nil {
		w.note(c).Warn().Err(err).Msg("step not stored, given back")
		w.nak(c, time.Second)
		return false
	}
	w.at("after step", c.key)
	return true
}

// nak gives the work back, to come again after a delay.
func (w *Worker) nak(c *call, delay time.Duration) {
	w.stats.returned.Add(1)
	if err := c.delivery.Load().Nak(delay); err != nil {
		w.note(c).Debug().Err(err).Msg("not given back")
	}
}

// giveBack returns a call whose tool is not here, and says so. The delays are such that the call
// expires in the queue before it is delivered too often.
func (w *Worker) giveBack(c *call, d *jet.Delivery) {
	w.stats.unknown.Add(1)
	w.note(c).Warn().Int("deliveries", d.Count).Msg("tool is not here, given back")
	w.nak(c, returnDelay(d.Count, time.Until(c.work.QueueUntil)))
}

func returnDelay(count int, left time.Duration) time.Duration {
	delay := time.Duration(min(max(count, 1), 5)) * time.Second
	if count < 20 {
		return delay
	}
	return max(delay, left/time.Duration(max(maxDeliveries-count, 1)))
}

// note is the log with the fields of a call.
func (w *Worker) note(c *call) *zerolog.Logger {
	l := w.log.With().Str("session", string(c.key.Session)).Str("turn", string(c.key.Turn)).
		Str("call_id", string(c.key.Call)).Str("tool", string(c.tool)).Logger()
	return &l
}
