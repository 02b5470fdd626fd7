package main

import (
	"context"
	"errors"
	"fmt"
	"os/user"
	"strings"

	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/show"
)

const approvalsHelp = `Calls that the policy asks about wait until a person approves or denies them; calls of external tools, until
somebody gives their result. Both are questions: list them, look at one, answer it.

A question is named by its request id, or by the beginning of it: what ` + "`ls`" + ` prints is enough.

Whoever answers does so under a name, which every line about an answer shows: --actor, TOOLWIRE_ACTOR, or your user name
on this machine. With users on the NATS server, your credentials fix it. Nobody answers for a call of his own.

Exit codes: 0 the answer decided the question, was counted, or had been given before; 12 it was refused, and the text
says why; 2 wrong usage, 3 no such question, 8 nobody there, 10 you answered nothing.`

func (a *app) approvalsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "approvals", Short: "See and answer the calls that wait for people", Long: approvalsHelp, GroupID: "use"}
	group(cmd)
	cmd.PersistentFlags().StringVar(&a.actor, "actor", "", "`who` answers (TOOLWIRE_ACTOR; default: your user name)")
	cmd.AddCommand(
		a.approvalsLsCommand(), a.approvalsShowCommand(), a.approvalsWatchCommand(),
		a.approveCommand(), a.denyCommand(), a.answerCommand(),
	)
	return cmd
}

// userName is who answers where no credentials and nobody else say it.
func (a *app) userName() string {
	if s := a.setting("", "USER", "LOGNAME", "USERNAME"); s != "" {
		return s
	}
	u, err := user.Current()
	if err != nil || u.Username == "" {
		return string(agent.DefaultAgent)
	}
	return u.Username[strings.LastIndexByte(u.Username, '\\')+1:] // without the domain, on Windows
}

// asActor runs f on a client that acts as the person at the command line.
func (a *app) asActor(ctx context.Context, what string, f func(context.Context, *agent.Client) error) error {
	a.answers = true
	return a.withClient(ctx, "approvals "+what, f)
}

// leastPrefix keeps a slip of the finger from naming a question.
const leastPrefix = 4

// manyDecisions is how far back a decided question is looked for by the beginning of its id.
const manyDecisions = 1000

// question finds a question by its request id or the beginning of it; open ones first.
func (a *app) question(ctx context.Context, c *agent.Client, request string) (events.QuestionReply, error) {
	q, err := c.Question(ctx, request)
	if !errors.Is(err, agent.ErrNotFound) {
		return q, err
	}
	if len(request) < leastPrefix {
		return q, usagef("%q is no request id; give at least %d characters of one", request, leastPrefix)
	}
	var found []events.QuestionReply
	for open, err := range c.Questions(ctx, events.QuestionsRequest{All: true, Limit: 500}) {
		if err != nil {
			return q, err
		}
		if strings.HasPrefix(open.Question.RequestID, request) {
			found = append(found, events.QuestionReply{OpenQuestion: open})
		}
	}
	if len(found) == 0 {
		if found, err = a.decidedQuestions(ctx, c, request); err != nil {
			return q, err
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return q, fmt.Errorf("%w: no question begins with %q; see `toolwire approvals ls --all`", agent.ErrNotFound, request)
	}
	var all strings.Builder
	for _, f := range found[:min(len(found), 10)] {
		fmt.Fprintf(&all, "\n%s  %s", f.Question.RequestID, f.Question.Call.Name)
	}
	return q, usagef("%d questions begin with %q; give more of the one you mean:%s", len(found), request, all.String())
}

func (a *app) decidedQuestions(ctx context.Context, c *agent.Client, request string) (found []events.QuestionReply, err error) {
	n := 0
	for d, err := range c.Decisions(ctx) {
		if err != nil {
			return nil, err
		}
		if strings.HasPrefix(d.Decided.Question.RequestID, request) {
			found = append(found, events.QuestionReply{
				OpenQuestion: events.OpenQuestion{Session: d.Session, Turn: d.Turn, Question: d.Decided.Question},
				Decided:      &d.Decided,
			})
		}
		if n++; n == manyDecisions {
			break
		}
	}
	return found, nil
}

// shortest is how many characters tell all ids apart, eight at least.
func shortest(ids []string) int {
	n := 8
	for ; ; n++ {
		seen := make(map[string]bool, len(ids))
		longer := false
		for _, id := range ids {
			short := id[:min(n, len(id))]
			longer = longer || seen[short]
			seen[short] = true
		}
		if !longer || n >= events.MaxToken {
			return n
		}
	}
}

func shortID(id string, n int) string { return id[:min(n, len(id))] }

// completeQuestions offers the open questions.
func (a *app) completeQuestions(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	a.answers = true
	return a.complete(cmd, prefix, func(ctx context.Context, c *agent.Client) (names []string) {
		var all []events.OpenQuestion
		var ids []string
		for q, err := range c.Questions(ctx, events.QuestionsRequest{All: true}) {
			if err != nil || len(all) == listed {
				break
			}
			all, ids = append(all, q), append(ids, q.Question.RequestID)
		}
		n := max(shortest(ids), len(prefix))
		for _, q := range all {
			names = append(names, shortID(q.Question.RequestID, n)+"\t"+show.Line(string(q.Question.Call.Name)+": "+brief(q.Question.Why)))
		}
		return names
	})
}
