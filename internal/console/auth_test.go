package console_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/console"
)

func turnOf(id events.CallID, tool events.ToolName, input string) agent.Turn {
	return agent.Turn{Session: "own-session", Calls: []events.Call{{ID: id, Name: tool, Input: []byte(input)}}}
}

// handler is a console that has nobody to ask, for what is refused before.
func handler(t *testing.T, hosts ...string) http.Handler {
	t.Helper()
	c, err := console.New(nil, console.Config{Actor: "anna", Token: token, Hosts: hosts})
	if err != nil {
		t.Fatal(err)
	}
	return c.Handler()
}

func serve(t *testing.T, h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec
}

func from(method, target string, header ...string) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), method, target, nil)
	r.Host = "localhost:4280"
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	h := handler(t, "approvals.example.com")
	auth := "Bearer " + token
	for name, tt := range map[string]struct {
		r    *http.Request
		want int
	}{
		"nobody":              {from("GET", "/"), 401},
		"wrong bearer":        {from("GET", "/nothing", "Authorization", "Bearer x"), 401},
		"bearer":              {from("GET", "/nothing", "Authorization", auth), 404},
		"wrong token":         {from("GET", "/?token=x"), 401},
		"wrong cookie":        {from("GET", "/", "Cookie", "toolwire_console_4280=x"), 401},
		"stream":              {from("GET", "/events"), 401},
		"rebound":             {from("GET", "/nothing", "Host", "evil.example.com:4280", "Authorization", auth), 421},
		"rebound, static":     {from("GET", "/static/console.css", "Host", "evil.example.com"), 421},
		"named":               {from("GET", "/nothing", "Host", "Approvals.example.com.", "Authorization", auth), 404},
		"by address":          {from("GET", "/nothing", "Host", "[::1]:4280", "Authorization", auth), 404},
		"other origin":        {from("POST", "/questions/x/confirm", "Origin", "http://evil.example.com", "Authorization", auth), 403},
		"other port":          {from("POST", "/questions/x/confirm", "Origin", "http://localhost:1", "Authorization", auth), 403},
		"no origin at all":    {from("POST", "/questions/x/confirm", "Origin", "null", "Authorization", auth), 403},
		"other site":          {from("POST", "/login", "Sec-Fetch-Site", "cross-site"), 403},
		"same site":           {from("POST", "/login", "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"), 403},
		"read by other site":  {from("GET", "/", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Authorization", auth), 403},
		"framed":              {from("GET", "/nothing", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe", "Authorization", auth), 403},
		"link from elsewhere": {from("GET", "/nothing", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"), 401},
		"get that decides":    {from("GET", "/questions/x/confirm?decision=approve", "Authorization", auth), 404},
	} {
		resp := serve(t, h, tt.r)
		if resp.Code != tt.want {
			t.Errorf("%s: status %d, want %d", name, resp.Code, tt.want)
		}
		csp := resp.Header().Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: policy %q lacks %s", name, csp, want)
			}
		}
		if resp.Header().Get("X-Content-Type-Options") != "nosniff" || resp.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: headers %v", name, resp.Header())
		}
	}
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	h := handler(t)
	resp := serve(t, h, from("GET", "/decisions?skip=5&token="+token))
	if at := resp.Header().Get("Location"); resp.Code != http.StatusSeeOther || at != "/decisions?skip=5" {
		t.Errorf("status %d to %q", resp.Code, at)
	}
	c, err := http.ParseSetCookie(resp.Header().Get("Set-Cookie"))
	if err != nil {
		t.Fatal(err)
	}
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || strings.Contains(c.Value, token) || c.Name != "toolwire_console_4280" {
		t.Errorf("cookie %v", c)
	}
	r := from("GET", "/nothing")
	r.AddCookie(c)
	if got := serve(t, h, r).Code; got != http.StatusNotFound {
		t.Errorf("with the cookie: status %d", got)
	}
	for next, want := range map[string]string{"/decisions": "/decisions", "//evil.example.com": "/", "https://evil.example.com": "/", `/\evil.example.com`: "/"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/login", strings.NewReader(url.Values{"token": {token}, "next": {next}}.Encode()))
		r.Host = "127.0.0.1:4280"
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if got := serve(t, h, r).Header().Get("Location"); got != want {
			t.Errorf("next %q leads to %q", next, got)
		}
	}
}

// A form that no page of the console made decides nothing.
func TestForgedForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser()
	_, q := w.submit("c1", "deploy", `{"service":"shop"}`)
	path := "/questions/" + q.Question.RequestID + "/confirm"
	form := b.fill(q, "decision", "approve")
	for name, change := range map[string]func(url.Values){
		"no csrf":     func(f url.Values) { f.Del("csrf") },
		"wrong csrf":  func(f url.Values) { f.Set("csrf", "x") },
		"large":       func(f url.Values) { f.Set("input", strings.Repeat("x", 3<<20)) },
		"no digest":   func(f url.Values) { f.Del("digest") },
		"other call":  func(f url.Values) { f.Set("digest", strings.Repeat("0", 64)) },
		"no decision": func(f url.Values) { f.Del("decision") },
		"no rule":     func(f url.Values) { f.Set("rule", "99") },
	} {
		forged := url.Values{}
		maps.Copy(forged, form)
		change(forged)
		if status, page := b.do(b.request(http.MethodPost, path, forged)); status < 400 {
			t.Errorf("%s: status %d\n%s", name, status, page)
		}
	}
	if now, err := w.anna.Question(t.Context(), q.Question.RequestID); err != nil || now.Decided != nil {
		t.Errorf("it was decided: %+v, %v", now.Decided, err)
	}
}

// Streams end with the console, and say what happens.
func TestStream(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	resp, err := b.Do(b.request(http.MethodGet, "/events", nil).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	got := make(chan string, 1)
	go func() {
		defer close(got)
		buf, all := make([]byte, 4096), ""
		for {
			n, err := resp.Body.Read(buf)
			if all += string(buf[:n]); err != nil || strings.Contains(all, "event: decided") {
				got <- all
				return
			}
		}
	}()
	_, q := w.submit("c1", "deploy", `{"service":"shop"}`)
	b.post(q, "confirm", "decision", "deny")
	select {
	case all := <-got:
		contains(t, all, "event: begun", "event: asked\ndata: "+q.Question.RequestID+" deploy", "event: decided\ndata: "+q.Question.RequestID)
	case <-time.After(patience):
		t.Fatal("nothing was said")
	}
}
