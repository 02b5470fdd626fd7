//go:build chromium

package console_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/toolwire/toolwire/events"
)

// chrome is a real browser with one page, logged in.
func (d *desk) chrome(width, height int) context.Context {
	d.Helper()
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(width, height), chromedp.UserDataDir(d.TempDir()),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-quic", true), chromedp.Flag("no-first-run", true))
	if path := os.Getenv("CHROMIUM"); path != "" {
		opts = append(opts, chromedp.ExecPath(path))
	}
	alloc, cancelAlloc := chromedp.NewExecAllocator(context.WithoutCancel(d.Context()), opts...)
	d.Cleanup(cancelAlloc)
	ctx, cancel := chromedp.NewContext(alloc)
	d.Cleanup(cancel)
	ctx, cancelTime := context.WithTimeout(ctx, 2*time.Minute)
	d.Cleanup(cancelTime)
	d.do(ctx, chromedp.Navigate(d.page.URL()), chromedp.WaitVisible("#rows"))
	return ctx
}

func (d *desk) do(ctx context.Context, actions ...chromedp.Action[chromedp.Void]) {
	d.Helper()
	if err := chromedp.Do(ctx, actions...); err != nil {
		d.Fatal(err)
	}
}

// eval is what an expression comes to in the page.
func eval[T any](ctx context.Context, d *desk, expression string) T {
	d.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		d.Fatal(err)
	}
	return v
}

// sees waits until the page has a text.
func (d *desk) sees(ctx context.Context, text string) {
	d.Helper()
	for range 500 {
		if strings.Contains(eval[string](ctx, d, "document.body.innerText"), text) {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
	d.Fatalf("the page does not come to show %q: %s", text, eval[string](ctx, d, "document.body.innerText"))
}

// picture keeps what the page looks like where a person wants to see it.
func (d *desk) picture(ctx context.Context, name string) {
	d.Helper()
	dir := os.Getenv("TOOLWIRE_PICTURES")
	if dir == "" {
		return
	}
	b, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), b, 0o600)
	}
	if err != nil {
		d.Error(err)
	}
}

// Questions appear by themselves, and are approved, changed, denied and answered with a mouse.
func TestBrowserDecides(t *testing.T) {
	d := newDesk(t)
	ctx := d.chrome(1200, 900)
	d.sees(ctx, "Nothing is open")
	one := d.submit("c1", "deploy", `{"service":"shop","replicas":3}`)
	d.sees(ctx, "deploy")
	d.picture(ctx, "list")
	d.do(ctx, chromedp.Click(".rows .row a"), chromedp.WaitVisible("#approve"))
	d.picture(ctx, "question")
	d.do(ctx, chromedp.Click("#approve"), chromedp.WaitVisible("section.decided"))
	if r := d.result(one); r.Text() != `deployed {"service":"shop","replicas":3}` {
		t.Errorf("approved: %q", r.Text())
	}
	two := d.submit("c2", "deploy", `{"service":"shop"}`)
	d.do(ctx, chromedp.Navigate(d.address("/")))
	d.sees(ctx, "deploy")
	d.do(ctx, chromedp.Click(".rows .row a"), chromedp.WaitVisible("#edit summary"), chromedp.Click("#edit summary"),
		chromedp.WaitVisible("#input"), chromedp.SetValue("#input", `{"service":"changed"}`), chromedp.Click("#approve"), chromedp.WaitVisible("section.decided"))
	if r := d.result(two); r.Text() != `deployed {"service":"changed"}` {
		t.Errorf("changed: %q", r.Text())
	}
	id, three := d.asked("c3", "deploy", `{"service":"shop"}`)
	d.do(ctx, chromedp.Navigate(d.address("/question/"+id)), chromedp.SendKeys("#reason", "not today"), chromedp.Click("#deny"), chromedp.WaitVisible("section.decided"))
	if r := d.result(three); r.Reason != events.ReasonDeniedByUser || !strings.Contains(r.Text(), "not today") {
		t.Errorf("denied: %s %q", r.Reason, r.Text())
	}
	id, four := d.asked("c4", "ask_user", `{"question":"Which one?","options":["this","that"]}`)
	d.do(ctx, chromedp.Navigate(d.address("/question/"+id)), chromedp.WaitVisible("button.option"))
	d.picture(ctx, "ask")
	d.do(ctx, chromedp.Click("button.option:nth-of-type(2)"), chromedp.WaitVisible("section.decided"))
	if r := d.result(four); r.Text() != "that" {
		t.Errorf("answered: %q", r.Text())
	}
	d.do(ctx, chromedp.Navigate(d.address("/decisions")), chromedp.WaitVisible(".rows"))
	if n := eval[int](ctx, d, "document.querySelectorAll('.rows .row').length"); n != 4 {
		t.Errorf("%d decisions, want 4", n)
	}
	d.picture(ctx, "decisions")
}

// All of it goes by the keyboard alone, and what happens is said to who does not see it.
func TestBrowserByKeyboard(t *testing.T) {
	d := newDesk(t)
	ctx := d.chrome(1200, 900)
	d.sees(ctx, "Nothing is open")
	_, p := d.asked("c1", "deploy", `{"service":"one"}`)
	_, q := d.asked("c2", "deploy", `{"service":"two"}`)
	d.sees(ctx, "two")
	d.until("the change is said aloud", func() bool {
		return strings.Contains(eval[string](ctx, d, "document.getElementById('live').textContent"), "2 open")
	})
	d.do(ctx, chromedp.KeyEvent("?"), chromedp.WaitVisible("#help"), chromedp.KeyEvent("?"))
	d.do(ctx, chromedp.KeyEvent("j"), chromedp.KeyEvent("j"), chromedp.KeyEvent("k"), chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("#approve"))
	d.do(ctx, chromedp.KeyEvent("a"), chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("section.decided"))
	if r := d.result(p); r.Text() != `deployed {"service":"one"}` {
		t.Errorf("first: %q", r.Text())
	}
	d.do(ctx, chromedp.KeyEvent("u"), chromedp.WaitVisible("#rows"), chromedp.KeyEvent("j"), chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("#deny"))
	d.do(ctx, chromedp.KeyEvent("d"), chromedp.KeyEvent("aduj no"), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible("section.decided"))
	if r := d.result(q); r.Reason != events.ReasonDeniedByUser || !strings.Contains(r.Text(), "aduj no") {
		t.Errorf("second: %s %q", r.Reason, r.Text())
	}
	if n := eval[int](ctx, d, "[...document.querySelectorAll('input:not([type=hidden]),select,textarea')].filter(e => !e.labels.length).length"); n != 0 {
		t.Errorf("%d fields have no label", n)
	}
}

// A phone shows everything without scrolling sideways, and a question that is decided elsewhere says so.
func TestBrowserOnAPhone(t *testing.T) {
	d := newDesk(t)
	ctx := d.chrome(500, 800)
	d.do(ctx, chromedp.EmulateViewport(360, 740))
	long := strings.Repeat("verylongword", 30)
	id, _ := d.asked("c1", "deploy", `{"service":"`+long+`<b>x</b>\u202e"}`)
	d.sees(ctx, "deploy")
	wide := "document.documentElement.scrollWidth > document.documentElement.clientWidth"
	if eval[bool](ctx, d, wide) {
		t.Error("the list scrolls sideways")
	}
	d.picture(ctx, "phone-list")
	d.do(ctx, chromedp.Navigate(d.address("/question/"+id)), chromedp.WaitVisible("#approve"))
	if eval[bool](ctx, d, wide) {
		t.Error("the question scrolls sideways")
	}
	d.picture(ctx, "phone-question")
	d.sees(ctx, `\u202e`)
	if eval[int](ctx, d, "document.querySelectorAll('article b b, dd b, pre b').length") != 0 {
		t.Error("markup of the call is markup of the page")
	}
	if code, _, _ := d.post(id, "confirm", map[string][]string{"decision": {"deny"}}); code != 200 {
		t.Fatalf("deny: %d", code)
	}
	d.do(ctx, chromedp.WaitVisible("#meanwhile"))
}
