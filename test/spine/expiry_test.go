package spine_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// slow makes sweeps rare, where days are to pass.
func slow(f *fleet) { f.tick = 10 * time.Minute }

// newSlowPeople is newPeople for tests in which days pass.
func newSlowPeople(tb testing.TB, change ...func(*toolkit.Config)) *people {
	tb.Helper()
	ran := newEffects()
	p := &people{ran: ran, fleet: newFleet(tb, deploy(ran), echo("echo"))}
	slow(p.fleet)
	p.c = p.up(1)
	cfg := defaultPeople()
	for _, f := range change {
		f(&cfg)
	}
	p.configure(cfg)
	return p
}

// Nobody answers: a confirmation is denied after a day, unless it is said otherwise, an external call fails
// after a week, and whoever comes later is told so (T-29, T-33).
func TestNobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSlowPeople(t)
		alice := p.agent("alice")
		deflt := p.submit(p.c, turn("s0", call("c8", "deploy", `{"service":"a"}`), call("c9", "HumanApproval", `{"action":"a"}`)))
		for id, want := range map[events.CallID]time.Duration{"c8": 24 * time.Hour, "c9": 7 * 24 * time.Hour} {
			if q := p.question(alice, id).Question; q.ExpiresAt == nil || q.ExpiresAt.Sub(q.AskedAt) != want {
				t.Errorf("%s expires at %v, asked at %v", id, q.ExpiresAt, q.AskedAt)
			}
		}
		if _, err := p.c.CancelNow(t.Context(), "s0", deflt.Turn(), events.CancelCalls{}); err != nil {
			t.Fatal(err)
		}
		cfg := defaultPeople()
		cfg.Approvals = []toolkit.Approval{{Tools: []string{"HumanApproval"}, Expires: toolkit.Duration(2 * time.Hour)}, {Tools: []string{"dep*"}, Expires: toolkit.Duration(time.Hour)}}
		p.configure(cfg)
		begun := time.Now()
		pending := p.submit(p.c, turn("s", call("c1", "deploy", `{"service":"a"}`), call("c2", "HumanApproval", `{"action":"a"}`)))
		q, x := p.question(alice, "c1"), p.question(alice, "c2")
		time.Sleep(time.Hour - time.Second - time.Since(begun))
		p.becomes(pending, events.CallAsking, events.CallAsking)
		time.Sleep(5 * time.Second)
		r, err := p.resultOf(events.CallKey{Session: "s", Turn: pending.Turn(), Call: "c1"})
		if err != nil || r.Reason != events.ReasonApprovalExpired || r.State != events.StateDenied {
			t.Fatalf("after an hour: %+v, %v", r, err)
		}
		if j := p.approve(alice, q); j.Code != events.RefusedExpired && j.Code != events.RefusedNotPending {
			t.Errorf("an approval then: %+v", j)
		}
		time.Sleep(time.Hour)
		r, err = p.resultOf(events.CallKey{Session: "s", Turn: pending.Turn(), Call: "c2"})
		if err != nil || r.Reason != events.ReasonExternalExpired || r.State != events.StateError {
			t.Fatalf("after two hours: %+v, %v", r, err)
		}
		if j, err := alice.Answer(t.Context(), x, events.ExternalExecutionResult{}); err != nil || j.Judgement != events.JudgedRefused {
			t.Errorf("a result then: %+v, %v", j, err)
		}
		if p.ran.total.Load() != 0 {
			t.Error("it ran")
		}
		p.nothingLeft()
	})
}

// All dispatchers are away while a question expires. What INBOX stored before the deadline counts, though
// it is judged long after (N-13); what came later does not, though no timer had fired (T-29), but for a
// denial (T-30).
func TestAnswersAroundTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSlowPeople(t, func(c *toolkit.Config) {
			c.Approvals = []toolkit.Approval{{Tools: []string{"*"}, Expires: toolkit.Duration(time.Hour)}}
		})
		alice := p.agent("alice")
		var pending []*agent.Pending
		var asked []events.OpenQuestion
		for _, id := range []events.CallID{"c1", "c2", "c3"} {
			pending = append(pending, p.submit(p.c, turn(events.SessionID("s-"+id), call(id, "deploy", `{"service":"a"}`))))
			asked = append(asked, p.question(alice, id))
		}
		p.stopAll()
		judged := make([]chan events.AnswerJudged, 3)
		say := func(i int, decision string) {
			judged[i] = make(chan events.AnswerJudged, 1)
			go func() {
				j, err := alice.Confirm(t.Context(), asked[i], events.UserConfirmResult{Decision: decision, Reason: "as it is"})
				if err != nil {
					t.Errorf("%d: %v", i, err)
				}
				judged[i] <- j
			}()
			synctest.Wait()
		}
		time.Sleep(59 * time.Minute)
		say(0, events.Approve)
		time.Sleep(2 * time.Minute)
		say(1, events.Approve)
		say(2, events.Refuse)
		time.Sleep(3 * time.Hour)
		p.dispatcher()
		p.worker(4)
		for i, want := range []string{events.JudgedAccepted, events.JudgedRefused, ""} {
			j := <-judged[i]
			if want != "" && j.Judgement != want || i == 1 && j.Code != events.RefusedExpired {
				t.Errorf("%d: %+v", i, j)
			}
		}
		for i, want := range []events.Reason{events.ReasonOK, events.ReasonApprovalExpired, ""} {
			got := p.await(pending[i])[0].Reason
			if want != "" && got != want || i == 2 && got != events.ReasonDeniedByUser && got != events.ReasonApprovalExpired {
				t.Errorf("%d: got %s", i, got)
			}
		}
		p.nothingLeft()
	})
}

// A question that is parked for good waits a week and longer, while everything is restarted, and the
// record of it holds nothing up (T-31).
func TestParkedForAWeek(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSlowPeople(t, func(c *toolkit.Config) {
			c.Approvals = []toolkit.Approval{{Tools: []string{"*"}, OnExpiry: toolkit.ExpiryPark}}
		})
		pending := p.submit(p.c, turn("s", call("c1", "echo", `{"a":1}`), call("c2", "deploy", `{ "service":"a" }`)))
		alice := p.agent("alice")
		if q := p.question(alice, "c2"); q.Question.ExpiresAt != nil || q.Question.OnExpiry != "" {
			t.Errorf("question: %+v", q.Question)
		}
		for range 4 {
			time.Sleep(30 * time.Minute)
			p.off(42 * time.Hour)
			p.c = p.up(1)
		}
		time.Sleep(time.Hour)
		if n := p.state("TOOLWIRE_CALLS").Msgs + p.state("TOOLWIRE_JOURNAL").Msgs; n != 0 {
			t.Errorf("CALLS and JOURNAL hold %d messages of a week ago", n)
		}
		alice = p.agent("alice")
		s, err := p.c.Status(t.Context(), "s", pending.Turn())
		if err != nil || len(s.Calls) != 2 || s.Calls[0].State != events.CallFinished || s.Calls[1].State != events.CallAsking {
			t.Errorf("status after a week: %+v, %v", s, err)
		}
		if j := p.approve(alice, p.question(alice, "c2")); j.Judgement != events.JudgedAccepted {
			t.Fatalf("after a week: %+v", j)
		}
		r, err := p.resultOf(events.CallKey{Session: "s", Turn: pending.Turn(), Call: "c2"})
		if err != nil || r.Text() != "deployed a" {
			t.Errorf("got %q, %v", r.Text(), err)
		}
		p.ran.onePer(t, 1)
		p.nothingLeft()
	})
}

// Rung by rung others are asked, each in a question of its own, until the last one has not answered
// either (T-32, T-33); an answer to an earlier rung is too late.
func TestEscalation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSlowPeople(t, func(c *toolkit.Config) {
			c.Roles = map[string][]string{"ops": {"alice"}, "leads": {"bob"}, "owners": {"carol"}}
			c.Approvals = []toolkit.Approval{{
				Tools: []string{"deploy"}, Roles: []string{"ops"}, Expires: toolkit.Duration(time.Hour), OnExpiry: toolkit.ExpiryEscalate,
				Rungs: []toolkit.Rung{{Roles: []string{"leads"}, Expires: toolkit.Duration(30 * time.Minute)}, {Roles: []string{"owners"}}},
				Last:  toolkit.ExpiryDeny,
			}}
		})
		alice, bob := p.agent("alice"), p.agent("bob")
		one, two := p.submit(p.c, turn("s1", call("c1", "deploy", `{"service":"a"}`))), p.submit(p.c, turn("s2", call("c2", "deploy", `{"service":"b"}`)))
		q := p.question(alice, "c1")
		if q.Question.OnExpiry != "escalate" || !q.MayAnswer {
			t.Errorf("first rung: %+v", q)
		}
		time.Sleep(time.Hour + time.Minute)
		next := p.question(bob, "c1")
		if next.Question.Previous != q.Question.RequestID || !next.MayAnswer || next.Question.Roles[0] != "leads" || next.Question.OnExpiry != "escalate" {
			t.Errorf("second rung: %+v", next)
		}
		if j := p.approve(alice, q); j.Code != events.RefusedExpired || !strings.Contains(j.Text, "Others") {
			t.Errorf("to the first question: %+v", j)
		}
		if j := p.approve(alice, next); j.Code != events.RefusedRole {
			t.Errorf("of the first rung: %+v", j)
		}
		if j := p.approve(bob, next); j.Judgement != events.JudgedAccepted {
			t.Errorf("of the second: %+v", j)
		}
		if r := p.await(one)[0]; r.Reason != events.ReasonOK {
			t.Errorf("got %s", r.Reason)
		}
		time.Sleep(31 * time.Minute)
		if last := p.question(p.agent("carol"), "c2"); last.Question.Round != 3 || last.Question.OnExpiry != "deny" {
			t.Errorf("last rung: %+v", last)
		}
		time.Sleep(time.Hour)
		if r := p.await(two)[0]; r.Reason != events.ReasonApprovalExpired {
			t.Errorf("nobody answered: %s", r.Reason)
		}
		p.nothingLeft()
	})
}

// A turn id is used again while the first turn of that id still waits, and CALLS has forgotten it: the calls
// that are the same are answered with the first, the others are told why not.
func TestTurnIDUsedAgainWhileParked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSlowPeople(t)
		first := p.submit(p.c, agent.Turn{Session: "s", ID: "t", Calls: []events.Call{call("c1", "deploy", `{"service":"a"}`)}})
		alice := p.agent("alice")
		q := p.question(alice, "c1")
		time.Sleep(time.Hour)
		if n := p.state("TOOLWIRE_CALLS").Msgs; n != 0 {
			t.Fatalf("CALLS holds %d turns", n)
		}
		other := p.agent("local")
		again := p.submit(other, agent.Turn{Session: "s", ID: "t", Calls: []events.Call{call("c1", "deploy", `{"service":"a"}`), call("c2", "deploy", `{"service":"b"}`)}})
		r, err := p.resultOf(events.CallKey{Session: "s", Turn: "t", Call: "c2"})
		if err != nil || r.Reason != events.ReasonMalformed || !strings.Contains(r.Text(), "id of its own") {
			t.Errorf("the other call: %s %q, %v", r.Reason, r.Text(), err)
		}
		p.approve(alice, q)
		if r := p.await(first)[0]; r.Text() != "deployed a" {
			t.Errorf("the first: %q", r.Text())
		}
		if r := p.await(again)[0]; r.Text() != "deployed a" {
			t.Errorf("the same call: %q", r.Text())
		}
		p.ran.onePer(t, 1)
		p.nothingLeft()
	})
}
