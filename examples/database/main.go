// Command database shows an agent that switches its own tools, on two kinds of processes: a worker with
// a real SQLite database, and a scripted agent. See README.md for what to run, and main_test.go, which
// runs it and kills both in the middle.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/nats-io/nats.go"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "database:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	url := nats.DefaultURL
	if v := os.Getenv("NATS_URL"); v != "" {
		url = v
	}
	nc, err := nats.Connect(url, nats.MaxReconnects(-1))
	if err != nil {
		return fmt.Errorf("connect to %s: %w; start `toolwire up` first", url, err)
	}
	defer nc.Close()
	switch {
	case len(args) == 2 && args[0] == "worker":
		return runWorker(ctx, nc, args[1])
	case len(args) == 2 && args[0] == "agent":
		return runAgent(ctx, nc, args[1])
	}
	return fmt.Errorf("use it as `database worker FILE` or `database agent SESSION`")
}
