package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
)

// listed is how many questions are listed at a time, for people.
const listed = 100

type approvalsFlags struct {
	q     events.QuestionsRequest
	limit int
}

func (a *app) approvalsLsCommand() *cobra.Command {
	var f approvalsFlags
	var session, tool, kind string
	cmd := &cobra.Command{
		Use: "ls", Short: "List the questions that wait for you, oldest first",
		Long: "Lists the open questions that you may answer, oldest first, --all every one that you may see.\n" +
			"NEEDED is how many people have still to approve, and of which roles. KIND is confirm (may the call\n" +
			"run?) or external (what is its result?). At most --limit are listed; --after goes on behind.",
		Example: "  toolwire approvals ls\n  toolwire approvals ls --tool execute_shell_command --session s-1\n" +
			"  toolwire approvals ls --all --json | jq -r '.[].question.requestId'",
		Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.q.Session, f.q.Tool, f.q.Kind = events.SessionID(session), events.ToolName(tool), events.Kind(kind)
			if a.json && !cmd.Flags().Changed("limit") {
				f.limit = 0
			}
			switch f.q.Kind {
			case "", events.KindConfirm, events.KindExternal:
			default:
				return usagef("there is no kind %q; give confirm or external", kind)
			}
			return a.asActor(cmd.Context(), "ls", func(ctx context.Context, c *agent.Client) error { return a.approvalsLs(ctx, c, f) })
		},
	}
	p := cmd.Flags()
	p.StringVar(&session, "session", "", "only of this `session`")
	p.StringVar(&tool, "tool", "", "only about this `tool`")
	p.StringVar(&kind, "kind", "", "only `confirm` or external")
	p.BoolVar(&f.q.All, "all", false, "those that you may not answer, too")
	p.IntVar(&f.limit, "limit", listed, "at most so many, 0 for all (default of --json: all)")
	p.Uint64Var(&f.q.After, "after", 0, "behind this `place`, which the end of a shortened list names")
	_ = cmd.RegisterFlagCompletionFunc("session", a.sessionFlagCompletion)
	_ = cmd.RegisterFlagCompletionFunc("tool", a.toolFlagCompletion)
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions([]string{"confirm", "external"}, cobra.ShellCompDirectiveNoFileComp))
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) sessionFlagCompletion(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return a.completeSessions(cmd, nil, prefix)
}

func (a *app) toolFlagCompletion(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	return a.completeTools(cmd, nil, prefix)
}

func (a *app) approvalsLs(ctx context.Context, c *agent.Client, f approvalsFlags) error {
	var all []events.OpenQuestion
	more := false
	for q, err := range c.Questions(ctx, f.q) {
		if err != nil {
			return err
		}
		if more = f.limit > 0 && len(all) == f.limit; more {
			break
		}
		all = append(all, q)
	}
	switch {
	case a.json:
		if err := a.printQuestions(all); err != nil {
			return err
		}
	case len(all) == 0 && f.q.All:
		a.note("no open questions")
	case len(all) == 0:
		a.note("nothing waits for %s; --all lists what waits for others", a.acting)
	default:
		a.questionsTable(all, f.q.All, time.Now())
	}
	if more {
		a.note("there are more: --after %d lists them, --limit 0 lists all", all[len(all)-1].Seq)
	}
	return nil
}

// printQuestions writes them as they were stored, arguments byte for byte.
func (a *app) printQuestions(all []events.OpenQuestion) error {
	var b strings.Builder
	for i, q := range all {
		one, err := events.Marshal(events.QuestionReply{OpenQuestion: q})
		if err != nil {
			return err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(one)
	}
	a.print("[%s]\n", b.String())
	return nil
}

func (a *app) questionsTable(all []events.OpenQuestion, why bool, now time.Time) {
	heading := []string{"REQUEST", "TOOL", "KIND", "FROM", "SESSION", "LEFT", "NEEDED", "WHY"}
	if why {
		heading = append(heading, "YOU")
	}
	ids := make([]string, len(all))
	for i, q := range all {
		ids[i] = q.Question.RequestID
	}
	n := shortest(ids)
	rows := make([][]string, len(all))
	for i, q := range all {
		rows[i] = []string{
			shortID(ids[i], n), string(q.Question.Call.Name), string(q.Question.Kind), string(q.Question.Requester), string(q.Session),
			timeLeft(q.Question, now), needed(q), brief(q.Question.Why),
		}
		if why {
			you := "may answer"
			if !q.MayAnswer {
				you = "no: " + q.WhyNot
			}
			rows[i] = append(rows[i], you)
		}
	}
	a.table(heading, rows)
}

// needed says how many people are still needed, and of which roles.
func needed(q events.OpenQuestion) string {
	s := strconv.Itoa(q.Missing)
	if len(q.Question.Roles) > 0 {
		s += " of " + strings.Join(q.Question.Roles, ", ")
	}
	return s
}

func timeLeft(q events.Question, now time.Time) string {
	switch {
	case q.ExpiresAt == nil:
		return "no end"
	case !q.ExpiresAt.After(now):
		return "over"
	}
	return span(q.ExpiresAt.Sub(now))
}

// span writes a duration in its two largest units, as people say it.
func span(d time.Duration) string {
	units := []struct {
		of   time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}}
	for i, u := range units {
		if d < u.of {
			continue
		}
		s := strconv.FormatInt(int64(d/u.of), 10) + u.name
		if i+1 < len(units) {
			if rest := d % u.of / units[i+1].of; rest > 0 {
				s += strconv.FormatInt(int64(rest), 10) + units[i+1].name
			}
		}
		return s
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
}
