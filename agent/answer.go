package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

// Confirm answers whether the call of a question may run, and says what became of the answer: a
// refused one is no error. The digest of the answer is that of the question if it is left empty.
// Errors: [ErrInvalid], [ErrDenied], [ErrFull], [ErrUnavailable] (the answer is stored or not, and will
// be judged; answering again does no harm), [ErrClosed].
func (c *Client) Confirm(ctx context.Context, q events.OpenQuestion, a events.UserConfirmResult) (events.AnswerJudged, error) {
	if a.Digest == "" {
		a.Digest = q.Question.Digest
	}
	return c.answer(ctx, q, events.TypeUserConfirmResult, a)
}

// Answer gives the result of the call of a question. It is like [Client.Confirm] else.
func (c *Client) Answer(ctx context.Context, q events.OpenQuestion, a events.ExternalExecutionResult) (events.AnswerJudged, error) {
	if a.Digest == "" {
		a.Digest = q.Question.Digest
	}
	return c.answer(ctx, q, events.TypeExternalExecutionResult, a)
}

// judgedAgain is how often it is asked what became of an answer, in case word of it was lost.
const judgedAgain = 2 * time.Second

func (c *Client) answer(ctx context.Context, q events.OpenQuestion, typ events.Type, data any) (judged events.AnswerJudged, err error) {
	k := events.CallKey{Session: q.Session, Turn: q.Turn, Call: q.Question.Call.ID}
	request, actor := q.Question.RequestID, string(c.agent)
	e, err := events.New(events.Attributes{
		ID: "answer/" + uuid.NewString(), Source: "/approvers/" + events.Token(c.agent), Type: typ,
		Session: k.Session, Turn: k.Turn, Call: k.Call, ReplyID: q.ReplyID, Request: request, Actor: actor, Tool: q.Question.Call.Name,
	}, data)
	if err != nil {
		return judged, fmt.Errorf("%w: answer: %w", ErrInvalid, err)
	}
	for what, id := range map[string]string{"session": string(k.Session), "turn": string(k.Turn), "call": string(k.Call), "request": request} {
		if err := events.CheckID(what, id); err != nil {
			return judged, fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	in := make(chan *nats.Msg, 16)
	sub, err := c.bus.Conn().ChanSubscribe(c.bus.Live(c.bus.JudgedTo(k, request, actor)), in)
	if err != nil {
		return judged, subscribeError(err)
	}
	defer c.unsubscribe(sub)
	subject := c.bus.Answer(actor, k, request)
	gctx, done := c.guard(ctx, subject)
	defer done()
	seq, err := c.bus.Store(gctx, jet.Out{Subject: subject, Event: e, MsgID: e.ID})
	if err != nil {
		return judged, storeError("answer", err)
	}
	return c.awaitJudged(ctx, in, events.JudgedRequest{Session: k.Session, Turn: k.Turn, CallID: k.Call, RequestID: request, Seq: seq})
}

func (c *Client) awaitJudged(ctx context.Context, in <-chan *nats.Msg, q events.JudgedRequest) (judged events.AnswerJudged, err error) {
	again := time.NewTicker(judgedAgain)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return judged, fmt.Errorf("%w: the answer is stored, and was not judged yet: %w", ErrUnavailable, context.Cause(ctx))
		case <-c.done:
			return judged, ErrClosed
		case m := <-in:
			if _, _, _, seq, err := c.bus.ParseJudged(m.Subject); err != nil || seq != q.Seq {
				continue
			}
			e, err := c.bus.Open(ctx, m.Header, m.Data)
			if err == nil {
				err = events.Unmarshal(e.Data, &judged)
			}
			return judged, err
		case <-again.C:
			if err := c.ask(ctx, events.OpJudged, q, &judged); err == nil || !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrUnavailable) {
				return judged, err
			}
		}
	}
}
