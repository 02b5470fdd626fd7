package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/show"
)

func (a *app) approvalsShowCommand() *cobra.Command {
	raw, full := false, false
	cmd := &cobra.Command{
		Use: "show <request>", Short: "Show a question with all that is to be known to answer it",
		Long: "Shows a question, open or decided: the arguments that the call will run with, why it is asked, who may\n" +
			"answer until when and what happens then, who has approved so far, and what was decided by whom.\n\n" +
			"What agents, models and tools wrote is escaped where it could deceive. Arguments are indented, and nothing\n" +
			"else about them is changed; --raw prints their bytes and nothing else (escaped too, on a terminal). On a terminal\n" +
			"long ones are folded, with a line that says so; --full shows all, and so does a pipe.",
		Example: "  toolwire approvals show 3f2a91c4\n  toolwire approvals show 3f2a91c4 --raw | sha256sum\n  toolwire approvals show 3f2a91c4 --json",
		Args:    args(1, 1), ValidArgsFunction: a.completeQuestions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.asActor(cmd.Context(), "show", func(ctx context.Context, c *agent.Client) error {
				q, err := a.question(ctx, c, args[0])
				if err != nil {
					return err
				}
				return a.approvalsShow(q, raw, full)
			})
		},
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "print the arguments alone, byte for byte")
	cmd.Flags().BoolVar(&full, "full", false, "fold nothing")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) approvalsShow(q events.QuestionReply, raw, full bool) error {
	terminal := isTerminal(a.out)
	switch {
	case raw && terminal:
		a.print("%s\n", show.Text(string(q.Question.Call.Input)))
	case raw:
		a.print("%s", q.Question.Call.Input)
	case a.json:
		b, err := events.Marshal(q)
		if err != nil {
			return err
		}
		a.print("%s\n", b)
	default:
		a.print("%s", card{paint: a.paint, fold: terminal && !full, now: time.Now()}.question(q))
	}
	return nil
}

// card writes a question for people. All that others wrote goes through package show.
type card struct {
	paint func(colour, s string) string
	fold  bool // long values, with a hint
	now   time.Time
}

func (c card) question(q events.QuestionReply) string {
	var b strings.Builder
	k := &q.Question
	title := "may this call run?"
	if k.Kind == events.KindExternal {
		title = "what is the result of this call?"
	}
	fmt.Fprintf(&b, "%s: %s\n", c.paint(bold, show.Line(string(k.Call.Name))), title)
	c.fields(&b, c.about(q))
	if q.Decided != nil {
		c.decided(&b, q.Decided)
	} else {
		c.fields(&b, c.open(q))
	}
	c.fields(&b, []field{
		{"definition", k.Definition, ""},
		{"digest", k.Digest, ""},
		{"policy", fmt.Sprintf("configuration %d, session %d", k.ConfigRevision, k.SessionRevision), ""},
		{"says of itself", k.Title, ""},
	})
	if k.Description != "" {
		fmt.Fprintf(&b, "%s\n", c.paint(dim, indented(c.long(show.Text(k.Description)))))
	}
	c.arguments(&b, "arguments", k.Call.Input)
	if len(k.ResultSchema) > 0 {
		c.arguments(&b, "structured content of the result fits", k.ResultSchema)
	}
	return b.String()
}

func (c card) about(q events.QuestionReply) []field {
	k := &q.Question
	why := k.Why
	if k.Safety {
		why += " It asks for safety: no allow rule answers it."
	}
	round := ""
	if k.Round > 1 {
		round = strconv.Itoa(k.Round) + ", after request " + k.Previous
	}
	suspended := ""
	if k.Suspended {
		suspended = "it ran, and asks for its result"
	}
	return []field{
		{"request", k.RequestID, ""},
		{"round", round, ""},
		{"call", events.CallKey{Session: q.Session, Turn: q.Turn, Call: k.Call.ID}.String(), ""},
		{"for call", q.Parent, ""},
		{"from", string(k.Requester) + ", " + c.ago(k.AskedAt), ""},
		{"why", why, ""},
		{"asked by", k.Rule, ""},
		{"suspended", suspended, ""},
	}
}

// open says who may answer until when.
func (c card) open(q events.QuestionReply) []field {
	k := &q.Question
	you := field{"you", "may answer", ""}
	if !q.MayAnswer {
		you = field{"you", "may not answer: " + q.WhyNot, yellow}
	}
	fields := []field{
		{"needs", people(q.Missing, k.Roles), ""},
		{"so far", c.votes(q.Votes), ""},
		you,
		{"expires", c.expiry(k), ""},
	}
	for i, r := range k.Suggestions {
		name := ""
		if i == 0 {
			name = "allowed by"
		}
		fields = append(fields, field{name, r.String(), ""})
	}
	return fields
}

func people(n int, roles []string) string {
	s := "1 person"
	if n != 1 {
		s = strconv.Itoa(n) + " people"
	}
	if len(roles) > 0 {
		s += " of " + strings.Join(roles, ", ")
	}
	return s
}

func (c card) votes(votes []events.Vote) string {
	all := make([]string, len(votes))
	for i, v := range votes {
		all[i] = v.Actor + " (" + c.ago(v.At) + ")"
		if v.Input != "" {
			all[i] += " with changed arguments"
		}
	}
	return strings.Join(all, ", ")
}

func (c card) expiry(q *events.Question) string {
	if q.ExpiresAt == nil {
		return "never"
	}
	then := map[string]string{
		"deny": "it is denied", "error": "the call ends as an error", "escalate": "others are asked",
	}[q.OnExpiry]
	if then == "" {
		then = q.OnExpiry
	}
	when := "in " + timeLeft(*q, c.now)
	if !q.ExpiresAt.After(c.now) {
		when = "now"
	}
	return when + " (" + clock(*q.ExpiresAt) + "), then " + then
}

func (c card) decided(b *strings.Builder, d *events.Decided) {
	colour := green
	if d.Outcome != events.OutcomeApproved && d.Outcome != events.OutcomeAnswered {
		colour = red
	}
	scope := d.Scope
	if len(d.Rules) > 0 && scope == "" {
		scope = events.ScopeSession
	}
	c.fields(b, []field{
		{"decided", d.Outcome + " by " + byWhom(d.Actor) + ", " + c.ago(d.At), colour},
		{"reason", d.Reason, ""},
		{"approved by", c.votes(d.Votes), ""},
		{"from now on", ruleList(d.Rules), ""},
		{"scope", scope, ""},
	})
	if len(d.Input) > 0 {
		c.arguments(b, "changed arguments, which run", d.Input)
	}
	if d.Result != nil {
		c.result(b, d.Result)
	}
}

func ruleList(rules []events.Rule) string {
	texts := make([]string, len(rules))
	for i, r := range rules {
		texts[i] = r.String()
	}
	return strings.Join(texts, ", ")
}

func (c card) result(b *strings.Builder, r *events.ExternalExecutionResult) {
	text := events.ToolResult{Content: r.Content}.Text()
	if text != "" {
		fmt.Fprintf(b, "answer (%s)\n%s\n", sizeText(len(text)), indented(c.long(show.Text(text))))
	}
	if len(r.StructuredContent) > 0 {
		c.arguments(b, "structured answer", r.StructuredContent)
	}
}

// byWhom names who decided; nobody: the policy did.
func byWhom(actor string) string {
	if actor == "" {
		return "the policy"
	}
	return actor
}

// field is a line of a card; empty ones are left out.
type field struct{ name, value, colour string }

func (c card) fields(b *strings.Builder, fields []field) {
	for _, f := range fields {
		if f.value == "" {
			continue
		}
		v := show.Line(f.value)
		if f.colour != "" {
			v = c.paint(f.colour, v)
		}
		fmt.Fprintf(b, "  %-14s %s\n", f.name, v)
	}
}

// arguments writes JSON, indented; what is no JSON as it stands, and says so.
func (c card) arguments(b *strings.Builder, what string, raw json.RawMessage) {
	var pretty bytes.Buffer
	text, note := string(raw), ""
	if err := json.Indent(&pretty, raw, "", "  "); err == nil {
		text = pretty.String()
	} else {
		note = ", " + c.paint(red, "no valid JSON")
	}
	fmt.Fprintf(b, "%s (%s%s)\n%s\n", what, sizeText(len(raw)), note, indented(c.long(show.Text(text))))
}

// What is folded on a terminal.
const (
	foldLines = 40
	foldRunes = 4000
)

// long folds a long text, and says so.
func (c card) long(text string) string {
	if !c.fold {
		return text
	}
	lines := strings.Split(text, "\n")
	runes := []rune(text)
	if len(lines) <= foldLines && len(runes) <= foldRunes {
		return text
	}
	head := strings.Join(lines[:min(len(lines), foldLines)], "\n")
	if r := []rune(head); len(r) > foldRunes {
		head = string(r[:foldRunes])
	}
	left := len(text) - len(head)
	return head + "\n" + c.paint(yellow, fmt.Sprintf("… %s more of %s in all; --full shows all", sizeText(left), sizeText(len(text))))
}

func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n  ")
}

// sizeText writes a number of bytes for people.
func sizeText(n int) string {
	if n < 10<<10 {
		return count(n, "byte")
	}
	return strconv.Itoa(n>>10) + " KiB"
}

func (c card) ago(t time.Time) string {
	if d := c.now.Sub(t); d >= time.Second {
		return span(d) + " ago (" + clock(t) + ")"
	}
	return "just now (" + clock(t) + ")"
}
