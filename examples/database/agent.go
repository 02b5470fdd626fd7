package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
)

// step is one turn of the script: what a model would have written.
type step struct {
	id    events.TurnID
	calls []events.Call
}

func call(id, tool, input string) events.Call {
	return events.Call{ID: events.CallID(id), Name: events.ToolName(tool), Input: json.RawMessage(input)}
}

// script is what this agent does. Its turns have ids of their own, so that a restarted agent, which
// submits them again, gets the results there are instead of doing things twice.
func script() []step {
	return []step{
		{"1-plan", []events.Call{
			call("plan", "todo_write", `{"todos":[{"content":"look at the orders","status":"in_progress"},{"content":"order tea"}]}`),
		}},
		// One turn in four stages: a call into a group that is off, the switch, and what it makes callable.
		{"2-switch", []events.Call{
			call("early", "db_query", `{"sql":"SELECT count(*) AS n FROM orders"}`),
			call("switch", "reset_tools", `{"database":true}`),
			call("look", "db_query", `{"sql":"SELECT count(*) AS n FROM orders"}`),
			call("order", "db_order", `{"item":"tea","count":3}`),
		}},
		{"3-check", []events.Call{
			call("check", "db_query", `{"sql":"SELECT item, count FROM orders"}`),
			call("done", "todo_write", `{"todos":[{"content":"look at the orders","status":"completed"},{"content":"order tea","status":"completed"}]}`),
		}},
	}
}

// runAgent plays the script in a session.
func runAgent(ctx context.Context, nc *nats.Conn, name string) error {
	session := events.SessionID(name)
	c, err := agent.New(nc, agent.Config{})
	if err != nil {
		return err
	}
	defer c.Close()
	for _, s := range script() {
		tools, err := listed(ctx, c, session)
		if err != nil {
			return err
		}
		fmt.Printf("%s: tools: %s\n", s.id, tools)
		turn, err := c.Submit(ctx, agent.Turn{Session: session, ID: s.id, Calls: s.calls})
		if err != nil {
			return err
		}
		for r, err := range turn.Results(ctx) {
			if err != nil {
				return err
			}
			fmt.Printf("%s: %s: %s: %s\n", s.id, r.CallID, r.Reason, strings.ReplaceAll(r.Text(), "\n", " "))
		}
		select { // a model would think now
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	var todo struct {
		Tasks []struct {
			Subject string `json:"subject"`
			Status  string `json:"status"`
		} `json:"tasks"`
	}
	if _, err := c.State(ctx, session, "todo", &todo); err != nil {
		return err
	}
	for _, t := range todo.Tasks {
		fmt.Printf("todo: %s: %s\n", t.Subject, t.Status)
	}
	fmt.Println("agent is done")
	return nil
}

// listed are the names of the tools that the session may call now.
func listed(ctx context.Context, c *agent.Client, session events.SessionID) (string, error) {
	var names []string
	for t, err := range c.Tools(ctx, session) {
		if err != nil {
			return "", err
		}
		names = append(names, string(t.Name))
	}
	return strings.Join(names, " "), nil
}
