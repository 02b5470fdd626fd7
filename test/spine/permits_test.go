package spine_test

import (
	"context"
	"encoding/json"
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

// transfer is a tool with a permission check of its own: small amounts are fine, none below zero, the rest is
// asked about; rules name an account.
func transfer(ran *effects, ill *atomic.Bool) *toolkit.Tool {
	type in struct {
		To     string `json:"to"`
		Amount int    `json:"amount"`
	}
	return toolkit.MustDefine("transfer", "Moves money.", func(ctx context.Context, v in) (string, error) {
		ran.happen(ctx)
		return "moved to " + v.To, nil
	}, &toolkit.Options{ConcurrencySafe: true, Check: func(_ context.Context, q events.CheckRequest) (permission.Check, error) {
		var v in
		if err := json.Unmarshal(q.Call.Input, &v); err != nil {
			return permission.Check{}, err
		}
		if ill.Load() {
			panic("the check is ill") //nolint:forbidigo // what is tested
		}
		c := permission.Check{Matches: map[string]bool{}, Suggestions: []string{v.To}}
		for _, content := range q.Contents {
			c.Matches[content] = content == v.To
		}
		switch {
		case v.Amount < 0:
			c.Behavior, c.Message = permission.Deny, "An amount is not negative."
		case v.Amount < 10:
			c.Behavior, c.Message = permission.Allow, "A small amount."
		default:
			c.Behavior, c.Message, c.Immune = permission.Ask, "A large amount.", v.Amount > 1000
		}
		return c, nil
	}})
}

// A tool's own check is asked before anything is decided, and matches rules. No answer from it is a
// question to a person, never a denial and never a run (N-9).
func TestOwnCheckOfATool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ran, ill := newEffects(), new(atomic.Bool)
		p := &people{ran: ran, fleet: newFleet(t, transfer(ran, ill))}
		p.c = p.up(1)
		p.configure(toolkit.Config{Permissions: permission.Context{Mode: permission.Default, Rules: []permission.Rule{
			{Tool: "transfer", Content: "mum", Behavior: permission.Allow}, {Tool: "transfer", Content: "mallory", Behavior: permission.Deny},
		}}})
		alice := p.agent("alice")
		for input, want := range map[string]events.Reason{
			`{"to":"bob","amount":1}`: events.ReasonOK, `{"to":"bob","amount":-1}`: events.ReasonDeniedByRule,
			`{"to":"mum","amount":500}`: events.ReasonOK, `{"to":"mallory","amount":1}`: events.ReasonDeniedByRule,
		} {
			if r := p.one(p.c, "s", "transfer", input); r.Reason != want {
				t.Errorf("%s: %s %q", input, r.Reason, r.Text())
			}
		}
		for id, input := range map[events.CallID]string{"large": `{"to":"bob","amount":50}`, "huge": `{"to":"mum","amount":5000}`} {
			pending := p.submit(p.c, turn("s", call(id, "transfer", input)))
			q := p.question(alice, id)
			if q.Question.Why != "A large amount." || q.Question.Safety != (id == "huge") {
				t.Errorf("%s: %+v", id, q.Question)
			}
			if id == "large" && (len(q.Question.Suggestions) != 1 || q.Question.Suggestions[0].Content != "bob") {
				t.Errorf("suggestions: %+v", q.Question.Suggestions)
			}
			p.approve(alice, q)
			if r := p.await(pending)[0]; r.Reason != events.ReasonOK {
				t.Errorf("%s: %s %q", id, r.Reason, r.Text())
			}
		}
		ill.Store(true)
		pending := p.submit(p.c, turn("s", call("sick", "transfer", `{"to":"mum","amount":1}`)))
		q := p.question(alice, "sick")
		if !q.Question.Safety {
			t.Errorf("no check: %+v", q.Question)
		}
		ill.Store(false)
		p.approve(alice, q)
		if r := p.await(pending)[0]; r.Reason != events.ReasonOK {
			t.Errorf("once it is well: %s %q", r.Reason, r.Text())
		}
		p.nothingLeft()
	})
}

// What would happen to a call is told without it happening, and another policy is tried on what has
// happened.
func TestPermitAndReplay(t *testing.T) {
	f := newFleet(t, deploy(newEffects()), echo("echo"))
	f.history = true
	p := &people{ran: newEffects(), fleet: f}
	p.c = p.up(1)
	cfg := defaultPeople()
	cfg.Roles = map[string][]string{"ops": {"alice"}}
	cfg.Approvals = []toolkit.Approval{{Tools: []string{"deploy"}, Roles: []string{"ops"}, Expires: toolkit.Duration(time.Hour)}}
	p.configure(cfg)
	permit := func(tool events.ToolName, input string) events.PermitReply {
		t.Helper()
		r, err := p.c.Permit(t.Context(), events.PermitRequest{Session: "s", Tool: tool, Input: json.RawMessage(input)})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	want := events.PermitReply{
		Behavior: "ask", Message: "A rule says to ask.", Rule: "rule deploy", Roles: []string{"ops"}, Quorum: 1, Expiry: "deny after 1h0m0s",
	}
	if diff := cmp.Diff(want, permit("deploy", `{"service":"a"}`)); diff != "" {
		t.Error(diff)
	}
	if r := permit("echo", "{}"); r.Behavior != "allow" || r.Rule != "read-only" && r.Rule != "mode bypass" {
		t.Errorf("echo: %+v", r)
	}
	if r := permit("deploy", `{"service":1}`); r.Invalid == "" {
		t.Errorf("bad arguments: %+v", r)
	}
	if r := permit("HumanApproval", `{"action":"a"}`); r.Behavior != "allow" || !strings.Contains(r.Message, "another system") {
		t.Errorf("external: %+v", r)
	}
	for range 3 {
		p.one(p.c, "s", "echo", `{"a":1}`)
	}
	other := toolkit.Config{Permissions: permission.Context{Rules: []permission.Rule{{Tool: "ec*", Behavior: permission.Deny}}}}
	b, err := json.Marshal(other)
	if err != nil {
		t.Fatal(err)
	}
	calls, changes := 0, 0
	for range 100 { // the history follows in its own time
		calls, changes = 0, 0
		for page, err := range p.c.Replay(t.Context(), events.ReplayRequest{Config: b, Limit: 2}) {
			if err != nil {
				t.Fatal(err)
			}
			calls += page.Calls
			for _, c := range page.Changes {
				if changes++; c.Tool != "echo" || !strings.HasPrefix(c.Now, "allow") || c.Then != "deny: rule ec*" {
					t.Errorf("change: %+v", c)
				}
			}
		}
		if calls == 3 {
			break
		}
		<-time.After(20 * time.Millisecond)
	}
	if calls != 3 || changes != 3 {
		t.Errorf("%d of %d calls would change, want 3 of 3", changes, calls)
	}
}

// The whole life of a call is in the record, each part with its reason, and so are past decisions.
func TestLifeOfACall(t *testing.T) {
	f := newFleet(t, deploy(newEffects()), echo("echo"))
	f.history = true
	p := &people{ran: newEffects(), fleet: f}
	p.c = p.up(1)
	p.configure(defaultPeople())
	alice := p.agent("alice")
	pending := p.submit(p.c, agent.Turn{Session: "s", ReplyID: "r-1", Parent: "root/t0/c7", Calls: []events.Call{call("c1", "deploy", `{"service":"a"}`)}})
	q := p.question(alice, "c1")
	if q.Parent != "root/t0/c7" || q.ReplyID != "r-1" { // T-22
		t.Errorf("where the question belongs: %+v", q)
	}
	life := func() (kinds []string) {
		for e, err := range p.c.Life(t.Context(), events.LifeRequest{Session: "s", Turn: pending.Turn()}) {
			if err != nil {
				t.Fatal(err)
			}
			kinds = append(kinds, strings.Split(e.Subject, ".")[1])
		}
		return kinds
	}
	p.settlesAt(func() bool { return cmp.Equal(life(), []string{"call", "require"}) })
	p.confirm(alice, q, events.UserConfirmResult{Decision: "approve", Reason: "go"})
	p.await(pending)
	p.settlesAt(func() bool {
		got := life()
		return len(got) == 5 && got[0] == "call" && got[1] == "decided"
	})
	for d, err := range alice.Decisions(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if d.Session != "s" || d.Decided.Actor != "alice" || d.Decided.Reason != "go" || d.Decided.Question.Call.Name != "deploy" {
			t.Errorf("decision: %+v", d)
		}
	}
	for _, err := range p.agent("mallory").Life(t.Context(), events.LifeRequest{Session: "s"}) {
		if err == nil {
			t.Error("another agent reads the record")
		}
	}
}

// settlesAt waits until something holds.
func (p *people) settlesAt(holds func() bool) {
	p.Helper()
	for range 250 {
		if holds() {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
	p.Error("it does not come to that")
}

// The user is asked by a tool that is there once it is switched on; the answer's schema is checked where
// one is given.
func TestAskUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeople(t, func(c *toolkit.Config) {
			c.AskUser = true
			def := humanApproval()
			def.OutputSchema = json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`)
			c.External = []toolkit.Definition{def}
		})
		alice := p.agent("alice")
		pending := p.submit(p.c, turn("s", call("c1", toolkit.AskUser, `{"question":"Which one?","options":["a","b"]}`), call("c2", "HumanApproval", `{"action":"x"}`)))
		say := func(id events.CallID, a events.ExternalExecutionResult) events.AnswerJudged {
			j, err := alice.Answer(t.Context(), p.question(alice, id), a)
			if err != nil {
				t.Fatal(err)
			}
			return j
		}
		if j := say("c2", events.ExternalExecutionResult{StructuredContent: json.RawMessage(`{"ok":"yes"}`)}); j.Code != events.RefusedResult {
			t.Errorf("a result of another shape: %+v", j)
		}
		say("c1", events.ExternalExecutionResult{Content: []events.Content{events.Text("b")}})
		say("c2", events.ExternalExecutionResult{StructuredContent: json.RawMessage(`{"ok":true}`)})
		got := p.await(pending)
		if got[0].Text() != "b" || string(got[1].StructuredContent) != `{"ok":true}` || len(got[1].Content) == 0 {
			t.Errorf("got %+v", got)
		}
		p.nothingLeft()
	})
}
