package spine_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/permission"
)

// people are approvers, and the installation that they answer for.
type people struct {
	*fleet
	ran *effects
	c   *agent.Client // the agent
}

// deploy is a tool that a rule asks about; it says what it did.
func deploy(ran *effects) *toolkit.Tool {
	type in struct {
		Service  string `json:"service"`
		Replicas int    `json:"replicas,omitempty"`
	}
	return toolkit.MustDefine("deploy", "Deploys a service.", func(ctx context.Context, v in) (string, error) {
		ran.happen(ctx)
		return "deployed " + v.Service, nil
	}, &toolkit.Options{ConcurrencySafe: true})
}

func humanApproval() toolkit.Definition {
	return toolkit.Definition{
		Name: "HumanApproval", Description: "A person decides.", External: true, ConcurrencySafe: true,
		InputSchema: json.RawMessage(`{"type":"object","properties":{"action":{"type":"string"}},"required":["action"]}`),
	}
}

func ask(tool string) permission.Rule { return permission.Rule{Tool: tool, Behavior: permission.Ask} }

func defaultPeople() toolkit.Config {
	return toolkit.Config{
		Permissions: permission.Context{Mode: permission.Bypass, Rules: []permission.Rule{ask("deploy")}},
		External:    []toolkit.Definition{humanApproval()},
	}
}

// newPeople starts a fleet whose rule asks about deploy, with HumanApproval declared.
func newPeople(tb testing.TB, change ...func(*toolkit.Config)) *people {
	tb.Helper()
	return newPeopleWith(tb, nil, change...)
}

// newPeopleWith has further tools.
func newPeopleWith(tb testing.TB, tools []*toolkit.Tool, change ...func(*toolkit.Config)) *people {
	tb.Helper()
	ran := newEffects()
	p := &people{ran: ran, fleet: newFleet(tb, append(tools, deploy(ran), echo("echo"))...)}
	p.c = p.up(1)
	cfg := defaultPeople()
	for _, f := range change {
		f(&cfg)
	}
	p.configure(cfg)
	return p
}

func (p *people) configure(cfg toolkit.Config) {
	p.Helper()
	err := p.c.ChangeConfig(p.Context(), func(now *toolkit.Config) error {
		*now = cfg
		return nil
	})
	if err != nil {
		p.Fatal(err)
	}
}

// question waits for the open question about a call that c may answer.
func (p *people) question(c *agent.Client, call events.CallID) events.OpenQuestion {
	p.Helper()
	for range 2000 {
		for q, err := range c.Questions(p.Context(), events.QuestionsRequest{}) {
			if err != nil {
				p.Fatal(err)
			}
			if q.Question.Call.ID == call {
				return q
			}
		}
		<-time.After(10 * time.Millisecond)
	}
	p.Fatalf("nobody asks about call %s", call)
	return events.OpenQuestion{}
}

func (p *people) confirm(c *agent.Client, q events.OpenQuestion, a events.UserConfirmResult) events.AnswerJudged {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), time.Minute)
	defer cancel()
	j, err := c.Confirm(ctx, q, a)
	if err != nil {
		p.Fatalf("answer: %v", err)
	}
	return j
}

func (p *people) approve(c *agent.Client, q events.OpenQuestion) events.AnswerJudged {
	p.Helper()
	return p.confirm(c, q, events.UserConfirmResult{Decision: events.Approve})
}

func turn(session events.SessionID, calls ...events.Call) agent.Turn {
	return agent.Turn{Session: session, Calls: calls}
}

func call(id events.CallID, tool events.ToolName, input string) events.Call {
	return events.Call{ID: id, Name: tool, Input: json.RawMessage(input)}
}

// One turn with a call that is asked about, one that is answered outside and one that just runs (H5,
// T-35): the last one does not wait, and each of the others has its own answer.
func TestAnswersOfOneTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeople(t)
		alice := p.agent("alice")
		pending := p.submit(p.c, turn("s",
			call("c1", "deploy", `{ "service" : "shop" , "replicas":3}`),
			call("c2", "HumanApproval", `{"action":"refund"}`),
			call("c3", "echo", `{"a":1}`)))
		q := p.question(alice, "c1")
		if got := string(q.Question.Call.Input); got != `{ "service" : "shop" , "replicas":3}` {
			t.Errorf("the approver sees %s", got)
		}
		if q.Question.Kind != events.KindConfirm || q.Question.Requester != "local" || q.Question.Rule != "rule deploy" || !q.MayAnswer || q.Missing != 1 || q.Question.ExpiresAt == nil {
			t.Errorf("question: %+v", q)
		}
		x := p.question(alice, "c2")
		if x.Question.Kind != events.KindExternal || x.Question.OnExpiry != "error" {
			t.Errorf("external question: %+v", x)
		}
		p.becomes(pending, events.CallAsking, events.CallAsking, events.CallFinished)
		if p.ran.total.Load() != 0 {
			t.Error("it ran before anybody approved")
		}
		if j := p.approve(alice, q); j.Judgement != events.JudgedAccepted {
			t.Fatalf("approve: %+v", j)
		}
		j, err := alice.Answer(t.Context(), x, events.ExternalExecutionResult{Content: []events.Content{events.Text("fine by me")}})
		if err != nil || j.Judgement != events.JudgedAccepted {
			t.Fatalf("answer: %+v, %v", j, err)
		}
		got := p.await(pending)
		for i, want := range []string{"deployed shop", "fine by me", `{"a":1}`} {
			if got[i].Text() != want || got[i].Reason != events.ReasonOK {
				t.Errorf("result %d: %s %q, want %q", i, got[i].Reason, got[i].Text(), want)
			}
		}
		if !strings.Contains(got[0].Meta.Decision, "rule deploy; approved by alice") {
			t.Errorf("decision: %q", got[0].Meta.Decision)
		}
		p.nothingLeft()
	})
}

func (p *people) status(pending *agent.Pending) []events.CallState {
	p.Helper()
	s, err := p.c.Status(p.Context(), pending.Session(), pending.Turn())
	if err != nil {
		p.Fatal(err)
	}
	var out []events.CallState
	for _, c := range s.Calls {
		out = append(out, c.State)
	}
	return out
}

// becomes waits until the calls of a turn stand so.
func (p *people) becomes(pending *agent.Pending, want ...events.CallState) {
	p.Helper()
	var got []events.CallState
	for range 200 {
		if got = p.status(pending); slices.Equal(got, want) {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	p.Errorf("states: %v, want %v", got, want)
}

// nothingLeft says that no question, timer of one, work or record of a turn is left.
func (p *people) nothingLeft() {
	p.Helper()
	synctest.Wait()
	for stream, want := range map[string]uint64{"TOOLWIRE_QUESTIONS": 0, "TOOLWIRE_TIMERS": 1, "TOOLWIRE_WORK": 0, "KV_toolwire_turns": 0, "TOOLWIRE_INBOX": 0} {
		got := p.state(stream).Msgs
		for range 3000 { // the last clean-up may be under way
			if got == want {
				break
			}
			<-time.After(10 * time.Millisecond)
			got = p.state(stream).Msgs
		}
		if got != want {
			p.Errorf("%s holds %d messages, want %d: %v", stream, got, want, p.subjects(stream))
		}
	}
}
