package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/internal/show"
)

func (a *app) watchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "watch", Short: "Watch tools, workers, groups and sessions change, until Ctrl-C", GroupID: "use",
		Long: "Prints a line for each change: a tool is registered, redefined or removed, a worker comes, leaves\n" +
			"or is lost, the configuration or the tools of a session change. `toolwire calls watch` shows calls.",
		Example: "  toolwire watch\n  toolwire watch --json", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd.Context(), "watch", a.watch)
		},
	}
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) watch(ctx context.Context, c *agent.Client) error {
	if !a.json {
		a.note("watching; Ctrl-C ends")
	}
	for change, err := range c.Changes(ctx) {
		if err != nil {
			return err
		}
		if a.json {
			if err := a.printJSON(asJSON(change)); err != nil {
				return err
			}
			continue
		}
		a.print("%s  %s\n", change.At.Local().Format(time.TimeOnly), show.Line(sentenceOf(change)))
	}
	return nil
}

func asJSON(c agent.Change) any {
	return struct {
		What    string    `json:"what"`
		How     string    `json:"how,omitempty"`
		Tool    string    `json:"tool,omitempty"`
		Session string    `json:"session,omitempty"`
		Worker  string    `json:"worker,omitempty"`
		At      time.Time `json:"at"`
	}{c.What, c.How, string(c.Tool), string(c.Session), c.Worker, c.At}
}

func sentenceOf(c agent.Change) string {
	switch {
	case c.What == "tool":
		return "tool " + string(c.Tool) + " " + c.How + ", of worker " + c.Worker
	case c.What == "worker":
		return "worker " + c.Worker + " " + c.How
	case c.What == "group":
		return "the configuration changed"
	case c.What == "session":
		return "session " + string(c.Session) + " may call other tools now"
	case c.How == "":
		return c.What + " changed"
	}
	return c.What + " " + c.How
}
