package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/bench"
)

type parkedFlags struct {
	over string
	kind string
	sync string
	bench.ParkedOptions
}

func (a *app) benchParkedCommand() *cobra.Command {
	var f parkedFlags
	cmd := &cobra.Command{
		Use: "parked", Short: "Measure calls that wait for people or other systems",
		Long: "Parks calls, lists them, and answers them one by one and many at once beside ordinary calls, on a fresh\n" +
			"server of its own. Prints what a parked call costs, how fast it resumes, and lost, doubled, refused and\n" +
			"left over ones beside every rate; rates are also given as parts of the ordinary calls of the same run.",
		Example: "  toolwire bench parked\n  toolwire bench parked --calls 1000000 --kind both --over embedded --json",
		Args:    args(0, 0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.benchParked(cmd.Context(), f) },
	}
	p := cmd.Flags()
	p.StringVar(&f.over, "over", "tcp", "how clients reach the server: embedded (in this process), tcp (a process of its own) or both")
	p.StringVar(&f.kind, "kind", "external", "what the calls wait for: external (a result), confirm (an approval) or both")
	p.IntVar(&f.Parked, "calls", 100_000, "calls that are parked")
	p.IntVar(&f.Sessions, "sessions", 1000, "sessions over which they are spread")
	p.IntVar(&f.Singles, "single", 500, "answers one after the other")
	p.IntVar(&f.Burst, "burst", 10_000, "answers at once")
	p.IntVar(&f.Beside, "rate", 200, "ordinary calls per second beside the answers")
	p.DurationVar(&f.Alone, "paced", 5*time.Second, "length of those calls without answers beside them")
	p.IntVar(&f.Calls, "ordinary", 20_000, "ordinary calls of the throughput run")
	p.IntVar(&f.Window, "window", 1024, "ordinary calls in flight")
	p.IntVar(&f.Size, "size", 256, "`bytes` of arguments")
	p.BoolVar(&f.History, "history", false, "keep the replayable record while measuring")
	syncFlag(cmd, &f.sync)
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) benchParked(ctx context.Context, f parkedFlags) error {
	ways := map[string][]string{"embedded": {"embedded"}, "tcp": {"tcp"}, "both": {"embedded", "tcp"}}[f.over]
	if ways == nil {
		return usagef("--over %q is none of embedded, tcp, both", f.over)
	}
	kinds := map[string][]events.Kind{
		"external": {events.KindExternal}, "confirm": {events.KindConfirm}, "both": {events.KindExternal, events.KindConfirm},
	}[f.kind]
	if kinds == nil {
		return usagef("--kind %q is none of external, confirm, both", f.kind)
	}
	if min(f.Parked, f.Sessions, f.Singles, f.Burst, f.Beside, f.Calls, f.Window, f.Size) < 1 || f.Alone <= 0 {
		return usagef("numbers must be above 0")
	}
	if f.Singles+f.Burst > f.Parked {
		return usagef("--single and --burst are %d answers, more than --calls %d", f.Singles+f.Burst, f.Parked)
	}
	broken := false
	for _, way := range ways {
		start := embeddedServer(f.sync)
		if way == "tcp" {
			start = a.childServer(f.sync)
		}
		for _, f.Kind = range kinds {
			run, err := bench.Park(ctx, start, f.ParkedOptions, func(what string) { a.note("%s, %s: %s", way, f.Kind, what) })
			if err != nil {
				return err
			}
			rep := run.Report()
			broken = broken || rep.Broken()
			if err := a.parkedReport(way, f, rep); err != nil {
				return err
			}
		}
	}
	if broken {
		return silent(exitFailed)
	}
	return nil
}

func (a *app) parkedReport(way string, f parkedFlags, rep bench.ParkedReport) error {
	if a.json {
		return a.printJSON(struct {
			Over    string `json:"over"`
			Cores   int    `json:"cores"`
			Storage string `json:"storage"`
			Sync    string `json:"sync"`
			History bool   `json:"history"`
			bench.ParkedReport
		}{way, runtime.NumCPU(), "file", f.sync, f.History, rep})
	}
	history := "off"
	if f.History {
		history = "on"
	}
	a.print("%s, %s: %d cores, %d bytes of arguments, %d sessions, file storage, sync %s, history %s\n",
		way, rep.Kind, runtime.NumCPU(), f.Size, f.Sessions, f.sync, history)
	if err := rep.Write(a.out, f.ParkedOptions); err != nil {
		return err
	}
	a.print("\n")
	return nil
}

// resident is the memory of a process that is not swapped out. Systems without /proc do not say.
func resident(pid int) (uint64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if os.IsNotExist(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var size, pages uint64
	if _, err := fmt.Sscan(string(data), &size, &pages); err != nil {
		return 0, err
	}
	return pages * uint64(os.Getpagesize()), nil
}
