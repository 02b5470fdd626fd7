package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/show"
)

func (a *app) deadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "dead", Short: "See and handle dead letters: messages that nobody could handle", GroupID: "use",
		Long: "Dead letters are messages that could not be handled: malformed ones, and calls given up. They are\n" +
			"kept for 30 days with the reason. The calls in them have had their result.",
	}
	group(cmd)
	cmd.AddCommand(a.deadLsCommand(), a.deadShowCommand(),
		a.deadDoCommand("retry", "Publish a dead letter again where it was first, and drop it", (*agent.Client).DeadRetry),
		a.deadDoCommand("drop", "Remove a dead letter for good", (*agent.Client).DeadDrop))
	return cmd
}

func (a *app) deadLsCommand() *cobra.Command {
	limit := 0
	cmd := &cobra.Command{
		Use: "ls", Short: "List dead letters, newest first", Args: args(0, 0),
		Example: "  toolwire dead ls --limit 20",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, l, done, err := a.client("dead ls")
			if err != nil {
				return err
			}
			defer done()
			return a.diagnose(cmd.Context(), l, a.deadLs(cmd.Context(), c, limit))
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 100, "most `letters` to list; 0: all")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) deadLs(ctx context.Context, c *agent.Client, limit int) error {
	letters := []events.DeadLetter{}
	for l, err := range c.Dead(ctx) {
		if err != nil {
			return err
		}
		letters = append(letters, l)
		if len(letters) == limit {
			break
		}
	}
	if a.json {
		return a.printJSON(letters)
	}
	if len(letters) == 0 {
		a.note("no dead letters")
		return nil
	}
	rows := make([][]string, len(letters))
	for i, l := range letters {
		rows[i] = []string{strconv.FormatUint(l.Seq, 10), clock(l.At), strconv.Itoa(l.Size), l.Subject, brief(l.Reason)}
	}
	a.table([]string{"SEQ", "AT", "BYTES", "SUBJECT", "REASON"}, rows)
	return nil
}

func (a *app) deadShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show <seq>", Short: "Show a dead letter with its headers and data", Args: args(1, 1),
		Example: "  toolwire dead show 17",
		RunE: func(cmd *cobra.Command, args []string) error {
			seq, err := sequence(args[0])
			if err != nil {
				return err
			}
			c, l, done, err := a.client("dead show")
			if err != nil {
				return err
			}
			defer done()
			letter, err := c.DeadShow(cmd.Context(), seq)
			if err != nil {
				return a.diagnose(cmd.Context(), l, err)
			}
			if a.json {
				return a.printJSON(letter)
			}
			a.describeLetter(letter)
			return nil
		},
	}
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) describeLetter(l events.DeadLetter) {
	a.print("%d  %s  %s\n%s\n\n", l.Seq, clock(l.At), show.Line(l.Subject), show.Line(l.Reason))
	names := make([]string, 0, len(l.Header))
	for name := range l.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, v := range l.Header[name] {
			a.print("%s: %s\n", show.Line(name), show.Line(v))
		}
	}
	a.print("\n")
	if !utf8.Valid(l.Data) {
		a.note("the data is not text; some of it is escaped")
	}
	a.print("%s\n", show.Text(string(l.Data)))
}

func (a *app) deadDoCommand(name, short string, do func(*agent.Client, context.Context, uint64) error) *cobra.Command {
	return &cobra.Command{
		Use: name + " <seq>…", Short: short, Args: args(1, -1), Example: "  toolwire dead " + name + " 17 18",
		RunE: func(cmd *cobra.Command, args []string) error {
			var seqs []uint64
			for _, arg := range args {
				seq, err := sequence(arg)
				if err != nil {
					return err
				}
				seqs = append(seqs, seq)
			}
			c, l, done, err := a.client("dead " + name)
			if err != nil {
				return err
			}
			defer done()
			for _, seq := range seqs {
				if err := do(c, cmd.Context(), seq); err != nil {
					return a.diagnose(cmd.Context(), l, fmt.Errorf("letter %d: %w", seq, err))
				}
			}
			return nil
		},
	}
}

func sequence(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || n == 0 {
		return 0, usagef("%q is no number of a dead letter; see them with `toolwire dead ls`", s)
	}
	return n, nil
}
