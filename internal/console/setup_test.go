package console_test

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/console"
	"github.com/toolwire/toolwire/internal/natstest"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/permission"
	"github.com/toolwire/toolwire/workers"
)

// desk is an installation with a console, whose answers are those of alice.
type desk struct {
	testing.TB
	agent *agent.Client
	page  *console.Console
	http  *http.Client

	csrf, digest string // of the last form
}

const token = "a-token-of-the-tests"

type deployment struct {
	Service  string `json:"service"`
	Replicas int    `json:"replicas,omitempty"`
}

func newDesk(tb testing.TB) *desk {
	tb.Helper()
	srv := natstest.Start(tb)
	d := &desk{TB: tb}
	tools := toolkit.New()
	err := tools.Add(toolkit.MustDefine("deploy", "Deploys a service.", func(_ context.Context, in deployment) (string, error) {
		b, err := json.Marshal(in)
		return "deployed " + string(b), err
	}, &toolkit.Options{ConcurrencySafe: true}))
	if err != nil {
		tb.Fatal(err)
	}
	disp, err := dispatcher.New(srv.Conn(), dispatcher.Config{NoHistory: true})
	if err != nil {
		tb.Fatal(err)
	}
	work, err := workers.New(srv.Conn(), tools, workers.Config{Name: "test"})
	if err != nil {
		tb.Fatal(err)
	}
	d.agent = d.client(srv, "local")
	d.page, err = console.New(d.client(srv, "alice"), console.Config{Addr: "127.0.0.1:0", Token: token, Actor: "alice"})
	if err != nil {
		tb.Fatal(err)
	}
	for _, run := range []func(context.Context) error{disp.Run, work.Run, d.page.Run} {
		d.start(run)
	}
	d.until("everything is up", func() bool {
		t, err := d.agent.Tool(tb.Context(), "deploy")
		return err == nil && t.Info.Workers > 0 && d.page.URL() != ""
	})
	err = d.agent.ChangeConfig(tb.Context(), func(c *toolkit.Config) error {
		c.Permissions = permission.Context{Mode: permission.Default, Rules: []permission.Rule{{Tool: "survey", Behavior: permission.Allow}, {Tool: "ask_user", Behavior: permission.Allow}}}
		c.External = []toolkit.Definition{{
			Name: "survey", Description: "Asks a person.", External: true, ConcurrencySafe: true, InputSchema: json.RawMessage(`{"type":"object"}`),
			OutputSchema: json.RawMessage(`{"type":"object","properties":{"happy":{"type":"boolean","title":"Happy?"},"stars":{"type":"integer"},"size":{"type":"string","enum":["S","M"]}},"required":["stars"]}`),
		}}
		c.AskUser = true
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	d.http = d.browser()
	return d
}

func (d *desk) start(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(d.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := run(ctx); err != nil {
			d.Errorf("run: %v", err)
		}
	}()
	d.Cleanup(func() { cancel(); <-done })
}

func (d *desk) client(srv *natstest.Server, id events.AgentID) *agent.Client {
	d.Helper()
	c, err := agent.New(srv.Conn(), agent.Config{Agent: id})
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(c.Close)
	return c
}

// until waits until something holds.
func (d *desk) until(what string, holds func() bool) {
	d.Helper()
	for range 1500 {
		if holds() {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	d.Fatalf("it does not come to this: %s", what)
}

// browser is one without scripts that has opened the address with the token.
func (d *desk) browser() *http.Client {
	d.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		d.Fatal(err)
	}
	c := &http.Client{Jar: jar, Timeout: 20 * time.Second}
	r, err := c.Get(d.page.URL())
	if err != nil {
		d.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	if r.StatusCode != http.StatusOK || r.Request.URL.RawQuery != "" {
		d.Fatalf("login: %s at %s", r.Status, r.Request.URL)
	}
	return c
}

func (d *desk) address(path string) string { return "http://" + d.page.Addr() + path }

// get loads a page.
func (d *desk) get(path string) (code int, text string) {
	d.Helper()
	r, err := d.http.Get(d.address(path))
	if err != nil {
		d.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		d.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// post sends the form of a question as a browser does, with what the page has in it and what was filled in.
func (d *desk) post(request, to string, fill url.Values) (code int, at, text string) {
	d.Helper()
	_, page := d.get("/question/" + request)
	if hidden(page, "csrf") != "" { // else it is decided, and the form is of a page that was loaded before
		d.csrf, d.digest = hidden(page, "csrf"), hidden(page, "digest")
	}
	form := url.Values{"csrf": {d.csrf}, "digest": {d.digest}}
	maps.Copy(form, fill)
	r, err := d.http.PostForm(d.address("/question/"+request+"/"+to), form)
	if err != nil {
		d.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		d.Fatal(err)
	}
	return r.StatusCode, r.Request.URL.RequestURI(), string(b)
}

// hidden is the value of a hidden field of a page.
func hidden(page, name string) string {
	_, rest, _ := strings.Cut(page, `name="`+name+`" value="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// submit sends one call.
func (d *desk) submit(id events.CallID, tool events.ToolName, input string) *agent.Pending {
	d.Helper()
	p, err := d.agent.Submit(d.Context(), agent.Turn{Session: "s", Calls: []events.Call{{ID: id, Name: tool, Input: json.RawMessage(input)}}})
	if err != nil {
		d.Fatal(err)
	}
	return p
}

// asked submits one call and returns its question once it is open.
func (d *desk) asked(id events.CallID, tool events.ToolName, input string) (request string, p *agent.Pending) {
	d.Helper()
	p = d.submit(id, tool, input)
	d.until("the question is open", func() bool {
		s, err := d.agent.Status(d.Context(), "s", p.Turn())
		if err == nil {
			request = s.Calls[0].Request
		}
		if request == "" {
			return false
		}
		_, err = d.agent.Question(d.Context(), request)
		return err == nil
	})
	return request, p
}

func (d *desk) result(p *agent.Pending) events.ToolResult {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), 20*time.Second)
	defer cancel()
	r, err := p.Await(ctx)
	if err != nil {
		d.Fatal(err)
	}
	return r[0]
}
