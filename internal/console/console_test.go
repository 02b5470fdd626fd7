package console_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/console"
	"github.com/toolwire/toolwire/toolkit"
)

// browser is a browser without JavaScript.
type browser struct {
	*world
	http.Client
}

func (w *world) browser() *browser {
	w.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.Fatal(err)
	}
	b := &browser{world: w, Client: http.Client{Jar: jar}}
	w.Cleanup(b.CloseIdleConnections)
	if status, body := b.get("/?token=" + token); status != http.StatusOK || strings.Contains(body, token) {
		w.Fatalf("signing in: %d\n%s", status, body)
	}
	return b
}

func (b *browser) do(r *http.Request) (status int, body string) {
	b.Helper()
	resp, err := b.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	return resp.StatusCode, string(all)
}

func (b *browser) request(method, path string, form url.Values) *http.Request {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), method, b.at+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return r
}

func (b *browser) get(path string) (int, string) {
	b.Helper()
	return b.do(b.request(http.MethodGet, path, nil))
}

var hiddenInput = regexp.MustCompile(`<input type="hidden" name="(\w+)" value="([^"]*)">`)

// fill is the form of a question with what a person put in.
func (b *browser) fill(q events.OpenQuestion, pairs ...string) url.Values {
	b.Helper()
	_, body := b.get("/questions/" + q.Question.RequestID)
	form := url.Values{}
	for _, m := range hiddenInput.FindAllStringSubmatch(body, -1) {
		form.Set(m[1], m[2])
	}
	for i := 0; i < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	return form
}

func (b *browser) post(q events.OpenQuestion, what string, pairs ...string) (int, string) {
	b.Helper()
	return b.do(b.request(http.MethodPost, "/questions/"+q.Question.RequestID+"/"+what, b.fill(q, pairs...)))
}

func contains(t *testing.T, body string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not have %q:\n%s", want, body)
		}
	}
}

func TestApprove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser()
	const input = `{ "service" : "shop","count":7 }`
	p, q := w.submit("c1", "deploy", input)
	_, list := b.get("/?q=SHOP")
	contains(t, list, `href="/questions/`+q.Question.RequestID, "asked by local", "23 h")
	_, page := b.get("/questions/" + q.Question.RequestID)
	contains(t, page, `{ &#34;service&#34; : &#34;shop&#34;,&#34;count&#34;:7 }`, "reply-7", q.Question.Definition, q.Question.Digest, "the call is denied",
		`Deploys a service.<span class="esc" title="a character that does not show">\u202e</span> Trust me.`)
	status, page := b.post(q, "confirm", "decision", "approve", "input", input)
	if status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	contains(t, page, "Your answer counts.", "The call is approved.", "<strong>approved</strong> by anna")
	if r := w.await(p); r.Text() != "deployed shop" {
		t.Errorf("result: %+v", r)
	}
	_, past := b.get("/decisions")
	contains(t, past, q.Question.RequestID, "by anna")
	status, page = b.do(b.request(http.MethodPost, "/questions/"+q.Question.RequestID+"/confirm", b.fillAgain(q, "decision", "deny")))
	if status != http.StatusConflict {
		t.Errorf("denying later: status %d", status)
	}
	contains(t, page, "already_decided")
}

// fillAgain is a form of a page that is still open after the decision.
func (b *browser) fillAgain(q events.OpenQuestion, pairs ...string) url.Values {
	form := b.fill(q, pairs...)
	_, open := b.submit("other", "deploy", `{"service":"x"}`)
	form.Set("csrf", b.fill(open).Get("csrf"))
	form.Set("digest", q.Question.Digest)
	return form
}

func TestEditAndDeny(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser()
	p, q := w.submit("c1", "deploy", `{"service":"shop"}`)
	status, page := b.post(q, "confirm", "decision", "edit", "input", `{"service":"till",}`)
	if status != http.StatusUnprocessableEntity {
		t.Errorf("bad JSON: status %d", status)
	}
	contains(t, page, "The arguments are no JSON", `{&#34;service&#34;:&#34;till&#34;,}</textarea>`)
	status, page = b.post(q, "confirm", "decision", "approve", "input", `{"service":"till"}`)
	if status != http.StatusUnprocessableEntity {
		t.Errorf("approved with other arguments in sight: status %d", status)
	}
	contains(t, page, "The arguments were changed")
	status, page = b.post(q, "confirm", "decision", "edit", "input", `{"service":5}`)
	if status != http.StatusUnprocessableEntity {
		t.Errorf("arguments that do not fit: status %d", status)
	}
	contains(t, page, "invalid_input", `{&#34;service&#34;:5}</textarea>`)
	_, page = b.post(q, "confirm", "decision", "edit", "input", "{\r\n\"service\":\"till\"}")
	contains(t, page, "Your answer counts.", "Approved with these arguments instead")
	if r := w.await(p); r.Text() != "deployed till" {
		t.Errorf("result: %+v", r)
	}

	p, q = w.submit("c2", "deploy", `{"service":"shop"}`)
	_, page = b.post(q, "confirm", "decision", "deny", "reason", "not on a Friday")
	contains(t, page, "The call is denied.", "not on a Friday")
	if r := w.await(p); r.Reason != events.ReasonDeniedByUser || !strings.Contains(r.Text(), "not on a Friday") {
		t.Errorf("result: %+v", r)
	}
}

func TestExternal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser()
	p, q := w.submit("c1", "review", `{"what":"a door"}`)
	status, page := b.post(q, "answer", "f.verdict", `"good"`, "f.score", "many", "f.note", "kept")
	if status != http.StatusUnprocessableEntity {
		t.Errorf("status %d", status)
	}
	contains(t, page, "is no integer", ">\nkept</textarea>", `<option value="&#34;good&#34;" selected>good</option>`)
	status, page = b.post(q, "answer", "structured", `{"verdict":"fine"}`)
	if status != http.StatusUnprocessableEntity {
		t.Errorf("result that does not fit: status %d", status)
	}
	contains(t, page, "invalid_result", `{&#34;verdict&#34;:&#34;fine&#34;}</textarea>`)
	_, page = b.post(q, "answer", "f.verdict", `"good"`, "f.score", "12345678901234567890", "state", "success")
	contains(t, page, "Your answer counts.")
	if r := w.await(p); string(r.StructuredContent) != `{"verdict":"good","score":12345678901234567890}` {
		t.Errorf("result: %s", r.StructuredContent)
	}

	p, q = w.submit("c2", "ask_user", `{"question":"Which door?","options":["red","blue"]}`)
	_, page = b.get("/questions/" + q.Question.RequestID)
	contains(t, page, "Which door?", `name="choice" value="1"`, "Or in your own words")
	_, page = b.post(q, "answer", "choice", "1")
	contains(t, page, "Your answer counts.")
	if r := w.await(p); r.Text() != "blue" {
		t.Errorf("result: %+v", r)
	}

	p, q = w.submit("c3", "review", `{}`)
	b.post(q, "answer", "state", "error", "content", "nobody here")
	if r := w.await(p); !r.IsError || r.Text() != "nobody here" {
		t.Errorf("result: %+v", r)
	}
}

// Whoever asked may not answer, and is told so rather than shown buttons. Two people have to approve.
func TestQuorumAndOwnCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *toolkit.Config) { c.Approvals = []toolkit.Approval{{Tools: []string{"*"}, Quorum: 2}} })
	b := w.browser()
	_, q := w.submit("c1", "deploy", `{"service":"shop"}`)
	_, page := b.post(q, "confirm", "decision", "approve")
	contains(t, page, "Your answer is counted.", "1 more person is needed", "Approved by", "1 of 2 people")

	p, err := w.anna.Submit(t.Context(), turnOf("own", "deploy", `{"service":"shop"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	w.until(func() bool { _, page = b.get("/?q=own-session"); return strings.Contains(page, "not yours to answer") })
	id := regexp.MustCompile(`/questions/([^"]+)"`).FindStringSubmatch(page)[1]
	_, page = b.get("/questions/" + id)
	contains(t, page, "You cannot answer it: you asked for this call")
	if strings.Contains(page, "do-approve") {
		t.Error("a button that cannot work")
	}
}

// T-145, and what no browser may take for markup.
func TestUntrustedText(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser()
	long := strings.Repeat("x", 5000) + "END"
	_, q := w.submit("c1", "deploy", `{"service":"<script>alert(1)</script>\u202e\u001b[31m","note":"`+long+"\u061c\U000e0041می\u200cخواهم\"}")
	_, page := b.get("/questions/" + q.Question.RequestID)
	contains(t, page, "&lt;script&gt;alert(1)&lt;/script&gt;", `>\u202e</span>`, `>\u001b</span>[31m`, `>\u061c</span>`, `>\U000e0041</span>`,
		"می\u200cخواهم", "END", "2 characters that do not show", `\u061c\udb40\udc41می`, "5,0")
	if strings.Contains(page, "<script>alert") || strings.ContainsAny(page, "\u202e\u061c\x1b\U000e0041") {
		t.Error("untrusted text reached the page as it is")
	}
	_, list := b.get("/?q=%E2%80%AE%22%3E%3Cscript%3E")
	if strings.Contains(list, "\u202e") || strings.Contains(list, `"><script>`) {
		t.Error("the filter shows what it was given as it is")
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]console.Config{
		"actor":   {},
		"token":   {Actor: "anna", Token: "short"},
		"address": {Actor: "anna", Addr: "nowhere"},
	} {
		if _, err := console.New(nil, cfg); !errors.Is(err, console.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w := newWorld(t)
	other, err := console.New(nil, console.Config{Actor: "anna", Addr: w.console.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Run(t.Context()); !errors.Is(err, console.ErrListen) || !strings.Contains(err.Error(), "taken") || other.URL() != "" {
		t.Errorf("a taken address: %v, %s", err, other.URL())
	}
}
