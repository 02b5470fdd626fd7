// Command approvals shows how people take part: an agent that asks a person, and wants to deploy, a worker that
// deploys, and an approval app. With `toolwire up -f examples/approvals/toolwire.yaml` running, in three
// terminals:
//
//	go run ./examples/approvals worker
//	go run ./examples/approvals agent
//	go run ./examples/approvals approver alice
//
// Stop and start whatever you like meanwhile, the server too: nothing is lost, and nothing runs twice. It is a
// program to copy into a module of your own.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/nats-io/nats.go"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "approvals:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	url := os.Getenv("NATS_URL")
	if url == "" {
		url = nats.DefaultURL // where `toolwire up` listens
	}
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true)) // outlives a restart of the server
	if err != nil {
		return fmt.Errorf("connect to %s: %w", url, err)
	}
	defer nc.Close()
	switch {
	case len(args) == 1 && args[0] == "worker":
		return work(ctx, nc, "deploys.txt")
	case len(args) == 1 && args[0] == "agent":
		return release(ctx, nc, out)
	case len(args) == 2 && args[0] == "approver":
		return decide(ctx, nc, args[1], in, out)
	}
	return errors.New("use it as `approvals worker`, `approvals agent` or `approvals approver NAME`")
}
