package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/show"
)

func (a *app) sessionsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "sessions", Short: "See and change what sessions may call", GroupID: "use"}
	group(cmd)
	cmd.AddCommand(a.sessionsLsCommand(), a.sessionsShowCommand(), a.sessionsSetCommand(), a.sessionsRmCommand(), a.sessionsStateCommand())
	return cmd
}

// withClient runs f on a connected client, and explains what it returns.
func (a *app) withClient(ctx context.Context, what string, f func(context.Context, *agent.Client) error) error {
	c, l, done, err := a.client(what)
	if err != nil {
		return err
	}
	defer done()
	return a.diagnose(ctx, l, f(ctx, c))
}

func (a *app) sessionsLsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "ls", Short: "List the sessions, whose they are, and which groups are on",
		Long:    "Lists the sessions that were used within 30 days. Each `toolwire call` without --session makes one.",
		Example: "  toolwire sessions ls\n  toolwire sessions ls --json | jq -r '.[].session'",
		Args:    args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd.Context(), "sessions ls", a.sessionsLs)
		},
	}
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) sessionsLs(ctx context.Context, c *agent.Client) error {
	all, err := collect(c.Sessions(ctx))
	switch {
	case err != nil:
		return err
	case a.json:
		return a.printJSON(all)
	case len(all) == 0:
		a.note("no sessions yet; the first turn of a session creates it")
		return nil
	}
	rows := make([][]string, len(all))
	for i, s := range all {
		rows[i] = []string{string(s.Session), string(s.Agent), strconv.FormatUint(s.Revision, 10), clock(s.ChangedAt), active(s)}
	}
	a.table([]string{"SESSION", "AGENT", "REVISION", "CHANGED", "ACTIVE GROUPS"}, rows)
	return nil
}

func active(s events.SessionInfo) string {
	if len(s.Active) == 0 {
		return "none"
	}
	return strings.Join(s.Active, ", ")
}

func (a *app) sessionsShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show <session>", Short: "Show a session: whose it is, its groups, the tools it may call",
		Example: "  toolwire sessions show s-1", Args: args(1, 1), ValidArgsFunction: a.completeSessions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd.Context(), "sessions show", func(ctx context.Context, c *agent.Client) error {
				return a.sessionsShow(ctx, c, events.SessionID(args[0]))
			})
		},
	}
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) sessionsShow(ctx context.Context, c *agent.Client, id events.SessionID) error {
	s, err := c.Session(ctx, id)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(s)
	}
	tools, err := collect(c.Tools(ctx, id))
	if err != nil {
		return err
	}
	a.describeSession(s)
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = string(t.Name)
	}
	a.print("%-9s %s\n", "tools", show.Line(strings.Join(names, ", ")))
	return nil
}

func (a *app) describeSession(s events.SessionInfo) {
	a.print("%s\n", a.paint(bold, show.Line(string(s.Session))))
	for _, f := range [][2]string{
		{"agent", string(s.Agent)},
		{"revision", strconv.FormatUint(s.Revision, 10) + ", of " + clock(s.ChangedAt)},
		{"active", active(s)},
	} {
		a.print("%-9s %s\n", f[0], show.Line(f[1]))
	}
}

func (a *app) sessionsSetCommand() *cobra.Command {
	var q events.SessionSet
	var final []string
	owner := ""
	cmd := &cobra.Command{
		Use: "set <session>", Short: "Say which groups of a session are on",
		Long: "Changes which groups of tools are on in a session, also those that its agent may not\n" +
			"switch, and creates the session if need be. All of the change is made, or nothing.",
		Example: "  toolwire sessions set s-1 --active database,mail   # exactly these\n  toolwire sessions set s-1 --on admin --off mail",
		Args:    args(1, 1), ValidArgsFunction: a.completeSessions,
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Session, q.Agent = events.SessionID(args[0]), events.AgentID(owner)
			if cmd.Flags().Changed("active") {
				q.Active = &final
			}
			return a.withClient(cmd.Context(), "sessions set", func(ctx context.Context, c *agent.Client) error {
				return a.setSession(ctx, c, q)
			})
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&final, "active", nil, "exactly these `groups` are on")
	f.StringSliceVar(&q.On, "on", nil, "these `groups` are on, too")
	f.StringSliceVar(&q.Off, "off", nil, "these `groups` are off")
	f.Uint64Var(&q.Revision, "revision", 0, "only if the session is at this `revision`")
	f.StringVar(&owner, "owner", "", "whose session it is, if it is new: an `agent` (operators only)")
	for _, name := range []string{"active", "on", "off"} {
		_ = cmd.RegisterFlagCompletionFunc(name, func(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
			return a.completeGroups(cmd, prefix)
		})
	}
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) setSession(ctx context.Context, c *agent.Client, q events.SessionSet) error {
	s, err := c.SetSession(ctx, q)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(s)
	}
	a.describeSession(s)
	return nil
}

func (a *app) sessionsRmCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rm <session>…", Short: "Forget sessions; their next turn begins with the defaults",
		Long: "Forgets the record of sessions: whose they are, and which groups are on. Calls under way go on, and\n" +
			"results stay.",
		Example: "  toolwire sessions rm s-1", Args: args(1, -1), ValidArgsFunction: a.completeSessions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd.Context(), "sessions rm", func(ctx context.Context, c *agent.Client) error {
				for _, id := range args {
					if err := c.DropSession(ctx, events.SessionID(id)); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

func (a *app) sessionsStateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "state <session> <name>", Short: "Print a document that a tool keeps for a session",
		Long:    "Prints a document that a tool keeps for a session, as JSON: that of todo_write is named todo.",
		Example: "  toolwire sessions state s-1 todo",
		Args:    args(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd.Context(), "sessions state", func(ctx context.Context, c *agent.Client) error {
				var doc json.RawMessage
				revision, err := c.State(ctx, events.SessionID(args[0]), args[1], &doc)
				if err != nil {
					return err
				}
				if revision == 0 {
					return fmt.Errorf("%w: session %q has no document %q", agent.ErrNotFound, args[0], args[1])
				}
				return a.printJSON(doc)
			})
		},
	}
}

// completeSession offers the sessions there are as the first argument only.
func (a *app) completeSession(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeSessions(cmd, args, prefix)
}

// completeSessions offers the sessions there are.
func (a *app) completeSessions(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.complete(cmd, prefix, func(ctx context.Context, c *agent.Client) (names []string) {
		for s, err := range c.Sessions(ctx) {
			if err != nil {
				return names
			}
			names = append(names, string(s.Session)+"\t"+show.Line(active(s)))
		}
		return names
	})
}
