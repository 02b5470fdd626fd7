//go:build chromium

package console_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/permission"
)

// chrome is a real browser, signed in to the console of a world.
type chrome struct {
	*world
	ctx context.Context
}

// chromePath is where the browser is: CHROMIUM, or what the path has.
func chromePath(tb testing.TB) string {
	tb.Helper()
	if p := os.Getenv("CHROMIUM"); p != "" {
		return p
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			return p
		}
	}
	tb.Fatal("no Chromium in the path; install one, or name it in CHROMIUM")
	return ""
}

func (w *world) chrome() *chrome {
	w.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromePath(w)), chromedp.NoSandbox, chromedp.WindowSize(1100, 900))
	alloc, stop := chromedp.NewExecAllocator(context.WithoutCancel(w.Context()), opts...)
	w.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(alloc)
	w.Cleanup(cancel)
	ctx, late := context.WithTimeout(ctx, 90*time.Second)
	w.Cleanup(late)
	c := &chrome{w, ctx}
	c.do(chromedp.Navigate(w.login), chromedp.WaitVisible("h1"))
	if at := c.eval("location.href"); strings.Contains(at, "token") {
		w.Errorf("the token stays in the address: %s", at)
	}
	return c
}

func (c *chrome) do(steps ...chromedp.Action[chromedp.Void]) {
	c.Helper()
	if err := chromedp.Do(c.ctx, steps...); err != nil {
		c.shot("failed")
		c.Fatal(err)
	}
}

// set is a command of the browser that answers nothing.
func set[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, c, params)
		return err
	})
}

// eval returns what an expression is, as text.
func (c *chrome) eval(js string) string {
	c.Helper()
	s, err := chromedp.Run(c.ctx, chromedp.Evaluate[string]("String("+js+")"))
	if err != nil {
		c.Fatalf("%s: %v", js, err)
	}
	return s
}

// becomes waits until an expression is what it should be.
func (c *chrome) becomes(js, want string) {
	c.Helper()
	for end := time.Now().Add(patience); ; <-time.After(20 * time.Millisecond) {
		got := c.eval(js)
		if got == want {
			return
		}
		if time.Now().After(end) {
			c.shot("failed")
			c.Fatalf("%s is %s, want %s; the page shows\n%s", js, got, want, c.eval("document.body.innerText"))
		}
	}
}

// sees waits until the page has a text.
func (c *chrome) sees(text string) {
	c.Helper()
	c.becomes(fmt.Sprintf("document.body?.innerText.includes(%q)", text), "true")
}

// ready waits until the script of the page is at work.
func (c *chrome) ready() {
	c.Helper()
	c.becomes("document.documentElement.dataset.live", "1")
}

func (c *chrome) open(q events.OpenQuestion) {
	c.Helper()
	c.do(chromedp.Navigate(c.at+"/questions/"+q.Question.RequestID), chromedp.WaitVisible("#h-call"))
}

// shot keeps a picture of the page in the directory TOOLWIRE_PICTURES, if there is one.
func (c *chrome) shot(name string) {
	c.Helper()
	dir := os.Getenv("TOOLWIRE_PICTURES")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(c.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, strings.ReplaceAll(c.Name(), "/", "_")+"-"+name+".png"), png, 0o600)
	}
	if err != nil {
		c.Error(err)
	}
}

// The list shows what is asked and decided elsewhere without being loaded again.
func TestBrowserList(t *testing.T) {
	w := newWorld(t)
	c := w.chrome()
	c.sees("Nobody waits for an answer.")
	c.ready()
	c.eval("window.same = 1")
	_, q := w.submit("c1", "deploy", `{"service":"shop","note":"first of three"}`)
	c.sees("New question: deploy")
	c.sees("asked by local")
	w.submit("c2", "review", `{"what":"a door"}`)
	w.submit("c3", "ask_user", `{"question":"Which door?","options":["red","blue"]}`)
	c.sees("ask_user")
	c.shot("list")
	if _, err := w.anna.Confirm(t.Context(), q, events.UserConfirmResult{Decision: events.Approve}); err != nil {
		t.Fatal(err)
	}
	c.sees("Decided: deploy")
	c.becomes("document.querySelectorAll('.card').length", "2")
	if c.eval("window.same") != "1" {
		t.Error("the page was loaded again")
	}
}

func TestBrowserAnswers(t *testing.T) {
	w := newWorld(t)
	c := w.chrome()

	p, q := w.submit("c1", "deploy", `{"service":"shop"}`)
	c.open(q)
	c.shot("confirm")
	c.do(chromedp.Click("#do-approve"))
	c.sees("Your answer counts. The call is approved.")
	c.shot("approved")
	if r := w.await(p); r.Text() != "deployed shop" {
		t.Errorf("approved: %+v", r)
	}

	p, q = w.submit("c2", "deploy", "{\n  \"service\": \"shop\",\n  \"count\": 2\n}")
	c.open(q)
	c.do(chromedp.Click("#edit summary"), chromedp.SetValue("#input", `{"service":"till",}`), chromedp.Click("#edit button"))
	c.sees("The arguments are no JSON")
	if got := c.eval("document.getElementById('input').value"); got != `{"service":"till",}` {
		t.Errorf("what was typed is gone: %s", got)
	}
	c.shot("invalid")
	c.do(chromedp.SetValue("#input", `{"service":"till"}`), chromedp.Click("#edit button"))
	c.sees("Your answer counts.")
	if r := w.await(p); r.Text() != "deployed till" {
		t.Errorf("edited: %+v", r)
	}

	// Arguments that nobody touched are approved as they are: new lines survive the text area.
	p, q = w.submit("c3", "deploy", "{\n  \"service\": \"shop\"\n}")
	c.open(q)
	c.do(chromedp.Click("#edit summary"), chromedp.Click("#edit button"))
	c.sees("Your answer counts.")
	w.await(p)
	if now, err := w.anna.Question(t.Context(), q.Question.RequestID); err != nil || now.Decided == nil || len(now.Decided.Input) > 0 {
		t.Errorf("untouched arguments count as changed: %+v, %v", now.Decided, err)
	}

	p, q = w.submit("c4", "deploy", `{"service":"shop"}`)
	c.open(q)
	c.do(chromedp.SendKeys("#reason", "not on a Friday"), chromedp.Click("#deny button.danger"))
	c.sees("The call is denied.")
	if r := w.await(p); !strings.Contains(r.Text(), "not on a Friday") {
		t.Errorf("denied: %+v", r)
	}

	p, q = w.submit("c5", "review", `{"what":"a door"}`)
	c.open(q)
	c.do(chromedp.SetValue("#field-verdict", `"good"`), chromedp.SendKeys("#field-score", "7"))
	c.shot("external")
	c.do(chromedp.Click("#do-answer"))
	c.sees("Your answer counts.")
	if r := w.await(p); string(r.StructuredContent) != `{"verdict":"good","score":7}` {
		t.Errorf("answered: %s", r.StructuredContent)
	}

	p, q = w.submit("c6", "ask_user", `{"question":"Which door?","options":["red","blue"]}`)
	c.open(q)
	c.do(chromedp.Click("input[name=choice][value='1']"))
	c.shot("asked")
	c.do(chromedp.Click("#do-answer"))
	c.sees("Your answer counts.")
	if r := w.await(p); r.Text() != "blue" {
		t.Errorf("answered: %+v", r)
	}
	c.do(chromedp.Navigate(c.at+"/decisions"), chromedp.WaitVisible(".card"))
	c.shot("decisions")
}

func TestBrowserWithoutScript(t *testing.T) {
	w := newWorld(t)
	c := w.chrome()
	p, _ := w.submit("c1", "deploy", `{"service":"shop"}`)
	c.do(set(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}), chromedp.Navigate(c.at+"/"), chromedp.Click(".card"), chromedp.WaitVisible("#do-approve"),
		chromedp.Click("#do-approve"), chromedp.WaitVisible("#said"))
	if r := w.await(p); r.Text() != "deployed shop" {
		t.Errorf("approved: %+v", r)
	}
}

// From the list to the decision by keys alone; no key but Enter on a button decides.
func TestBrowserKeyboard(t *testing.T) {
	w := newWorld(t)
	c := w.chrome()
	p1, _ := w.submit("c1", "deploy", `{"service":"one"}`)
	p2, _ := w.submit("c2", "deploy", `{"service":"two"}`)
	c.do(chromedp.Reload(), chromedp.WaitVisible(".card"))
	c.ready()
	c.do(chromedp.KeyEvent("jjkj"), chromedp.KeyEvent("\r"), chromedp.WaitVisible("#do-approve"))
	c.sees("two")
	c.ready()
	c.do(chromedp.KeyEvent("a"))
	c.becomes("document.activeElement.id", "do-approve")
	c.shot("focus")
	c.do(chromedp.KeyEvent("\r"))
	c.sees("Your answer counts.")
	c.becomes("document.activeElement.id", "said")
	if r := w.await(p2); r.Text() != "deployed two" {
		t.Errorf("approved: %+v", r)
	}
	c.do(chromedp.KeyEvent("u"), chromedp.WaitVisible(".questions .card"))
	c.ready()
	c.do(chromedp.KeyEvent("?"))
	c.sees("No key decides by itself")
	c.do(chromedp.KeyEvent("/"), chromedp.KeyEvent("jone"))
	if got := c.eval("document.getElementById('q').value"); !strings.HasSuffix(got, "jone") { // the tool types the key that moves there, too
		t.Errorf("keys in a field are not text: %q", got)
	}
	c.do(chromedp.KeyEvent("\x1b"), chromedp.KeyEvent("j"), chromedp.KeyEvent("\r"), chromedp.WaitVisible("#reason"))
	c.ready()
	c.do(chromedp.KeyEvent("d"), chromedp.KeyEvent("no"), chromedp.KeyEvent("\t"), chromedp.KeyEvent("\r"))
	c.sees("The call is denied.")
	if r := w.await(p1); !strings.Contains(r.Text(), "no") {
		t.Errorf("denied: %+v", r)
	}
}

// A field of a form that gets Enter must not press its first button, which approves.
func TestBrowserEnterInField(t *testing.T) {
	w := newWorld(t, func(c *toolkit.Config) { c.Permissions.Rules[0].Content = "" })
	c := w.chrome()
	_, q := w.submit("c1", "review", `{}`)
	c.open(q)
	c.do(chromedp.SetValue("#field-verdict", `"good"`), chromedp.SendKeys("#field-score", "7\r"))
	<-time.After(300 * time.Millisecond)
	if now, err := w.anna.Question(t.Context(), q.Question.RequestID); err != nil || now.Decided != nil {
		t.Errorf("Enter answered: %+v, %v", now.Decided, err)
	}
}

// T-145 in a real browser, on a phone and in the dark; nothing is wider than the screen.
func TestBrowserUntrusted(t *testing.T) {
	w := newWorld(t, func(c *toolkit.Config) {
		c.Permissions = permission.Context{Mode: permission.Bypass, Rules: []permission.Rule{{Tool: "deploy", Behavior: permission.Ask}}}
	})
	c := w.chrome()
	hostile := `{"service":"<img src=x onerror='window.hit=1'>` + "\u202egnp.exe" + `\u001b[2J","note":"` + strings.Repeat("wide", 300) + `می` + "\u200c" + `خواهم","count":12}`
	_, q := w.submit("c1", "deploy", hostile)
	c.open(q)
	for _, want := range []string{`\u202egnp.exe\u001b[2J`, "می\u200cخواهم", "onerror"} {
		if c.eval(fmt.Sprintf("document.body.textContent.includes(%q)", want)) != "true" {
			t.Errorf("the page does not show %q", want)
		}
	}
	if c.eval("window.hit") != "undefined" || c.eval("/[\\u202e\\u061c\\x1b]/.test(document.documentElement.innerHTML)") != "false" {
		t.Error("untrusted text is on the page as it is")
	}
	c.shot("desktop")
	for _, path := range []string{"/questions/" + q.Question.RequestID, "/", "/decisions"} {
		c.do(chromedp.EmulateViewport(320, 640, chromedp.EmulateMobile), chromedp.Navigate(c.at+path), chromedp.WaitVisible("h1"))
		if got := c.eval("document.documentElement.scrollWidth"); got != "320" {
			t.Errorf("%s is %s pixels wide on a screen of 320", path, got)
		}
	}
	c.open(q)
	c.shot("phone")
	c.do(chromedp.EmulateViewport(1100, 900), set(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}}))
	c.open(q)
	c.shot("dark")
}

// A page of another site can neither read the console nor decide: not by a form, not by a frame, not by
// another name for the same address.
func TestBrowserOtherSites(t *testing.T) {
	w := newWorld(t)
	_, q := w.submit("c1", "deploy", `{"service":"shop"}`)
	path := "/questions/" + q.Question.RequestID
	evil := w.site(`<form method="post" action="` + w.at + path + `/confirm"><input name="decision" value="approve"><input name="digest" value="` + q.Question.Digest +
		`"></form><iframe src="` + w.at + path + `"></iframe>`)
	c := w.chrome()
	c.do(chromedp.Navigate(evil), chromedp.WaitReady("form"))
	c.eval(fmt.Sprintf("fetch(%q,{credentials:'include'}).then(r=>window.got=r.status,()=>window.got='refused')", w.at+path))
	c.becomes("window.got", "refused")
	c.eval("document.forms[0].submit()")
	c.sees("another")
	_, port, _ := strings.Cut(strings.TrimPrefix(w.at, "http://"), ":")
	c.do(chromedp.Navigate("http://rebound.localhost:" + port + path))
	c.sees("not served under that name")
	if now, err := w.anna.Question(t.Context(), q.Question.RequestID); err != nil || now.Decided != nil {
		t.Errorf("it was decided: %+v, %v", now.Decided, err)
	}
}

// site serves a page of somebody else.
func (w *world) site(body string) string {
	w.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(rw, body)
	}))
	w.Cleanup(s.Close)
	return s.URL
}
