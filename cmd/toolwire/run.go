package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/auth"
	"github.com/toolwire/toolwire/internal/show"
)

// streams are what a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// app is one run of the binary: its surroundings, and the flags that all commands share.
type app struct {
	streams
	env  map[string]string
	conn connFlags
	json bool // --json of the command that runs

	held   auth.Credential // whose the connection is, as far as its credentials say
	acting events.AgentID  // what a client acts as

	answers bool   // the command is one of `approvals`, which act as a person
	actor   string // --actor
}

// run runs one command line and returns the exit code: 0, 2 for wrong usage, or what the table of
// reasons says (docs/wire.md). It writes nothing but to the given streams, and ends when ctx does.
func run(ctx context.Context, args, environ []string, s streams) int {
	a := &app{streams: s, env: make(map[string]string, len(environ))}
	for _, kv := range environ {
		k, v, _ := strings.Cut(kv, "=")
		a.env[k] = v
	}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	text, exit := describe(err)
	if text != "" {
		what := strings.TrimSpace(strings.TrimPrefix(cmd.CommandPath(), root.Name()))
		if what != "" {
			text = what + ": " + text
		}
		// What goes on over several lines is indented, so that it cannot pass for another message.
		text = strings.ReplaceAll(show.Text(text), "\n", "\n  ")
		_, _ = fmt.Fprintf(s.err, "%s: %s\n", root.Name(), text)
	}
	return exit
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "toolwire",
		Short: "Run the tool calls of AI agents on NATS JetStream",
		Long: "Toolwire runs the tool calls of AI agents on NATS JetStream: every call gets exactly one\n" +
			"result, and a tool with side effects never runs twice.\n\n" +
			"Commands connect to --server, a --context of the nats CLI, TOOLWIRE_SERVER, NATS_CONTEXT or\n" +
			"NATS_URL, in this order; without any of them to the `toolwire up` that runs on this machine.\n\n" +
			"Exit codes: 0 done, 2 wrong usage; `toolwire call --help` lists the others.",
		Example: "  toolwire up\n" +
			`  toolwire call get_current_time '{"timezone":"Europe/Berlin"}'` + "\n" +
			"  toolwire tools ls\n" +
			"  toolwire doctor",
		SilenceErrors: true, SilenceUsage: true,
	}
	group(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%v; see `%s --help`", err, cmd.CommandPath())
	})
	a.conn.register(root)
	root.AddGroup(
		&cobra.Group{ID: "run", Title: "Run it:"},
		&cobra.Group{ID: "use", Title: "Use and operate it:"},
	)
	root.AddCommand(
		a.upCommand(), a.serverCommand(), a.dispatcherCommand(), a.workerCommand(), a.consoleCommand(), a.demoCommand(),
		a.applyCommand(), a.callCommand(), a.toolsCommand(), a.callsCommand(),
		a.approvalsCommand(), a.permitCommand(), a.sessionsCommand(), a.groupsCommand(), a.watchCommand(), a.deadCommand(), a.authCommand(), a.doctorCommand(), a.benchCommand(),
		a.versionCommand(),
	)
	return root
}

// group makes a command that only holds others: alone it prints its help, and a word that is no
// command is wrong usage, in one line.
func group(cmd *cobra.Command) {
	cmd.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			return usagef("there is no command %q; did you mean `%s %s`?", args[0], c.CommandPath(), near[0])
		}
		return usagef("there is no command %q; see `%s --help`", args[0], c.CommandPath())
	}
	cmd.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	cmd.SuggestionsMinimumDistance = 2
}

// args says how many arguments a command takes, each named as in its Use line.
func args(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, got []string) error {
		if n := len(got); n < least || most >= 0 && n > most {
			return usagef("%s given; use it as `%s`", count(n, "argument"), c.UseLine())
		}
		return nil
	}
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
