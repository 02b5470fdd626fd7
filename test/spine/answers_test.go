package spine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/permission"
)

// Every answer that may not count is refused with its reason, and the question stays open (T-07, T-12,
// T-13, A-18, A-28, H2, H11, N-1).
func TestRefusedAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeople(t, func(c *toolkit.Config) {
			c.Roles = map[string][]string{"ops": {"alice", "bob", "local"}}
			c.Approvals = []toolkit.Approval{{Tools: []string{"deploy"}, Roles: []string{"ops"}}}
		})
		alice, mallory := p.agent("alice"), p.agent("mallory")
		pending := p.submit(p.c, turn("s", call("c1", "deploy", `{"service":"a"}`), call("c2", "deploy", `{"service":"b"}`)))
		first := p.question(alice, "c1")
		p.becomes(pending, events.CallAsking, events.CallAsking) // no rule would let the second one run: each is asked about
		second := first
		second.Question.Call.ID = "c2"
		forged := first
		forged.Question.RequestID = strings.Repeat("0", 32)
		for name, c := range map[string]struct {
			by   *agent.Client
			to   events.OpenQuestion
			say  events.UserConfirmResult
			code string
		}{
			"a request that was never made (T-12)": {alice, forged, events.UserConfirmResult{Decision: "approve"}, events.RefusedNotPending},
			"the call of another answer (T-07)":    {alice, second, events.UserConfirmResult{Decision: "approve"}, events.RefusedNotPending},
			"another digest (T-13)":                {alice, first, events.UserConfirmResult{Decision: "approve", Digest: strings.Repeat("a", 64)}, events.RefusedDigest},
			"the requester":                        {p.c, first, events.UserConfirmResult{Decision: "approve"}, events.RefusedSelf},
			"without the role":                     {mallory, first, events.UserConfirmResult{Decision: "deny"}, events.RefusedRole},
			"no decision":                          {alice, first, events.UserConfirmResult{Decision: "maybe"}, events.RefusedMalformed},
			"arguments that do not fit (T-24)":     {alice, first, events.UserConfirmResult{Decision: "approve", Input: json.RawMessage(`{"service":7}`)}, events.RefusedInput},
			"rules about other tools":              {alice, first, events.UserConfirmResult{Decision: "approve", Rules: []events.Rule{{Tool: "*", Behavior: "allow"}}}, events.RefusedRules},
			"rules for all, by no operator":        {alice, first, events.UserConfirmResult{Decision: "approve", Scope: "installation", Rules: []events.Rule{{Tool: "deploy", Behavior: "allow"}}}, events.RefusedRules},
		} {
			if j := p.confirm(c.by, c.to, c.say); j.Judgement != events.JudgedRefused || j.Code != c.code || j.Text == "" {
				t.Errorf("%s: %+v, want %s", name, j, c.code)
			}
		}
		j, err := alice.Answer(t.Context(), first, events.ExternalExecutionResult{Content: []events.Content{events.Text("x")}})
		if err != nil || j.Code != events.RefusedMalformed {
			t.Errorf("a result in place of an approval: %+v, %v", j, err)
		}
		if p.ran.total.Load() != 0 {
			t.Fatal("a refused answer let it run")
		}
		if j := p.approve(alice, first); j.Judgement != events.JudgedAccepted {
			t.Fatalf("after all that, a good one: %+v", j)
		}
		if j := p.approve(alice, first); j.Judgement != events.JudgedDuplicate { // T-16, N-1
			t.Errorf("the same again: %+v", j)
		}
		if j := p.confirm(p.agent("bob"), first, events.UserConfirmResult{Decision: "deny"}); j.Code != events.RefusedDecided || j.Winner != "alice" { // T-28
			t.Errorf("too late: %+v", j)
		}
		if j := p.confirm(alice, p.question(alice, "c2"), events.UserConfirmResult{Decision: "deny", Reason: "not today"}); j.Judgement != events.JudgedAccepted {
			t.Errorf("the other one: %+v", j)
		}
		got := p.await(pending)
		if got[0].Reason != events.ReasonOK || got[1].Reason != events.ReasonDeniedByUser || got[1].State != events.StateDenied || !strings.Contains(got[1].Text(), "not today") {
			t.Errorf("results: %s %q, %s %q", got[0].Reason, got[0].Text(), got[1].Reason, got[1].Text())
		}
		p.ran.onePer(t, 1)
		p.nothingLeft()
	})
}

// An approver may change the arguments: they run byte for byte, and a deny rule still denies (H3).
func TestChangedArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeople(t, func(c *toolkit.Config) {
			c.Tools = nil
			c.Permissions.Rules = append(c.Permissions.Rules, permission.Rule{Tool: "echo", Behavior: permission.Ask})
		})
		alice := p.agent("alice")
		pending := p.submit(p.c, turn("s", call("c1", "echo", `{"a":1}`)))
		q := p.question(alice, "c1")
		changed := `{ "a" : 9007199254740993 , "b":"<&>"}`
		if j := p.confirm(alice, q, events.UserConfirmResult{Decision: "approve", Input: json.RawMessage(changed)}); j.Judgement != events.JudgedAccepted {
			t.Fatalf("%+v", j)
		}
		if got := p.await(pending)[0]; got.Text() != changed {
			t.Errorf("it ran with %s, want %s", got.Text(), changed)
		}
		r, err := alice.Question(t.Context(), q.Question.RequestID)
		if err != nil || r.Decided == nil || string(r.Decided.Input) != changed || r.Decided.Actor != "alice" || string(r.Question.Call.Input) != `{"a":1}` {
			t.Errorf("what is recorded: %+v, %v", r, err)
		}
	})
}

// Two people have to approve: one who does so twice is one, and whoever denies decides.
func TestQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeople(t, func(c *toolkit.Config) {
			c.Approvals = []toolkit.Approval{{Tools: []string{"dep*"}, Quorum: 2}}
		})
		alice, bob := p.agent("alice"), p.agent("bob")
		one, two := p.submit(p.c, turn("s", call("c1", "deploy", `{"service":"a"}`))), p.submit(p.c, turn("s", call("c2", "deploy", `{"service":"b"}`)))
		q := p.question(alice, "c1")
		if j := p.approve(alice, q); j.Judgement != events.JudgedCounted || j.Missing != 1 {
			t.Fatalf("first: %+v", j)
		}
		if j := p.approve(alice, q); j.Judgement != events.JudgedDuplicate || j.Missing != 1 {
			t.Errorf("the same person again: %+v", j)
		}
		if q = p.question(bob, "c1"); q.Missing != 1 || len(q.Votes) != 1 || q.Votes[0].Actor != "alice" {
			t.Errorf("the question says %+v", q)
		}
		// Bob approves something else than Alice did: that is one for each.
		if j := p.confirm(bob, q, events.UserConfirmResult{Decision: "approve", Input: json.RawMessage(`{"service":"z"}`)}); j.Judgement != events.JudgedCounted || j.Missing != 1 {
			t.Errorf("other arguments: %+v", j)
		}
		if j := p.approve(bob, q); j.Judgement != events.JudgedAccepted {
			t.Errorf("second: %+v", j)
		}
		if got := p.await(one)[0]; got.Text() != "deployed a" || !strings.Contains(got.Meta.Decision, "alice, bob") {
			t.Errorf("got %q, %q", got.Text(), got.Meta.Decision)
		}
		q = p.question(bob, "c2")
		p.approve(alice, q)
		if j := p.confirm(bob, q, events.UserConfirmResult{Decision: "deny"}); j.Judgement != events.JudgedAccepted {
			t.Errorf("deny: %+v", j)
		}
		if got := p.await(two)[0]; got.Reason != events.ReasonDeniedByUser {
			t.Errorf("got %s", got.Reason)
		}
		p.nothingLeft()
	})
}

// A rule that came with an answer is kept for the session, through a restart, and for no other (P9,
// trace D); it is void once the tool is defined otherwise (T-146).
func TestAttachedRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeople(t, func(c *toolkit.Config) {
			c.Permissions = permission.Context{Mode: permission.Default, Rules: []permission.Rule{{Tool: "echo", Behavior: permission.Allow}}}
		})
		alice := p.agent("alice")
		pending := p.submit(p.c, turn("s", call("c1", "deploy", `{"service":"a"}`), call("c2", "deploy", `{"service":"b"}`)))
		q := p.question(alice, "c1")
		if len(q.Question.Suggestions) == 0 {
			t.Fatalf("no suggestions: %+v", q)
		}
		p.becomes(pending, events.CallAsking, events.CallPending)
		p.confirm(alice, q, events.UserConfirmResult{Decision: "approve", Rules: q.Question.Suggestions})
		for i, r := range p.await(pending) {
			if r.Reason != events.ReasonOK {
				t.Errorf("%d: %s %q", i, r.Reason, r.Text())
			}
		}
		p.off(time.Minute)
		p.c = p.up(1)
		if r := p.one(p.c, "s", "deploy", `{"service":"c"}`); r.Text() != "deployed c" || !strings.Contains(r.Meta.Decision, "allow: rule deploy") {
			t.Errorf("after a restart: %q %q", r.Text(), r.Meta.Decision)
		}
		s, err := p.c.Session(t.Context(), "s")
		if err != nil || len(s.Rules) != 1 || s.Rules[0].By != "alice" || s.Rules[0].Definition == "" {
			t.Errorf("session: %+v, %v", s, err)
		}
		other := p.submit(p.c, turn("s2", call("c9", "deploy", `{"service":"d"}`)))
		alice = p.agent("alice")
		p.confirm(alice, p.question(alice, "c9"), events.UserConfirmResult{Decision: "deny"})
		if r := p.await(other)[0]; r.Reason != events.ReasonDeniedByUser {
			t.Errorf("another session: %s", r.Reason)
		}
	})
}

// The policy changed between question and answer: a deny now denies (N-3), another rule asks anew, linked
// to the old question (T-20), and what is not about the call voids nothing (N-2).
func TestPolicyDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeople(t)
		alice := p.agent("alice")
		rules := func(rules ...permission.Rule) {
			p.configure(toolkit.Config{Permissions: permission.Context{Mode: permission.Bypass, Rules: rules}})
		}
		one := p.submit(p.c, turn("s", call("c1", "deploy", `{"service":"a"}`)))
		q := p.question(alice, "c1")
		rules(ask("deploy"), permission.Rule{Tool: "deploy", Behavior: permission.Deny})
		if j := p.approve(alice, q); j.Code != events.RefusedByRule {
			t.Errorf("denied by now: %+v", j)
		}
		if r := p.await(one)[0]; r.Reason != events.ReasonDeniedByRule || p.ran.total.Load() != 0 {
			t.Errorf("got %s, ran %d", r.Reason, p.ran.total.Load())
		}
		rules(ask("deploy"))
		two := p.submit(p.c, turn("s", call("c2", "deploy", `{"service":"b"}`)))
		q = p.question(alice, "c2")
		rules(ask("dep*"))
		j := p.approve(alice, q)
		if j.Code != events.RefusedNewRound {
			t.Fatalf("another rule asks: %+v", j)
		}
		next := p.question(alice, "c2")
		if next.Question.Previous != q.Question.RequestID || next.Question.Round != 2 || next.Question.Rule != "rule dep*" {
			t.Errorf("the next round: %+v", next.Question)
		}
		rules(ask("dep*"), permission.Rule{Tool: "other", Behavior: permission.Deny})
		if j := p.approve(alice, next); j.Judgement != events.JudgedAccepted {
			t.Errorf("an unrelated change: %+v", j)
		}
		if r := p.await(two)[0]; r.Reason != events.ReasonOK {
			t.Errorf("got %s %q", r.Reason, r.Text())
		}
		three := p.submit(p.c, turn("s", call("c3", "deploy", `{"service":"c"}`)))
		q = p.question(alice, "c3")
		rules() // weaker: nobody would be asked now
		if j := p.approve(alice, q); j.Judgement != events.JudgedAccepted {
			t.Errorf("a weaker policy: %+v", j)
		}
		if r := p.await(three)[0]; r.Reason != events.ReasonOK {
			t.Errorf("got %s", r.Reason)
		}
		p.nothingLeft()
	})
}

// What is not asked about: bad arguments are refused at once, and so is a call into a group that is
// off (T16, T17, T-24). A call that is asked about and then answered outside has both gates (trace D).
func TestBothGates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeople(t, func(c *toolkit.Config) {
			c.Permissions.Rules = append(c.Permissions.Rules, ask("HumanApproval"))
		})
		alice := p.agent("alice")
		if r := p.one(p.c, "s", "HumanApproval", `{}`); r.Reason != events.ReasonInvalidInput {
			t.Errorf("invalid arguments: %s", r.Reason)
		}
		if r := p.one(p.c, "s", "deploy", `{"service":1}`); r.Reason != events.ReasonInvalidInput {
			t.Errorf("invalid arguments: %s", r.Reason)
		}
		pending := p.submit(p.c, turn("s", call("c1", "HumanApproval", `{"action":"pay"}`)))
		q := p.question(alice, "c1")
		if q.Question.Kind != events.KindConfirm {
			t.Fatalf("first gate: %+v", q.Question)
		}
		changed := json.RawMessage(`{ "action":"pay less" }`)
		p.confirm(alice, q, events.UserConfirmResult{Decision: "approve", Input: changed})
		x := p.question(alice, "c1")
		if x.Question.Kind != events.KindExternal || x.Question.Round != 2 || x.Question.Previous != q.Question.RequestID || string(x.Question.Call.Input) != string(changed) {
			t.Errorf("second gate: %+v", x.Question)
		}
		j, err := alice.Answer(t.Context(), x, events.ExternalExecutionResult{State: "running", Content: []events.Content{events.Text("soon")}})
		if err != nil || j.Code != events.RefusedMalformed {
			t.Errorf("running is no result: %+v, %v", j, err)
		}
		j, err = alice.Answer(t.Context(), x, events.ExternalExecutionResult{IsError: true, Content: []events.Content{events.Text("no money")}})
		if err != nil || j.Judgement != events.JudgedAccepted {
			t.Fatalf("%+v, %v", j, err)
		}
		if r := p.await(pending)[0]; r.Reason != events.ReasonToolError || r.Text() != "no money" || !r.IsError {
			t.Errorf("got %s %q", r.Reason, r.Text())
		}
		p.nothingLeft()
	})
}

// A running tool may ask to be answered outside, also from within other errors (T-02, A-15): it is not run
// again, whatever is restarted, and its siblings go on (T-01).
func TestSuspendedCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran := newEffects()
		p := &people{ran: ran, fleet: newFleet(t, echo("echo"))}
		for name, o := range map[string]*toolkit.Options{"charge": nil, "peek": {ReadOnly: true}} {
			err := p.tools.Add(toolkit.MustDefine(name, "Asks outside.", func(ctx context.Context, _ none) (string, error) {
				ran.happen(ctx)
				return "", fmt.Errorf("wrapped: %w", toolkit.Retryable(toolkit.Pending("call the bank")))
			}, optionsOf(o)))
			if err != nil {
				t.Fatal(err)
			}
		}
		p.c = p.up(1)
		alice := p.agent("alice")
		pending := p.submit(p.c, turn("s", call("c1", "charge", "{}"), call("c2", "echo", `{"x":1}`), call("c3", "peek", "{}")))
		q := p.question(alice, "c1")
		if !q.Question.Suspended || q.Question.Why != "call the bank" || q.Question.Kind != events.KindExternal {
			t.Errorf("question: %+v", q.Question)
		}
		p.question(alice, "c3")
		p.becomes(pending, events.CallAsking, events.CallFinished, events.CallAsking)
		p.off(time.Hour)
		p.c = p.up(1)
		alice = p.agent("alice")
		for _, id := range []events.CallID{"c1", "c3"} {
			j, err := alice.Answer(t.Context(), p.question(alice, id), events.ExternalExecutionResult{Content: []events.Content{events.Text("paid " + string(id))}})
			if err != nil || j.Judgement != events.JudgedAccepted {
				t.Fatalf("%s: %+v, %v", id, j, err)
			}
		}
		for _, id := range []events.CallID{"c1", "c3"} {
			r, err := p.resultOf(events.CallKey{Session: "s", Turn: pending.Turn(), Call: id})
			if err != nil || r.Text() != "paid "+string(id) || r.Reason != events.ReasonOK {
				t.Errorf("%s: %s %q, %v", id, r.Reason, r.Text(), err)
			}
		}
		ran.onePer(t, 2)
		p.nothingLeft()
	})
}

func optionsOf(o *toolkit.Options) *toolkit.Options {
	if o == nil {
		o = &toolkit.Options{}
	}
	o.ConcurrencySafe = true
	return o
}

// resultOf waits for the result of a call.
func (p *people) resultOf(k events.CallKey) (r events.ToolResult, err error) {
	p.Helper()
	for range 500 {
		if r, err = p.c.Result(p.Context(), k); !errors.Is(err, agent.ErrNotFound) {
			return r, err
		}
		<-time.After(10 * time.Millisecond)
	}
	return r, err
}

// Results of calls that must not run beside others are asked for one after the other (trace C).
func TestQuestionsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeople(t, func(c *toolkit.Config) {
			def := humanApproval()
			def.ConcurrencySafe = false
			c.External = []toolkit.Definition{def}
		})
		alice := p.agent("alice")
		pending := p.submit(p.c, turn("s", call("c1", "HumanApproval", `{"action":"a"}`), call("c2", "HumanApproval", `{"action":"b"}`)))
		for _, id := range []events.CallID{"c1", "c2"} {
			q := p.question(alice, id)
			if n := p.state("TOOLWIRE_QUESTIONS").Msgs; n != 1 {
				t.Errorf("%d questions are open, want one", n)
			}
			if j, err := alice.Answer(t.Context(), q, events.ExternalExecutionResult{StructuredContent: json.RawMessage(`{ "ok" : true }`)}); err != nil || j.Judgement != events.JudgedAccepted {
				t.Fatalf("%+v, %v", j, err)
			}
		}
		for i, r := range p.await(pending) {
			if r.Reason != events.ReasonOK || string(r.StructuredContent) != `{ "ok" : true }` {
				t.Errorf("%d: %s %s", i, r.Reason, r.StructuredContent)
			}
		}
		p.nothingLeft()
	})
}

// All approvals that a turn needs are asked for at once, though its calls run one after the other (T-08), and may be
// given in any order. Behind a control tool nothing is asked: what is callable there is not known yet.
func TestAllQuestionsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order atomic.Pointer[[]string]
		order.Store(&[]string{})
		write := toolkit.MustDefine("write", "Writes.", func(_ context.Context, in struct {
			Text string `json:"text"`
		},
		) (string, error) {
			order.Store(new(append(slices.Clone(*order.Load()), in.Text)))
			return in.Text, nil
		}, nil)
		p := newPeopleWith(t, []*toolkit.Tool{write}, func(c *toolkit.Config) {
			c.Permissions.Rules = []permission.Rule{ask("write")}
			c.Groups = []toolkit.Group{{Name: "more", Description: "more tools"}}
		})
		alice := p.agent("alice")
		deadline := time.Now().Add(time.Minute)
		pending := p.submit(p.c, agent.Turn{Session: "s", Deadline: deadline, Calls: []events.Call{
			call("c1", "write", `{"text":"one"}`), call("c2", "write", `{"text":"two"}`), call("c3", "write", `{"text":"three"}`),
			call("c4", "reset_tools", `{"more":true}`), call("c5", "write", `{"text":"five"}`),
		}})
		first := p.question(alice, "c1")
		if n := p.state("TOOLWIRE_QUESTIONS").Msgs; n != 3 {
			t.Errorf("%d questions are open, want all three before the control tool", n)
		}
		p.approve(alice, p.question(alice, "c3"))
		p.confirm(alice, p.question(alice, "c2"), events.UserConfirmResult{Decision: events.Refuse, Reason: "not this"})
		p.becomes(pending, events.CallAsking, events.CallFinished, events.CallAllowed, events.CallPending, events.CallPending)
		<-time.After(time.Hour) // does not count for the deadline
		p.approve(alice, first)
		<-time.After(time.Hour)
		p.approve(alice, p.question(alice, "c5"))
		got := p.await(pending)
		for i, want := range []string{"one", "Permission denied by user: not this", "three", "", "five"} {
			if want != "" && got[i].Text() != want {
				t.Errorf("result %d: %s %q, want %q", i, got[i].Reason, got[i].Text(), want)
			}
		}
		if diff := cmp.Diff([]string{"one", "three", "five"}, *order.Load()); diff != "" {
			t.Error(diff)
		}
		<-time.After(time.Minute) // for the timer of the deadline
		p.nothingLeft()
	})
}

// An approval that was given before its turn came is judged again when it does: what a rule denies by now does not run.
func TestApprovedAheadIsJudgedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		write := toolkit.MustDefine("write", "Writes.", func(context.Context, struct{}) (string, error) { return "written", nil }, nil)
		change := func(c *toolkit.Config) { c.Permissions.Rules = []permission.Rule{ask("write")} }
		p := newPeopleWith(t, []*toolkit.Tool{write}, change)
		alice := p.agent("alice")
		pending := p.submit(p.c, turn("s", call("c1", "write", `{}`), call("c2", "write", `{}`)))
		p.approve(alice, p.question(alice, "c2"))
		p.becomes(pending, events.CallAsking, events.CallAllowed)
		cfg := defaultPeople()
		cfg.Permissions.Rules = []permission.Rule{ask("write"), {Tool: "write", Behavior: permission.Deny}}
		p.configure(cfg)
		p.confirm(alice, p.question(alice, "c1"), events.UserConfirmResult{Decision: events.Refuse})
		for i, want := range []events.Reason{events.ReasonDeniedByUser, events.ReasonDeniedByRule} {
			if r := p.await(pending)[i]; r.Reason != want {
				t.Errorf("%s: %s, want %s", r.CallID, r.Reason, want)
			}
		}
		p.nothingLeft()
	})
}

// A parked turn is cancelled: nobody can answer any more, and nothing is left (T-11, H8).
func TestCancelWhileParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeople(t)
		alice := p.agent("alice")
		pending := p.submit(p.c, turn("s", call("c1", "deploy", `{"service":"a"}`), call("c2", "HumanApproval", `{"action":"a"}`)))
		q := p.question(alice, "c1")
		p.question(alice, "c2")
		out, err := p.c.CancelNow(t.Context(), "s", pending.Turn(), events.CancelCalls{})
		if err != nil || len(out.Calls) != 2 || out.Calls[0].Outcome != "cancelled" || out.Calls[1].Outcome != "cancelled" {
			t.Errorf("cancel: %+v, %v", out, err)
		}
		for i, r := range p.await(pending) {
			if r.Reason != events.ReasonCancelled {
				t.Errorf("%d: %s", i, r.Reason)
			}
		}
		if j := p.approve(alice, q); j.Code != events.RefusedDecided || p.ran.total.Load() != 0 {
			t.Errorf("after that: %+v", j)
		}
		p.nothingLeft()
	})
}
