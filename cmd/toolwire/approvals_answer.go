package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/show"
	"github.com/toolwire/toolwire/toolkit/permission"
)

// judgeTimeout bounds the time an answer may take to be judged.
const judgeTimeout = 30 * time.Second

type approveFlags struct {
	rules                []string
	suggested, edit, yes bool
	scope, input         string
}

// says whether any flag says what to do, so that nobody is asked.
func (f approveFlags) says() bool {
	return f.yes || f.edit || f.suggested || f.input != "" || len(f.rules) > 0
}

func (a *app) approveCommand() *cobra.Command {
	var f approveFlags
	cmd := &cobra.Command{
		Use: "approve <request>", Short: "Let a call run, as it is or with other arguments",
		Long: "Approves a call. On a terminal, without any of the flags below, it shows the call and asks what to do: approve,\n" +
			"also from now on, change the arguments, or deny. Elsewhere nobody is asked, and one of the flags is required.\n\n" +
			"Changed arguments are checked and judged as the call itself: a rule that denies them still does. Rules that come\n" +
			"with an approval hold from now on, for calls of this tool in the session, or in --scope installation (operators\n" +
			"only). With a quorum the call runs once enough people approved the same arguments.",
		Example: "  toolwire approvals approve 3f2a91c4                 # asks\n  toolwire approvals approve 3f2a91c4 --yes\n" +
			"  toolwire approvals approve 3f2a91c4 --rule 'execute_shell_command(git log:*)'\n" +
			"  toolwire approvals approve 3f2a91c4 --suggested --scope installation\n" +
			`  toolwire approvals approve 3f2a91c4 --input '{"path":"/tmp/a"}'` + "\n" +
			"  EDITOR=nano toolwire approvals approve 3f2a91c4 --edit",
		Args: args(1, 1), ValidArgsFunction: a.completeQuestions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.checkApprove(f); err != nil {
				return err
			}
			return a.onQuestion(cmd.Context(), "approve", args[0], events.KindConfirm, func(ctx context.Context, c *agent.Client, q events.QuestionReply) error {
				return a.approve(ctx, c, q, f)
			})
		},
	}
	p := cmd.Flags()
	p.BoolVarP(&f.yes, "yes", "y", false, "approve it as it is; do not ask")
	p.StringArrayVar(&f.rules, "rule", nil, "`tool(content)` that is allowed from now on; repeat for more")
	p.BoolVar(&f.suggested, "suggested", false, "allow from now on what the question suggests")
	p.StringVar(&f.scope, "scope", "", "where the rules hold: `session` (default) or installation")
	p.StringVar(&f.input, "input", "", "run it with these arguments instead: `JSON`, @file, or - for stdin")
	p.BoolVar(&f.edit, "edit", false, "change the arguments in $VISUAL or $EDITOR")
	_ = cmd.RegisterFlagCompletionFunc("scope", cobra.FixedCompletions([]string{events.ScopeSession, events.ScopeInstallation}, cobra.ShellCompDirectiveNoFileComp))
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) checkApprove(f approveFlags) error {
	switch {
	case !f.says() && f.scope == "" && !a.interactive():
		return usagef("there is no terminal to ask on: give --yes to approve the call as it is, or --input, --edit, --rule, --suggested")
	case f.scope != "" && !f.suggested && len(f.rules) == 0:
		return usagef("--scope is of rules: give --rule or --suggested, too")
	case f.edit && f.input != "":
		return usagef("--edit and --input both change the arguments; give one of them")
	}
	switch f.scope {
	case "", events.ScopeSession, events.ScopeInstallation:
		return nil
	}
	return usagef("there is no scope %q; give session or installation", f.scope)
}

// onQuestion finds a question of a kind and goes on with it.
func (a *app) onQuestion(ctx context.Context, what, request string, kind events.Kind, f func(context.Context, *agent.Client, events.QuestionReply) error) error {
	return a.asActor(ctx, what, func(ctx context.Context, c *agent.Client) error {
		q, err := a.question(ctx, c, request)
		if err != nil {
			return err
		}
		switch {
		case q.Question.Kind == kind:
			return f(ctx, c, q)
		case kind == events.KindConfirm:
			return usagef("%s asks for the result of a call: give it with `toolwire approvals answer %s`", q.Question.RequestID, request)
		}
		return usagef("%s asks whether a call may run: say so with `toolwire approvals approve %s`, or deny it", q.Question.RequestID, request)
	})
}

func (a *app) approve(ctx context.Context, c *agent.Client, q events.QuestionReply, f approveFlags) error {
	if !f.says() {
		return a.askAbout(ctx, c, q)
	}
	answer := events.UserConfirmResult{Decision: events.Approve, Scope: f.scope}
	var err error
	if answer.Rules, err = rulesOf(q.Question, f); err != nil {
		return err
	}
	switch {
	case f.input != "":
		answer.Input, err = a.arguments(f.input)
	case f.edit:
		if answer.Input, err = a.edit(ctx, q.Question.Call.Input); err == nil && answer.Input == nil {
			err = &exitError{fmt.Errorf("the arguments are as they were; %w. --yes approves them", errAborted), aborted().exit}
		}
	}
	if err != nil {
		return err
	}
	return a.confirmAs(ctx, c, q, answer)
}

// rulesOf are the allow rules that an approval brings along.
func rulesOf(q events.Question, f approveFlags) (rules []events.Rule, err error) {
	for _, text := range f.rules {
		r, err := permission.ParseRule(text)
		if err != nil {
			return nil, usagef("--rule: %v", err)
		}
		rules = append(rules, events.Rule{Tool: r.Tool, Content: r.Content, Behavior: string(permission.Allow)})
	}
	if f.suggested {
		if len(q.Suggestions) == 0 {
			return nil, usagef("the question suggests no rules; leave out --suggested")
		}
		rules = append(rules, q.Suggestions...)
	}
	return rules, nil
}

func (a *app) denyCommand() *cobra.Command {
	reason := ""
	cmd := &cobra.Command{
		Use: "deny <request>", Short: "Keep a call from running, and say why",
		Long: "Denies a call. The model reads the reason: say what it should do instead. On a terminal it is asked for if --reason\n" +
			"is not given; elsewhere the flag is required ('' for none).",
		Example: "  toolwire approvals deny 3f2a91c4 --reason 'not on a Friday; ask again on Monday'",
		Args:    args(1, 1), ValidArgsFunction: a.completeQuestions,
		RunE: func(cmd *cobra.Command, args []string) error {
			given := cmd.Flags().Changed("reason")
			if !given && !a.interactive() {
				return usagef("there is no terminal to ask on: say why with --reason, which the model reads")
			}
			return a.onQuestion(cmd.Context(), "deny", args[0], events.KindConfirm, func(ctx context.Context, c *agent.Client, q events.QuestionReply) error {
				if !given {
					return a.askWhyNot(ctx, c, q)
				}
				return a.confirmAs(ctx, c, q, events.UserConfirmResult{Decision: events.Refuse, Reason: reason})
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "`why`, for the model")
	a.jsonFlag(cmd)
	return cmd
}

type answerFlags struct {
	structured, state string
	isError           bool
}

func (a *app) answerCommand() *cobra.Command {
	var f answerFlags
	cmd := &cobra.Command{
		Use: "answer <request> [text|-]", Short: "Give the result of a call that a person or another system answers",
		Long: "Gives the result of an external call: a text (- reads it from stdin), structured content, or both. Structured content\n" +
			"has to fit the schema that the question names. --error says that the call failed, and the text why.",
		Example: "  toolwire approvals answer 3f2a91c4 'Tuesday at ten'\n" +
			`  toolwire approvals answer 3f2a91c4 --structured '{"temperature":21}'` + "\n" +
			"  toolwire approvals answer 3f2a91c4 'the sensor is broken' --error\n  report | toolwire approvals answer 3f2a91c4 -",
		Args: args(1, 2), ValidArgsFunction: a.completeQuestions,
		RunE: func(cmd *cobra.Command, args []string) error {
			said := len(args) == 2 || f.structured != "" || f.isError || f.state != ""
			if !said && !a.interactive() {
				return usagef("there is no terminal to ask on: give the result as text, or --structured, --error, --state")
			}
			if len(args) == 2 && args[1] == "-" && f.structured == "-" {
				return usagef("both the text and --structured are to be read from stdin; give one of them otherwise")
			}
			answer, err := a.externalResult(args[1:], f)
			if err != nil {
				return err
			}
			return a.onQuestion(cmd.Context(), "answer", args[0], events.KindExternal, func(ctx context.Context, c *agent.Client, q events.QuestionReply) error {
				if !said {
					return a.askResult(ctx, c, q)
				}
				return a.answerAs(ctx, c, q, answer)
			})
		},
	}
	states := []string{string(events.StateSuccess), string(events.StateError), string(events.StateDenied), string(events.StateInterrupted)}
	p := cmd.Flags()
	p.StringVar(&f.structured, "structured", "", "structured content: `JSON`, @file, or - for stdin")
	p.BoolVar(&f.isError, "error", false, "the call failed")
	p.StringVar(&f.state, "state", "", "how it ended: `success`, error, denied or interrupted (default success, or error with --error)")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp))
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) externalResult(text []string, f answerFlags) (r events.ExternalExecutionResult, err error) {
	r.State, r.IsError = events.State(f.state), f.isError || f.state == string(events.StateError)
	switch r.State {
	case "", events.StateSuccess, events.StateError, events.StateDenied, events.StateInterrupted:
	default:
		return r, usagef("there is no state %q; give success, error, denied or interrupted", f.state)
	}
	if r.State == events.StateSuccess && f.isError {
		return r, usagef("--state success and --error contradict each other; give one of them")
	}
	if f.structured != "" {
		if r.StructuredContent, err = a.arguments(f.structured); err != nil {
			return r, err
		}
	}
	switch {
	case len(text) == 1 && text[0] == "-":
		b, err := io.ReadAll(a.in)
		if err != nil {
			return r, fmt.Errorf("read stdin: %w", err)
		}
		r.Content = []events.Content{events.Text(string(b))}
	case len(text) == 1:
		r.Content = []events.Content{events.Text(text[0])}
	case len(r.StructuredContent) > 0: // for models that read text only
		r.Content = []events.Content{events.Text(string(bytes.TrimSpace(r.StructuredContent)))}
	}
	return r, nil
}

func (a *app) confirmAs(ctx context.Context, c *agent.Client, q events.QuestionReply, answer events.UserConfirmResult) error {
	return a.judge(ctx, q, func(ctx context.Context) (events.AnswerJudged, error) { return c.Confirm(ctx, q.OpenQuestion, answer) })
}

func (a *app) answerAs(ctx context.Context, c *agent.Client, q events.QuestionReply, answer events.ExternalExecutionResult) error {
	return a.judge(ctx, q, func(ctx context.Context) (events.AnswerJudged, error) { return c.Answer(ctx, q.OpenQuestion, answer) })
}

// judge gives an answer, waits until it is judged, and says what became of it.
func (a *app) judge(ctx context.Context, q events.QuestionReply, give func(context.Context) (events.AnswerJudged, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, judgeTimeout, fmt.Errorf("no dispatcher said within %s what became of it", judgeTimeout))
	defer cancel()
	j, err := give(ctx)
	if err != nil {
		return err
	}
	return a.printJudged(q, j)
}

func (a *app) printJudged(q events.QuestionReply, j events.AnswerJudged) error {
	refused := j.Judgement == events.JudgedRefused
	if a.json {
		if err := a.printJSON(j); err != nil {
			return err
		}
		if refused {
			return silent(exitRefused)
		}
		return nil
	}
	if refused {
		text := j.Text
		if cure := refusalCure(q, j); cure != "" {
			text = strings.TrimRight(text, ".") + "; " + cure
		}
		return &exitError{fmt.Errorf("the answer of %q is refused (%s): %s", j.Actor, j.Code, text), exitRefused}
	}
	colour := green
	if j.Judgement == events.JudgedCounted {
		colour = yellow
	}
	a.print("%s, as %s: %s\n", a.paint(colour, show.Line(j.Judgement)), show.Line(j.Actor), show.Line(j.Text))
	return nil
}

// refusalCure says what to do about a refused answer.
func refusalCure(q events.QuestionReply, j events.AnswerJudged) string {
	look := "see `toolwire approvals show " + quote(shortID(q.Question.RequestID, 12)) + "`"
	switch j.Code {
	case events.RefusedSelf:
		return "if you are not that agent, say who you are with --actor"
	case events.RefusedRole:
		return "the roles are in the configuration (`toolwire apply`); " + look + " for who may answer"
	case events.RefusedNotPending:
		return "`toolwire approvals ls --all` has those that are open"
	case events.RefusedNewRound:
		return "`toolwire approvals ls` has it"
	case events.RefusedInput:
		return "`toolwire tools show " + quote(string(q.Question.Call.Name)) + "` has the schema"
	case events.RefusedByRule:
		return "`toolwire permit test " + quote(string(q.Question.Call.Name)) + " JSON --session " + quote(string(q.Session)) + "` tells which rule"
	case events.RefusedNoRequester:
		return "cancel the call: `toolwire calls cancel " + quote(string(q.Session)) + " " + quote(string(q.Turn)) + "`"
	case events.RefusedDecided, events.RefusedExpired, events.RefusedDigest, events.RefusedResult:
		return look
	}
	return ""
}

// errAborted is returned when somebody who was asked left without an answer.
var errAborted = errors.New("nothing was answered")

func aborted() *exitError { return &exitError{errAborted, events.ReasonCancelled.Outcome().Exit} }

// compact is JSON without white space around its parts; everything else stays as it is.
func compact(raw []byte) (json.RawMessage, error) {
	var b bytes.Buffer
	err := json.Compact(&b, raw)
	return b.Bytes(), err
}
