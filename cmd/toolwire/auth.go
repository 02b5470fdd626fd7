package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

func (a *app) authCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "auth", Short: "Make credentials, and say which rights each role has", GroupID: "use"}
	group(cmd)
	cmd.AddCommand(a.authInitCommand(), a.authAddCommand(), a.authLsCommand(), a.authRmCommand(), a.authShowCommand())
	return cmd
}

func (a *app) authShowCommand() *cobra.Command {
	name, pools := "", []string(nil)
	cmd := &cobra.Command{
		Use: "show <role>", Short: "Print the permissions of a role for the NATS server's configuration",
		Long: "Prints what a credential of a role may publish and subscribe to: all that the role needs, and nothing\n" +
			"else, as the `permissions` of a user in the configuration of a NATS server. It asks no server.\n" +
			"The roles are agent, approver, operator, worker and dispatcher. Credentials that `toolwire auth add`\n" +
			"made have these rights by themselves.",
		Example: "  toolwire auth show agent --name planner\n  toolwire auth show worker --name shop --pool shop --pool lane-narrow\n" +
			"  toolwire auth show dispatcher --json",
		Args: args(1, 1), ValidArgs: roleWords(),
		RunE: func(_ *cobra.Command, args []string) error { return a.authShow(args[0], name, pools) },
	}
	cmd.Flags().StringVar(&name, "name", "", "`identity` of the agent, approver or operator, or name of the worker program")
	cmd.Flags().StringSliceVar(&pools, "pool", nil, "`pools` and lanes whose work the worker takes (default: its name)")
	a.jsonFlag(cmd)
	return cmd
}

func roleWords() []string {
	words := make([]string, len(jet.Roles()))
	for i, r := range jet.Roles() {
		words[i] = string(r)
	}
	return words
}

func (a *app) names() (jet.Names, error) {
	s, err := events.NewSubjects(a.prefix())
	return jet.Names{Subjects: s}, err
}

func (a *app) authShow(role, name string, pools []string) error {
	n, err := a.names()
	if err != nil {
		return err
	}
	if !slices.Contains(roleWords(), role) {
		return usagef("there is no role %q; give %s", role, strings.Join(roleWords(), ", "))
	}
	if role != string(jet.RoleDispatcher) {
		if name == "" {
			return usagef("give the name of the %s with --name", role)
		}
		if err := events.CheckID("name", name); err != nil {
			return usagef("%v", err)
		}
	}
	if len(pools) == 0 {
		pools = []string{name}
	}
	r := n.Rights(jet.Role(role), name, pools...)
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
