// Command toolwire runs and operates Toolwire: `toolwire up` is all of it in one process,
// `toolwire server`, `dispatcher` and `worker` are its parts, and the other commands call tools
// and look at what runs. `toolwire help` lists them.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// gcPercent lets the heap grow to five times what is alive before it is collected. A dispatcher or
// worker keeps a few MiB, so that at Go's default it would collect hundreds of times a second under load.
const gcPercent = 400

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Environ(), streams{in: os.Stdin, out: os.Stdout, err: os.Stderr}))
}
