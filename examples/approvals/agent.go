package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
)

// calls are what a model would have written.
func calls() []events.Call {
	call := func(id, tool, input string) events.Call {
		return events.Call{ID: events.CallID(id), Name: events.ToolName(tool), Input: json.RawMessage(input)}
	}
	return []events.Call{
		call("ask", "HumanApproval", `{"action":"release on a Friday"}`),
		call("shop", "deploy", `{"service":"shop","version":"1.4"}`),
		call("bank", "deploy", `{"service":"bank","version":"2.0"}`),
	}
}

// release submits the turn and prints its results as they come, in a second or in a week. The turn has an id
// of its own, so that a restarted agent, which submits it again, waits for the same calls.
func release(ctx context.Context, nc *nats.Conn, out io.Writer) error {
	c, err := agent.New(nc, agent.Config{Agent: "releaser"})
	if err != nil {
		return err
	}
	defer c.Close()
	turn, err := c.Submit(ctx, agent.Turn{Session: "friday", ID: "release", Calls: calls()})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(out, "submitted"); err != nil {
		return err
	}
	for r, err := range turn.Results(ctx) {
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s: %s: %s\n", r.CallID, r.Reason, r.Text()); err != nil {
			return err
		}
	}
	return nil
}
