// Command hello is the smallest whole: a worker with a tool of its own, and an agent that calls it.
// With `toolwire up` running, in two terminals:
//
//	go run ./examples/hello worker
//	go run ./examples/hello agent
//
// It is a program to copy into a module of your own.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/workers"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "hello:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	url := os.Getenv("NATS_URL")
	if url == "" {
		url = nats.DefaultURL // where `toolwire up` listens
	}
	nc, err := nats.Connect(url, nats.MaxReconnects(-1)) // outlives a restart of the server
	if err != nil {
		return fmt.Errorf("connect to %s: %w; start `toolwire up` first", url, err)
	}
	defer nc.Close()
	switch {
	case len(args) == 1 && args[0] == "worker":
		return work(ctx, nc)
	case len(args) == 1 && args[0] == "agent":
		return call(ctx, nc, os.Stdout)
	}
	return errors.New("use it as `hello worker` or `hello agent`")
}

// greeting is the input of the tool: what the model writes, and what the schema is made from.
type greeting struct {
	Name  string `json:"name" description:"who is greeted" minLength:"1"`
	Times int    `json:"times" description:"how often" minimum:"1" maximum:"9" default:"1"`
}

// greet is the tool. What it says while it runs reaches the agent as progress, an error the model.
func greet(ctx context.Context, in greeting) (string, error) {
	if in.Name == "nobody" {
		return "", errors.New("nobody is not here; greet somebody else")
	}
	var text strings.Builder
	for i := range in.Times {
		text.WriteString("hello " + in.Name + "\n")
		toolkit.Progress(ctx, float64(i+1), float64(in.Times), "greeted")
	}
	return text.String(), nil
}

// work runs the tool until ctx ends. Start as many of these as you like.
func work(ctx context.Context, nc *nats.Conn) error {
	tool, err := toolkit.Define("greet", "Greets somebody.", greet, &toolkit.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	tools := toolkit.New()
	if err := tools.Add(tool); err != nil {
		return err
	}
	w, err := workers.New(nc, tools, workers.Config{
		Name:   "hello",
		Logger: zerolog.New(os.Stderr).Level(zerolog.WarnLevel), // a panic of the tool is told here, and to no model
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// call submits a turn of two calls and prints what comes back.
func call(ctx context.Context, nc *nats.Conn, out io.Writer) error {
	c, err := agent.New(nc, agent.Config{Agent: "hello"})
	if err != nil {
		return err
	}
	defer c.Close()
	turn, err := c.Submit(ctx, agent.Turn{
		Session: "hello", // a conversation; the turn gets an id of its own
		Calls: []events.Call{
			{ID: "c1", Name: "greet", Input: json.RawMessage(`{"name":"world","times":2}`)},
			{ID: "c2", Name: "greet", Input: json.RawMessage(`{"name":"nobody"}`)},
		},
		Progress: func(d events.ToolResultDelta) { fmt.Fprintln(os.Stderr, d.CallID, d.Message) },
	})
	if err != nil {
		return err
	}
	results, err := turn.Await(ctx) // one for each call, in their order
	if err != nil {
		return err
	}
	for _, r := range results {
		if _, err := fmt.Fprintf(out, "%s %s: %s\n", r.CallID, r.Reason, r.Text()); err != nil {
			return err
		}
	}
	return nil
}
