package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
)

// app asks a person on a terminal.
type app struct {
	client *agent.Client
	in     *bufio.Scanner
	out    io.Writer
}

// decide is an approval app: it asks about all questions that are open and all that come, until ctx or the
// input ends. Whoever answers has a name, and it is not that of the agent that asked.
func decide(ctx context.Context, nc *nats.Conn, name string, in io.Reader, out io.Writer) error {
	c, err := agent.New(nc, agent.Config{Agent: events.AgentID(name)})
	if err != nil {
		return err
	}
	defer c.Close()
	again := make(chan struct{}, 1) // there may be something new
	look := func() {
		select {
		case again <- struct{}{}:
		default:
		}
	}
	nc.SetReconnectHandler(func(*nats.Conn) { look() }) // what was said meanwhile was not heard
	ended := make(chan error, 1)
	go func() {
		for _, err := range c.WatchQuestions(ctx, look) {
			if err != nil {
				ended <- err
				return
			}
			look()
		}
		ended <- nil
	}()
	app := &app{client: c, in: bufio.NewScanner(in), out: out}
	for {
		select {
		case err := <-ended:
			return err
		case <-again:
			switch err := app.ask(ctx); {
			case errors.Is(err, agent.ErrUnavailable): // the server or the dispatchers are away
				time.AfterFunc(time.Second, look)
			case err != nil:
				return err
			}
		}
	}
}

// ask goes through the open questions that this person may answer.
func (a *app) ask(ctx context.Context) error {
	for q, err := range a.client.Questions(ctx, events.QuestionsRequest{}) {
		if err != nil {
			return err
		}
		if !q.MayAnswer {
			continue
		}
		judged, err := a.answer(ctx, q)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(a.out, judged.Judgement+":", judged.Text); err != nil {
			return err
		}
	}
	return nil
}

// answer asks about one question and gives the answer. What is shown was written by a model: quoted, nothing in
// it can hide or reorder text.
func (a *app) answer(ctx context.Context, open events.OpenQuestion) (judged events.AnswerJudged, err error) {
	q := open.Question
	_, err = fmt.Fprintf(a.out, "%s wants %s %s\n  %s\n", quote(string(q.Requester)), quote(string(q.Call.Name)), quote(string(q.Call.Input)), quote(q.Why))
	if err != nil {
		return judged, err
	}
	if q.Kind == events.KindExternal {
		text, err := a.line("answer: ")
		if err != nil {
			return judged, err
		}
		return a.client.Answer(ctx, open, events.ExternalExecutionResult{Content: []events.Content{events.Text(text)}})
	}
	text, err := a.line("yes, or why not: ")
	switch {
	case err != nil:
		return judged, err
	case text == "yes":
		return a.client.Confirm(ctx, open, events.UserConfirmResult{Decision: events.Approve})
	}
	return a.client.Confirm(ctx, open, events.UserConfirmResult{Decision: events.Refuse, Reason: text})
}

func (a *app) line(prompt string) (string, error) {
	if _, err := fmt.Fprint(a.out, prompt); err != nil {
		return "", err
	}
	if a.in.Scan() {
		return strings.TrimSpace(a.in.Text()), nil
	}
	return "", errors.Join(a.in.Err(), io.EOF)
}

// quote leaves letters as they are, and shows everything that could pretend to be something else.
func quote(s string) string { q := strconv.QuoteToGraphic(s); return q[1 : len(q)-1] }
