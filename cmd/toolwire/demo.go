package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/toolwire/toolwire/toolkit"
)

type sleepInput struct {
	Seconds float64 `json:"seconds" description:"how long" minimum:"0" maximum:"300"`
}

type appendInput struct {
	Line    string  `json:"line" description:"what to append"`
	Seconds float64 `json:"seconds,omitempty" description:"how long to go on after the line is written" minimum:"0" maximum:"300"`
}

// demoToolkit holds two tools to see what becomes of a call whose worker is killed: one that may
// run again elsewhere, and one with a side effect, a line in the given file, that must not.
func demoToolkit(file string) (*toolkit.Toolkit, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return nil, fmt.Errorf("demo file: %w", err)
	}
	sleep, err := toolkit.Define("demo_sleep", "Waits some seconds, telling how far it is. Harmless to run twice.",
		func(ctx context.Context, in sleepInput) (string, error) {
			if err := doze(ctx, in.Seconds); err != nil {
				return "", err
			}
			return fmt.Sprintf("slept %g s", in.Seconds), nil
		}, &toolkit.Options{Idempotent: true, ConcurrencySafe: true})
	if err != nil {
		return nil, err
	}
	write, err := toolkit.Define("demo_append", "Appends a line to the demo file, then goes on for some seconds. A side effect: it runs at most once.",
		func(ctx context.Context, in appendInput) (string, error) {
			if err := appendLine(file, in.Line); err != nil {
				return "", err
			}
			return "appended", doze(ctx, in.Seconds)
		}, &toolkit.Options{ConcurrencySafe: true})
	if err != nil {
		return nil, err
	}
	tools := toolkit.New()
	return tools, tools.Add(sleep, write)
}

func appendLine(file, line string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600) //nolint:gosec // the operator's choice
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, line)
	if end := f.Close(); err == nil {
		err = end
	}
	return err
}

func doze(ctx context.Context, seconds float64) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	begin := time.Now()
	end := time.NewTimer(time.Duration(seconds * float64(time.Second)))
	defer end.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-end.C:
			return nil
		case <-tick.C:
			toolkit.Progress(ctx, time.Since(begin).Seconds(), seconds, "asleep")
		}
	}
}
