package toolkit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/toolkittest"
)

type none struct{}

func define[Out any](t *testing.T, fn func(context.Context) (Out, error), o *toolkit.Options) *toolkit.Tool {
	t.Helper()
	tool, err := toolkit.Define("probe", "A tool of a test.", func(ctx context.Context, _ none) (Out, error) { return fn(ctx) }, o)
	if err != nil {
		t.Fatal(err)
	}
	return tool
}

func wantEnd(t *testing.T, out toolkittest.Outcome, reason events.Reason, text string) {
	t.Helper()
	r := out.Result
	if r.Reason != reason || r.State != reason.Outcome().State || !strings.Contains(r.Text(), text) {
		t.Errorf("got %s, %s, %q; want %s and a text with %q", r.State, r.Reason, r.Text(), reason, text)
	}
	if r.IsError != (reason != events.ReasonOK) {
		t.Errorf("isError: got %v of %s", r.IsError, reason)
	}
}

// T1, T3, A-35: the state is set by what happened, never read from a text.
func TestStateIsNeverReadFromTheText(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		out    any
		err    error
		reason events.Reason
		text   string
	}{
		"a raw string":              {out: "sunny", reason: events.ReasonOK, text: "sunny"},
		"a text that says Error":    {out: "Error: not really", reason: events.ReasonOK, text: "Error: not really"},
		"an error":                  {err: errors.New("no such city"), reason: events.ReasonToolError, text: "no such city"},
		"nothing":                   {reason: events.ReasonOK, text: "null"},
		"an error result":           {out: toolkit.Result{IsError: true, Content: []events.Content{events.Text("broken")}}, reason: events.ReasonToolError, text: "broken"},
		"an empty result":           {out: toolkit.Result{}, reason: events.ReasonToolError, text: "without returning a result"},
		"an error with NUL and ESC": {err: errors.New("a\x00b\x1b[31m"), reason: events.ReasonToolError, text: "a\x00b\x1b[31m"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tool := define(t, func(context.Context) (any, error) { return c.out, c.err }, nil)
			wantEnd(t, toolkittest.Run(t, tool, "", nil), c.reason, c.text)
		})
	}
}

// T2: a panic is told to the model in a neutral sentence; value and stack stay home.
func TestPanicStaysHome(t *testing.T) {
	t.Parallel()
	tool := define(t, func(context.Context) (string, error) {
		panic("secret /etc/shadow") //nolint:forbidigo // the point of this test
	}, &toolkit.Options{Attempts: 3, ReadOnly: true})
	out := toolkittest.Run(t, tool, "", nil)
	wantEnd(t, out, events.ReasonToolPanic, "internal error")
	if strings.Contains(out.Result.Text(), "secret") {
		t.Errorf("the panic's value crossed: %q", out.Result.Text())
	}
	if p, ok := errors.AsType[*toolkit.PanicError](errors.Join(out.Failures...)); !ok || !strings.Contains(string(p.Stack), "execute_test") {
		t.Errorf("the log got %v, want the panic with its stack", out.Failures)
	}
	if len(out.Failures) != 1 {
		t.Errorf("%d attempts, want 1: a panic is no failure that may pass", len(out.Failures))
	}
}

// A-30, T11: a retryable failure is tried again, with the definition's pauses, and attempts count.
func TestRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			fail   func(n int32) error
			reason events.Reason
			calls  int32
			took   time.Duration
		}{
			"succeeds at the second":   {func(n int32) error { return onlyFirst(n, toolkit.Retryable(errors.New("busy"))) }, events.ReasonOK, 2, time.Second},
			"asks for a pause":         {func(n int32) error { return onlyFirst(n, toolkit.RetryAfter(errors.New("busy"), time.Minute)) }, events.ReasonOK, 2, time.Minute},
			"never succeeds":           {func(int32) error { return toolkit.Retryable(errors.New("busy")) }, events.ReasonToolError, 3, 3 * time.Second},
			"a plain error":            {func(int32) error { return errors.New("no") }, events.ReasonToolError, 1, 0},
			"fatal around retryable":   {func(int32) error { return toolkit.Fatal(toolkit.Retryable(errors.New("no"))) }, events.ReasonToolError, 1, 0},
			"retryable around a cause": {func(n int32) error { return onlyFirst(n, toolkit.Retryable(fs.ErrNotExist)) }, events.ReasonOK, 2, time.Second},
		} {
			var n atomic.Int32
			tool := define(t, func(context.Context) (string, error) {
				if err := c.fail(n.Add(1)); err != nil {
					return "", err
				}
				return "done", nil
			}, &toolkit.Options{Attempts: 3})
			begin := time.Now()
			out := toolkittest.Run(t, tool, "", nil)
			if out.Result.Reason != c.reason || n.Load() != c.calls || out.Result.Meta.Attempt != int(c.calls) || time.Since(begin) != c.took {
				t.Errorf("%s: got %s after %d calls (attempt %d) and %v, want %s after %d and %v",
					name, out.Result.Reason, n.Load(), out.Result.Meta.Attempt, time.Since(begin), c.reason, c.calls, c.took)
			}
		}
	})
}

func onlyFirst(n int32, err error) error {
	if n == 1 {
		return err
	}
	return nil
}

// T10, A-41: each attempt has the tool's own timeout; one that may run again is tried again.
func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			o    toolkit.Options
			took time.Duration
			runs int32
		}{
			{toolkit.Options{}, 5 * time.Minute, 1},
			{toolkit.Options{Timeout: 10 * time.Minute, Attempts: 3}, 10 * time.Minute, 1}, // side effects: once
			{toolkit.Options{Timeout: time.Minute, Attempts: 3, ReadOnly: true}, 3*time.Minute + 3*time.Second, 3},
		} {
			var runs atomic.Int32
			tool := define(t, func(ctx context.Context) (string, error) {
				runs.Add(1)
				<-ctx.Done()
				return "", errors.New("whatever the tool says now")
			}, &c.o)
			begin := time.Now()
			out := toolkittest.Run(t, tool, "", nil)
			wantEnd(t, out, events.ReasonTimeout, "in time")
			if runs.Load() != c.runs || time.Since(begin) != c.took || out.Leaked {
				t.Errorf("got %d runs in %v (leaked %v), want %d in %v", runs.Load(), time.Since(begin), out.Leaked, c.runs, c.took)
			}
		}
	})
}

// T-54: a tool that ignores its context is left behind after the grace, and its call settled.
func TestToolThatIgnoresItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tool := define(t, func(ctx context.Context) (string, error) {
			time.Sleep(time.Hour)
			toolkit.Emit(ctx, events.Text("too late"))
			return "too late", nil
		}, &toolkit.Options{Timeout: time.Minute})
		begin := time.Now()
		out := toolkittest.Run(t, tool, "", nil)
		wantEnd(t, out, events.ReasonTimeout, "in time")
		if !out.Leaked || time.Since(begin) != time.Minute+toolkit.DefaultGrace {
			t.Errorf("leaked %v after %v, want after a minute and the grace", out.Leaked, time.Since(begin))
		}
		time.Sleep(2 * time.Hour)
		if len(out.Deltas) != 0 {
			t.Errorf("a settled call still emitted %v", out.Deltas)
		}
	})
}

// T-65: cancelled, shut down and timed out are told apart.
func TestCauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for cause, reason := range map[error]events.Reason{
			toolkit.ErrCancelled: events.ReasonCancelled,
			toolkit.ErrShutdown:  events.ReasonShutdown,
			toolkit.ErrDeadline:  events.ReasonTimeout,
		} {
			ctx, cancel := context.WithCancelCause(t.Context())
			tool := define(t, func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }, nil)
			time.AfterFunc(time.Second, func() { cancel(cause) })
			r := tool.Execute(ctx, toolkit.Execution{Input: json.RawMessage(`{}`)})
			if r.Reason != reason || r.State != reason.Outcome().State {
				t.Errorf("%v: got %s, %s, want %s", cause, r.State, r.Reason, reason)
			}
			if r = tool.Execute(ctx, toolkit.Execution{}); r.Reason != reason {
				t.Errorf("%v before it began: got %s, want %s", cause, r.Reason, reason)
			}
		}
	})
}

// A result that was there before the cancel is the result.
func TestResultBeforeTheEndOfTheContextCounts(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	tool := define(t, func(context.Context) (string, error) { cancel(toolkit.ErrCancelled); return "done", nil }, nil)
	if r := tool.Execute(ctx, toolkit.Execution{}); r.Reason != events.ReasonOK || r.Text() != "done" {
		t.Errorf("got %s %q, want the tool's result", r.Reason, r.Text())
	}
}

// T14, T15: deltas carry call, attempt and their place; the result is not among them.
func TestDeltas(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	tool := define(t, func(ctx context.Context) (string, error) {
		toolkit.Progress(ctx, 1, 2, "half")
		toolkit.Emit(ctx, events.Text("piece"))
		if tries.Add(1) == 1 {
			return "", toolkit.RetryAfter(errors.New("again"), time.Millisecond)
		}
		return "piece, and the rest", nil
	}, &toolkit.Options{Attempts: 2})
	out := toolkittest.Run(t, tool, "", nil)
	wantEnd(t, out, events.ReasonOK, "and the rest")
	var got []string
	for _, d := range out.Deltas {
		b, err := events.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(b))
	}
	want := []string{
		`{"callId":"call","seq":1,"attempt":1,"progress":1,"total":2,"message":"half"}`,
		`{"callId":"call","seq":2,"attempt":1,"content":{"type":"text","text":"piece"}}`,
		`{"callId":"call","seq":1,"attempt":2,"progress":1,"total":2,"message":"half"}`,
		`{"callId":"call","seq":2,"attempt":2,"content":{"type":"text","text":"piece"}}`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	toolkit.Emit(t.Context(), events.Text("outside of a call")) // does nothing
}

type userContext struct {
	Plan string `json:"plan"`
}

// What a tool may know of its call: who, which, what the agent sent along, and its own scratch map.
func TestWhatAToolKnows(t *testing.T) {
	t.Parallel()
	var seen toolkit.Call
	tool := define(t, func(ctx context.Context) (string, error) {
		seen, _ = toolkit.CallFrom(ctx)
		user, err := toolkit.Value[userContext](ctx)
		if err != nil {
			return "", err
		}
		if _, err := toolkit.Value[none](ctx); !errors.Is(err, toolkit.ErrNoValue) {
			t.Errorf("missing value: got %v, want ErrNoValue", err)
		}
		who, _ := toolkit.Scratch(ctx).Load("who")
		return user.Plan + " " + toolkit.ContextFrom(ctx).Attributes["region"] + " " + fmt.Sprint(who), nil
	}, nil)
	remember := func(next toolkit.Handler) toolkit.Handler {
		return func(ctx context.Context, in json.RawMessage) (toolkit.Result, error) {
			toolkit.Scratch(ctx).Store("who", toolkit.ContextFrom(ctx).User)
			return next(ctx, in)
		}
	}
	out := toolkittest.Run(t, tool, "", &toolkittest.Options{
		Call: toolkit.Call{ReplyID: "r1"}, Middleware: []toolkit.Middleware{remember},
		Context: &events.Context{
			User: "ada", Attributes: map[string]string{"region": "eu"},
			Values: map[string]json.RawMessage{"userContext": json.RawMessage(`{"plan":"gold"}`)},
		},
	})
	wantEnd(t, out, events.ReasonOK, "gold eu ada")
	if seen.Agent != "test" || seen.Key.Call != "call" || seen.ReplyID != "r1" || seen.Attempt != 1 || seen.Deadline.IsZero() || seen.Tool != "probe" {
		t.Errorf("the tool saw %+v", seen)
	}
	if _, ok := toolkit.CallFrom(t.Context()); ok {
		t.Error("a call was found outside of one")
	}
}

// Middleware runs outermost first, around validation; it may answer by itself.
func TestMiddlewareOrder(t *testing.T) {
	t.Parallel()
	var order []string
	layer := func(name string) toolkit.Middleware {
		return func(next toolkit.Handler) toolkit.Handler {
			return func(ctx context.Context, in json.RawMessage) (toolkit.Result, error) {
				order = append(order, name)
				out, err := next(ctx, in)
				order = append(order, "/"+name)
				return out, err
			}
		}
	}
	tool := define(t, func(context.Context) (string, error) { order = append(order, "tool"); return "x", nil }, nil)
	toolkittest.Run(t, tool, `{"unknown":1}`, &toolkittest.Options{Middleware: []toolkit.Middleware{layer("a"), layer("b")}})
	if got := strings.Join(order, " "); got != "a b /b /a" {
		t.Errorf("invalid arguments: got %s", got)
	}
	order = nil
	toolkittest.Run(t, tool, `{}`, &toolkittest.Options{Middleware: []toolkit.Middleware{layer("a"), layer("b")}})
	if got := strings.Join(order, " "); got != "a b tool /b /a" {
		t.Errorf("got %s", got)
	}
}

// T-73, T-79: a result over the tool's cap is an error or is cut to head and tail; below it the result is whole.
func TestResultCap(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 5000)
	for _, c := range []struct {
		policy    toolkit.Oversize
		limit     int
		reason    events.Reason
		truncated bool
	}{
		{"", 0, events.ReasonOK, false},
		{toolkit.OversizeReference, 20_000, events.ReasonOK, false},
		{toolkit.OversizeReference, 1000, events.ReasonResultTooLarge, false},
		{toolkit.OversizeError, 1000, events.ReasonResultTooLarge, false},
		{toolkit.OversizeTruncate, 1000, events.ReasonOK, true},
		{toolkit.OversizeTruncate, 1, events.ReasonOK, true},
	} {
		tool := define(t, func(context.Context) (string, error) { return long, nil }, &toolkit.Options{MaxResult: c.limit, Oversize: c.policy})
		r := toolkittest.Run(t, tool, "", nil).Result
		if r.Reason != c.reason || r.Meta.Truncated != c.truncated {
			t.Errorf("%q at %d: got %s, truncated %v", c.policy, c.limit, r.Reason, r.Meta.Truncated)
		}
		if c.truncated && (len(r.Text()) > c.limit+200 || !strings.Contains(r.Text(), "left out")) {
			t.Errorf("%q at %d: got %d bytes", c.policy, c.limit, len(r.Text()))
		}
	}
}

func TestToolkit(t *testing.T) {
	t.Parallel()
	a := define(t, func(context.Context) (string, error) { return "a", nil }, nil)
	b, err := toolkit.Raw(toolkit.Definition{Name: "raw", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, json.RawMessage) (toolkit.Result, error) { return toolkit.Result{}, nil })
	if err != nil {
		t.Fatal(err)
	}
	tk := toolkit.New()
	if err := tk.Add(a, b); err != nil {
		t.Fatal(err)
	}
	if err := tk.Add(b); !errors.Is(err, toolkit.ErrDuplicate) {
		t.Errorf("again: got %v, want ErrDuplicate", err)
	}
	if err := toolkit.New().Add(a, a); !errors.Is(err, toolkit.ErrDuplicate) {
		t.Errorf("twice at once: got %v, want ErrDuplicate", err)
	}
	var names []string
	for tool := range tk.All() {
		names = append(names, string(tool.Definition().Name))
		tk.Remove(tool.Definition().Name)
	}
	if got := strings.Join(names, " "); got != "probe raw" {
		t.Errorf("got %s, want the order of addition", got)
	}
	if _, ok := tk.Lookup("raw"); ok || tk.Remove("raw") {
		t.Error("a removed tool is still there")
	}
}

// A no-op tool with three arguments: as a test kit runs it, as a worker does with arguments that
// the dispatcher has checked, and on goroutines that are used again, as workers have them.
func BenchmarkExecute(b *testing.B) {
	tool := toolkit.MustDefine("noop", "Does nothing.", func(context.Context, add) (string, error) { return "ok", nil }, nil)
	e := toolkit.Execution{Input: json.RawMessage(`{"a":1,"b":2,"u":"x"}`)}
	run := func(e toolkit.Execution) func(*testing.B) {
		return func(b *testing.B) {
			b.Helper()
			b.ReportAllocs()
			for b.Loop() {
				tool.Execute(b.Context(), e)
			}
		}
	}
	b.Run("validated", run(e))
	e.Checked = tool.Definition().Hash()
	b.Run("checked", run(e))
	work := make(chan func())
	defer close(work)
	go func() {
		for f := range work {
			f()
		}
	}()
	e.Go = func(f func()) { work <- f }
	b.Run("reused", run(e))
}
