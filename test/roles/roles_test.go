// Package roles_test holds the rights of each role to what it needs, and to nothing else.
package roles_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/goleak"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/auth"
	"github.com/toolwire/toolwire/internal/embed"
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

// party is a server, and how to connect to it in a role.
type party struct {
	*natstest.Server
	as func(role string) nats.Option
}

// The parties of an installation. ann is an operator; bob, an agent; app, an approver.
const lane = "Lane-Narrow"

func parties() map[string]jet.Role {
	return map[string]jet.Role{
		"dispatcher": jet.RoleDispatcher, "worker": jet.RoleWorker, "ann": jet.RoleOperator, "bob": jet.RoleAgent, "app": jet.RoleApprover,
	}
}

// name is the name that a party has in subjects.
func name(party string) string {
	if party == "worker" {
		return "shop"
	}
	return party
}

func pools(role jet.Role) []string {
	if role == jet.RoleWorker {
		return []string{"shop", "lane-narrow", lane}
	}
	return nil
}

// kinds are the ways to give rights: permissions of users, and credentials whose rights lie in their signing key.
func kinds() map[string]func(*testing.T) party {
	return map[string]func(*testing.T) party{"permissions": withPermissions, "credentials": withCredentials}
}

func withPermissions(t *testing.T) party {
	t.Helper()
	emptyTimers()
	var users []natstest.User
	for who, role := range parties() {
		r := jet.Names{}.Rights(role, name(who), pools(role)...)
		users = append(users, natstest.User{Name: who, Publish: r.Publish, Subscribe: r.Subscribe, Replies: r.Replies})
	}
	return party{natstest.Start(t, users...), natstest.As}
}

func withCredentials(t *testing.T) party {
	t.Helper()
	emptyTimers()
	dir, err := auth.Init(filepath.Join(t.TempDir(), "auth"), jet.Names{})
	if err != nil {
		t.Fatal(err)
	}
	for who, role := range parties() {
		if _, err := dir.Add(role, name(who), pools(role), 0, auth.SaveTo(dir.CredsFile(who))); err != nil {
			t.Fatal(err)
		}
	}
	srv := natstest.StartTrusting(t, func(o *server.Options) error { return embed.Trust(o, dir.Trust()) })
	return party{srv, func(who string) nats.Option { return nats.UserCredentials(dir.CredsFile(who)) }}
}

// A timer that the client library pools in one bubble is fatal in the next.
func emptyTimers() {
	runtime.GC()
	runtime.GC()
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
	for kind, start := range kinds() {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { rightsAreEnough(t, start(t)) })
		})
	}
}

func rightsAreEnough(t *testing.T, srv party) {
	t.Helper()
	var refused refusals
	conn := func(name string) *nats.Conn { return srv.Conn(srv.as(name), refused.option()) }
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
	for _, who := range []string{"bob", "app"} { // whoever has a name may ask
		c, err := agent.New(conn(who), agent.Config{Agent: events.AgentID(who)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Tool(t.Context(), "look"); err != nil {
			t.Errorf("%s: %v", who, err)
		}
		c.Close()
	}
	time.Sleep(2 * time.Minute) // sweeps
	if all := refused.take(); len(all) > 0 {
		t.Errorf("refused: %q", all)
	}
}
