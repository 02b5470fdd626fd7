package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

func (a *app) authCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "auth", Short: "Say which rights each role needs on the NATS server", GroupID: "use"}
	group(cmd)
	cmd.AddCommand(a.authShowCommand())
	return cmd
}

func (a *app) authShowCommand() *cobra.Command {
	name, pools := "", []string(nil)
	cmd := &cobra.Command{
		Use: "show <agent|worker|dispatcher>", Short: "Print the permissions of a role for the NATS server's configuration",
		Long: "Prints what a credential of a role may publish and subscribe to: all that the role needs, and nothing\n" +
			"else, as the `permissions` of a user in the configuration of a NATS server. It asks no server.",
		Example: "  toolwire auth show agent --name planner\n  toolwire auth show worker --name shop --pool shop --pool lane-narrow\n" +
			"  toolwire auth show dispatcher --json",
		Args: args(1, 1), ValidArgs: []string{"agent", "worker", "dispatcher"},
		RunE: func(_ *cobra.Command, args []string) error { return a.authShow(args[0], name, pools) },
	}
	cmd.Flags().StringVar(&name, "name", "", "`identity` of the agent, or name of the worker program")
	cmd.Flags().StringSliceVar(&pools, "pool", nil, "`pools` and lanes whose work the worker takes (default: its name)")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) authShow(role, name string, pools []string) error {
	s, err := events.NewSubjects(a.prefix())
	if err != nil {
		return err
	}
	n := jet.Names{Subjects: s}
	if role != "dispatcher" {
		if name == "" {
			return usagef("give the name of the %s with --name", role)
		}
		if err := events.CheckID("name", name); err != nil {
			return usagef("%v", err)
		}
	}
	var r jet.Rights
	switch role {
	case "agent":
		r = n.AgentRights(events.AgentID(name))
	case "worker":
		if len(pools) == 0 {
			pools = []string{name}
		}
		r = n.WorkerRights(name, pools...)
	case "dispatcher":
		r = n.DispatcherRights()
	default:
		return usagef("there is no role %q; give agent, worker or dispatcher", role)
	}
	if a.json {
		return a.printJSON(r)
	}
	list := func(subjects []string) string {
		quoted := make([]string, len(subjects))
		for i, s := range subjects {
			quoted[i] = fmt.Sprintf("    %q", s)
		}
		return "[\n" + strings.Join(quoted, "\n") + "\n  ]"
	}
	a.print("permissions {\n  publish: %s\n  subscribe: %s\n", list(r.Publish), list(r.Subscribe))
	if r.Replies {
		a.print("  allow_responses: { max: 1, expires: \"1m\" }\n")
	}
	a.print("}\n")
	return nil
}
