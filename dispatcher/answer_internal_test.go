package dispatcher

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/permission"
)

// The secret and all that names a call tell questions apart; the same question has the same id.
func TestRequestID(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	of := func(secret, session, turnID, call string, round int, at time.Time) string {
		tn := &turn{session: events.SessionID(session), id: events.TurnID(turnID), stored: at}
		return requestID([]byte(secret), tn, events.CallID(call), round)
	}
	seen := map[string]string{}
	for name, id := range map[string]string{
		"first": of("x", "s", "t", "c", 1, at), "secret": of("y", "s", "t", "c", 1, at), "session": of("x", "s2", "t", "c", 1, at),
		"turn": of("x", "s", "t2", "c", 1, at), "call": of("x", "s", "t", "c2", 1, at), "round": of("x", "s", "t", "c", 2, at),
		"time": of("x", "s", "t", "c", 1, at.Add(1)), "border": of("x", "st", "", "c", 1, at),
	} {
		if other, twice := seen[id]; twice || len(id) != 32 {
			t.Errorf("%s and %s have the id %s", name, other, id)
		}
		seen[id] = name
	}
	if again := of("x", "s", "t", "c", 1, at); seen[again] != "first" {
		t.Error("the same question has two ids")
	}
}

// Who is asked until when, rung by rung.
func TestDemand(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	hour, day := toolkit.Duration(time.Hour), 24*time.Hour
	ladder := toolkit.Approval{
		Roles: []string{"ops"}, Quorum: 2, Expires: hour, OnExpiry: toolkit.ExpiryEscalate,
		Rungs: []toolkit.Rung{{Roles: []string{"leads"}}, {Roles: []string{"owners"}, Expires: 2 * hour}}, Last: toolkit.ExpiryPark,
	}
	for name, c := range map[string]struct {
		kind events.Kind
		by   toolkit.Approval
		rung int
		want asked
		wait time.Duration // 0: never
	}{
		"nothing said":          {events.KindConfirm, toolkit.Approval{}, 0, asked{Quorum: 1, OnExpiry: toolkit.ExpiryDeny}, day},
		"nothing said, outside": {events.KindExternal, toolkit.Approval{}, 0, asked{Quorum: 1, OnExpiry: toolkit.ExpiryDeny}, 7 * day},
		"parked":                {events.KindConfirm, toolkit.Approval{OnExpiry: toolkit.ExpiryPark, Expires: hour}, 0, asked{Quorum: 1, OnExpiry: toolkit.ExpiryPark}, 0},
		"a result is of one":    {events.KindExternal, toolkit.Approval{Quorum: 3, Expires: hour}, 0, asked{Quorum: 1, OnExpiry: toolkit.ExpiryDeny}, time.Hour},
		"first rung":            {events.KindConfirm, ladder, 0, asked{Roles: []string{"ops"}, Quorum: 2, OnExpiry: toolkit.ExpiryEscalate}, time.Hour},
		"second":                {events.KindConfirm, ladder, 1, asked{Roles: []string{"leads"}, Quorum: 1, Rung: 1, OnExpiry: toolkit.ExpiryEscalate}, time.Hour},
		"last":                  {events.KindConfirm, ladder, 2, asked{Roles: []string{"owners"}, Quorum: 1, Rung: 2, OnExpiry: toolkit.ExpiryPark}, 0},
		"beyond, since changed": {events.KindConfirm, ladder, 9, asked{Roles: []string{"owners"}, Quorum: 1, Rung: 2, OnExpiry: toolkit.ExpiryPark}, 0},
	} {
		got := asked{Kind: c.kind, AskedAt: at, Rung: c.rung}
		got.demand(c.by)
		c.want.Kind, c.want.AskedAt = c.kind, at
		if c.wait > 0 {
			c.want.ExpiresAt = new(at.Add(c.wait))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// FuzzJudgeAnswer gives any answer to any question: what is accepted is of somebody who may, in time, to just
// what was asked, and nothing is both refused and run.
func FuzzJudgeAnswer(f *testing.F) {
	f.Add("alice", "d", "approve", "", int64(0), uint8(0), uint8(1), uint8(0))
	f.Add("local", "d", "deny", "", int64(0), uint8(1), uint8(2), uint8(1))
	f.Add("bob", "x", "approve", `{"a":1}`, int64(5), uint8(2), uint8(1), uint8(2))
	f.Add("alice", "d", "approve", `{"a":1}`, int64(-1), uint8(7), uint8(3), uint8(3))
	expiry := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	def := toolkit.Definition{Name: "t", InputSchema: json.RawMessage(`{"type":"object"}`)}
	f.Fuzz(func(t *testing.T, actor, digest, decision, input string, after int64, bits, quorum, policy uint8) {
		a := answer{actor: actor, at: expiry.Add(time.Duration(after)), seq: 7}
		external := bits&1 != 0
		if external {
			a.external = &events.ExternalExecutionResult{Digest: digest, State: events.State(decision), Content: []events.Content{events.Text(input)}}
		} else {
			a.confirm = &events.UserConfirmResult{Digest: digest, Decision: decision, Input: json.RawMessage(input)}
		}
		s := standing{
			ask: &asked{
				Kind: events.KindConfirm, Digest: "d", Definition: def.Hash(), Quorum: int(quorum%3) + 1, Rule: "rule t",
				Votes: []events.Vote{{Actor: "carol", Seq: 1}}, Roles: []string{"ops"},
			},
			requester: "local", tool: &tool{def: def, hash: def.Hash()}, digest: "run", demanded: bits&2 == 0,
			enough: func([]events.Vote) bool { return bits&4 != 0 }, forged: bits&8 != 0,
		}
		if bits&16 != 0 {
			s.ask.Kind = events.KindExternal
		}
		if bits&32 == 0 {
			s.ask.ExpiresAt = &expiry
		}
		if actor == "alice" || actor == "bob" || actor == "local" {
			s.roles = []string{"ops"}
		}
		switch policy % 4 {
		case 1:
			s.permit = permission.Decision{Behavior: permission.Ask, Rule: "rule t", Rules: []permission.Rule{{Tool: "t"}}}
		case 2:
			s.permit = permission.Decision{Behavior: permission.Deny, Rule: "rule x"}
		case 3:
			s.permit = permission.Decision{Behavior: permission.Ask, Rule: "rule y", Rules: []permission.Rule{{Tool: "y"}}}
		default:
			s.permit = permission.Decision{Behavior: permission.Allow}
		}
		v := judgeAnswer(a, s)
		if v.judgement == "" || v.text == "" || (v.code != "") != (v.judgement == events.JudgedRefused) {
			t.Fatalf("no verdict: %+v", v)
		}
		late := s.ask.ExpiresAt != nil && !a.at.Before(expiry)
		runs := v.decided != nil && v.decided.Outcome == events.OutcomeApproved
		ends := v.judgement == events.JudgedAccepted
		if ends && (actor == "local" || len(s.roles) == 0 || digest != "d" || s.forged || external != (s.ask.Kind == events.KindExternal)) {
			t.Fatalf("accepted: %+v of %+v", v, a)
		}
		if runs && (late || decision != events.Approve || policy%4 == 2 || s.ask.Kind != events.KindConfirm || v.decided.InputDigest != "run") {
			t.Fatalf("approved: %+v of %+v", v, a)
		}
		if runs && len(v.decided.Votes) < s.ask.Quorum || runs && !ends {
			t.Fatalf("approved by too few: %+v", v)
		}
		if late && ends && decision != events.Refuse {
			t.Fatalf("too late: %+v", v)
		}
		if v.decided != nil { // said again, it comes to the same; said by another, it is too late
			s.decided = v.decided
			if again := judgeAnswer(a, s); again.judgement != v.judgement || again.code != v.code || again.decided != nil {
				t.Fatalf("again: %+v after %+v", again, v)
			}
			a.actor, a.seq = "dave", 8
			if other := judgeAnswer(a, s); other.judgement != events.JudgedRefused || other.decided != nil {
				t.Fatalf("another: %+v after %+v", other, v)
			}
		}
	})
}
