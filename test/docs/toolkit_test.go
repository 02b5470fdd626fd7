package docs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/natstest"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/workers"
	"github.com/toolwire/toolwire/workers/builtin"
)

// What the Go blocks of docs/toolkit.md show stands here, line by line, and runs.
func TestToolkitDocIsThisFile(t *testing.T) {
	t.Parallel()
	blocksRun(t, "../../docs/toolkit.md", "toolkit_test.go", 8)
}

type Clock struct {
	Timezone string `json:"timezone" description:"IANA time zone, e.g. Asia/Shanghai" default:"UTC"`
}

var clock = toolkit.MustDefine("clock", "Tells the time in a time zone.",
	func(_ context.Context, in Clock) (string, error) {
		zone, err := time.LoadLocation(in.Timezone)
		if err != nil {
			return "", err // the model reads it
		}
		return time.Now().In(zone).Format(time.RFC3339), nil
	}, &toolkit.Options{ReadOnly: true, ConcurrencySafe: true})

// raw is a tool with a schema of its author's.
func raw() (*toolkit.Tool, error) {
	search, err := toolkit.Raw(toolkit.Definition{
		Name: "web_search", Description: "Searches the web.", ReadOnly: true, ConcurrencySafe: true,
		InputSchema: json.RawMessage(`{
			"type": "object",
			"properties": {"query": {"type": "string", "description": "what to look for"}},
			"required": ["query"]
		}`),
	}, func(_ context.Context, input json.RawMessage) (toolkit.Result, error) {
		return toolkit.Result{Content: []events.Content{events.Text("found for " + string(input))}}, nil
	})
	return search, err
}

type UserContext struct {
	Username string `json:"username"`
	Locale   string `json:"locale"`
}

type Greeting struct {
	Greeting string `json:"greeting" description:"greeting word, e.g. Hello"`
}

var greet = toolkit.MustDefine("greet", "Greets the user.",
	func(ctx context.Context, in Greeting) (string, error) {
		user, err := toolkit.ValueOr(ctx, UserContext{Username: "unknown"}) // toolkit.Value: an error if there is none
		if err != nil {
			return "", err
		}
		return in.Greeting + ", " + user.Username + "!", nil
	}, &toolkit.Options{ReadOnly: true, ConcurrencySafe: true})

type requestID struct{}

var traced toolkit.Middleware = func(next toolkit.Handler) toolkit.Handler {
	return func(ctx context.Context, input json.RawMessage) (toolkit.Result, error) {
		toolkit.Scratch(ctx).Store(requestID{}, "r-1") // the tool loads it
		return next(ctx, input)
	}
}

var whoami = toolkit.MustDefine("whoami", "Tells what middleware left.",
	func(ctx context.Context, _ struct{}) (string, error) {
		id, _ := toolkit.Scratch(ctx).Load(requestID{})
		return fmt.Sprint(id), nil
	}, nil)

type Note struct {
	Text string `json:"text" description:"what to remember"`
}

var remember = toolkit.MustDefine("remember", "Remembers a note for this session.",
	func(ctx context.Context, in Note) (int, error) {
		count := 0
		err := toolkit.UpdateState(ctx, "notes", func(notes *[]string) error {
			*notes = append(*notes, in.Text)
			count = len(*notes)
			return nil
		})
		return count, err
	}, &toolkit.Options{StateInjected: true})

var dbQuery = toolkit.MustDefine("db_query", "Queries the database.",
	func(_ context.Context, in struct {
		SQL   string `json:"sql"`
		Token string `json:"token"`
	},
	) (string, error) {
		return "queried with token " + in.Token, nil
	}, &toolkit.Options{Group: "database", ReadOnly: true})

func declare(ctx context.Context, c *agent.Client) error {
	err := c.ChangeConfig(ctx, func(config *toolkit.Config) error {
		config.Groups = []toolkit.Group{
			{Name: "database", Description: "Look into the orders database.", Instructions: "Ask for few rows."},
			{Name: "admin", Scope: toolkit.ScopeExternal, Tools: []string{"user_*"}},
		}
		config.Tools = map[events.ToolName]toolkit.Override{
			"db_query": {Tuning: toolkit.Tuning{Presets: map[string]toolkit.Preset{
				"token": {Value: json.RawMessage(`"s3cret"`)}, // or {Env: "DB_TOKEN"}, {File: "db-token"}: read by the worker
			}}},
		}
		return nil
	})
	return err
}

func greeted(ctx context.Context, c *agent.Client) (string, error) {
	turn, err := c.Submit(ctx, agent.Turn{
		Session: "s1",
		Calls:   []events.Call{{Name: "greet", Input: json.RawMessage(`{"greeting":"Hello"}`)}},
		Context: &events.Context{
			User:   "alice",
			Values: map[string]json.RawMessage{"UserContext": json.RawMessage(`{"username":"alice","locale":"en"}`)},
		},
	})
	if err != nil {
		return "", err
	}
	results, err := turn.Await(ctx)
	if err != nil {
		return "", err
	}
	return results[0].Text(), nil
}

func notes(ctx context.Context, c *agent.Client) ([]string, error) {
	var notes []string
	_, err := c.State(ctx, "s1", "notes", &notes)
	return notes, err
}

func admin(ctx context.Context, c *agent.Client) (events.SessionInfo, error) {
	session, err := c.SetSession(ctx, events.SessionSet{Session: "s1", On: []string{"admin"}})
	return session, err
}

// The examples of the document do what it says.
func TestToolkitDoc(t *testing.T) { //nolint:paralleltest // a bubble
	synctest.Test(t, func(t *testing.T) {
		// A timer that the client library pools in one bubble is fatal in the next.
		runtime.GC()
		runtime.GC()
		ctx, srv := t.Context(), natstest.Start(t)
		search, err := raw()
		if err != nil {
			t.Fatal(err)
		}
		tools, err := builtin.Toolkit()
		if err != nil {
			t.Fatal(err)
		}
		if err := tools.Add(clock, search, greet, whoami, remember, dbQuery); err != nil {
			t.Fatal(err)
		}
		d, err := dispatcher.New(srv.Conn(), dispatcher.Config{NoHistory: true})
		if err != nil {
			t.Fatal(err)
		}
		w, err := workers.New(srv.Conn(), tools, workers.Config{Name: "docs", Middleware: []toolkit.Middleware{traced}})
		if err != nil {
			t.Fatal(err)
		}
		runCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
		done := make(chan error, 2)
		go func() { done <- d.Run(runCtx) }()
		for d.Ready() != nil {
			time.Sleep(10 * time.Millisecond)
		}
		go func() { done <- w.Run(runCtx) }()
		defer func() {
			stop()
			for range 2 {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		}()
		c, err := agent.New(srv.Conn(), agent.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for {
			if tl, err := c.Tool(ctx, "db_query"); err == nil && tl.Info.Workers > 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if err := declare(ctx, c); err != nil {
			t.Fatal(err)
		}
		call := func(tool events.ToolName, input, want string) {
			t.Helper()
			r, err := c.Call(ctx, "s1", tool, json.RawMessage(input))
			if err != nil || !strings.Contains(string(r.Reason)+" "+r.Text(), want) {
				t.Errorf("%s: got %s %q, %v, want %q", tool, r.Reason, r.Text(), err, want)
			}
		}
		call("clock", `{"timezone":"Asia/Shanghai"}`, "+08:00")
		call("web_search", `{"query":"tea"}`, `found for {"query":"tea"}`)
		call("whoami", ``, "r-1")
		call("remember", `{"text":"buy tea"}`, "1")
		call("remember", `{"text":"drink it"}`, "2")
		if text, err := greeted(ctx, c); err != nil || text != "Hello, alice!" {
			t.Errorf("got %q, %v", text, err)
		}
		if all, err := notes(ctx, c); err != nil || len(all) != 2 || all[0] != "buy tea" {
			t.Errorf("got %v, %v", all, err)
		}
		call("db_query", `{"sql":"SELECT 1"}`, "inactive")
		call("reset_tools", `{"database":true}`, "Ask for few rows.")
		call("db_query", `{"sql":"SELECT 1"}`, "queried with token s3cret")
		if s, err := admin(ctx, c); err != nil || strings.Join(s.Active, ",") != "admin,database" {
			t.Errorf("got %+v, %v", s, err)
		}
		call("reset_tools", `{}`, "Active groups of tools: admin.")
		call("todo_write", `{"todos":[{"content":"write docs","status":"in_progress"}]}`, "- [~] write docs")
	})
}
