package main

import (
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
)

// Names of log fields. Together with those that the packages set (component, instance, worker,
// tool, pool, session, turn, call, attempt, reason, subject, stream, consumer) they are fixed:
// people filter by them.
const (
	fieldTime    = "time"
	fieldURL     = "url"
	fieldAddr    = "addr"
	fieldVersion = "version"
	fieldPrefix  = "prefix"
	fieldRan     = "ran"
)

// logFlags say how much is logged. Logs go to stderr: JSON, or for people if it is a terminal.
type logFlags struct{ level string }

func (f *logFlags) register(cmd *cobra.Command, level string) {
	cmd.Flags().StringVar(&f.level, "log-level", level, "least `level` that is logged: trace, debug, info, warn, error")
}

func (a *app) logger(f logFlags) (zerolog.Logger, error) {
	level, err := zerolog.ParseLevel(f.level)
	if err != nil || f.level == "" {
		return zerolog.Nop(), usagef("log level %q; give trace, debug, info, warn or error with --log-level", f.level)
	}
	w := zerolog.SyncWriter(a.err)
	if isTerminal(a.err) {
		w = zerolog.SyncWriter(zerolog.ConsoleWriter{Out: a.err, NoColor: !a.colours(a.err), TimeFormat: "15:04:05.000"})
	}
	return zerolog.New(w).Level(level).Hook(stamp{}), nil
}

// stamp sets the time of each line, in UTC to the millisecond.
type stamp struct{}

// Run is for zerolog.
func (stamp) Run(e *zerolog.Event, _ zerolog.Level, _ string) {
	e.Str(fieldTime, time.Now().UTC().Format("2006-01-02T15:04:05.000Z07:00"))
}
