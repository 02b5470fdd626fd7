package console_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/console"
	"github.com/toolwire/toolwire/internal/natstest"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/permission"
	"github.com/toolwire/toolwire/workers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	token    = "a-token-that-is-long-enough"
	patience = 20 * time.Second
)

// world is an installation, with a rule that asks about deploy, and a console of anna's.
type world struct {
	testing.TB
	srv     *natstest.Server
	planner *agent.Client
	anna    *agent.Client
	console *console.Console
	at      string // where it is served, without a slash at the end
	login   string // the URL that lets in
}

type deployment struct {
	Service string `json:"service"`
	Note    string `json:"note,omitempty"`
	Count   int    `json:"count,omitempty"`
}

func newWorld(tb testing.TB, change ...func(*toolkit.Config)) *world {
	tb.Helper()
	w := &world{TB: tb, srv: natstest.Start(tb)}
	d, err := dispatcher.New(w.srv.Conn(), dispatcher.Config{NoHistory: true})
	if err != nil {
		tb.Fatal(err)
	}
	w.run(d.Run)
	w.until(func() bool { return d.Ready() == nil })
	tools := toolkit.New()
	if err := tools.Add(toolkit.MustDefine("deploy", "Deploys a service.\u202e Trust me.", func(_ context.Context, in deployment) (string, error) {
		return "deployed " + in.Service, nil
	}, &toolkit.Options{ConcurrencySafe: true})); err != nil {
		tb.Fatal(err)
	}
	wk, err := workers.New(w.srv.Conn(), tools, workers.Config{Name: "shop"})
	if err != nil {
		tb.Fatal(err)
	}
	w.run(wk.Run)
	w.planner, w.anna = w.client("local"), w.client("anna")
	w.until(func() bool { _, err := w.planner.Tool(tb.Context(), "deploy"); return err == nil })
	cfg := toolkit.Config{
		Permissions: permission.Context{Mode: permission.Bypass, Rules: []permission.Rule{{Tool: "deploy", Behavior: permission.Ask}}},
		AskUser:     true,
		External: []toolkit.Definition{{
			Name: "review", Description: "A person reviews.", External: true, ConcurrencySafe: true, InputSchema: json.RawMessage(`{"type":"object"}`),
			OutputSchema: json.RawMessage(`{"type":"object","properties":{"verdict":{"enum":["good","bad"]},"score":{"type":"integer"},"note":{"type":"string"}},"required":["verdict","score"]}`),
		}},
	}
	for _, f := range change {
		f(&cfg)
	}
	if err := w.planner.ChangeConfig(tb.Context(), func(c *toolkit.Config) error { *c = cfg; return nil }); err != nil {
		tb.Fatal(err)
	}
	w.serve()
	return w
}

// run runs a service until the test ends.
func (w *world) run(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	w.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.Errorf("run: %v", err)
		}
	})
}

func (w *world) until(f func() bool) {
	w.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		if f() {
			return
		}
	}
	w.Fatal("it did not happen in time")
}

func (w *world) client(name events.AgentID) *agent.Client {
	w.Helper()
	c, err := agent.New(w.srv.Conn(), agent.Config{Agent: name})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(c.Close)
	return c
}

func (w *world) serve() {
	w.Helper()
	var err error
	w.console, err = console.New(w.anna, console.Config{
		Actor: "anna", Addr: "127.0.0.1:0", Token: token, Logger: zerolog.New(zerolog.NewTestWriter(w)).Level(zerolog.WarnLevel),
	})
	if err != nil {
		w.Fatal(err)
	}
	w.run(w.console.Run)
	<-w.console.Serving()
	w.at = "http://" + w.console.Addr()
	w.login = w.console.URL() + "?token=" + token
	w.until(func() bool { return w.console.Ready() == nil })
}

// submit publishes a turn of one call, and returns what is pending and the question about it.
func (w *world) submit(id events.CallID, tool events.ToolName, input string) (*agent.Pending, events.OpenQuestion) {
	w.Helper()
	p, err := w.planner.Submit(w.Context(), agent.Turn{
		Session: "s", ReplyID: "reply-7", Calls: []events.Call{{ID: id, Name: tool, Input: json.RawMessage(input)}},
	})
	if err != nil {
		w.Fatal(err)
	}
	var found events.OpenQuestion
	w.until(func() bool {
		for q, err := range w.anna.Questions(w.Context(), events.QuestionsRequest{}) {
			if err == nil && q.Question.Call.ID == id {
				found = q
				return true
			}
		}
		return false
	})
	return p, found
}

// await returns the result of a turn of one call.
func (w *world) await(p *agent.Pending) events.ToolResult {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	rs, err := p.Await(ctx)
	if err != nil {
		w.Fatal(err)
	}
	return rs[0]
}
