package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/show"
)

func (a *app) callsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "calls", Short: "See how calls stand, watch and cancel them", GroupID: "use"}
	group(cmd)
	cmd.AddCommand(a.callsLsCommand(), a.callsShowCommand(), a.callsResultCommand(), a.callsWatchCommand(), a.callsCancelCommand())
	return cmd
}

func (a *app) callsLsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "ls <session> <turn>", Short: "List how the calls of a turn stand",
		Example: "  toolwire calls ls s-1 t-1\n  toolwire calls ls s-1 t-1 --json | jq .calls",
		Args:    args(2, 2), ValidArgsFunction: a.completeSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(cmd.Context(), "calls ls", func(ctx context.Context, c *agent.Client) error {
				return a.callsLs(ctx, c, events.CallKey{Session: events.SessionID(args[0]), Turn: events.TurnID(args[1])})
			})
		},
	}
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) callsResultCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "result <session> <turn> <call>", Short: "Print the result of a call",
		Long:    "Prints the stored result of a call, as `toolwire call` would have, exit code included.",
		Example: "  toolwire calls result s-1 t-1 c1\n  toolwire calls result s-1 t-1 c1 --json",
		Args:    args(3, 3), ValidArgsFunction: a.completeSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			k := events.CallKey{Session: events.SessionID(args[0]), Turn: events.TurnID(args[1]), Call: events.CallID(args[2])}
			return a.withClient(cmd.Context(), "calls result", func(ctx context.Context, c *agent.Client) error {
				r, err := c.Result(ctx, k)
				if err != nil {
					return err
				}
				return a.printResult(k, r)
			})
		},
	}
	a.jsonFlag(cmd)
	return cmd
}

// callsLs prints how the calls of a turn stand, or one of them.
func (a *app) callsLs(ctx context.Context, c *agent.Client, k events.CallKey) error {
	s, err := c.Status(ctx, k.Session, k.Turn)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(s)
	}
	a.print("turn %s of session %s, from agent %s at %s\n\n",
		show.Line(string(k.Turn)), show.Line(string(k.Session)), show.Line(string(s.Agent)), clock(s.AcceptedAt))
	var rows [][]string
	for _, call := range s.Calls {
		if k.Call != "" && call.CallID != k.Call {
			continue
		}
		started := ""
		if call.StartedAt != nil {
			started = clock(*call.StartedAt)
		}
		outcome := string(call.Result)
		if call.Reason != "" && call.Reason != events.ReasonOK {
			outcome += " (" + string(call.Reason) + ")"
		}
		rows = append(rows, []string{string(call.CallID), string(call.Name), string(call.State), outcome, started, call.Worker})
	}
	if len(rows) == 0 {
		return errNoCall(k)
	}
	a.table([]string{"CALL", "TOOL", "STATE", "RESULT", "STARTED", "WORKER"}, rows)
	return nil
}

func (a *app) callsWatchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "watch [session]", Short: "Watch calls start and end, until Ctrl-C",
		Long: "Prints a line for each call that ends, and for each start that is stored: those of tools with side\n" +
			"effects, and of whatever runs for longer than a few seconds. Of one session, or of all.",
		Example: "  toolwire calls watch\n  toolwire calls watch s-1 --json",
		Args:    args(0, 1), ValidArgsFunction: a.completeSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, _, done, err := a.client("calls watch")
			if err != nil {
				return err
			}
			defer done()
			session := events.SessionID("")
			if len(args) == 1 {
				session = events.SessionID(args[0])
			}
			return a.callsWatch(cmd.Context(), c, session)
		},
	}
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) callsWatch(ctx context.Context, c *agent.Client, session events.SessionID) error {
	for e, err := range c.Watch(ctx, session) {
		switch {
		case errors.Is(err, events.ErrMalformed), errors.Is(err, events.ErrToken):
			a.note("a fact that cannot be read: %s", show.Line(err.Error()))
		case err != nil:
			return err
		case a.json:
			if err := a.printFact(e); err != nil {
				return err
			}
		default:
			a.describeFact(e)
		}
	}
	return nil
}

func (a *app) printFact(e events.Event) error {
	head, err := events.Marshal(struct {
		Type    events.Type      `json:"type"`
		Session events.SessionID `json:"session"`
		Turn    events.TurnID    `json:"turn"`
		Call    events.CallID    `json:"callId"`
		Time    time.Time        `json:"time,omitzero"`
	}{e.Type, e.Session, e.Turn, e.Call, e.Time})
	if err != nil {
		return err
	}
	a.print("%s,\"data\":%s}\n", head[:len(head)-1], e.Data)
	return nil
}

func (a *app) describeFact(e events.Event) {
	k := events.CallKey{Session: e.Session, Turn: e.Turn, Call: e.Call}
	switch e.Type {
	case events.TypeToolResultStart:
		var s events.ToolResultStart
		if events.Unmarshal(e.Data, &s) == nil && s.Settle == "" {
			a.print("%s  %s  starts on %s\n", s.At.Local().Format(time.TimeOnly), show.Line(k.String()), show.Line(s.Worker))
		}
	case events.TypeToolResult:
		var r events.ToolResult
		if events.Unmarshal(e.Data, &r) != nil {
			return
		}
		colour := green
		if r.State != events.StateSuccess {
			colour = red
		}
		a.print("%s  %s  %s: %s  %s\n", r.Meta.FinishedAt.Local().Format(time.TimeOnly), show.Line(k.String()),
			show.Line(string(r.Name)), a.paint(colour, show.Line(string(r.Reason))), brief(show.Line(r.Text())))
	default:
	}
}

func (a *app) callsCancelCommand() *cobra.Command {
	noWait, reason := false, ""
	cmd := &cobra.Command{
		Use: "cancel <session> <turn> [call…]", Short: "Cancel calls of a turn, all if none is named",
		Long: "Cancels calls and says what became of each: cancelled (it never ran), stopping (it runs, and was\n" +
			"told), too_late (it had its result).",
		Example: "  toolwire calls cancel s-1 t-1\n  toolwire calls cancel s-1 t-1 c2 --reason 'asked twice'",
		Args:    args(2, -1), ValidArgsFunction: a.completeSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, l, done, err := a.client("calls cancel")
			if err != nil {
				return err
			}
			defer done()
			what := events.CancelCalls{Reason: reason}
			for _, id := range args[2:] {
				what.Calls = append(what.Calls, events.CallID(id))
			}
			err = a.callsCancel(cmd.Context(), c, events.SessionID(args[0]), events.TurnID(args[1]), what, noWait)
			return a.diagnose(cmd.Context(), l, err)
		},
	}
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "store the wish, for whatever dispatcher runs next, and do not wait")
	cmd.Flags().StringVar(&reason, "reason", "", "`why`, for the record")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) callsCancel(ctx context.Context, c *agent.Client, s events.SessionID, t events.TurnID, what events.CancelCalls, noWait bool) error {
	if noWait {
		ctx, cancel := context.WithTimeout(ctx, submitTimeout)
		defer cancel()
		return c.Cancel(ctx, s, t, what)
	}
	reply, err := c.CancelNow(ctx, s, t, what)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(reply.Calls)
	}
	rows := make([][]string, len(reply.Calls))
	for i, o := range reply.Calls {
		rows[i] = []string{string(o.CallID), o.Outcome}
	}
	a.table([]string{"CALL", "OUTCOME"}, rows)
	return nil
}
