package console_test

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/console"
)

// stub knows one question, and keeps what is answered to it.
type stub struct {
	reply     events.QuestionReply
	err       error
	confirmed []events.UserConfirmResult
}

func (s *stub) Questions(context.Context, events.QuestionsRequest) iter.Seq2[events.OpenQuestion, error] {
	return func(yield func(events.OpenQuestion, error) bool) { yield(s.reply.OpenQuestion, s.err) }
}

func (s *stub) Question(context.Context, string) (events.QuestionReply, error) { return s.reply, s.err }

func (s *stub) Decisions(context.Context) iter.Seq2[events.Decision, error] {
	return func(yield func(events.Decision, error) bool) { yield(events.Decision{}, s.err) }
}

func (s *stub) WatchQuestions(context.Context, func()) iter.Seq2[agent.QuestionChange, error] {
	return func(func(agent.QuestionChange, error) bool) {}
}

func (s *stub) Confirm(_ context.Context, _ events.OpenQuestion, a events.UserConfirmResult) (events.AnswerJudged, error) {
	s.confirmed = append(s.confirmed, a)
	return events.AnswerJudged{Judgement: events.JudgedAccepted, Text: "Done."}, s.err
}

func (s *stub) Answer(context.Context, events.OpenQuestion, events.ExternalExecutionResult) (events.AnswerJudged, error) {
	return events.AnswerJudged{}, s.err
}

func newStub() *stub {
	return &stub{reply: events.QuestionReply{OpenQuestion: events.OpenQuestion{
		Session: "s", Turn: "t", ReplyID: "r", Parent: "root/t1/c9", MayAnswer: true, Missing: 1,
		Votes: []events.Vote{{Actor: "bert", At: time.Unix(0, 0), Input: "beef"}},
		Question: events.Question{
			RequestID: "q2", Round: 2, Previous: "q1", Kind: events.KindConfirm, Requester: "planner", Digest: "d", Definition: "h",
			Call: events.Call{ID: "c", Name: "shell", Input: []byte(`{"command":"rm -r /"}`)},
			Why:  "It deletes.", Rule: "rule shell", Safety: true, Quorum: 2, Roles: []string{"ops"}, OnExpiry: "escalate",
			Suggestions: []events.Rule{{Tool: "shell", Content: "rm *", Behavior: "allow"}, {Tool: "shell", Content: "rm -r /", Behavior: "allow"}},
		},
	}}}
}

func (s *stub) handler(t *testing.T) http.Handler {
	t.Helper()
	c, err := console.New(s, console.Config{Actor: "anna", Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return c.Handler()
}

func (s *stub) ask(t *testing.T, method, path string, form url.Values) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(form.Encode()))
	r.Host = "localhost"
	r.Header.Set("Authorization", "Bearer "+token)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	rec := httptest.NewRecorder()
	s.handler(t).ServeHTTP(rec, r)
	return rec.Code, rec.Body.String()
}

// All that is known of a question is on its page.
func TestQuestionPage(t *testing.T) {
	t.Parallel()
	s := newStub()
	status, body := s.ask(t, "GET", "/questions/q2", nil)
	if status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	text := regexp.MustCompile(`<[^>]*>|\s+`).ReplaceAllString(body, " ")
	for _, want := range []string{
		"It deletes.", "rule shell", "safety", "1 of 2 people, of ops", "bert", "beef", "shell(rm *)", "root/t1/c9", "q1", "no limit", "planner", "this session",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	if len(regexp.MustCompile(`\bid="([^"]+)"`).FindAllString(body, -1)) == 0 || strings.Contains(body, " onclick") || strings.Contains(body, "style=") {
		t.Error("the page breaks its own policy")
	}
}

func TestRulesOfAnApproval(t *testing.T) {
	t.Parallel()
	s := newStub()
	form := url.Values{"digest": {"d"}, "decision": {"approve"}, "rule": {"1"}, "scope": {"installation"}}
	if status, body := s.ask(t, "POST", "/questions/q2/confirm", form); status != http.StatusSeeOther {
		t.Fatalf("status %d\n%s", status, body)
	}
	want := []events.UserConfirmResult{{Digest: "d", Decision: events.Approve, Rules: s.reply.Question.Suggestions[1:], Scope: "installation"}}
	if diff := cmp.Diff(want, s.confirmed); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

// T-41: what is no JSON object is shown as it is, and cannot be approved.
func TestMalformedArguments(t *testing.T) {
	t.Parallel()
	for input, want := range map[string]string{`{"a":1`: "The arguments are no JSON", `{"a":1,"a":2}`: "The arguments are no JSON", `"text"`: "no JSON object"} {
		s := newStub()
		s.reply.Question.Call.Input = []byte(input)
		_, body := s.ask(t, "GET", "/questions/q2", nil)
		contains(t, body, want, strings.ReplaceAll(input, `"`, "&#34;")+"</pre>", `value="deny"`)
		if strings.Contains(body, `value="approve"`) {
			t.Errorf("%s: approval is offered", input)
		}
		form := url.Values{"digest": {"d"}, "decision": {"approve"}}
		if status, _ := s.ask(t, "POST", "/questions/q2/confirm", form); status != http.StatusUnprocessableEntity || len(s.confirmed) > 0 {
			t.Errorf("%s: approved, status %d", input, status)
		}
	}
}

func TestTroubles(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]int{
		agent.ErrNotFound: 404, agent.ErrDenied: 403, agent.ErrInvalid: 400, agent.ErrUnavailable: 503, agent.ErrFull: 503, agent.ErrClosed: 503, context.Canceled: 500,
	} {
		s := newStub()
		s.err = err
		for _, path := range []string{"/", "/questions/q2", "/decisions"} {
			if status, _ := s.ask(t, "GET", path, nil); status != want {
				t.Errorf("%v: %s: status %d, want %d", err, path, status, want)
			}
		}
	}
}

func FuzzQuestionPage(f *testing.F) {
	f.Add([]byte(`{"a":["<b>",{"c":1e999}],"\u202e":"\ud800"}`), "why\x1b")
	f.Fuzz(func(t *testing.T, input []byte, why string) {
		s := newStub()
		s.reply.Question.Call.Input, s.reply.Question.Why, s.reply.Question.ResultSchema = input, why, input
		status, body := s.ask(t, "GET", "/questions/q2", nil)
		if status != http.StatusOK || strings.ContainsAny(body, "\x1b\u202e\u061c\u200b") {
			t.Errorf("status %d\n%q", status, body)
		}
	})
}
