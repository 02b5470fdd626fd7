package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/internal/show"
)

func (a *app) approvalsWatchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "watch", Short: "Watch questions come and be decided, until Ctrl-C",
		Long: "Prints the questions that are open, then a line for each that comes and for each that is decided. What was missed\n" +
			"while the connection was lost is made up for. With --json each line has what (open, asked, decided), and the\n" +
			"question or the decision whole.",
		Example: "  toolwire approvals watch\n  toolwire approvals watch --json | jq -r 'select(.what != \"decided\") | .question.requestId'",
		Args:    args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.answers = true
			c, l, done, err := a.client("approvals watch")
			if err != nil {
				return err
			}
			defer done()
			return a.diagnose(cmd.Context(), l, a.approvalsWatch(cmd.Context(), c, l))
		},
	}
	a.jsonFlag(cmd)
	return cmd
}

// questionWatch is what was printed so far; both the live changes and listings come to it.
type questionWatch struct {
	app    *app
	client *agent.Client

	mu   sync.Mutex
	open map[string]bool // questions printed as open, by request; false: as decided
}

func (a *app) approvalsWatch(ctx context.Context, c *agent.Client, l *jet.Link) error {
	w := &questionWatch{app: a, client: c, open: make(map[string]bool)}
	if !a.json {
		a.note("watching as %s; Ctrl-C ends", a.acting)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	again := l.StatusChanged(nats.CONNECTED)
	defer l.RemoveStatusListener(again)
	var listing sync.WaitGroup
	defer listing.Wait()
	list := func() {
		if err := w.list(ctx); err != nil && ctx.Err() == nil {
			stop(err)
		}
	}
	begun := func() {
		listing.Go(func() {
			for list(); ; list() {
				select {
				case <-ctx.Done():
					return
				case <-again:
				}
			}
		})
	}
	for change, err := range c.WatchQuestions(ctx, begun) {
		switch {
		case errors.Is(err, events.ErrMalformed), errors.Is(err, events.ErrToken):
			a.note("a fact that cannot be read: %s", show.Line(err.Error()))
			continue
		case err != nil:
			stop(nil)
			return err
		}
		if err := w.changed(change); err != nil {
			stop(nil)
			return err
		}
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// list prints open questions that were not printed yet, and the decisions of those that are gone.
func (w *questionWatch) list(ctx context.Context) error {
	there := make(map[string]bool)
	w.mu.Lock()
	before := make([]string, 0, len(w.open))
	for request, open := range w.open {
		if open {
			before = append(before, request)
		}
	}
	w.mu.Unlock()
	for q, err := range w.client.Questions(ctx, events.QuestionsRequest{All: true}) {
		if errors.Is(err, agent.ErrUnavailable) && len(before) > 0 { // the server is back, dispatchers are not
			return nil
		}
		if err != nil {
			return err
		}
		there[q.Question.RequestID] = true
		if err := w.say("open", events.QuestionReply{OpenQuestion: q}, time.Now()); err != nil {
			return err
		}
	}
	for _, request := range before {
		if there[request] {
			continue
		}
		q, err := w.client.Question(ctx, request)
		if err == nil && q.Decided != nil {
			err = w.say("decided", q, q.Decided.At)
		}
		if err != nil && !errors.Is(err, agent.ErrNotFound) {
			return err
		}
	}
	return nil
}

func (w *questionWatch) changed(c agent.QuestionChange) error {
	q := events.QuestionReply{OpenQuestion: events.OpenQuestion{
		Session: c.Session, Turn: c.Turn, ReplyID: c.Event.ReplyID, Parent: c.Event.Parent,
	}}
	if c.Asked != nil {
		q.Question = *c.Asked
		q.Missing = q.Question.Quorum
		return w.say("asked", q, q.Question.AskedAt)
	}
	if c.Decided == nil {
		return nil
	}
	q.Question, q.Decided = c.Decided.Question, c.Decided
	return w.say("decided", q, c.Decided.At)
}

// printWatched writes what is the same however it was heard of.
func (a *app) printWatched(what string, q events.QuestionReply) error {
	head, err := events.Marshal(struct {
		What    string           `json:"what"`
		Session events.SessionID `json:"session"`
		Turn    events.TurnID    `json:"turn"`
		ReplyID string           `json:"replyId,omitempty"`
		Parent  string           `json:"parent,omitempty"`
	}{what, q.Session, q.Turn, q.ReplyID, q.Parent})
	if err != nil {
		return err
	}
	var name string
	var body []byte
	if q.Decided != nil {
		name = "decided"
		body, err = events.Marshal(*q.Decided)
	} else {
		name = "question"
		body, err = events.Marshal(q.Question)
	}
	if err != nil {
		return err
	}
	a.print("%s,%q:%s}\n", head[:len(head)-1], name, body)
	return nil
}

// say prints a question once as open, and once as decided.
func (w *questionWatch) say(what string, q events.QuestionReply, at time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	open, seen := w.open[q.Question.RequestID]
	if seen && (!open || q.Decided == nil) {
		return nil
	}
	w.open[q.Question.RequestID] = q.Decided == nil
	a := w.app
	if a.json {
		return a.printWatched(what, q)
	}
	k := &q.Question
	line, colour := k.Why, yellow
	switch {
	case q.Decided != nil:
		what, colour = q.Decided.Outcome, green
		if what != events.OutcomeApproved && what != events.OutcomeAnswered {
			colour = red
		}
		line = "by " + byWhom(q.Decided.Actor)
		if q.Decided.Reason != "" {
			line += ": " + q.Decided.Reason
		}
	default:
		line += " (" + timeLeft(*k, time.Now()) + " left)"
		if k.ExpiresAt == nil {
			line = k.Why
		}
	}
	a.print("%s  %s  %s  %s of %s  %s\n", at.Local().Format(time.TimeOnly), a.paint(colour, show.Line(what)),
		shortID(k.RequestID, 12), show.Line(string(k.Call.Name)), show.Line(string(k.Requester)), show.Line(brief(line)))
	return nil
}
