package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/internal/bench"
	"github.com/toolwire/toolwire/internal/embed"
)

type benchFlags struct {
	over string
	sync string
	bench.Options
}

func (a *app) benchCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure calls per second and latency beside a hand-written pipeline",
		Long: "Runs a hand-written pipeline of three JetStream hops and Toolwire in turn, each on a fresh\n" +
			"server of its own, and prints throughput, latency, memory, and lost and doubled results of both.\n" +
			"Servers, streams and data are temporary; a running installation is not touched.",
		Example: "  toolwire bench\n  toolwire bench --over tcp --reps 5 --json",
		GroupID: "use", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.bench(cmd.Context(), f) },
	}
	p := cmd.Flags()
	p.StringVar(&f.over, "over", "both", "how clients reach the server: embedded (in this process), tcp (a process of its own) or both")
	p.IntVar(&f.Calls, "calls", 20_000, "calls of one throughput run")
	p.IntVar(&f.Window, "window", 1024, "calls in flight")
	p.IntVar(&f.Size, "size", 256, "`bytes` of arguments")
	p.IntVar(&f.Reps, "reps", 3, "runs of each system")
	p.IntVar(&f.Rate, "rate", 2000, "calls per second of the paced run")
	p.DurationVar(&f.Paced, "paced", 5*time.Second, "length of the paced run")
	p.IntVar(&f.Single, "single", 1000, "calls of the unloaded run, one after the other")
	p.IntVar(&f.Slots, "slots", 0, "calls that the worker runs at once; 0: its default")
	p.IntVar(&f.Tools, "tools", 0, "further tools that are registered")
	p.IntVar(&f.Groups, "groups", 0, "groups of tools that are declared")
	p.BoolVar(&f.History, "history", false, "keep the replayable record while measuring")
	syncFlag(cmd, &f.sync)
	a.jsonFlag(cmd)
	cmd.AddCommand(a.benchParkedCommand())
	return cmd
}

func (a *app) bench(ctx context.Context, f benchFlags) error {
	ways := map[string][]string{"embedded": {"embedded"}, "tcp": {"tcp"}, "both": {"embedded", "tcp"}}[f.over]
	if ways == nil {
		return usagef("--over %q is none of embedded, tcp, both", f.over)
	}
	if f.Calls < 1 || f.Window < 1 || f.Reps < 1 || f.Rate < 1 || f.Single < 1 || f.Paced <= 0 || f.Size < 1 || f.Slots < 0 || f.Tools < 0 || f.Groups < 0 {
		return usagef("--calls, --window, --size, --reps, --rate, --paced and --single must be above 0")
	}
	lost := 0
	for _, way := range ways {
		start := embeddedServer(f.sync)
		if way == "tcp" {
			start = a.childServer(f.sync)
		}
		runs, err := bench.Compare(ctx, start, f.Options, func(r bench.Run) {
			a.note("%s, %s: %.0f calls/s", way, r.System, r.PerSecond)
		})
		if err != nil {
			return err
		}
		rep := bench.Summarize(runs)
		lost += rep.Toolwire.Lost + rep.Toolwire.Duplicates
		if err := a.benchReport(way, f, rep); err != nil {
			return err
		}
	}
	if lost > 0 {
		return silent(exitFailed)
	}
	return nil
}

func (a *app) benchReport(way string, f benchFlags, rep bench.Report) error {
	if a.json {
		return a.printJSON(struct {
			Over    string `json:"over"`
			Cores   int    `json:"cores"`
			Sync    string `json:"sync"`
			History bool   `json:"history"`
			bench.Report
		}{way, runtime.NumCPU(), f.sync, f.History, rep})
	}
	history := "off"
	if f.History {
		history = "on"
	}
	a.print("%s: %d cores, %d bytes of arguments, %d in flight, sync %s, history %s, %d runs each\n",
		way, runtime.NumCPU(), f.Size, f.Window, f.sync, history, f.Reps)
	if err := rep.Write(a.out, f.Options); err != nil {
		return err
	}
	a.print("\n")
	return nil
}

// embeddedServer runs each server in this process, its clients without a socket.
func embeddedServer(sync string) bench.Server {
	return func(context.Context) (*bench.Served, error) {
		dir, err := os.MkdirTemp("", "toolwire-bench-")
		if err != nil {
			return nil, err
		}
		s, err := embed.Start(embed.Config{Store: dir, Addr: "127.0.0.1:0", Sync: sync, Logger: zerolog.Nop()})
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
		stop := func() {
			s.Stop()
			_ = os.RemoveAll(dir)
		}
		connect := func() (*nats.Conn, error) { return nats.Connect("", nats.InProcessServer(s)) }
		return &bench.Served{Connect: connect, Stop: stop, Store: dir}, nil
	}
}

// childServer runs each server in a process of its own, reached over loopback.
func (a *app) childServer(sync string) bench.Server {
	return func(ctx context.Context) (*bench.Served, error) {
		dir, err := os.MkdirTemp("", "toolwire-bench-")
		if err != nil {
			return nil, err
		}
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(ctx, self, "server", "--addr", "127.0.0.1:0", "--store", dir, "--sync", sync) //nolint:gosec // this very binary
		cmd.Stderr = a.err
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
		cmd.WaitDelay = 10 * time.Second
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, err
		}
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		stop := func() {
			_ = cmd.Cancel()
			_ = cmd.Wait()
			_ = os.RemoveAll(dir)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		url, ok := strings.CutPrefix(line, "listening on ")
		if err != nil || !ok {
			stop()
			return nil, fmt.Errorf("the server process said %q", line)
		}
		url, _, _ = strings.Cut(url, ",")
		connect := func() (*nats.Conn, error) { return nats.Connect(url) }
		return &bench.Served{Connect: connect, Stop: stop, Store: dir, Memory: func() (uint64, error) { return resident(cmd.Process.Pid) }}, nil
	}
}
