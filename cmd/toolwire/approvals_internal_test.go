package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit/permission"
)

func plainCard() card {
	return card{paint: func(_, s string) string { return s }, now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
}

func aQuestion() events.QuestionReply {
	asked := time.Date(2026, 5, 1, 11, 57, 0, 0, time.UTC)
	expires := asked.Add(24 * time.Hour)
	return events.QuestionReply{OpenQuestion: events.OpenQuestion{
		Session: "s", Turn: "t", Parent: "p/t/c9", Missing: 1, MayAnswer: true,
		Votes: []events.Vote{{Actor: "bob", At: asked}},
		Question: events.Question{
			RequestID: "0123456789abcdef0123456789abcdef", Round: 2, Previous: "ffff", Kind: events.KindConfirm,
			Call:  events.Call{ID: "c1", Name: "shell", Input: json.RawMessage(`{"command":"git push","n":12345678901234567890}`)},
			Title: "Shell", Description: "harmless\x1b[2J \u202etxet", Requester: "planner", Definition: "def", Digest: "dig",
			Why: "Nobody allowed it.", Rule: "rule shell", Safety: true, Roles: []string{"ops"}, Quorum: 2,
			Suggestions: []events.Rule{{Tool: "shell", Content: "git push:*", Behavior: "allow"}, {Tool: "shell", Content: "git:*", Behavior: "allow"}},
			AskedAt:     asked, ExpiresAt: &expires, OnExpiry: "escalate",
		},
	}}
}

// A card says all that is to be known, and nothing that others wrote can pass for something else.
func TestCard(t *testing.T) {
	t.Parallel()
	got := plainCard().question(aQuestion())
	for _, want := range []string{
		"shell: may this call run?\n",
		"  request        0123456789abcdef0123456789abcdef\n",
		"  round          2, after request ffff\n",
		"  call           s/t/c1\n",
		"  for call       p/t/c9\n",
		"  from           planner, 3m ago (",
		"  why            Nobody allowed it. It asks for safety: no allow rule answers it.\n",
		"  needs          1 person of ops\n",
		"  so far         bob (3m ago (",
		"  expires        in 23h57m (", "), then others are asked\n",
		"  allowed by     shell(git push:*)\n                 shell(git:*)\n",
		"  definition     def\n", "  digest         dig\n",
		`  harmless\u001b[2J \u202etxet`,
		"arguments (47 bytes)\n  {\n    \"command\": \"git push\",\n    \"n\": 12345678901234567890\n  }\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the card does not say %q:\n%s", want, got)
		}
	}
	if strings.ContainsRune(got, '\x1b') || strings.ContainsRune(got, '\u202e') {
		t.Errorf("the card lets through what deceives: %q", got)
	}
}

func TestCardOfDecision(t *testing.T) {
	t.Parallel()
	q := aQuestion()
	q.Decided = &events.Decided{
		Outcome: events.OutcomeApproved, At: q.Question.AskedAt, Actor: "al\x1bice", Input: json.RawMessage(`{"command":"git pull"}`),
		Rules: q.Question.Suggestions[:1], Votes: []events.Vote{{Actor: "bob"}}, Question: q.Question,
	}
	got := plainCard().question(q)
	for _, want := range []string{
		`  decided        approved by al\u001bice, 3m ago (`, "  from now on    shell(git push:*)\n", "  scope          session\n",
		"changed arguments, which run (22 bytes)\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the card does not say %q:\n%s", want, got)
		}
	}
	if strings.Contains(got, "expires") {
		t.Errorf("a decided question does not expire:\n%s", got)
	}
}

// Arguments that are no JSON are shown as they are, and said to be none (T-41).
func TestCardOfMalformedArguments(t *testing.T) {
	t.Parallel()
	q := aQuestion()
	q.Question.Call.Input = json.RawMessage(`{"a":`)
	if got := plainCard().question(q); !strings.Contains(got, "arguments (5 bytes, no valid JSON)\n  {\"a\":\n") {
		t.Errorf("got %s", got)
	}
}

// Nothing is cut without a word.
func TestFold(t *testing.T) {
	t.Parallel()
	q := aQuestion()
	q.Question.Call.Input = json.RawMessage(`{"text":"` + strings.Repeat("ä", 9000) + `END"}`)
	c := plainCard()
	if got := c.question(q); !strings.Contains(got, "END") {
		t.Error("a pipe does not get all of it")
	}
	c.fold = true
	got := c.question(q)
	if strings.Contains(got, "END") || !strings.Contains(got, "KiB in all; --full shows all") {
		t.Errorf("not folded, or not said so: %.200q", got)
	}
	if !folded(q) || folded(aQuestion()) {
		t.Error("what is folded is not told from what is not")
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0ms": 0, "12ms": 12 * time.Millisecond, "1s": 1500 * time.Millisecond, "2m": 2 * time.Minute, "2m5s": 125 * time.Second,
		"23h59m": 24*time.Hour - time.Second, "7d": 7 * 24 * time.Hour, "1d1h": 25*time.Hour + 59*time.Minute, "1h": time.Hour + 59*time.Second,
	} {
		if got := span(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func TestShortest(t *testing.T) {
	t.Parallel()
	for want, ids := range map[int][]string{
		8:  {"aaaaaaaaaaaa", "bbbbbbbbbbbb", "short"},
		11: {"aaaaaaaaaa1x", "aaaaaaaaaa2x"},
	} {
		if got := shortest(ids); got != want {
			t.Errorf("%v: got %d, want %d", ids, got, want)
		}
	}
}

// Each refusal says why, and what to do; the exit code is its own.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for code, cure := range map[string]string{
		events.RefusedSelf:       "say who you are with --actor",
		events.RefusedRole:       "the roles are in the configuration",
		events.RefusedNotPending: "approvals ls --all",
		events.RefusedDecided:    "approvals show 0123456789ab",
		events.RefusedByRule:     "toolwire permit test shell",
		events.RefusedInput:      "tools show shell",
		events.RefusedNewRound:   "approvals ls",
	} {
		var out bytes.Buffer
		a := &app{streams: streams{nil, &out, &out}}
		err := a.printJudged(aQuestion(), events.AnswerJudged{Judgement: events.JudgedRefused, Code: code, Text: "No.", Actor: "x"})
		text, exit := describe(err)
		if exit != exitRefused || !strings.Contains(text, "("+code+"): No; ") || !strings.Contains(text, cure) {
			t.Errorf("%s: got %q, exit %d", code, text, exit)
		}
	}
}

func TestRulesInForce(t *testing.T) {
	t.Parallel()
	p := permission.Context{Mode: permission.Explore, Rules: []permission.Rule{
		{Tool: "a", Behavior: permission.Allow}, {Tool: "b", Behavior: permission.Deny},
	}}
	s := events.SessionInfo{Mode: "bypass", Rules: []events.SessionRule{
		{Rule: events.Rule{Tool: "c", Behavior: "allow"}, Definition: "old"},
		{Rule: events.Rule{Tool: "d", Behavior: "deny"}},
	}}
	f := rulesInForce(p, s, map[string]string{"c": "new"})
	var got []string
	for _, r := range f.Rules {
		line := r.Behavior + " " + r.String() + " " + r.From
		if r.Void {
			line += " void"
		}
		got = append(got, line)
	}
	want := []string{"deny b installation", "deny d session", "allow a installation", "allow c session void"}
	if d := cmp.Diff(want, got); d != "" || f.Mode != "bypass" || f.ModeFrom != "session" {
		t.Errorf("mode %s of %s, rules (-want +got):\n%s", f.Mode, f.ModeFrom, d)
	}
}

func TestPermitExit(t *testing.T) {
	t.Parallel()
	for want, r := range map[int]events.PermitReply{
		0: {Behavior: "allow"}, 9: {Behavior: "deny"}, 13: {Behavior: "ask"}, 4: {Behavior: "allow", Invalid: "x"},
	} {
		if got := permitExit(r); got != want {
			t.Errorf("%+v: got %d, want %d", r, got, want)
		}
	}
}

// What happened to a call reads in the order of time, each thing once.
func TestLife(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 5, 1, 11, 56, 0, 0, time.UTC)
	q := aQuestion().Question
	started := began.Add(3 * time.Minute)
	var l life
	add := func(at time.Time, typ events.Type, call events.CallID, data any) {
		e, err := events.New(events.Attributes{Type: typ, Session: "s", Turn: "t", Call: call}, data)
		if err != nil {
			t.Fatal(err)
		}
		l.add(e, at, "c1")
	}
	add(began, events.TypeToolCalls, "", events.ToolCalls{Calls: []events.Call{q.Call, {ID: "c2", Name: "other", Input: json.RawMessage("{}")}}})
	add(started, events.TypeToolResult, "c1", events.ToolResult{
		CallID: "c1", Name: "shell", State: events.StateSuccess, Reason: events.ReasonOK, Content: []events.Content{events.Text("pushed")},
		Meta: events.ResultMeta{Attempt: 2, Worker: "w", StartedAt: &started, FinishedAt: started.Add(1200 * time.Millisecond), Decision: "ask: rule shell", Definition: "def"},
	})
	add(began, events.TypeRequireUserConfirm, "c1", q)
	add(began, events.TypeUserConfirmResult, "c1", events.Decided{
		Outcome: events.OutcomeApproved, At: began.Add(2 * time.Minute), Actor: "alice", Votes: []events.Vote{{Actor: "bob", At: began.Add(90 * time.Second)}, {Actor: "alice"}}, Question: q,
	})
	var out bytes.Buffer
	a := &app{streams: streams{nil, &out, &out}}
	a.printLife(l, events.LifeRequest{Session: "s", Turn: "t", Call: "c1"})
	_, got, _ := strings.Cut(out.String(), "\n")
	want := `      +0s  c1  requested   shell {"command":"git push","n":12345678901234567890}
      +1m  c1  asks        Nobody allowed it. (request 0123456789ab, round 2; 2 people of ops)
   +1m30s  c1  counted     approved by bob
      +2m  c1  approved    by alice
      +3m  c1  resolved    definition def; ask: rule shell
      +3m  c1  ran         attempt 2, on w, for 1.2s
    +3m1s  c1  success     ok: pushed
`
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
