package roles_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/permission"
	"github.com/toolwire/toolwire/workers"
)

// asking has a tool that a rule asks about, and one that asks to be answered outside.
func asking(t *testing.T) *toolkit.Toolkit {
	t.Helper()
	all := toolkit.New()
	err := all.Add(
		toolkit.MustDefine("deploy", "Deploys.", func(context.Context, in) (string, error) { return "deployed", nil }, nil),
		toolkit.MustDefine("sign", "Signs.", func(context.Context, in) (string, error) { return "", toolkit.Pending("sign it") }, nil),
	)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// An approver, whose credentials allow nothing else, answers what an agent's calls ask; all by their rights.
func TestRightsAreEnoughToAnswer(t *testing.T) { //nolint:paralleltest // a bubble
	synctest.Test(t, func(t *testing.T) {
		srv := withCredentials(t)
		var refused refusals
		conn := func(who string) *nats.Conn { return srv.Conn(srv.as(who), refused.option()) }
		d, err := dispatcher.New(conn("dispatcher"), dispatcher.Config{NoHistory: true, Operators: []string{"ann"}})
		if err != nil {
			t.Fatal(err)
		}
		w, err := workers.New(conn("worker"), asking(t), workers.Config{Name: "shop"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
		done := make(chan error, 2)
		go func() { done <- d.Run(ctx) }()
		for d.Ready() != nil {
			time.Sleep(10 * time.Millisecond)
		}
		go func() { done <- w.Run(ctx) }()
		defer func() {
			stop()
			for range 2 {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}()
		client := func(who string) *agent.Client {
			c, err := agent.New(conn(who), agent.Config{Agent: events.AgentID(who)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.Close)
			return c
		}
		ann, bob, app := client("ann"), client("bob"), client("app")
		for {
			if tl, err := bob.Tool(t.Context(), "sign"); err == nil && tl.Info.Workers > 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if err := ann.ChangeConfig(t.Context(), func(c *toolkit.Config) error {
			c.Permissions = permission.Context{Mode: permission.Bypass, Rules: []permission.Rule{{Tool: "deploy", Behavior: permission.Ask}}}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		watch, unwatch := context.WithCancel(t.Context())
		begun, heard := make(chan struct{}), make(chan int, 1)
		go func() {
			n := 0
			for _, err := range app.WatchQuestions(watch, func() { close(begun) }) {
				if err != nil {
					t.Error(err)
				}
				n++
			}
			heard <- n
		}()
		<-begun
		turn, err := bob.Submit(t.Context(), agent.Turn{Session: "p", Calls: []events.Call{
			{ID: "c1", Name: "deploy", Input: json.RawMessage(`{"n":1}`)},
			{ID: "c2", Name: "sign", Input: json.RawMessage(`{"n":1}`)},
		}})
		if err != nil {
			t.Fatal(err)
		}
		large := strings.Repeat("x", 600<<10)
		answers(t, app, large)
		results, err := turn.Await(t.Context())
		if err != nil || results[0].Text() != "deployed" || results[1].Text() != large {
			t.Errorf("got %.200v, %v", results, err)
		}
		time.Sleep(2 * time.Minute) // sweeps
		unwatch()
		if n := <-heard; n != 4 {
			t.Errorf("the approver heard of %d, want 2 questions and 2 decisions", n)
		}
		if all := refused.take(); len(all) > 0 {
			t.Errorf("refused: %q", all)
		}
	})
}

// answers approves the first question, and answers the second with text.
func answers(t *testing.T, app *agent.Client, text string) {
	t.Helper()
	for answered, tries := 0, 0; answered < 2; time.Sleep(10 * time.Millisecond) {
		if tries++; tries > 3000 {
			t.Fatalf("%d questions came", answered)
		}
		for q, err := range app.Questions(t.Context(), events.QuestionsRequest{}) {
			if err != nil {
				t.Fatal(err)
			}
			var j events.AnswerJudged
			if q.Question.Kind == events.KindConfirm {
				j, err = app.Confirm(t.Context(), q, events.UserConfirmResult{Decision: events.Approve})
			} else {
				j, err = app.Answer(t.Context(), q, events.ExternalExecutionResult{Content: []events.Content{events.Text(text)}})
			}
			if err != nil || j.Judgement != events.JudgedAccepted {
				t.Fatalf("got %+v, %v", j, err)
			}
			answered++
		}
	}
}
