package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/internal/show"
)

func (a *app) callsShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show <session> [turn] [call]", Short: "Show how calls stand and all that happened to them",
		Long: "Shows how the calls of a turn stand, and what happened to them, or to all of a session, or to one call, as it is recorded:\n" +
			"requested by whom, decided by which rule, asked about, answered by whom and why, run where, with what result.\n" +
			"Times count from the first line. With --json it prints the recorded events, CloudEvents in structured mode, one a line.\n" +
			"`toolwire calls ls` has only how they stand, `toolwire calls result` only the result.",
		Example: "  toolwire calls show s-1 t-1\n  toolwire calls show s-1 t-1 c1\n  toolwire calls show s-1 --json | jq -r .type",
		Args:    args(1, 3), ValidArgsFunction: a.completeSession,
		RunE: func(cmd *cobra.Command, args []string) error {
			q := events.LifeRequest{Session: events.SessionID(args[0])}
			if len(args) > 1 {
				q.Turn = events.TurnID(args[1])
			}
			if len(args) > 2 {
				q.Call = events.CallID(args[2])
			}
			for i, what := range []string{"session", "turn", "call"}[:len(args)] {
				if err := events.CheckID(what, args[i]); err != nil {
					return fmt.Errorf("%w: %w", agent.ErrInvalid, err)
				}
			}
			c, l, done, err := a.client("calls show")
			if err != nil {
				return err
			}
			defer done()
			return a.diagnose(cmd.Context(), l, a.callsLife(cmd.Context(), c, l, q))
		},
	}
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) callsLife(ctx context.Context, c *agent.Client, l *jet.Link, q events.LifeRequest) error {
	if q.Turn != "" && !a.json {
		if err := a.callsLs(ctx, c, events.CallKey{Session: q.Session, Turn: q.Turn, Call: q.Call}); err != nil {
			return err
		}
		a.print("\n")
	}
	s, err := events.NewSubjects(a.prefix())
	if err != nil {
		return err
	}
	bus, err := jet.NewBus(l.Conn, s)
	if err != nil {
		return err
	}
	var all life
	for recorded, err := range c.Life(ctx, q) {
		if err != nil {
			return err
		}
		e, err := bus.Open(ctx, nats.Header(recorded.Header), recorded.Data)
		if err != nil {
			a.note("%s cannot be read: %s", show.Line(recorded.Subject), show.Line(err.Error()))
			continue
		}
		pin(bus, recorded.Subject, &e)
		if a.json {
			_, line, err := events.EncodeStructured(e)
			if err != nil {
				return err
			}
			a.print("%s\n", line)
			continue
		}
		all.add(e, recorded.At, q.Call)
	}
	if a.json {
		return nil
	}
	if len(all) == 0 {
		return fmt.Errorf("%w: nothing is recorded of that", agent.ErrNotFound)
	}
	a.printLife(all, q)
	return nil
}

// pin sets session, turn and call by the subject, which is the authority.
func pin(bus *jet.Bus, subject string, e *events.Event) {
	if _, session, turn, err := bus.ParseCalls(subject); err == nil {
		e.Session, e.Turn = session, turn
		return
	}
	for _, kind := range [...]string{"start", "result"} {
		if k, err := bus.ParseCall(kind, subject); err == nil {
			e.Session, e.Turn, e.Call = k.Session, k.Turn, k.Call
			return
		}
	}
	k, _, err := bus.ParseDecided(subject)
	if err != nil {
		k, _, _, _, err = bus.ParseJudged(subject)
	}
	if err != nil {
		_, _, k, _, err = bus.ParseRequire(subject)
	}
	if err == nil {
		e.Session, e.Turn, e.Call = k.Session, k.Turn, k.Call
	}
}

// requested is what begins the life of a call.
const requested = "requested"

// moment is a line in the life of a call.
type moment struct {
	at     time.Time
	turn   events.TurnID
	call   events.CallID // "": of the turn
	what   string
	text   string
	colour string
}

// life is what happened, in the order in which it was recorded.
type life []moment

func (l *life) add(e events.Event, stored time.Time, only events.CallID) {
	say := func(at time.Time, what, colour, format string, args ...any) {
		if at.IsZero() {
			at = stored
		}
		*l = append(*l, moment{at: at, turn: e.Turn, call: e.Call, what: what, colour: colour, text: fmt.Sprintf(format, args...)})
	}
	switch e.Type {
	case events.TypeToolCalls:
		l.requested(e, stored, only)
	case events.TypeToolResultStart:
		var s events.ToolResultStart
		switch {
		case events.Unmarshal(e.Data, &s) != nil:
		case s.Settle != "":
			say(s.At, "ended", "", "without running, as %s", s.Settle)
		default:
			say(s.At, "started", "", "on %s (%s)", s.Worker, s.Instance)
		}
	case events.TypeToolResult:
		var r events.ToolResult
		if events.Unmarshal(e.Data, &r) == nil {
			resolved(say, r)
		}
	case events.TypeRequireUserConfirm, events.TypeRequireExternalExecution:
		var q events.Question
		if events.Unmarshal(e.Data, &q) == nil {
			askedAbout(say, q)
		}
	case events.TypeUserConfirmResult, events.TypeExternalExecutionResult, events.TypeQuestionExpired:
		var d events.Decided
		if events.Unmarshal(e.Data, &d) == nil {
			askedAbout(say, d.Question) // its own message went with the decision
			decidedBy(say, d)
		}
	case events.TypeAnswerJudged:
		var j events.AnswerJudged
		if events.Unmarshal(e.Data, &j) == nil && j.Judgement != events.JudgedAccepted {
			say(j.At, j.Judgement, yellow, "answer of %s: %s", j.Actor, j.Text)
		}
	default:
		say(e.Time, string(e.Type), dim, "")
	}
}

type sayFunc func(at time.Time, what, colour, format string, args ...any)

func (l *life) requested(e events.Event, stored time.Time, only events.CallID) {
	var t events.ToolCalls
	if events.Unmarshal(e.Data, &t) != nil {
		*l = append(*l, moment{at: stored, turn: e.Turn, what: requested, text: "the turn cannot be read", colour: red})
		return
	}
	for _, call := range t.Calls {
		if only == "" || call.ID == only {
			*l = append(*l, moment{at: stored, turn: e.Turn, call: call.ID, what: requested, text: string(call.Name) + " " + brief(string(call.Input))})
		}
	}
}

// resolved says how a call was resolved, how it ran, and what came of it.
func resolved(say sayFunc, r events.ToolResult) {
	m := r.Meta
	began := m.FinishedAt
	if m.StartedAt != nil {
		began = *m.StartedAt
	}
	var how []string
	if m.Definition != "" {
		how = append(how, "definition "+shortID(m.Definition, 12))
	}
	if m.SessionRevision > 0 {
		how = append(how, fmt.Sprintf("session at revision %d", m.SessionRevision))
	}
	if m.Decision != "" {
		how = append(how, m.Decision)
	}
	if m.ArgsRepaired {
		how = append(how, "arguments unwrapped from a string")
	}
	if len(how) > 0 {
		say(began, "resolved", "", "%s", strings.Join(how, "; "))
	}
	if m.Attempt > 0 {
		took := ""
		if m.StartedAt != nil {
			took = ", for " + m.FinishedAt.Sub(*m.StartedAt).Round(time.Microsecond).String()
		}
		say(began, "ran", "", "attempt %d, on %s%s", m.Attempt, m.Worker, took)
	}
	colour := green
	if r.State != events.StateSuccess {
		colour = red
	}
	say(m.FinishedAt, string(r.State), colour, "%s: %s", r.Reason, brief(r.Text()))
}

func askedAbout(say sayFunc, q events.Question) {
	what := "asks"
	if q.Kind == events.KindExternal {
		what = "waits"
	}
	say(q.AskedAt, what, yellow, "%s (request %s, round %d; %s)", q.Why, shortID(q.RequestID, 12), q.Round, people(q.Quorum, q.Roles))
}

func decidedBy(say sayFunc, d events.Decided) {
	for _, v := range d.Votes {
		if v.Actor != d.Actor {
			say(v.At, "counted", "", "approved by %s", v.Actor)
		}
	}
	colour := green
	if d.Outcome != events.OutcomeApproved && d.Outcome != events.OutcomeAnswered {
		colour = red
	}
	text := "by " + byWhom(d.Actor)
	if d.Reason != "" {
		text += ": " + d.Reason
	}
	if len(d.Input) > 0 {
		text += ", with changed arguments " + brief(string(d.Input))
	}
	if len(d.Rules) > 0 {
		text += ", and from now on " + ruleList(d.Rules)
	}
	say(d.At, d.Outcome, colour, "%s", text)
}

// sorted is a life in the order of time, without what is there twice: a question that was just decided.
func (l *life) sorted() life {
	// The record of turns may follow that of facts, and has the time when it did: a turn comes before all of it.
	first := make(map[events.TurnID]time.Time)
	for _, m := range *l {
		if at, ok := first[m.turn]; !ok || m.at.Before(at) {
			first[m.turn] = m.at
		}
	}
	for i := range *l {
		if m := &(*l)[i]; m.what == requested {
			m.at = first[m.turn]
		}
	}
	slices.SortStableFunc(*l, func(a, b moment) int {
		if c := a.at.Compare(b.at); c != 0 || (a.what == requested) == (b.what == requested) {
			return c
		}
		if a.what == requested {
			return -1
		}
		return 1
	})
	seen := make(map[moment]bool)
	return slices.DeleteFunc(*l, func(m moment) bool {
		m.at = m.at.UTC().Round(0)
		defer func() { seen[m] = true }()
		return seen[m]
	})
}

func (a *app) printLife(l life, q events.LifeRequest) {
	l = l.sorted()
	first := l[0].at
	a.print("%s\n", a.paint(dim, "times since "+clock(first)))
	lastTurn := events.TurnID("")
	width := 0
	for _, m := range l {
		width = max(width, len([]rune(show.Line(string(m.call)))))
	}
	for _, m := range l {
		if q.Turn == "" && m.turn != lastTurn {
			a.print("%s\n", a.paint(bold, "turn "+show.Line(string(m.turn))))
			lastTurn = m.turn
		}
		what := fmt.Sprintf("%-10s", show.Line(m.what))
		if m.colour != "" {
			what = a.paint(m.colour, what)
		}
		a.print("%s\n", strings.TrimRight(fmt.Sprintf("%9s  %-*s  %s  %s", "+"+since(m.at.Sub(first)), width, show.Line(string(m.call)), what, show.Line(m.text)), " "))
	}
}

// since is a time from the first moment, to the millisecond while that matters.
func since(d time.Duration) string {
	if d < time.Minute {
		return d.Round(time.Millisecond).String()
	}
	return span(d)
}

// errNoCall is returned when a turn has no such call.
func errNoCall(k events.CallKey) error {
	return fmt.Errorf("%w: turn %s of session %s has no call %q", agent.ErrNotFound, k.Turn, k.Session, k.Call)
}
