package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/show"
)

func (a *app) groupsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "groups", Short: "See the groups of tools, and switch them for a session", GroupID: "use"}
	group(cmd)
	cmd.AddCommand(a.groupsLsCommand(), a.groupsShowCommand(), a.groupsSwitchCommand("on"), a.groupsSwitchCommand("off"))
	return cmd
}

func (a *app) groupsLsCommand() *cobra.Command {
	session := ""
	cmd := &cobra.Command{
		Use: "ls", Short: "List the groups, who switches them, and how many tools they have",
		Example: "  toolwire groups ls\n  toolwire groups ls --session s-1   # which are on there",
		Args:    args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd.Context(), "groups ls", func(ctx context.Context, c *agent.Client) error {
				return a.groupsLs(ctx, c, events.SessionID(session))
			})
		},
	}
	a.sessionFlag(cmd, &session)
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) sessionFlag(cmd *cobra.Command, session *string) {
	cmd.Flags().StringVar(session, "session", "", "how they stand in this `session`")
	_ = cmd.RegisterFlagCompletionFunc("session", func(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return a.completeSessions(cmd, nil, prefix)
	})
}

func (a *app) groupsLs(ctx context.Context, c *agent.Client, session events.SessionID) error {
	l, err := c.Groups(ctx, session)
	switch {
	case err != nil:
		return err
	case a.json:
		return a.printJSON(l)
	case len(l.Groups) == 0:
		a.note("no groups yet; declare some with `toolwire apply -f toolwire.yaml`, or in the definitions of tools")
		return nil
	}
	heading := []string{"GROUP", "SWITCHED BY", "AT FIRST", "TOOLS", "DESCRIPTION"}
	if session != "" {
		heading[2] = "IN " + string(session)
	}
	rows := make([][]string, len(l.Groups))
	for i, g := range l.Groups {
		on := g.Initial
		if session != "" {
			on = g.Active
		}
		rows[i] = []string{g.Name, switchedBy(g), onOff(on), strconv.Itoa(g.Tools), brief(g.Description)}
	}
	a.table(heading, rows)
	return nil
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

func switchedBy(g events.GroupInfo) string {
	if g.Scope == "external" {
		return "application"
	}
	return "agent"
}

func (a *app) groupsShowCommand() *cobra.Command {
	session := ""
	cmd := &cobra.Command{
		Use: "show <group>", Short: "Show a group: what it is for, what is in it",
		Example: "  toolwire groups show database --session s-1", Args: args(1, 1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return a.completeGroups(cmd, prefix)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd.Context(), "groups show", func(ctx context.Context, c *agent.Client) error {
				return a.groupsShow(ctx, c, args[0], events.SessionID(session))
			})
		},
	}
	a.sessionFlag(cmd, &session)
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) groupsShow(ctx context.Context, c *agent.Client, name string, session events.SessionID) error {
	l, err := c.Groups(ctx, session)
	if err != nil {
		return err
	}
	for _, g := range l.Groups {
		if g.Name != name {
			continue
		}
		if a.json {
			return a.printJSON(g)
		}
		return a.describeGroup(ctx, c, g, session)
	}
	return fmt.Errorf("%w: there is no group %q; `toolwire groups ls` lists those there are", agent.ErrNotFound, name)
}

func (a *app) describeGroup(ctx context.Context, c *agent.Client, g events.GroupInfo, session events.SessionID) error {
	var members []string
	for t, err := range c.Tools(ctx, "") {
		if err != nil {
			return err
		}
		for _, in := range t.Info.Groups {
			if in == g.Name {
				members = append(members, string(t.Name))
			}
		}
	}
	a.print("%s\n", a.paint(bold, show.Line(g.Name)))
	if g.Description != "" {
		a.print("%s\n", show.Text(g.Description))
	}
	fields := [][2]string{
		{"switched", "by the " + switchedBy(g)},
		{"at first", onOff(g.Initial)},
		{"declared", strings.Join(g.Members, ", ")},
		{"tools", strings.Join(members, ", ")},
	}
	if session != "" {
		fields = append(fields, [2]string{"now", onOff(g.Active) + " in " + string(session)})
	}
	for _, f := range fields {
		if f[1] != "" {
			a.print("%-9s %s\n", f[0], show.Line(f[1]))
		}
	}
	if g.Instructions != "" {
		a.print("\ninstructions\n%s\n", show.Text(g.Instructions))
	}
	return nil
}

// groupsSwitchCommand is `groups on` or `groups off`.
func (a *app) groupsSwitchCommand(way string) *cobra.Command {
	cmd := &cobra.Command{
		Use: way + " <session> <group>…", Short: "Switch groups " + way + " in a session",
		Example: "  toolwire groups " + way + " s-1 database", Args: args(2, -1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return a.completeSessions(cmd, nil, prefix)
			}
			return a.completeGroups(cmd, prefix)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			q := events.SessionSet{Session: events.SessionID(args[0])}
			if way == "on" {
				q.On = args[1:]
			} else {
				q.Off = args[1:]
			}
			return a.withClient(cmd.Context(), "groups "+way, func(ctx context.Context, c *agent.Client) error {
				return a.setSession(ctx, c, q)
			})
		},
	}
	a.jsonFlag(cmd)
	return cmd
}

// completeGroups offers the groups there are.
func (a *app) completeGroups(cmd *cobra.Command, prefix string) ([]string, cobra.ShellCompDirective) {
	return a.complete(cmd, prefix, func(ctx context.Context, c *agent.Client) (names []string) {
		l, err := c.Groups(ctx, "")
		if err != nil {
			return nil
		}
		for _, g := range l.Groups {
			names = append(names, g.Name+"\t"+show.Line(brief(g.Description)))
		}
		return names
	})
}
