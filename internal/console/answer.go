package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/toolwire/toolwire/events"
)

var (
	errTyped    = errors.New("console: cannot be used") // something that was typed
	errNoDigest = errors.New("the form does not say which question it answers")
)

// confirm takes the answer to whether a call may run.
func (c *Console) confirm(w http.ResponseWriter, r *http.Request) {
	q, ok := c.load(w, r)
	if !ok {
		return
	}
	a, err := q.confirmation(r.PostForm)
	if err != nil {
		c.again(w, r, q, err.Error())
		return
	}
	c.send(w, r, q, func(ctx context.Context) (events.AnswerJudged, error) { return c.c.Confirm(ctx, q.OpenQuestion, a) })
}

// confirmation reads the form. The digest is that of what the page showed: whatever is stored by now,
// nothing else is approved.
func (q *question) confirmation(form url.Values) (a events.UserConfirmResult, err error) {
	t := &q.Typed
	t.Reason, t.Scope, t.Rules = typed(form.Get("reason")), form.Get("scope"), make(map[int]bool)
	t.Editing = form.Get("decision") == "edit"
	shown := q.Edit
	if edit, ok := form["input"]; ok {
		q.Edit = typed(edit[0])
	}
	if a.Digest = form.Get("digest"); a.Digest == "" {
		return a, errNoDigest
	}
	switch form.Get("decision") {
	case "deny":
		a.Decision, a.Reason = events.Refuse, strings.TrimSpace(t.Reason)
		return a, nil
	case "approve":
		if q.Edit != typed(shown) {
			t.Editing = true
			return a, errors.New("the arguments were changed: approve with these arguments, or load the page again to approve those that were asked about")
		}
	case "edit":
		if err := events.CheckJSON([]byte(q.Edit)); err != nil {
			return a, fmt.Errorf("the arguments are no JSON: %s", strings.TrimPrefix(err.Error(), events.ErrMalformed.Error()+": "))
		}
		if !newDocument([]byte(q.Edit)).Object {
			return a, errors.New("the arguments are no JSON object")
		}
		if strings.TrimSpace(q.Edit) != strings.TrimSpace(typed(shown)) {
			a.Input = json.RawMessage(q.Edit)
		}
	default:
		return a, errors.New("neither approved nor denied")
	}
	if !q.Approvable() {
		return a, errors.New("the arguments are no JSON object, so the call cannot be approved")
	}
	a.Decision = events.Approve
	for _, s := range form["rule"] {
		i, err := strconv.Atoi(s)
		if err != nil || i < 0 || i >= len(q.Question.Suggestions) {
			return a, errors.New("there is no such rule")
		}
		if !t.Rules[i] {
			a.Rules = append(a.Rules, q.Question.Suggestions[i])
		}
		t.Rules[i] = true
	}
	if len(a.Rules) > 0 {
		if !slices.Contains([]string{"", events.ScopeSession, events.ScopeInstallation}, t.Scope) {
			return a, errors.New("there is no such scope of rules")
		}
		a.Scope = t.Scope
	}
	return a, nil
}

// answer takes the result of a call.
func (c *Console) answer(w http.ResponseWriter, r *http.Request) {
	q, ok := c.load(w, r)
	if !ok {
		return
	}
	a, err := q.result(r.PostForm)
	if err != nil {
		c.again(w, r, q, err.Error())
		return
	}
	c.send(w, r, q, func(ctx context.Context) (events.AnswerJudged, error) { return c.c.Answer(ctx, q.OpenQuestion, a) })
}

// result reads the form of a result.
func (q *question) result(form url.Values) (a events.ExternalExecutionResult, err error) {
	t := &q.Typed
	t.Content, t.Structured, t.Choice, t.State = typed(form.Get("content")), typed(form.Get("structured")), form.Get("choice"), form.Get("state")
	if a.Digest = form.Get("digest"); a.Digest == "" {
		return a, errNoDigest
	}
	made, madeErr := fill(q.Fields, form)
	switch t.State {
	case "", string(events.StateSuccess):
		a.State = events.StateSuccess
	case string(events.StateError):
		a.State, a.IsError = events.StateError, true
	case string(events.StateDenied):
		a.State = events.StateDenied
	default:
		return a, errors.New("the result is neither a success nor an error nor a refusal")
	}
	text := t.Content
	if q.User != nil && strings.TrimSpace(text) == "" && t.Choice != "" {
		i, err := strconv.Atoi(t.Choice)
		if err != nil || i < 0 || i >= len(q.User.Options) {
			return a, errors.New("there is no such option")
		}
		text = q.User.Options[i]
	}
	if strings.TrimSpace(text) != "" {
		a.Content = []events.Content{events.Text(text)}
	}
	switch {
	case strings.TrimSpace(t.Structured) != "":
		if err := events.CheckJSON([]byte(t.Structured)); err != nil {
			return a, fmt.Errorf("the structured content is no JSON: %s", strings.TrimPrefix(err.Error(), events.ErrMalformed.Error()+": "))
		}
		a.StructuredContent = json.RawMessage(strings.TrimSpace(t.Structured))
	case a.State != events.StateSuccess:
	case len(q.Fields) > 0 && madeErr != nil:
		return a, errors.New(strings.ReplaceAll(madeErr.Error(), errTyped.Error()+": ", ""))
	case len(q.Fields) > 0:
		a.StructuredContent = made
	}
	if len(a.Content) == 0 && len(a.StructuredContent) == 0 {
		return a, errors.New("the answer is empty")
	}
	if len(a.Content) == 0 {
		a.Content = []events.Content{events.Text(string(a.StructuredContent))} // for models that read text alone
	}
	return a, nil
}

// again shows the question with what was typed, and what is wrong with it.
func (c *Console) again(w http.ResponseWriter, r *http.Request, q *question, why string) {
	q.Error = strings.ToUpper(why[:1]) + why[1:] + "."
	c.showQuestion(w, r, http.StatusUnprocessableEntity, q)
}

// send gives an answer, and goes on to the page that says what became of it. A refused one is shown at
// once, with what was typed.
func (c *Console) send(w http.ResponseWriter, r *http.Request, q *question, give func(context.Context) (events.AnswerJudged, error)) {
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	judged, err := give(ctx)
	if err != nil {
		status, text := trouble(err)
		c.log.Warn().Err(err).Str("request", q.Question.RequestID).Msg("answer was not judged")
		q.Error = "It is not known what became of the answer. " + text
		c.showQuestion(w, r, status, q)
		return
	}
	c.log.Info().Str("request", q.Question.RequestID).Str("judgement", judged.Judgement).Str("code", judged.Code).Msg("answered")
	if judged.Judgement == events.JudgedRefused {
		status := http.StatusConflict
		if judged.Code == events.RefusedInput || judged.Code == events.RefusedResult {
			status = http.StatusUnprocessableEntity
		}
		if now, err := c.c.Question(ctx, q.Question.RequestID); err == nil {
			q.QuestionReply = now
		}
		q.Said = &judged
		c.showQuestion(w, r, status, q)
		return
	}
	to := url.URL{Path: "/questions/" + q.Question.RequestID, RawQuery: url.Values{"said": {c.said.keep(judged)}}.Encode()}
	http.Redirect(w, r, to.String(), http.StatusSeeOther)
}
