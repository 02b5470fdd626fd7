package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/show"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/permission"
)

const permitHelp = `Rules say of calls, as tool or tool(content), whether they are allowed, denied, or asked about; the mode says
what happens to the rest. Those of the installation are in its configuration, which ` + "`toolwire apply`" + ` replaces as a
whole; those of a session come on top: an approval may bring them, and ` + "`add`" + ` does. Changes are for operators.`

func (a *app) permitCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "permit", Short: "See, try and change which calls are permitted", Long: permitHelp, GroupID: "use"}
	group(cmd)
	cmd.AddCommand(
		a.permitLsCommand(), a.permitTestCommand(), a.permitReplayCommand(),
		a.permitAddCommand(), a.permitRmCommand(), a.permitModeCommand(),
	)
	return cmd
}

// inForce is what decides about calls: of a session, or of one that has nothing of its own.
type inForce struct {
	Mode     string        `json:"mode"`
	ModeFrom string        `json:"modeFrom"` // session, installation or default
	Rules    []ruleInForce `json:"rules"`    // in the order in which they are looked at
}

type ruleInForce struct {
	events.Rule
	From       string     `json:"from"`                 // session or installation
	By         string     `json:"by,omitempty"`         // session: who added it
	At         *time.Time `json:"at,omitempty"`         // session: when
	Definition string     `json:"definition,omitempty"` // session: it holds while the tool has this definition
	Void       bool       `json:"void,omitempty"`       // the tool has another by now
}

func (a *app) permitLsCommand() *cobra.Command {
	session := ""
	cmd := &cobra.Command{
		Use: "ls", Short: "List the rules in force, and the mode",
		Long: "Lists the mode and the rules of the installation, with --session those of the session too, in the order in which they\n" +
			"are looked at: deny, ask, allow. A rule that came with an approval is void once its tool is defined otherwise.",
		Example: "  toolwire permit ls\n  toolwire permit ls --session s-1 --json", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(cmd.Context(), "permit ls", func(ctx context.Context, c *agent.Client) error {
				return a.permitLs(ctx, c, events.SessionID(session))
			})
		},
	}
	cmd.Flags().StringVar(&session, "session", "", "those of this `session`, too")
	_ = cmd.RegisterFlagCompletionFunc("session", a.sessionFlagCompletion)
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) permitLs(ctx context.Context, c *agent.Client, session events.SessionID) error {
	reply, err := c.Config(ctx)
	if err != nil {
		return err
	}
	var config toolkit.Config
	if reply.Revision > 0 {
		if err := events.Unmarshal(reply.Config, &config); err != nil {
			return fmt.Errorf("configuration %d: %w", reply.Revision, err)
		}
	}
	var s events.SessionInfo
	hashes := make(map[string]string)
	if session != "" {
		if s, err = c.Session(ctx, session); err != nil {
			return err
		}
		for t, err := range c.Tools(ctx, "") {
			if err != nil {
				return err
			}
			hashes[string(t.Name)] = t.Info.Hash
		}
	}
	f := rulesInForce(config.Permissions, s, hashes)
	if a.json {
		return a.printJSON(f)
	}
	a.printInForce(f)
	return nil
}

// rulesInForce puts together what decides. hashes are of the tools' definitions, by name.
func rulesInForce(p permission.Context, s events.SessionInfo, hashes map[string]string) inForce {
	f := inForce{Mode: string(p.Mode), ModeFrom: "installation", Rules: []ruleInForce{}}
	if s.Mode != "" {
		f.Mode, f.ModeFrom = s.Mode, "session"
	}
	if f.Mode == "" {
		f.Mode, f.ModeFrom = string(permission.Default), "default"
	}
	for _, behavior := range []permission.Behavior{permission.Deny, permission.Ask, permission.Allow} {
		for _, r := range p.Rules {
			if r.Behavior == behavior {
				f.Rules = append(f.Rules, ruleInForce{Rule: wireRule(r), From: "installation"})
			}
		}
		for _, r := range s.Rules {
			if r.Behavior != string(behavior) {
				continue
			}
			now, known := hashes[r.Tool]
			f.Rules = append(f.Rules, ruleInForce{
				Rule: r.Rule, From: "session", By: r.By, At: new(r.At), Definition: r.Definition,
				Void: r.Definition != "" && known && now != r.Definition,
			})
		}
	}
	return f
}

func wireRule(r permission.Rule) events.Rule {
	return events.Rule{Tool: r.Tool, Content: r.Content, Behavior: string(r.Behavior), Source: r.Source}
}

func (a *app) printInForce(f inForce) {
	a.print("mode %s (%s)\n", show.Line(f.Mode), f.ModeFrom)
	if len(f.Rules) == 0 {
		a.note("no rules; add some with `toolwire permit add`, or permissions in a toolwire.yaml")
		return
	}
	a.print("\n")
	rows := make([][]string, len(f.Rules))
	for i, r := range f.Rules {
		from := r.From
		if r.Source != "" && r.Source != r.From {
			from += ": " + r.Source
		}
		since := ""
		if r.At != nil {
			since = clock(*r.At)
		}
		if r.Void {
			since += " (void: the tool changed)"
		}
		rows[i] = []string{r.Behavior, r.String(), from, r.By, since}
	}
	a.table([]string{"BEHAVIOR", "RULE", "FROM", "BY", "SINCE"}, rows)
}

const permitTestHelp = `Says what would happen to a call, and why: which rule decides, who would be asked, which rules would have allowed it.
Nothing happens. Without a session it is judged as in one that has nothing of its own.

Exit codes: 0 it would run, 9 it would be denied, 13 people would be asked, 4 its arguments are invalid,
3 there is no such tool in the session.`

func (a *app) permitTestCommand() *cobra.Command {
	session := ""
	cmd := &cobra.Command{
		Use: "test <tool> [json|@file|-]", Short: "Say what would happen to a call, and why", Long: permitTestHelp,
		Example: `  toolwire permit test execute_shell_command '{"command":"git push"}'` + "\n" +
			"  toolwire permit test write_file @call.json --session s-1 --json",
		Args: args(1, 2), ValidArgsFunction: a.completeTools,
		RunE: func(cmd *cobra.Command, args []string) error {
			input := "{}"
			if len(args) == 2 {
				input = args[1]
			}
			raw, err := a.arguments(input)
			if err != nil {
				return err
			}
			q := events.PermitRequest{Session: events.SessionID(session), Tool: events.ToolName(args[0]), Input: raw}
			return a.withClient(cmd.Context(), "permit test", func(ctx context.Context, c *agent.Client) error {
				r, err := c.Permit(ctx, q)
				if err != nil {
					return err
				}
				return a.printPermit(q, r)
			})
		},
	}
	cmd.Flags().StringVar(&session, "session", "", "as a call of this `session`")
	_ = cmd.RegisterFlagCompletionFunc("session", a.sessionFlagCompletion)
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) printPermit(q events.PermitRequest, r events.PermitReply) error {
	exit := permitExit(r)
	if a.json {
		if err := a.printJSON(r); err != nil {
			return err
		}
	} else {
		a.describePermit(q, r)
	}
	if exit != 0 {
		return silent(exit)
	}
	return nil
}

func permitExit(r events.PermitReply) int {
	switch {
	case r.Invalid != "":
		return events.ReasonInvalidInput.Outcome().Exit
	case r.Behavior == string(permission.Allow):
		return 0
	case r.Behavior == string(permission.Deny):
		return events.ReasonDeniedByRule.Outcome().Exit
	}
	return exitAsks
}

func (a *app) describePermit(q events.PermitRequest, r events.PermitReply) {
	if r.Invalid != "" {
		a.print("%s: %s\n", a.paint(red, "invalid"), show.Line(r.Invalid))
		return
	}
	colour := map[string]string{"allow": green, "deny": red}[r.Behavior]
	a.print("%s: %s\n", a.paint(cmp.Or(colour, yellow), show.Line(r.Behavior)), show.Line(r.Message))
	c := card{paint: a.paint}
	var b strings.Builder
	fields := []field{{"tool", string(q.Tool), ""}, {"decided by", r.Rule, ""}}
	if r.Safety {
		fields = append(fields, field{"safety", "no allow rule and no mode answers it", ""})
	}
	if r.Behavior == string(permission.Ask) {
		fields = append(fields, field{"asks", people(max(r.Quorum, 1), r.Roles), ""}, field{"expires", r.Expiry, ""})
	}
	for i, s := range r.Suggestions {
		name := ""
		if i == 0 {
			name = "allowed by"
		}
		fields = append(fields, field{name, s.String(), ""})
	}
	c.fields(&b, fields)
	a.print("%s", b.String())
	if len(r.Suggestions) > 0 {
		where := "--installation"
		if q.Session != "" {
			where = "--session " + quote(string(q.Session))
		}
		a.note("to allow it: toolwire permit add allow %s %s", show.Line(quote(r.Suggestions[0].String())), show.Line(where))
	}
}

func (a *app) permitReplayCommand() *cobra.Command {
	file := ""
	cmd := &cobra.Command{
		Use: "replay -f <file>", Short: "Say which recorded calls another configuration would have decided otherwise",
		Long: "Judges the recorded calls again, by the permissions in force and by those of a toolwire.yaml, and lists the calls\n" +
			"that would be decided otherwise. Nothing is changed and nothing runs. Exit code 0: none would; 11: some would.",
		Example: "  toolwire permit replay -f toolwire.yaml\n  toolwire permit replay -f toolwire.yaml --json | jq .changes",
		Args:    args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return usagef("no file given; use it as `%s`, - for stdin", cmd.UseLine())
			}
			config, err := a.readConfig(file)
			if err != nil {
				return err
			}
			raw, err := events.Marshal(config)
			if err != nil {
				return err
			}
			return a.withClient(cmd.Context(), "permit replay", func(ctx context.Context, c *agent.Client) error {
				all := events.ReplayReply{Changes: []events.ReplayChange{}}
				for page, err := range c.Replay(ctx, events.ReplayRequest{Config: raw}) {
					if err != nil {
						return err
					}
					all.Calls += page.Calls
					all.Changes = append(all.Changes, page.Changes...)
				}
				return a.printReplay(all)
			})
		},
	}
	fileFlag(cmd, &file, "the `file` whose permissions are tried; - for stdin")
	a.jsonFlag(cmd)
	return cmd
}

// replayed is what `permit replay --json` prints.
type replayed struct {
	Calls   int                   `json:"calls"` // looked at
	Changes []events.ReplayChange `json:"changes"`
}

func (a *app) printReplay(r events.ReplayReply) error {
	if a.json {
		if err := a.printJSON(replayed{r.Calls, r.Changes}); err != nil {
			return err
		}
	} else {
		a.print("%d of %s would be decided otherwise\n", len(r.Changes), count(r.Calls, "recorded call"))
		rows := make([][]string, len(r.Changes))
		for i, c := range r.Changes {
			rows[i] = []string{
				string(c.Tool), c.Now, c.Then, events.CallKey{Session: c.Session, Turn: c.Turn, Call: c.CallID}.String(), brief(string(c.Input)),
			}
		}
		if len(rows) > 0 {
			a.print("\n")
			a.table([]string{"TOOL", "NOW", "THEN", "CALL", "ARGUMENTS"}, rows)
		}
	}
	if len(r.Changes) > 0 {
		return silent(exitPending)
	}
	return nil
}
