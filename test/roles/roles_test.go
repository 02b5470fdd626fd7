// Package roles_test holds the rights of each role to what it needs, and to nothing else.
package roles_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/internal/natstest"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/workers"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*stream).tryDeleteSourcingConsumer.func1"),
		goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*stream).trySetupSourceConsumer.func3"))
}

func user(name string, r jet.Rights) natstest.User {
	return natstest.User{Name: name, Publish: r.Publish, Subscribe: r.Subscribe, Replies: r.Replies}
}

// start starts a server with a user for each role.
func start(t *testing.T) *natstest.Server {
	t.Helper()
	runtime.GC() // a timer that the client library pools in one bubble is fatal in the next
	runtime.GC()
	n := jet.Names{}
	return natstest.Start(t,
		user("dispatcher", n.DispatcherRights()), user("worker", n.WorkerRights("shop", "shop", "lane-narrow")),
		user("ann", n.AgentRights("ann")), user("bob", n.AgentRights("bob")))
}

// refusals collects what a server refused.
type refusals struct {
	mu  sync.Mutex
	all []string
}

func (r *refusals) option() nats.Option {
	return nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all = append(r.all, err.Error())
	})
}

func (r *refusals) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}

type in struct {
	N int `json:"n"`
}

// tools have all that a tool can do.
func tools(t *testing.T) *toolkit.Toolkit {
	t.Helper()
	all := toolkit.New()
	err := all.Add(
		toolkit.MustDefine("look", "Looks.", func(ctx context.Context, _ in) (string, error) {
			toolkit.Progress(ctx, 1, 2, "half")
			return "seen", nil
		}, &toolkit.Options{ReadOnly: true, ConcurrencySafe: true}),
		toolkit.MustDefine("book", "Books.", func(ctx context.Context, in in) (string, error) {
			select {
			case <-time.After(time.Duration(in.N) * time.Second):
				return "booked", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}, nil),
		toolkit.MustDefine("sum", "Sums.", func(ctx context.Context, in in) (int, error) {
			sum := 0
			err := toolkit.UpdateState(ctx, "sum", func(doc *int) error { *doc += in.N; sum = *doc; return nil })
			return sum, err
		}, &toolkit.Options{StateInjected: true}),
		toolkit.MustDefine("large", "Returns much.", func(_ context.Context, in struct {
			Text string `json:"text"`
		},
		) (string, error) {
			return in.Text, nil
		}, &toolkit.Options{ReadOnly: true}),
		toolkit.MustDefine("narrow", "One at a time.", func(context.Context, in) (string, error) { return "done", nil }, &toolkit.Options{MaxInFlight: 1}),
	)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Each role does all of its work with its rights, and is refused nothing meanwhile.
func TestRightsAreEnough(t *testing.T) { //nolint:paralleltest // a bubble
	synctest.Test(t, func(t *testing.T) {
		srv := start(t)
		var refused refusals
		conn := func(name string) *nats.Conn { return srv.Conn(natstest.As(name), refused.option()) }
		d, err := dispatcher.New(conn("dispatcher"), dispatcher.Config{NoHistory: true, Operators: []string{"ann"}})
		if err != nil {
			t.Fatal(err)
		}
		w, err := workers.New(conn("worker"), tools(t), workers.Config{Name: "shop"})
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
		ann, err := agent.New(conn("ann"), agent.Config{Agent: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		defer ann.Close()
		for name := range map[events.ToolName]bool{"look": true, "narrow": true, "sum": true} {
			for {
				if tl, err := ann.Tool(t.Context(), name); err == nil && tl.Info.Workers > 0 {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
		if err := ann.ChangeConfig(t.Context(), func(c *toolkit.Config) error {
			c.Groups = []toolkit.Group{{Name: "g", Tools: []string{"narrow"}}}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		heard := 0
		turn, err := ann.Submit(t.Context(), agent.Turn{
			Session: "s", Progress: func(events.ToolResultDelta) { heard++ },
			Calls: []events.Call{
				{Name: "look", Input: json.RawMessage(`{"n":1}`)},
				{Name: "book", Input: json.RawMessage(`{"n":30}`)}, // longer than a lease
				{Name: "sum", Input: json.RawMessage(`{"n":2}`)},
				{Name: "reset_tools", Input: json.RawMessage(`{"g":true}`)},
				{Name: "narrow", Input: json.RawMessage(`{"n":1}`)},
				{Name: "nope"},
				{Name: "large", Input: json.RawMessage(`{"text":"` + strings.Repeat("x", 600<<10) + `"}`)},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		results, err := turn.Await(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range results {
			if want := events.ReasonOK; r.Reason != want && i != 5 || i == 5 && r.Reason != events.ReasonNotFound {
				t.Errorf("call %d: %s %.100s", i, r.Reason, r.Text())
			}
		}
		if heard != 1 || len(results[6].Text()) != 600<<10 {
			t.Errorf("heard %d deltas, got %d bytes", heard, len(results[6].Text()))
		}
		long, err := ann.Submit(t.Context(), agent.Turn{Session: "s", Calls: []events.Call{{Name: "book", Input: json.RawMessage(`{"n":3600}`)}}})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if _, err := ann.CancelNow(t.Context(), "s", long.Turn(), events.CancelCalls{}); err != nil {
			t.Error(err)
		}
		if r, err := long.Await(t.Context()); err != nil || r[0].Reason != events.ReasonCancelled {
			t.Errorf("got %+v, %v", r, err)
		}
		sum := 0
		if _, err := ann.State(t.Context(), "s", "sum", &sum); err != nil || sum != 2 {
			t.Errorf("got %d, %v", sum, err)
		}
		time.Sleep(2 * time.Minute) // sweeps
		if all := refused.take(); len(all) > 0 {
			t.Errorf("refused: %q", all)
		}
	})
}

// What is not granted is refused.
func TestNothingElseIsGranted(t *testing.T) {
	t.Parallel()
	srv := start(t)
	srv.Bus()
	agents := []string{
		"toolwire.call.bob.s.t", "toolwire.cancel.bob.s.t", "toolwire.api.bob.tools", "toolwire.work.shop.look.s.t.c", "toolwire.start.s.t.c",
		"toolwire.result.s.t.c", "toolwire.live.result.s.t.c", "toolwire.step.s.t", "toolwire.suspend.s.t.c", "toolwire.timer.sweep", "toolwire.due.sweep",
		"toolwire.state.s.todo", "toolwire.dead.call.x", "toolwire.announce.shop.look", "toolwire.stop.s.t.c", "toolwire.changed.tool", "toolwire.delta.s.t.c",
		"toolwire.alive.i", "toolwire.require.confirm.x.s.t.c.r", "toolwire.decided.s.t.c.r", "toolwire.answer.bob.s.t.c.r",
		"$KV.toolwire_sessions.s", "$KV.toolwire_config.config", "$KV.toolwire_registry.tool.look", "$KV.toolwire_turns.s.t",
		"$JS.API.STREAM.MSG.GET.TOOLWIRE_CALLS", "$JS.API.STREAM.MSG.GET.TOOLWIRE_JOURNAL", "$JS.API.STREAM.PURGE.TOOLWIRE_CALLS",
		"$JS.API.STREAM.DELETE.TOOLWIRE_JOURNAL", "$JS.API.STREAM.CREATE.X", "$JS.API.CONSUMER.CREATE.TOOLWIRE_WORK",
		"$JS.API.CONSUMER.MSG.NEXT.TOOLWIRE_WORK.shop", "$JS.ACK.TOOLWIRE_WORK.shop.1.1.1.1.1",
	}
	for role, subjects := range map[string][]string{
		"ann": agents,
		"worker": {
			"toolwire.call.ann.s.t", "toolwire.cancel.ann.s.t", "toolwire.api.ann.tools", "toolwire.work.shop.look.s.t.c", "toolwire.announce.other.look",
			"toolwire.timer.sweep", "toolwire.due.sweep", "toolwire.answer.ann.s.t.c.r", "toolwire.decided.s.t.c.r", "toolwire.judged.s.t.c.r.a.1",
			"toolwire.require.confirm.x.s.t.c.r", "toolwire.stop.s.t.c", "toolwire.changed.tool", "toolwire.live.result.s.t.c", "toolwire.dead.call.x",
			"$KV.toolwire_sessions.s", "$KV.toolwire_registry.tool.look", "$KV.toolwire_config.config", "$KV.toolwire_turns.s.t",
			"$JS.API.STREAM.PURGE.TOOLWIRE_WORK", "$JS.API.STREAM.MSG.DELETE.TOOLWIRE_WORK", "$JS.API.STREAM.MSG.GET.TOOLWIRE_CALLS",
			"$JS.API.CONSUMER.MSG.NEXT.TOOLWIRE_WORK.other", "$JS.API.CONSUMER.MSG.NEXT.TOOLWIRE_CALLS.intake", "$JS.ACK.TOOLWIRE_WORK.other.1.1.1.1.1",
		},
	} {
		told := make(chan string, 1)
		nc := srv.Conn(natstest.As(role), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { told <- err.Error() }))
		refused := func(what, subject string, err error) {
			t.Helper()
			if err := errors.Join(err, nc.Flush()); err != nil {
				t.Fatal(err)
			}
			select {
			case text := <-told:
				if !strings.Contains(text, `"`+subject+`"`) {
					t.Errorf("%s may %s %s: %s", role, what, subject, text)
				}
			case <-time.After(10 * time.Second):
				t.Errorf("%s may %s %s", role, what, subject)
			}
		}
		for _, subject := range subjects {
			refused("publish to", subject, nc.Publish(subject, nil))
		}
		for _, subject := range []string{"toolwire.>", "toolwire.call.>", "toolwire.work.>", "toolwire.api.>", "toolwire.announce.>", "$KV.>", "$JS.>", ">"} {
			_, err := nc.SubscribeSync(subject)
			refused("subscribe to", subject, err)
		}
	}
}
