package console

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/toolwire/toolwire/events"
)

// question is the page of one.
type question struct {
	events.QuestionReply
	Input  document
	Schema document
	Edit   string // the arguments in the text area
	Hidden int    // characters of them that are written as escapes there
	Fields []field
	User   *asked
	Said   *events.AnswerJudged // what became of the answer just given
	Typed  answerForm
	Error  string // of what was typed
}

// answerForm is what was typed, to be shown again where it was refused.
type answerForm struct {
	Reason, Content, Structured, Choice, State string
	Rules                                      map[int]bool
	Scope                                      string
	Editing                                    bool
}

// Open says whether an answer still counts.
func (q *question) Open() bool { return q.Decided == nil }

// Approvable says whether there is something that can be approved.
func (q *question) Approvable() bool { return q.Input.Bad == "" && (q.Input.Object || q.Input.Empty()) }

// Needed says who is still needed.
func (q *question) Needed() string { return needed(q.OpenQuestion) }

// Parents is the chain of calls that led to the session, the nearest last.
func (q *question) Parents() []string {
	if q.Parent == "" {
		return nil
	}
	return strings.Fields(q.Parent)
}

// AfterExpiry says what happens if nobody answers.
func (q *question) AfterExpiry() string {
	switch q.Question.OnExpiry {
	case "deny":
		return "the call is denied"
	case "error":
		return "the call ends with an error"
	case "escalate":
		return "others are asked"
	case "":
		return "nothing: it stays open"
	}
	return q.Question.OnExpiry
}

func newQuestion(reply events.QuestionReply) *question {
	q := &question{
		QuestionReply: reply, Input: newDocument(reply.Question.Call.Input), Schema: newDocument(reply.Question.ResultSchema),
		Fields: fields(reply.Question.ResultSchema), User: askedUser(reply.Question),
	}
	q.Edit, q.Hidden = editable(q.Input.Raw)
	if q.Edit == "" {
		q.Edit = "{}"
	}
	return q
}

func (c *Console) questionPage(w http.ResponseWriter, r *http.Request) {
	q, ok := c.load(w, r)
	if !ok {
		return
	}
	if said := r.URL.Query().Get("said"); said != "" {
		q.Said = c.said.get(said)
	}
	c.showQuestion(w, r, http.StatusOK, q)
}

// load reads the question of a request, or says why it cannot.
func (c *Console) load(w http.ResponseWriter, r *http.Request) (*question, bool) {
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	reply, err := c.c.Question(ctx, r.PathValue("request"))
	if err != nil {
		c.failed(w, r, c.page(r, "Question"), err)
		return nil, false
	}
	return newQuestion(reply), true
}

func (c *Console) showQuestion(w http.ResponseWriter, r *http.Request, status int, q *question) {
	p := c.page(r, string(q.Question.Call.Name))
	p.Path = "/questions/" + q.Question.RequestID
	p.Question = q
	c.show(w, r, status, part(r, "question"), p)
}

// Due is when it expires; nil: never.
func (q *question) Due() *time.Time { return q.Question.ExpiresAt }
