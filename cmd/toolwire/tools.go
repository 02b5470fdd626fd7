package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/show"
	"github.com/toolwire/toolwire/toolkit"
)

func (a *app) toolsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "tools", Short: "See which tools there are", GroupID: "use"}
	group(cmd)
	cmd.AddCommand(a.toolsLsCommand(), a.toolsShowCommand(), a.toolsRmCommand())
	return cmd
}

func (a *app) toolsLsCommand() *cobra.Command {
	session, format := "", ""
	cmd := &cobra.Command{
		Use: "ls", Short: "List the tools, who runs them, and what waits",
		Long: "Lists the registered tools: the worker program and the groups they are of, whether a call would run\n" +
			"soon, the workers alive, and the calls of their whole pool that wait and that run.\n" +
			"READY is yes; no, if nobody runs it; beware, if something is wrong that `toolwire tools show` tells; or\n" +
			"asked, if a person or another system answers it.",
		Example: "  toolwire tools ls\n  toolwire tools ls --json | jq -r '.[].definition.name'\n" +
			"  toolwire tools ls --session s-1 --format anthropic   # the tools of a request to a model",
		Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			export, err := exportFor(format)
			if err != nil {
				return err
			}
			c, l, done, err := a.client("tools ls")
			if err != nil {
				return err
			}
			defer done()
			if export != nil {
				return a.diagnose(cmd.Context(), l, a.toolsExport(cmd.Context(), c, events.SessionID(session), export))
			}
			return a.diagnose(cmd.Context(), l, a.toolsLs(cmd.Context(), c, events.SessionID(session)))
		},
	}
	cmd.Flags().StringVar(&session, "session", "", "only what this session may call")
	formatFlag(cmd, &format)
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) toolsLs(ctx context.Context, c *agent.Client, session events.SessionID) error {
	tools, err := collect(c.Tools(ctx, session))
	if err != nil {
		return err
	}
	if a.json {
		infos := make([]events.ToolInfo, len(tools))
		for i, t := range tools {
			infos[i] = t.Info
		}
		return a.printJSON(infos)
	}
	if len(tools) == 0 {
		a.note("no tools yet; start a worker, such as `toolwire worker`")
		return nil
	}
	rows := make([][]string, len(tools))
	for i, t := range tools {
		rows[i] = []string{
			string(t.Name), t.Info.Source, strings.Join(t.Info.Groups, ","), readiness(t), strconv.Itoa(t.Info.Workers),
			strconv.FormatUint(t.Info.Backlog, 10), strconv.FormatUint(t.Info.InFlight, 10), brief(t.Description),
		}
		if len(t.Info.Groups) == 0 {
			rows[i][2] = toolkit.GroupBasic
		}
	}
	a.table([]string{"NAME", "SOURCE", "GROUP", "READY", "WORKERS", "WAITING", "RUNNING", "DESCRIPTION"}, rows)
	return nil
}

// readiness says in a word whether a call would run soon.
func readiness(t agent.Tool) string {
	switch {
	case t.Info.Pool == "": // a dispatcher runs it, and one has just answered
		return "yes"
	case t.External:
		return "asked"
	case len(t.Info.Unhealthy) > 0:
		return "beware"
	case t.Info.Workers == 0:
		return "no"
	}
	return "yes"
}

func (a *app) toolsRmCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm <tool>…", Short: "Remove tools that no worker runs any more",
		Long: "Removes tools from the registry. Definitions outlive their workers, so that calls wait for workers to\n" +
			"come back; this is for tools that will not. Stop their workers first.",
		Example: "  toolwire tools rm old_search", Args: args(1, -1), ValidArgsFunction: a.completeTools,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd.Context(), "tools rm", func(ctx context.Context, c *agent.Client) error {
				for _, name := range args {
					if err := c.DropTool(ctx, events.ToolName(name)); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

// collect reads a listing to its end.
func collect[T any](seq iter.Seq2[T, error]) ([]T, error) {
	all := []T{}
	for v, err := range seq {
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

func (a *app) toolsShowCommand() *cobra.Command {
	format, wait := "", time.Duration(0)
	cmd := &cobra.Command{
		Use: "show <tool>", Short: "Show a tool: what it does, its arguments, how it runs",
		Example: "  toolwire tools show get_current_time\n  toolwire tools show get_current_time --format anthropic\n" +
			"  toolwire tools show demo_sleep --wait 10s   # until a worker runs it",
		Args: args(1, 1), ValidArgsFunction: a.completeTools,
		RunE: func(cmd *cobra.Command, args []string) error {
			export, err := exportFor(format)
			if err != nil {
				return err
			}
			c, l, done, err := a.client("tools show")
			if err != nil {
				return err
			}
			defer done()
			name := events.ToolName(args[0])
			awaitWorker(cmd.Context(), c, name, wait)
			return a.diagnose(cmd.Context(), l, a.toolsShow(cmd.Context(), c, name, export))
		},
	}
	formatFlag(cmd, &format)
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait at most so long for a worker that runs it")
	a.jsonFlag(cmd)
	return cmd
}

// awaitWorker waits until somebody runs a tool, for a bounded time.
func awaitWorker(ctx context.Context, c *agent.Client, name events.ToolName, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for ctx.Err() == nil {
		if t, err := c.Tool(ctx, name); err == nil && t.Info.Workers > 0 {
			return
		}
		select {
		case <-ctx.Done():
		case <-again.C:
		}
	}
}

func (a *app) toolsShow(ctx context.Context, c *agent.Client, name events.ToolName, export exportFunc) error {
	t, err := c.Tool(ctx, name)
	switch {
	case err != nil:
		return err
	case export != nil:
		e := export([]toolkit.Definition{t.Definition})
		a.remark(e)
		if len(e.Tools) == 0 {
			return fmt.Errorf("tool %q cannot be exported", name)
		}
		return a.printJSON(e.Tools[0])
	case a.json:
		return a.printJSON(t.Info)
	}
	a.describeTool(t)
	return nil
}

func (a *app) describeTool(t agent.Tool) {
	a.print("%s", a.paint(bold, show.Line(string(t.Name))))
	if t.Title != "" {
		a.print("  %s", show.Line(t.Title))
	}
	a.print("\n%s\n\n", show.Text(t.Description))
	effect := "runs at most once: it has side effects"
	switch {
	case t.ReadOnly:
		effect = "read-only: may run again after a crash"
	case t.Idempotent:
		effect = "idempotent: may run again after a crash"
	}
	limit := func(n int, none string) string {
		if n == 0 {
			return none
		}
		return strconv.Itoa(n)
	}
	for _, f := range [][2]string{
		{"promise", effect},
		{"timeout", t.AttemptTimeout().String() + " an attempt, " + count(max(t.Attempts, 1), "attempt") + ", " + t.QueueLimit().String() + " in the queue"},
		{"at once", limit(t.MaxInFlight, "no limit over the whole fleet")},
		{"groups", strings.Join(t.Info.Groups, ", ")},
		{"pool", t.Info.Pool + ", of worker program " + t.Info.Source},
		{"workers", fmt.Sprintf("%d alive; %d calls of the pool wait, %d run", t.Info.Workers, t.Info.Backlog, t.Info.InFlight)},
		{"hash", t.Info.Hash},
	} {
		if f[1] != "" {
			a.print("%-9s %s\n", f[0], show.Line(f[1]))
		}
	}
	for _, u := range t.Info.Unhealthy {
		a.print("%s    %s\n", a.paint(yellow, "beware"), show.Line(u))
	}
	a.print("\narguments\n%s\n", indent(t.InputSchema))
	if len(t.OutputSchema) > 0 {
		a.print("\nstructured result\n%s\n", indent(t.OutputSchema))
	}
}

func indent(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "  ", "  ") != nil {
		return show.Text(string(raw))
	}
	return "  " + show.Text(b.String())
}

// completeTimeout bounds a completion: a shell must not hang.
const completeTimeout = time.Second

// completeTools offers the names of the tools there are, with what they do.
func (a *app) completeTools(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault // @file
	}
	return a.complete(cmd, prefix, func(ctx context.Context, c *agent.Client) (names []string) {
		for t, err := range c.Tools(ctx, "") {
			if err != nil {
				return names
			}
			names = append(names, string(t.Name)+"\t"+show.Line(brief(t.Description)))
		}
		return names
	})
}

// complete asks the installation for what a word may be, each with a tab before what it is, for
// a bounded time.
func (a *app) complete(cmd *cobra.Command, prefix string, list func(context.Context, *agent.Client) []string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
	defer cancel()
	found := make(chan []string, 1)
	go func() {
		c, _, done, err := a.client("completion")
		if err != nil {
			found <- nil
			return
		}
		defer done()
		found <- list(ctx, c)
	}()
	select {
	case names := <-found:
		return slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, prefix) }), cobra.ShellCompDirectiveNoFileComp
	case <-ctx.Done():
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}
