package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// showCard shows a question on the terminal where the answer is typed.
func (a *app) showCard(q events.QuestionReply, full bool) {
	paint := func(_, s string) string { return s }
	if a.colours(a.err) {
		paint = func(colour, s string) string { return "\x1b[" + colour + "m" + s + "\x1b[0m" }
	}
	a.note("%s", card{paint: paint, fold: !full, now: time.Now()}.question(q))
	a.note("you answer as %s\n", a.acting)
}

// openFor says why a question needs no answer of whoever is at the terminal.
func openFor(q events.QuestionReply, actor string) error {
	switch {
	case q.Decided != nil:
		return &exitError{errors.New("the question is decided: " + q.Decided.Outcome + " by " + byWhom(q.Decided.Actor)), exitRefused}
	case string(q.Question.Requester) == actor:
		j := events.AnswerJudged{Code: events.RefusedSelf}
		return &exitError{errors.New("you (" + actor + ") asked for this call yourself, and another person has to answer; " + refusalCure(q, j)), exitRefused}
	case !q.MayAnswer:
		return &exitError{errors.New(actor + " may not answer: " + q.WhyNot), exitRefused}
	}
	return nil
}

// What may be said to a question.
const (
	chooseLater = "later"
	chooseYes   = "yes"
	chooseRules = "rules"
	chooseEdit  = "edit"
	chooseFull  = "full"
	chooseNo    = "no"
)

// askAbout shows a call and asks what to do about it.
func (a *app) askAbout(ctx context.Context, c *agent.Client, q events.QuestionReply) error {
	p, full := a.prompter(), false
	answer := events.UserConfirmResult{Decision: events.Approve}
	shown := q
	for again := true; ; {
		if again {
			a.showCard(shown, full)
		}
		if err := openFor(q, string(a.acting)); err != nil {
			return err
		}
		options := []option{{chooseLater, "Not now"}, {chooseYes, "Approve this call"}}
		if len(answer.Input) > 0 {
			options[1].text = "Approve it with these arguments"
		}
		if len(q.Question.Suggestions) > 0 {
			options = append(options, option{chooseRules, "Approve, also from now on"})
		}
		options = append(options, option{chooseEdit, "Change the arguments"}, option{chooseNo, "Deny"})
		if !full && folded(shown) {
			options = append(options, option{chooseFull, "Show all of it"})
		}
		chosen, err := p.choose(ctx, "What do you say?", options)
		if err != nil {
			return err
		}
		again = false
		switch chosen {
		case chooseYes:
			return a.confirmAs(ctx, c, q, answer)
		case chooseRules:
			if answer.Rules, answer.Scope, err = askRules(ctx, p, q.Question.Suggestions); err != nil {
				return err
			}
			return a.confirmAs(ctx, c, q, answer)
		case chooseNo:
			return a.denyAsking(ctx, c, p, q)
		case chooseFull:
			full, again = true, true
		case chooseEdit:
			changed, err := a.edit(ctx, shown.Question.Call.Input)
			switch {
			case err != nil:
				a.note("%v", err)
			case changed == nil:
				a.note("the arguments are as they were")
			default:
				answer.Input, again = changed, true
				shown.Question.Call.Input = changed
			}
		default:
			return aborted()
		}
	}
}

// folded says whether a card hides something on a terminal.
func folded(q events.QuestionReply) bool {
	plain := card{paint: func(_, s string) string { return s }, now: time.Now()}
	short := plain
	short.fold = true
	return plain.question(q) != short.question(q)
}

// askRules asks which rules hold from now on, and where.
func askRules(ctx context.Context, p *prompter, suggestions []events.Rule) (rules []events.Rule, scope string, err error) {
	options := make([]option, len(suggestions))
	byKey := make(map[string]events.Rule, len(suggestions))
	for i, r := range suggestions {
		options[i] = option{r.String(), "allow " + r.String()}
		byKey[r.String()] = r
	}
	chosen, err := p.several(ctx, "What is allowed from now on?", options)
	if err != nil || len(chosen) == 0 {
		return nil, "", err
	}
	for _, key := range chosen {
		rules = append(rules, byKey[key])
	}
	scope, err = p.choose(ctx, "Where?", []option{
		{events.ScopeSession, "In this session"}, {events.ScopeInstallation, "In all sessions (operators only)"},
	})
	return rules, scope, err
}

// askWhyNot shows a call that is to be denied, and asks why.
func (a *app) askWhyNot(ctx context.Context, c *agent.Client, q events.QuestionReply) error {
	a.showCard(q, false)
	if err := openFor(q, string(a.acting)); err != nil {
		return err
	}
	return a.denyAsking(ctx, c, a.prompter(), q)
}

func (a *app) denyAsking(ctx context.Context, c *agent.Client, p *prompter, q events.QuestionReply) error {
	why, err := p.text(ctx, "Why not? The model reads it")
	if err != nil {
		return err
	}
	return a.confirmAs(ctx, c, q, events.UserConfirmResult{Decision: events.Refuse, Reason: why})
}

// askResult shows an external call, and asks for its result.
func (a *app) askResult(ctx context.Context, c *agent.Client, q events.QuestionReply) error {
	a.showCard(q, false)
	if err := openFor(q, string(a.acting)); err != nil {
		return err
	}
	p := a.prompter()
	text, err := askUserOption(ctx, p, q.Question.Call)
	if err == nil && text == "" {
		text, err = p.text(ctx, "Answer")
	}
	if err != nil {
		return err
	}
	if text == "" {
		return aborted()
	}
	return a.answerAs(ctx, c, q, events.ExternalExecutionResult{Content: []events.Content{events.Text(text)}})
}

// askUserOption offers the options that a model gave its user; "": there are none, or none fits.
func askUserOption(ctx context.Context, p *prompter, call events.Call) (string, error) {
	var in struct {
		Options []string `json:"options"`
	}
	if call.Name == toolkit.AskUser {
		if err := json.Unmarshal(call.Input, &in); err != nil { // a dispatcher has validated them
			return "", fmt.Errorf("options: %w", err)
		}
	}
	if len(in.Options) == 0 {
		return "", nil
	}
	options := make([]option, 0, len(in.Options)+1)
	for _, o := range in.Options {
		options = append(options, option{o, o})
	}
	return p.choose(ctx, "Answer", append(options, option{"", "Something else"}))
}
