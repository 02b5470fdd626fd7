package agent

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/events"
)

// Questions lists the open questions that the client's identity may answer, oldest first; with
// All, every one that it may see. Errors: [ErrInvalid], [ErrDenied], [ErrUnavailable].
func (c *Client) Questions(ctx context.Context, q events.QuestionsRequest) iter.Seq2[events.OpenQuestion, error] {
	return func(yield func(events.OpenQuestion, error) bool) {
		for {
			var page events.QuestionsReply
			if err := c.ask(ctx, events.OpQuestions, q, &page); err != nil {
				yield(events.OpenQuestion{}, err)
				return
			}
			for _, open := range page.Questions {
				if !yield(open, nil) {
					return
				}
			}
			if !page.More {
				return
			}
			q.After = page.After
		}
	}
}

// Question returns a question by its request id, open or decided, and how it stands.
// Errors: [ErrInvalid], [ErrNotFound], [ErrDenied], [ErrUnavailable].
func (c *Client) Question(ctx context.Context, request string) (events.QuestionReply, error) {
	var reply events.QuestionReply
	if err := events.CheckID("request", request); err != nil {
		return reply, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	err := c.ask(ctx, events.OpQuestion, events.QuestionRequest{RequestID: request}, &reply)
	return reply, err
}

// Decisions lists past decisions, newest first. Errors: [ErrDenied], [ErrUnavailable].
func (c *Client) Decisions(ctx context.Context) iter.Seq2[events.Decision, error] {
	return func(yield func(events.Decision, error) bool) {
		var q events.DecisionsRequest
		for {
			var page events.DecisionsReply
			if err := c.ask(ctx, events.OpDecisions, q, &page); err != nil {
				yield(events.Decision{}, err)
				return
			}
			for _, d := range page.Decisions {
				if !yield(d, nil) {
					return
				}
			}
			if q.Before = page.Before; q.Before == 0 {
				return
			}
		}
	}
}

// watchPatience bounds the wait for the server to have taken the subscriptions.
const watchPatience = 5 * time.Second

// QuestionChange is a question that was asked just now, or decided.
type QuestionChange struct {
	Session events.SessionID
	Turn    events.TurnID
	Request string
	Asked   *events.Question // nil: it was decided
	Decided *events.Decided
	Event   events.Event
}

// WatchQuestions yields what is asked and decided from now on. Whoever wants all that is open subscribes
// first and lists then: begun is called once nothing more is missed. It ends when ctx does, or with an
// error. Changes may be missed while the connection is lost or the reader is slow; list again then.
func (c *Client) WatchQuestions(ctx context.Context, begun func()) iter.Seq2[QuestionChange, error] {
	return func(yield func(QuestionChange, error) bool) {
		in := make(chan *nats.Msg, watchBuffer)
		var subs []*nats.Subscription
		defer func() {
			for _, s := range subs {
				c.unsubscribe(s)
			}
		}()
		for _, kind := range [...]string{"require", "decided"} {
			s, err := c.bus.Conn().ChanSubscribe(c.bus.Live(kind+".>"), in)
			if err != nil {
				yield(QuestionChange{}, subscribeError(err))
				return
			}
			subs = append(subs, s)
		}
		flush, cancel := context.WithTimeout(ctx, watchPatience) // the client refuses a context without an end
		err := c.bus.Conn().FlushWithContext(flush)
		cancel()
		if err != nil {
			yield(QuestionChange{}, fmt.Errorf("%w: %w", ErrUnavailable, err))
			return
		}
		if begun != nil {
			begun()
		}
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.done:
				yield(QuestionChange{}, ErrClosed)
				return
			case m := <-in:
				if change, err := c.questionChange(ctx, m); ctx.Err() != nil || !yield(change, err) {
					return
				}
			}
		}
	}
}

func (c *Client) questionChange(ctx context.Context, m *nats.Msg) (change QuestionChange, err error) {
	if change.Event, err = c.bus.Open(ctx, m.Header, m.Data); err != nil {
		return change, fmt.Errorf("%s: %w", m.Subject, err)
	}
	var k events.CallKey
	if _, _, k, change.Request, err = c.bus.ParseRequire(m.Subject); err == nil {
		change.Asked = new(events.Question)
		err = events.Unmarshal(change.Event.Data, change.Asked)
	} else if k, change.Request, err = c.bus.ParseDecided(m.Subject); err == nil {
		change.Decided = new(events.Decided)
		err = events.Unmarshal(change.Event.Data, change.Decided)
	}
	change.Session, change.Turn = k.Session, k.Turn
	return change, err
}
