package toolkittest_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/toolkittest"
)

type in struct {
	City string `json:"city" minLength:"1"`
}

// What a test needs is filled in, what it gives is kept, and all that became of the call is there.
func TestRun(t *testing.T) {
	t.Parallel()
	var seen toolkit.Call
	tries := 0
	tool := toolkit.MustDefine("probe", "A tool of a test.", func(ctx context.Context, v in) (string, error) {
		seen, _ = toolkit.CallFrom(ctx)
		toolkit.Emit(ctx, events.Text("asking"))
		if tries++; tries == 1 {
			return "", toolkit.RetryAfter(errors.New("busy"), time.Millisecond)
		}
		return v.City + " " + toolkit.ContextFrom(ctx).User, nil
	}, &toolkit.Options{Attempts: 2})
	wrapped := 0
	out := toolkittest.Run(t, tool, `{"city":"Bonn"}`, &toolkittest.Options{
		Call: toolkit.Call{Agent: "alice"}, Context: &events.Context{User: "ada"},
		Middleware: []toolkit.Middleware{func(next toolkit.Handler) toolkit.Handler {
			return func(ctx context.Context, in json.RawMessage) (toolkit.Result, error) {
				wrapped++
				return next(ctx, in)
			}
		}},
	})
	if out.Result.Text() != "Bonn ada" || out.Result.Reason != events.ReasonOK || out.Result.Meta.Attempt != 2 {
		t.Errorf("got %s %q at attempt %d", out.Result.Reason, out.Result.Text(), out.Result.Meta.Attempt)
	}
	if len(out.Deltas) != 2 || len(out.Failures) != 1 || out.Leaked || wrapped != 2 {
		t.Errorf("got %d deltas, failures %v, leaked %v, %d passes through middleware", len(out.Deltas), out.Failures, out.Leaked, wrapped)
	}
	if seen.Agent != "alice" || seen.Key == (events.CallKey{}) || seen.Worker == "" || seen.Tool != "probe" || out.Result.CallID != seen.Key.Call {
		t.Errorf("the tool saw %+v", seen)
	}
	if out := toolkittest.Run(t, tool, `{"city":""}`, nil); out.Result.Reason != events.ReasonInvalidInput {
		t.Errorf("wrong arguments: got %s", out.Result.Reason)
	}
}

// A tool that ignores its context is seen to, and what it emits later is not in the outcome.
func TestRunOfAToolThatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tool := toolkit.MustDefine("probe", "A tool of a test.", func(ctx context.Context, _ struct{}) (string, error) {
			time.Sleep(time.Hour)
			toolkit.Emit(ctx, events.Text("too late"))
			return "", nil
		}, &toolkit.Options{Timeout: time.Second})
		begin := time.Now()
		out := toolkittest.Run(t, tool, "", &toolkittest.Options{Grace: time.Second})
		if !out.Leaked || out.Result.Reason != events.ReasonTimeout || time.Since(begin) != 2*time.Second {
			t.Errorf("got %s, leaked %v, after %v", out.Result.Reason, out.Leaked, time.Since(begin))
		}
		time.Sleep(time.Hour)
		if len(out.Deltas) != 0 {
			t.Errorf("got %v", out.Deltas)
		}
	})
}
