package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/show"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/permission"
)

// where says what a change is of: a session, or all of the installation.
type where struct {
	session      string
	installation bool
}

func (w *where) flags(a *app, cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.session, "session", "", "of this `session`")
	cmd.Flags().BoolVar(&w.installation, "installation", false, "of the installation: for all sessions")
	_ = cmd.RegisterFlagCompletionFunc("session", a.sessionFlagCompletion)
}

func (w *where) check() error {
	if (w.session == "") != w.installation {
		return usagef("say where: --session <session>, or --installation for all of them")
	}
	return nil
}

func (w *where) String() string {
	if w.installation {
		return "the installation"
	}
	return "session " + w.session
}

func behaviors(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return []string{"allow", "ask", "deny"}, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) permitAddCommand() *cobra.Command {
	var w where
	cmd := &cobra.Command{
		Use: "add <allow|deny|ask> <tool(content)>…", Short: "Add rules",
		Long: "Adds rules to a session, or to the configuration of the installation. Rules that are there already stay as they are.\n" +
			"What a content means is up to the tool's matcher: a command, a glob of paths, the text of an argument.",
		Example: "  toolwire permit add allow 'execute_shell_command(git log:*)' --session s-1\n" +
			"  toolwire permit add deny 'mcp__github__delete_*' --installation",
		Args: args(2, -1), ValidArgsFunction: behaviors,
		RunE: func(cmd *cobra.Command, args []string) error {
			rules, err := parseRules(args[0], args[1:])
			if err != nil {
				return err
			}
			return a.changeRules(cmd.Context(), "permit add", w, rules, nil)
		},
	}
	w.flags(a, cmd)
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) permitRmCommand() *cobra.Command {
	var w where
	cmd := &cobra.Command{
		Use: "rm <allow|deny|ask> <tool(content)>…", Short: "Remove rules",
		Long:    "Removes rules of a session, or of the configuration of the installation. All are removed, or none.",
		Example: "  toolwire permit rm allow 'execute_shell_command(git log:*)' --session s-1\n  toolwire permit rm deny 'mcp__github__delete_*' --installation",
		Args:    args(2, -1), ValidArgsFunction: behaviors,
		RunE: func(cmd *cobra.Command, args []string) error {
			rules, err := parseRules(args[0], args[1:])
			if err != nil {
				return err
			}
			return a.changeRules(cmd.Context(), "permit rm", w, nil, rules)
		},
	}
	w.flags(a, cmd)
	a.jsonFlag(cmd)
	return cmd
}

func parseRules(behavior string, texts []string) (rules []permission.Rule, err error) {
	switch permission.Behavior(behavior) {
	case permission.Allow, permission.Deny, permission.Ask:
	default:
		return nil, usagef("%q is none of allow, deny, ask", behavior)
	}
	for _, text := range texts {
		r, err := permission.ParseRule(text)
		if err != nil {
			return nil, usagef("%v; write it as tool or 'tool(content)'", err)
		}
		r.Behavior = permission.Behavior(behavior)
		rules = append(rules, r)
	}
	return rules, nil
}

// changeRules adds and drops rules, all of them or none, and shows what is in force then.
func (a *app) changeRules(ctx context.Context, what string, w where, add, drop []permission.Rule) error {
	if err := w.check(); err != nil {
		return err
	}
	return a.withClient(ctx, what, func(ctx context.Context, c *agent.Client) error {
		var err error
		if w.installation {
			err = c.ChangeConfig(ctx, func(config *toolkit.Config) error { return changeConfigRules(config, add, drop) })
		} else {
			err = a.changeSessionRules(ctx, c, events.SessionID(w.session), add, drop)
		}
		if err != nil {
			return err
		}
		if a.json {
			return a.permitLs(ctx, c, events.SessionID(w.session))
		}
		for _, r := range add {
			a.print("%s %s in %s\n", a.paint(green, "+"), show.Line(string(r.Behavior)+" "+r.String()), show.Line(w.String()))
		}
		for _, r := range drop {
			a.print("%s %s in %s\n", a.paint(red, "-"), show.Line(string(r.Behavior)+" "+r.String()), show.Line(w.String()))
		}
		return nil
	})
}

func sameRule(a, b permission.Rule) bool {
	return a.Tool == b.Tool && a.Content == b.Content && a.Behavior == b.Behavior
}

func noSuchRule(r permission.Rule, where string) error {
	return fmt.Errorf("%w: there is no rule %s %s in %s; `toolwire permit ls` lists them. Nothing was changed", agent.ErrNotFound, r.Behavior, r, where)
}

func changeConfigRules(config *toolkit.Config, add, drop []permission.Rule) error {
	rules := &config.Permissions.Rules
	for _, d := range drop {
		before := len(*rules)
		*rules = slices.DeleteFunc(*rules, func(r permission.Rule) bool { return sameRule(r, d) })
		if len(*rules) == before {
			return noSuchRule(d, "the installation")
		}
	}
	for _, r := range add {
		if !slices.ContainsFunc(*rules, func(have permission.Rule) bool { return sameRule(have, r) }) {
			*rules = append(*rules, r)
		}
	}
	return nil
}

func (a *app) changeSessionRules(ctx context.Context, c *agent.Client, session events.SessionID, add, drop []permission.Rule) error {
	change := events.SessionSet{Session: session}
	if len(drop) > 0 {
		s, err := c.Session(ctx, session)
		if err != nil {
			return err
		}
		for _, d := range drop {
			if !slices.ContainsFunc(s.Rules, func(r events.SessionRule) bool {
				return sameRule(permission.Rule{Tool: r.Tool, Content: r.Content, Behavior: permission.Behavior(r.Behavior)}, d)
			}) {
				return noSuchRule(d, "session "+string(session))
			}
			change.Drop = append(change.Drop, wireRule(d))
		}
	}
	for _, r := range add {
		change.Rules = append(change.Rules, wireRule(r))
	}
	_, err := c.SetSession(ctx, change)
	return err
}

func modes() []string {
	return []string{
		string(permission.Default), string(permission.AcceptEdits), string(permission.Explore),
		string(permission.Bypass), string(permission.DontAsk),
	}
}

// inherit is the word for having no mode of one's own.
const inherit = "inherit"

func (a *app) permitModeCommand() *cobra.Command {
	var w where
	cmd := &cobra.Command{
		Use: "mode <mode>", Short: "Say what happens to calls that no rule decides",
		Long: "Sets the mode of a session, or of the installation:\n\n" +
			"  default       people are asked\n  accept_edits  changes inside the working directories run, the rest asks\n" +
			"  explore       only what reads\n  bypass        everything runs; rules and safety asks still hold\n" +
			"  dont_ask      as accept_edits, and every ask is a deny\n  inherit       of a session: as the installation",
		Example: "  toolwire permit mode explore --session s-1\n  toolwire permit mode inherit --session s-1\n  toolwire permit mode default --installation",
		Args:    args(1, 1), ValidArgs: append(modes(), inherit),
		RunE: func(cmd *cobra.Command, args []string) error { return a.permitMode(cmd.Context(), w, args[0]) },
	}
	w.flags(a, cmd)
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) permitMode(ctx context.Context, w where, word string) error {
	if err := w.check(); err != nil {
		return err
	}
	mode := word
	switch {
	case word == inherit && w.installation:
		return usagef("the installation inherits from nothing; give one of %s", strings.Join(modes(), ", "))
	case word == inherit:
		mode = ""
	case !slices.Contains(modes(), word):
		return usagef("there is no mode %q; give one of %s, %s", word, strings.Join(modes(), ", "), inherit)
	}
	return a.withClient(ctx, "permit mode", func(ctx context.Context, c *agent.Client) error {
		var err error
		if w.installation {
			err = c.ChangeConfig(ctx, func(config *toolkit.Config) error {
				config.Permissions.Mode = permission.Mode(mode)
				return nil
			})
		} else {
			_, err = c.SetSession(ctx, events.SessionSet{Session: events.SessionID(w.session), Mode: &mode})
		}
		if err != nil {
			return err
		}
		if a.json {
			return a.permitLs(ctx, c, events.SessionID(w.session))
		}
		a.print("mode %s in %s\n", word, show.Line(w.String()))
		return nil
	})
}
