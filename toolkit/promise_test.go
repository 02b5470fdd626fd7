package toolkit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/toolkittest"
)

// T5, A-38, T-86: a tool without parameters runs however its missing arguments are spelled.
func TestNoArguments(t *testing.T) {
	t.Parallel()
	tool := define(t, func(context.Context) (string, error) { return "ran", nil }, nil)
	for _, in := range []string{``, ` `, "\r\n\t", `{}`, ` { } `, `null`, ` null `, `""`, `" "`, `"{}"`} {
		wantEnd(t, toolkittest.Run(t, tool, in, nil), events.ReasonOK, "ran")
	}
}

// What was judged is what runs: middleware sees the input and cannot change it, not even in place.
func TestMiddlewareCannotChangeTheInput(t *testing.T) {
	t.Parallel()
	const judged = `{"to":"ada"}`
	var got []string
	tool, err := toolkit.Raw(toolkit.Definition{Name: "pay", InputSchema: json.RawMessage(`{"type":"object"}`), Attempts: 2},
		func(_ context.Context, in json.RawMessage) (toolkit.Result, error) {
			if got = append(got, string(in)); len(got) == 1 {
				return toolkit.Result{}, toolkit.RetryAfter(errors.New("again"), time.Millisecond)
			}
			return toolkit.Convert("paid")
		})
	if err != nil {
		t.Fatal(err)
	}
	forge := func(next toolkit.Handler) toolkit.Handler {
		return func(ctx context.Context, in json.RawMessage) (toolkit.Result, error) {
			if string(in) != judged {
				t.Errorf("middleware saw %s", in)
			}
			copy(in, `{"to":"eve"}`)
			return next(ctx, json.RawMessage(`{"to":"mallory"}`))
		}
	}
	for _, checked := range []string{"", tool.Definition().Hash()} {
		got = nil
		r := tool.Execute(t.Context(), toolkit.Execution{Input: json.RawMessage(judged), Checked: checked, Middleware: []toolkit.Middleware{forge}})
		if r.Text() != "paid" || strings.Join(got, " ") != judged+" "+judged {
			t.Errorf("checked %q: got %s, the tool ran with %s", checked, r.Text(), got)
		}
	}
}

// The scratch map lives as long as the call: over its attempts, and no longer.
func TestScratchLivesForOneCall(t *testing.T) {
	t.Parallel()
	tool := define(t, func(ctx context.Context) (string, error) {
		n, _ := toolkit.Scratch(ctx).LoadOrStore("tries", new(atomic.Int32))
		tries := n.(*atomic.Int32).Add(1) //nolint:errcheck // stored above
		if tries < 3 {
			return "", toolkit.RetryAfter(errors.New("again"), time.Millisecond)
		}
		return strconv.Itoa(int(tries)), nil
	}, &toolkit.Options{Attempts: 3})
	for range 2 {
		wantEnd(t, toolkittest.Run(t, tool, "", nil), events.ReasonOK, "3")
	}
	toolkit.Scratch(t.Context()).Store("k", 1)
	if _, ok := toolkit.Scratch(t.Context()).Load("k"); ok {
		t.Error("something was kept outside of a call")
	}
}

// T2: a panic is for the log even if nobody waits for the call any more; the cancel is the result's business.
func TestPanicAfterCancelIsLogged(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	tool := define(t, func(ctx context.Context) (string, error) {
		cancel(toolkit.ErrCancelled)
		<-ctx.Done()
		panic("too late") //nolint:forbidigo // the point of this test
	}, nil)
	var failed error
	r := tool.Execute(ctx, toolkit.Execution{Failed: func(_ int, err error) { failed = err }})
	if _, ok := errors.AsType[*toolkit.PanicError](failed); !ok || r.Reason != events.ReasonToolPanic {
		t.Errorf("got %s, and for the log %v", r.Reason, failed)
	}
}

// Why a foreign context ended is for the log; the model hears a neutral sentence.
func TestForeignCausesStayHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tool := define(t, func(ctx context.Context) (string, error) { <-ctx.Done(); return "", context.Cause(ctx) }, nil)
		because := func(cause error) context.Context {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(cause) })
			return ctx
		}
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, c := range []struct {
			ctx    context.Context
			reason events.Reason
		}{
			{because(errors.New("password hunter2")), events.ReasonCancelled},
			{because(nil), events.ReasonCancelled},
			{because(toolkit.ErrLost), events.ReasonCancelled},
			{because(fmt.Errorf("hunter2: %w", toolkit.ErrShutdown)), events.ReasonShutdown},
			{soon, events.ReasonTimeout},
		} {
			var failed error
			r := tool.Execute(c.ctx, toolkit.Execution{Failed: func(_ int, err error) { failed = err }})
			if r.Reason != c.reason || strings.Contains(r.Text(), "hunter2") || !errors.Is(failed, context.Cause(c.ctx)) {
				t.Errorf("got %s, %q, and for the log %v", r.Reason, r.Text(), failed)
			}
		}
	})
}

// An attempt that the deadline would cut short is not begun: the tool's error is told at once.
func TestNoAttemptBeyondTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tool := define(t, func(context.Context) (string, error) {
			return "", toolkit.RetryAfter(errors.New("busy till noon"), time.Hour)
		},
			&toolkit.Options{Attempts: 3})
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, toolkit.ErrDeadline)
		defer cancel()
		begin := time.Now()
		r := tool.Execute(ctx, toolkit.Execution{})
		if r.Reason != events.ReasonToolError || r.Text() != "busy till noon" || time.Since(begin) != 0 {
			t.Errorf("got %s, %q after %v", r.Reason, r.Text(), time.Since(begin))
		}
	})
}

// Cancelled during the pause before a retry: the call ends then, as cancelled.
func TestCancelledBetweenAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tool := define(t, func(context.Context) (string, error) { return "", toolkit.RetryAfter(errors.New("busy"), time.Hour) }, &toolkit.Options{Attempts: 3})
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(toolkit.ErrCancelled) })
		begin := time.Now()
		if r := tool.Execute(ctx, toolkit.Execution{}); r.Reason != events.ReasonCancelled || time.Since(begin) != time.Minute {
			t.Errorf("got %s after %v", r.Reason, time.Since(begin))
		}
	})
}

// A success that comes within the grace is the result: what was done is told.
func TestResultWithinTheGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tool := define(t, func(ctx context.Context) (string, error) {
			<-ctx.Done()
			time.Sleep(time.Second)
			return "sent nevertheless", nil
		}, &toolkit.Options{Timeout: time.Minute})
		out := toolkittest.Run(t, tool, "", nil)
		wantEnd(t, out, events.ReasonOK, "sent nevertheless")
		wantEnd(t, toolkittest.Run(t, tool, "", &toolkittest.Options{Grace: time.Millisecond}), events.ReasonTimeout, "in time")
		time.Sleep(time.Minute)
	})
}

// Errors wrapped by mistake around nothing are nothing; errors that say nothing are told as such.
func TestErrorsThatSayNothing(t *testing.T) {
	t.Parallel()
	if toolkit.Retryable(nil) != nil || toolkit.RetryAfter(nil, 1) != nil || toolkit.Fatal(nil) != nil {
		t.Error("nil became an error")
	}
	tool := define(t, func(context.Context) (string, error) { return "", errors.New("") }, nil)
	wantEnd(t, toolkittest.Run(t, tool, "", nil), events.ReasonToolError, "did not say why")
	failing := define(t, func(context.Context) (toolkit.Result, error) { return toolkit.Result{IsError: true}, nil }, nil)
	wantEnd(t, toolkittest.Run(t, failing, "", nil), events.ReasonToolError, "did not say why")
	long := define(t, func(context.Context) (string, error) { return "", errors.New(strings.Repeat("x", 5000)) }, &toolkit.Options{MaxResult: 1000})
	out := toolkittest.Run(t, long, "", nil)
	wantEnd(t, out, events.ReasonToolError, "left out")
	if n := len(out.Result.Text()); n > 1200 || !out.Result.Meta.Truncated {
		t.Errorf("an error of %d bytes crossed, truncated %v", n, out.Result.Meta.Truncated)
	}
}

// MCP: structured content alone also travels as text, for models read that; it is a JSON object.
func TestStructuredContentAlone(t *testing.T) {
	t.Parallel()
	for structured, want := range map[string]events.Reason{`{"n": 9007199254740993}`: events.ReasonOK, `[1]`: events.ReasonToolError, `null`: events.ReasonToolError} {
		tool := define(t, func(context.Context) (toolkit.Result, error) {
			return toolkit.Result{Structured: json.RawMessage(structured)}, nil
		}, nil)
		r := toolkittest.Run(t, tool, "", nil).Result
		if r.Reason != want || want == events.ReasonOK && (r.Text() != structured || string(r.StructuredContent) != structured) {
			t.Errorf("%s: got %s, %q", structured, r.Reason, r.Text())
		}
	}
}

// deltas come through contexts derived from the call's, and from a tool looked up again.
func TestDeltasThroughDerivedContexts(t *testing.T) {
	t.Parallel()
	type key struct{}
	tk := toolkit.New()
	if err := tk.Add(define(t, func(ctx context.Context) (string, error) {
		inner, cancel := context.WithTimeout(context.WithValue(ctx, key{}, 1), time.Minute)
		defer cancel()
		toolkit.Progress(inner, 1, 0, "")
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() { toolkit.Emit(inner, events.Text("x")) })
		}
		group.Wait()
		return "x", nil
	}, nil)); err != nil {
		t.Fatal(err)
	}
	tool, _ := tk.Lookup("probe")
	out := toolkittest.Run(t, tool, "", nil)
	if len(out.Deltas) != 51 || out.Deltas[0].Total != nil {
		t.Fatalf("got %d deltas, the first %+v", len(out.Deltas), out.Deltas[0])
	}
	for i, d := range out.Deltas {
		if d.Seq != uint64(i+1) {
			t.Errorf("delta %d has the number %d", i, d.Seq)
		}
	}
}

func TestToolkitIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	tk := toolkit.New()
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			name := fmt.Sprint("tool", i)
			for range 50 {
				tool := toolkit.MustDefine(name, "d", func(context.Context, none) (string, error) { return name, nil }, nil)
				if err := tk.Add(tool); err != nil {
					t.Error(err)
				}
				for one := range tk.All() {
					one.Definition()
				}
				if got, ok := tk.Lookup(events.ToolName(name)); !ok || got != tool {
					t.Errorf("%s: got %v", name, got)
				}
				if r := tool.Execute(t.Context(), toolkit.Execution{}); r.Text() != name {
					t.Errorf("%s: got %q", name, r.Text())
				}
				tk.Remove(events.ToolName(name))
			}
		})
	}
	group.Wait()
}

// A value is found by its type's name, also through a pointer; what is no such value says so.
func TestValue(t *testing.T) {
	t.Parallel()
	tool := define(t, func(ctx context.Context) (string, error) {
		p, err := toolkit.Value[*userContext](ctx)
		if err != nil || p.Plan != "gold" {
			t.Errorf("by pointer: got %v, %v", p, err)
		}
		if _, err := toolkit.Value[none](ctx); err == nil || errors.Is(err, toolkit.ErrNoValue) {
			t.Errorf("a list as a struct: got %v", err)
		}
		return "ok", nil
	}, nil)
	toolkittest.Run(t, tool, "", &toolkittest.Options{Context: &events.Context{Values: map[string]json.RawMessage{
		"userContext": json.RawMessage(`{"plan":"gold"}`), "none": json.RawMessage(`[]`),
	}}})
	if _, err := toolkit.Value[none](t.Context()); !errors.Is(err, toolkit.ErrNoValue) {
		t.Errorf("outside of a call: got %v, want ErrNoValue", err)
	}
}
