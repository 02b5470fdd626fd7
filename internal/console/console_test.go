package console_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/console"
)

// Deciding works without a script: each answer is a form, and what became of it is on the page.
func TestDecideWithoutScripts(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id, p := d.asked("c1", "deploy", `{"service":"shop","replicas":3}`)
	if _, page := d.get("/"); !strings.Contains(page, id) || !strings.Contains(page, "deploy") || !strings.Contains(page, "wants approval") {
		t.Errorf("list: %s", page)
	}
	if _, page := d.get("/?tool=other"); strings.Contains(page, id) {
		t.Error("the filter lets through another tool")
	}
	_, page := d.get("/question/" + id)
	for _, want := range []string{"May deploy run?", "asked by <b>local</b>", "shop", "mode default", "allow deploy", "then the call is denied"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page of the question has no %q", want)
		}
	}
	code, at, page := d.post(id, "confirm", url.Values{"decision": {"approve"}, "input": {`{"service":"shop","replicas":3}`}})
	if code != http.StatusOK || !strings.HasSuffix(at, "?said=accepted") || !strings.Contains(page, "Your answer decided the question") || !strings.Contains(page, "approved") {
		t.Errorf("approve: %d at %s: %s", code, at, page)
	}
	if r := d.result(p); r.Text() != `deployed {"service":"shop","replicas":3}` {
		t.Errorf("got %s %q", r.Reason, r.Text())
	}
	code, _, page = d.post(id, "confirm", url.Values{"decision": {"deny"}})
	if code != http.StatusConflict || !strings.Contains(page, "decided already") {
		t.Errorf("too late: %d: %s", code, page)
	}
	if _, page := d.get("/decisions"); !strings.Contains(page, id) || !strings.Contains(page, "by alice") {
		t.Errorf("decisions: %s", page)
	}
}

// Arguments are changed on the page, what is wrong with them is said there, and what was typed stays.
func TestChangeArguments(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id, p := d.asked("c1", "deploy", `{ "service" : "shop" }`)
	code, _, page := d.post(id, "confirm", url.Values{"decision": {"approve"}, "input": {`{"service":`}, "reason": {"a reason"}})
	if code != http.StatusUnprocessableEntity || !strings.Contains(page, "no JSON") || !strings.Contains(page, "{&#34;service&#34;:</textarea>") || !strings.Contains(page, "a reason") {
		t.Errorf("broken JSON: %d: %s", code, page)
	}
	code, _, page = d.post(id, "confirm", url.Values{"decision": {"approve"}, "input": {`{"service":7}`}})
	if code != http.StatusConflict || !strings.Contains(page, "do not fit the tool") {
		t.Errorf("arguments that do not fit: %d: %s", code, page)
	}
	code, _, page = d.post(id, "confirm", url.Values{"decision": {"approve"}, "input": {"{\r\n \"service\":\"other\"}"}, "rule": {"0"}, "scope": {"session"}})
	if code != http.StatusOK {
		t.Fatalf("changed: %d: %s", code, page)
	}
	if r := d.result(p); code != http.StatusOK || r.Text() != `deployed {"service":"other"}` {
		t.Errorf("changed: %d, %q", code, r.Text())
	}
	// The rule that came along lets the next one run.
	if r := d.result(d.submit("c2", "deploy", `{"service":"x"}`)); r.Reason != events.ReasonOK {
		t.Errorf("with the rule: %s", r.Reason)
	}
}

// A denial brings its reason to the model.
func TestDeny(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id, p := d.asked("c1", "deploy", `{"service":"shop"}`)
	code, _, page := d.post(id, "confirm", url.Values{"decision": {"deny"}, "reason": {"not on a Friday"}})
	if code != http.StatusOK || !strings.Contains(page, "denied") || !strings.Contains(page, "not on a Friday") {
		t.Errorf("deny: %d: %s", code, page)
	}
	if r := d.result(p); r.Reason != events.ReasonDeniedByUser || !strings.Contains(r.Text(), "not on a Friday") {
		t.Errorf("got %s %q", r.Reason, r.Text())
	}
}

// A result is given by fields made of its schema, as JSON, as text, or by one of the options.
func TestAnswerOutside(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id, p := d.asked("c1", "survey", `{}`)
	_, page := d.get("/question/" + id)
	for _, want := range []string{"What is the result of survey?", `name="f:stars"`, "Happy?", "<option >M</option>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the form has no %q", want)
		}
	}
	code, _, page := d.post(id, "answer", url.Values{"f:stars": {"many"}, "state": {"success"}})
	if code != http.StatusUnprocessableEntity || !strings.Contains(page, "no number") || !strings.Contains(page, `value="many"`) {
		t.Errorf("no number: %d: %s", code, page)
	}
	d.post(id, "answer", url.Values{"f:stars": {"12345678901234567890"}, "f:happy": {"true"}, "f:size": {"M"}, "state": {"success"}})
	if r := d.result(p); string(r.StructuredContent) != `{"happy":true,"stars":12345678901234567890,"size":"M"}` {
		t.Errorf("got %s %s", r.Reason, r.StructuredContent)
	}
	id, p = d.asked("c2", "ask_user", `{"question":"Which one?","options":["this","that"]}`)
	if _, page := d.get("/question/" + id); !strings.Contains(page, "<h1>Which one?</h1>") || !strings.Contains(page, `value="that"`) {
		t.Errorf("ask_user: %s", page)
	}
	d.post(id, "answer", url.Values{"option": {"that"}, "state": {"success"}})
	if r := d.result(p); r.Text() != "that" {
		t.Errorf("got %q", r.Text())
	}
	id, p = d.asked("c3", "ask_user", `{"question":"Why?"}`)
	if code, _, _ := d.post(id, "answer", url.Values{"state": {"success"}}); code != http.StatusUnprocessableEntity {
		t.Errorf("an empty answer: %d", code)
	}
	d.post(id, "answer", url.Values{"text": {"do not\r\nknow"}, "state": {"error"}})
	if r := d.result(p); r.Text() != "do not\nknow" || r.Reason != events.ReasonToolError {
		t.Errorf("got %s %q", r.Reason, r.Text())
	}
}

// What could hide or reorder text is shown (T-145), markup is text, and long values are whole.
func TestUntrustedText(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	long := strings.Repeat("0123456789", 1000)
	id, _ := d.asked("c1", "deploy", `{"service":"a\u202eb`+"\u202e\u061c\u200b\U000e0041"+`<script>alert(1)</script>`+long+`"}`)
	_, page := d.get("/question/" + id)
	for _, bad := range []string{"\u202e", "\u061c", "\u200b", "\U000e0041", "<script>alert"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	for _, want := range []string{`\u202e`, `\u061c`, `\u200b`, `\U000e0041`, "&lt;script&gt;", long} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %.20q", want)
		}
	}
	// What the field has in it, sent back unchanged, is the call as it was asked about.
	_, rest, _ := strings.Cut(page, `class="code">`)
	field, _, _ := strings.Cut(rest, "</textarea>")
	if !strings.Contains(field, `\udb40\udc41`) || strings.Contains(field, "\U000e0041") {
		t.Errorf("the field to edit: %.200s", field)
	}
}

// Who has no token, asks under another name, or sends a form that is not ours, is refused.
func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	id, p := d.asked("c1", "deploy", `{"service":"shop"}`)
	ask := func(method, path string, body url.Values, change func(*http.Request)) int {
		r, err := http.NewRequestWithContext(t.Context(), method, d.address(path), strings.NewReader(body.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		if method == http.MethodPost {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		u, _ := url.Parse(d.address("/"))
		for _, c := range d.http.Jar.Cookies(u) {
			r.AddCookie(c)
		}
		change(r)
		reply, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = reply.Body.Close() }()
		if h := reply.Header; h.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(h.Get("Content-Security-Policy"), "default-src 'none'") || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s: headers %v", method, path, h)
		}
		return reply.StatusCode
	}
	_, page := d.get("/question/" + id)
	good := url.Values{"csrf": {hidden(page, "csrf")}, "digest": {hidden(page, "digest")}, "decision": {"approve"}}
	bad := url.Values{"digest": good["digest"], "decision": {"approve"}, "csrf": {"x"}}
	confirm := "/question/" + id + "/confirm"
	nothing := func(*http.Request) {}
	for name, c := range map[string]struct {
		method, path string
		body         url.Values
		change       func(*http.Request)
		want         int
	}{
		"no cookie":              {"GET", "/", nil, func(r *http.Request) { r.Header.Del("Cookie") }, http.StatusUnauthorized},
		"another token":          {"GET", "/?token=wrong", nil, nothing, http.StatusUnauthorized},
		"another cookie":         {"GET", "/", nil, func(r *http.Request) { r.Header.Set("Cookie", "toolwire_console=x") }, http.StatusUnauthorized},
		"the token as a bearer":  {"GET", "/", nil, func(r *http.Request) { r.Header.Del("Cookie"); r.Header.Set("Authorization", "Bearer "+token) }, http.StatusOK},
		"another name (rebound)": {"GET", "/", nil, func(r *http.Request) { r.Host = "evil.example:80" }, http.StatusMisdirectedRequest},
		"from another site":      {"POST", confirm, good, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, http.StatusForbidden},
		"of another origin":      {"POST", confirm, good, func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, http.StatusForbidden},
		"a form that is forged":  {"POST", confirm, bad, nothing, http.StatusForbidden},
		"no cookie, good form":   {"POST", confirm, good, func(r *http.Request) { r.Header.Del("Cookie") }, http.StatusUnauthorized},
		"too large":              {"POST", confirm, url.Values{"input": {strings.Repeat("x", 21<<20)}}, nothing, http.StatusBadRequest},
		"no such question":       {"GET", "/question/nope", nil, nothing, http.StatusNotFound},
		"no such page":           {"GET", "/nope", nil, nothing, http.StatusNotFound},
	} {
		if got := ask(c.method, c.path, c.body, c.change); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	if s, err := d.agent.Status(t.Context(), "s", p.Turn()); err != nil || s.Calls[0].State != events.CallAsking {
		t.Errorf("a refused request decided: %+v, %v", s, err)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]console.Config{"short token": {Token: "x"}, "no port": {Addr: "127.0.0.1"}} {
		if _, err := console.New(nil, cfg); !errors.Is(err, console.ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
	d := newDesk(t)
	other, err := console.New(nil, console.Config{Addr: d.page.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Run(t.Context()); !errors.Is(err, console.ErrListen) || !strings.Contains(err.Error(), "taken") {
		t.Errorf("a taken address: %v", err)
	}
}
