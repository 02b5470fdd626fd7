package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/show"
)

// editable is JSON for a text field: what a person could not see stands there as an escape, which JSON
// takes for the same.
func editable(raw json.RawMessage) string {
	var b strings.Builder
	for _, r := range string(raw) {
		if r < 0x80 || show.Text(string(r)) == string(r) {
			b.WriteRune(r)
			continue
		}
		if r > 0xffff {
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String()
}

// lines undoes what browsers do to line ends in forms.
func lines(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

// changed are the arguments that were typed; nil: they are those that were asked about.
func changed(typed string, asked json.RawMessage) (json.RawMessage, error) {
	typed = lines(typed)
	if typed == lines(editable(asked)) {
		return nil, nil
	}
	raw := json.RawMessage(strings.TrimSpace(typed))
	if err := events.CheckJSON(raw); err != nil {
		return nil, fmt.Errorf("the arguments are no JSON: %s", strings.TrimPrefix(err.Error(), events.ErrMalformed.Error()+": "))
	}
	if raw[0] != '{' {
		return nil, errors.New("the arguments must be a JSON object, in braces")
	}
	return raw, nil
}

// confirm takes the form of an approval or a denial.
func (c *Console) confirm(w http.ResponseWriter, r *http.Request) {
	c.take(w, r, func(ctx context.Context, q events.QuestionReply, form url.Values) (events.AnswerJudged, error) {
		a := events.UserConfirmResult{Digest: form.Get("digest"), Reason: lines(form.Get("reason"))}
		switch form.Get("decision") {
		case events.Refuse:
			a.Decision = events.Refuse
			return c.client.Confirm(ctx, q.OpenQuestion, a)
		case events.Approve:
		default:
			return events.AnswerJudged{}, errors.New("neither approved nor denied: use one of the two buttons")
		}
		a.Decision = events.Approve
		var err error
		if a.Input, err = changed(form.Get("input"), q.Question.Call.Input); err != nil {
			return events.AnswerJudged{}, err
		}
		for _, v := range form["rule"] {
			i, err := strconv.Atoi(v)
			if err != nil || i < 0 || i >= len(q.Question.Suggestions) {
				return events.AnswerJudged{}, errors.New("a rule that was not suggested")
			}
			a.Rules = append(a.Rules, q.Question.Suggestions[i])
		}
		if a.Rules != nil {
			a.Scope = form.Get("scope")
		}
		return c.client.Confirm(ctx, q.OpenQuestion, a)
	})
}

// answer takes the form of a result.
func (c *Console) answer(w http.ResponseWriter, r *http.Request) {
	c.take(w, r, func(ctx context.Context, q events.QuestionReply, form url.Values) (events.AnswerJudged, error) {
		a := events.ExternalExecutionResult{Digest: form.Get("digest"), State: events.State(form.Get("state"))}
		if option := form.Get("option"); option != "" {
			a.Content = []events.Content{events.Text(option)}
			return c.client.Answer(ctx, q.OpenQuestion, a)
		}
		if text := lines(form.Get("text")); text != "" {
			a.Content = []events.Content{events.Text(text)}
		}
		var err error
		if a.StructuredContent, err = structured(form, q.Question.ResultSchema); err != nil {
			return events.AnswerJudged{}, err
		}
		if len(a.Content) == 0 && a.StructuredContent == nil {
			return events.AnswerJudged{}, errors.New("the answer is empty: give a text, or structured content")
		}
		return c.client.Answer(ctx, q.OpenQuestion, a)
	})
}

// take reads a question, has an answer made of the form, and shows what became of it. A refused answer
// shows the page again, with what was typed.
func (c *Console) take(w http.ResponseWriter, r *http.Request, say func(context.Context, events.QuestionReply, url.Values) (events.AnswerJudged, error)) {
	ctx, cancel := context.WithTimeout(r.Context(), askTimeout)
	defer cancel()
	reply, err := c.client.Question(ctx, r.PathValue("request"))
	if err != nil {
		c.trouble(w, r, err)
		return
	}
	judged, err := say(ctx, reply, r.PostForm)
	if err == nil && judged.Judgement != events.JudgedRefused {
		http.Redirect(w, r, "/question/"+url.PathEscape(reply.Question.RequestID)+"?said="+url.QueryEscape(judged.Judgement), http.StatusSeeOther)
		return
	}
	code, text := http.StatusConflict, judged.Text
	if err != nil {
		code, text = http.StatusUnprocessableEntity, err.Error()
	}
	if again, err := c.client.Question(ctx, reply.Question.RequestID); err == nil {
		reply = again
	}
	page := c.questionPage(r, reply)
	page.Error = visible(text)
	page.typed(r.PostForm)
	c.render(w, code, "question", "layout", page)
}

// typed keeps what was typed.
func (p *questionPage) typed(form url.Values) {
	if form.Has("input") {
		p.Input = lines(form.Get("input"))
	}
	p.Reason, p.Text, p.Struct, p.Ended = lines(form.Get("reason")), lines(form.Get("text")), lines(form.Get("structured")), form.Get("state")
	for _, v := range form["rule"] {
		if i, err := strconv.Atoi(v); err == nil && i >= 0 && i < len(p.Suggestions) {
			p.Suggestions[i].Checked = true
		}
	}
	if s := form.Get("scope"); s != "" {
		p.Scope = s
	}
	for i := range p.Inputs {
		p.Inputs[i].Value = form.Get("f:" + p.Inputs[i].key)
	}
}

// input is a field made of a property of a schema.
type input struct {
	Name, Label, Hint, Type, Value string // Type: text, number, checkbox or select
	Options                        []string
	Required                       bool

	key string
}

// maxInputs is the most properties that become fields; a larger schema is answered as JSON.
const maxInputs = 20

// inputsOf makes fields of a schema whose properties are all simple; nil: it is answered as JSON.
func inputsOf(schema json.RawMessage) []input {
	var s struct {
		Properties json.RawMessage `json:"properties"`
		Required   []string        `json:"required"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return nil
	}
	keys, values, err := object(s.Properties)
	if err != nil || len(keys) == 0 || len(keys) > maxInputs {
		return nil
	}
	out := make([]input, len(keys))
	for i, k := range keys {
		var p struct {
			Type        string   `json:"type"`
			Title       string   `json:"title"`
			Description string   `json:"description"`
			Enum        []string `json:"enum"`
		}
		if json.Unmarshal(values[i], &p) != nil {
			return nil
		}
		in := input{Name: "f:" + k, Label: visible(k), Hint: visible(p.Description), Type: "text", key: k}
		if p.Title != "" {
			in.Label = visible(p.Title)
		}
		switch {
		case len(p.Enum) > 0:
			in.Type, in.Options = "select", p.Enum
		case p.Type == "string":
		case p.Type == "number", p.Type == "integer":
			in.Type = "number"
		case p.Type == "boolean":
			in.Type = "checkbox"
		default:
			return nil
		}
		for _, name := range s.Required {
			in.Required = in.Required || name == k && in.Type != "checkbox"
		}
		out[i] = in
	}
	return out
}

// structured is the structured content of an answer: of the fields, or as JSON; nil: none.
func structured(form url.Values, schema json.RawMessage) (json.RawMessage, error) {
	inputs := inputsOf(schema)
	if raw := strings.TrimSpace(lines(form.Get("structured"))); raw != "" || inputs == nil {
		if raw == "" {
			return nil, nil
		}
		if err := events.CheckJSON([]byte(raw)); err != nil {
			return nil, fmt.Errorf("the structured content is no JSON: %s", strings.TrimPrefix(err.Error(), events.ErrMalformed.Error()+": "))
		}
		return json.RawMessage(raw), nil
	}
	var b bytes.Buffer
	b.WriteByte('{')
	for _, in := range inputs {
		value := lines(form.Get(in.Name))
		if value == "" && in.Type != "checkbox" {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		writeText(&b, in.key)
		b.WriteByte(':')
		switch in.Type {
		case "checkbox":
			b.WriteString(strconv.FormatBool(value != ""))
		case "number":
			if events.CheckJSON([]byte(value)) != nil {
				return nil, fmt.Errorf("%s is no number: %q", in.Label, value)
			}
			b.WriteString(value)
		default:
			writeText(&b, value)
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// writeText writes a string as JSON, which every string can be.
func writeText(b *bytes.Buffer, s string) {
	text, err := json.Marshal(s)
	if err != nil {
		text = []byte(`""`)
	}
	b.Write(text)
}

// askUser reads the arguments of the tool by which a model asks its user.
func askUser(raw json.RawMessage) (question string, options []string) {
	var in struct {
		Question string   `json:"question"`
		Options  []string `json:"options"`
	}
	if json.Unmarshal(raw, &in) != nil {
		return "", nil
	}
	return visible(in.Question), in.Options
}
