package main

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/workers"
	"github.com/toolwire/toolwire/workers/builtin"
)

// joinFlags are those of a process that joins a NATS server.
type joinFlags struct {
	http string
	wait time.Duration
	log  logFlags
}

func (f *joinFlags) register(cmd *cobra.Command) {
	httpFlag(cmd, &f.http)
	cmd.Flags().DurationVar(&f.wait, "wait", 30*time.Second, "how long to wait at the start for a server that is not there yet")
	f.log.register(cmd, "info")
}

func (a *app) dispatcherCommand() *cobra.Command {
	var f joinFlags
	cfg := dispatcher.Config{}
	var maxBytes byteSize
	cmd := &cobra.Command{
		Use: "dispatcher", Short: "Run a dispatcher: it takes turns and hands calls to workers",
		Long: "Joins a NATS server 2.14 or newer, sets up the streams, and dispatches calls. Run as many as\n" +
			"you like: they share the work, hold no state, and may be killed at any time.",
		Example: "  toolwire dispatcher --server nats://nats-1:4222,nats://nats-2:4222 --replicas 3 --http :8080",
		GroupID: "run", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.MaxBytes = int64(maxBytes)
			return a.dispatcher(cmd.Context(), cfg, f)
		},
	}
	p := cmd.Flags()
	p.IntVar(&cfg.Replicas, "replicas", 1, "`servers` that keep each stream; 3 for a cluster")
	p.BoolVar(&cfg.NoHistory, "no-history", false, "do not keep the replayable record of every call")
	p.Var(&maxBytes, "max-bytes", "size limit of the streams of turns, work and facts, each (default 4G)")
	p.DurationVar(&cfg.Window, "window", 0, "how long facts outlive all that may still need them (default 15m)")
	p.StringSliceVar(&cfg.Operators, "operators", nil, "`identities` that may act on the turns of others (default local)")
	f.register(cmd)
	return cmd
}

func (a *app) dispatcher(ctx context.Context, cfg dispatcher.Config, f joinFlags) error {
	return a.join(ctx, "dispatcher", f, func(l *jet.Link, log zerolog.Logger) (service, error) {
		if err := a.mustHold(jet.RoleDispatcher); err != nil {
			return service{}, err
		}
		check, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		// A right that is missing is told at once; a leader that is missing may come.
		if _, err := l.CheckJetStream(check); errors.Is(err, jet.ErrDenied) {
			return service{}, err
		}
		cfg.Prefix, cfg.Logger = a.prefix(), log
		return newDispatcher(l.Conn, cfg, f.wait)
	})
}

func (a *app) workerCommand() *cobra.Command {
	var f joinFlags
	cfg := workers.Config{}
	demo := ""
	cmd := &cobra.Command{
		Use: "worker", Short: "Run a worker with the built-in tools",
		Long: "Joins a NATS server and runs the built-in tools. Run as many as you like: whoever is free takes\n" +
			"the next call. A worker with tools of your own is a few lines of Go; see the README.",
		Example: "  toolwire worker --slots 64 --http :8080\n" +
			"  toolwire worker --demo demo.log   # tools to try a kill with: demo_sleep, demo_append",
		GroupID: "run", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.worker(cmd.Context(), cfg, demo, f) },
	}
	p := cmd.Flags()
	p.StringVar(&cfg.Name, "name", "", "`name` of the worker program, the same in all its processes (default: that of its credentials, else builtin, or demo)")
	p.StringVar(&cfg.Pool, "pool", "", "whose work it takes (default: its name)")
	p.IntVar(&cfg.Slots, "slots", 0, "`calls` that run at once in this process (default 128)")
	p.DurationVar(&cfg.Drain, "drain", 0, "how long running calls may go on when it stops (default 30s)")
	secretFlags(cmd, &cfg.SecretEnv, &cfg.SecretDir)
	p.StringVar(&demo, "demo", "", "run the demo tools in place of the built-in ones; demo_append writes to `file`")
	f.register(cmd)
	return cmd
}

// secretFlags say what presets of tools may be resolved from.
func secretFlags(cmd *cobra.Command, env *[]string, dir *string) {
	cmd.Flags().StringSliceVar(env, "secret-env", nil, "environment `variables` that presets of tools may name (default none)")
	cmd.Flags().StringVar(dir, "secret-dir", "", "`directory` whose files presets of tools may name (default none)")
	_ = cmd.MarkFlagDirname("secret-dir")
}

func (a *app) worker(ctx context.Context, cfg workers.Config, demo string, f joinFlags) error {
	tools, err := workerTools(demo)
	if err != nil {
		return err
	}
	return a.join(ctx, "worker", f, func(l *jet.Link, log zerolog.Logger) (service, error) {
		if err := a.workAs(&cfg); err != nil {
			return service{}, err
		}
		if cfg.Name == "" {
			cfg.Name = builtinName
			if demo != "" {
				cfg.Name = "demo"
			}
		}
		cfg.Prefix, cfg.Logger = a.prefix(), log
		return newWorker(l.Conn, tools, cfg)
	})
}

func workerTools(demo string) (*toolkit.Toolkit, error) {
	if demo != "" {
		return demoToolkit(demo)
	}
	return builtin.Toolkit()
}

// join connects and runs one service until ctx ends.
func (a *app) join(ctx context.Context, name string, f joinFlags, start func(*jet.Link, zerolog.Logger) (service, error)) error {
	log, err := a.logger(f.log)
	if err != nil {
		return err
	}
	l, err := a.connectPatiently(ctx, name, f.wait, log)
	if err != nil {
		return err
	}
	defer l.Close()
	s, err := start(l, log)
	if err != nil {
		return err
	}
	log.Info().Str(fieldVersion, readBuild().Version).Str(fieldURL, redact(l.ConnectedUrl())).Str(fieldPrefix, a.prefixOrDefault()).Msg(name + " starts")
	begin := time.Now()
	err = serve(ctx, f.http, log, s)
	if denied := l.DeniedError(); err != nil && denied != nil {
		err = denied // the cause: what is forbidden only times out
	}
	if err == nil {
		log.Info().Stringer(fieldRan, time.Since(begin).Round(time.Millisecond)).Msg(name + " stopped")
	}
	return err
}

func (a *app) prefixOrDefault() string {
	if p := a.prefix(); p != "" {
		return p
	}
	return events.DefaultPrefix
}

func toolName(s string) events.ToolName { return events.ToolName(s) }

// noFigures is a service without metrics.
type noFigures struct{}

// Describe is for Prometheus.
func (noFigures) Describe(chan<- *prometheus.Desc) {}

// Collect is for Prometheus.
func (noFigures) Collect(chan<- prometheus.Metric) {}
