package toolkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/toolwire/toolwire/events"
)

// DefaultGrace is how long a handler may go on after its context ended before its call is
// settled without it.
const DefaultGrace = 5 * time.Second

// Execution is one call to be run.
type Execution struct {
	Call       Call // Attempt and Deadline are set for each attempt
	Input      json.RawMessage
	Checked    string          // hash of the definition that Input was made ready for; if it is the tool's, that is not done again
	Context    *events.Context // the agent's runtime context; nil: none
	Middleware []Middleware    // outermost first
	Emit       func(events.ToolResultDelta)
	Grace      time.Duration // 0: [DefaultGrace]

	// Go starts a handler on a goroutine that is not the caller's; nil: a new one each time.
	Go func(func())

	// Failed is told of every failed attempt, for the log; the wire sees only what [Classify] says.
	Failed func(attempt int, err error)
	// Leaked is called when a handler ignored the end of its context and its call was settled
	// without it; ended is closed once it really returns.
	Leaked func(ended <-chan struct{})
}

// Execute runs a call as a worker does: attempts with backoff, a timeout for each, panics caught,
// and whatever happens made into the one result. It returns when the call is decided, at the
// latest Grace after ctx or the last attempt ended. The state of the result is set here and never
// read from a text.
func (t *Tool) Execute(ctx context.Context, e Execution) events.ToolResult {
	started := time.Now()
	run := t.handler
	if e.Checked == "" || e.Checked != t.hash {
		run = t.validated(run)
	}
	for _, wrap := range slices.Backward(e.Middleware) {
		run = wrap(run)
	}
	shared := &running{context: e.Context, emit: e.Emit, scratch: &sync.Map{}}
	var (
		out     Result
		err     error
		attempt int
	)
	for attempt = 1; ; attempt++ {
		out, err = t.attempt(ctx, e, run, shared, attempt)
		if err == nil || ctx.Err() != nil {
			break
		}
		f := Classify(err)
		if e.Failed != nil {
			e.Failed(attempt, err)
		}
		if !f.Retry || attempt >= max(1, t.def.Attempts) || f.Reason == events.ReasonTimeout && t.def.Fenced() {
			break
		}
		pause := f.After
		if pause == 0 {
			pause = t.def.Backoff.Delay(attempt)
		}
		if !sleep(ctx, pause) {
			err = cause(ctx)
			break
		}
	}
	return t.result(e, out, err, attempt, started)
}

// attempt runs the handler once. A handler that ignores its context is left behind after the grace.
func (t *Tool) attempt(ctx context.Context, e Execution, run Handler, shared *running, attempt int) (Result, error) {
	if ctx.Err() != nil {
		return Result{}, cause(ctx)
	}
	limit := t.def.AttemptTimeout()
	tctx, cancel := context.WithTimeoutCause(ctx, limit, errTimeout)
	defer cancel()
	r := *shared
	r.call, r.seq = e.Call, &sequence{}
	r.call.Attempt = attempt
	r.call.Deadline, _ = tctx.Deadline()

	type outcome struct {
		out Result
		err error
	}
	ended := make(chan struct{})
	var got outcome
	start := e.Go
	if start == nil {
		start = func(f func()) { go f() }
	}
	start(func() {
		defer close(ended)
		defer func() {
			if v := recover(); v != nil {
				got = outcome{err: &PanicError{Value: v, Stack: debug.Stack()}}
			}
		}()
		got.out, got.err = run(context.WithValue(tctx, contextKey{}, &r), e.Input)
	})
	select {
	case <-ended:
	case <-tctx.Done():
		if !within(ended, e.Grace) {
			if e.Leaked != nil {
				e.Leaked(ended)
			}
			return Result{}, cause(tctx)
		}
	}
	if got.err != nil && tctx.Err() != nil && !isPanic(got.err) {
		return Result{}, cause(tctx) // whatever the tool made of the end of its context
	}
	return got.out, got.err
}

func isPanic(err error) bool {
	var p *PanicError
	return errors.As(err, &p)
}

func within(ended <-chan struct{}, grace time.Duration) bool {
	if grace == 0 {
		grace = DefaultGrace
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
		return false
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func (t *Tool) result(e Execution, out Result, err error, attempt int, started time.Time) events.ToolResult {
	r := events.ToolResult{
		CallID: e.Call.Key.Call, Name: t.def.Name, Reason: events.ReasonOK,
		Content: out.Content, StructuredContent: out.Structured, IsError: out.IsError,
		Meta: events.ResultMeta{Attempt: attempt, Worker: e.Call.Worker, StartedAt: &started, FinishedAt: time.Now()},
	}
	if err == nil {
		err = t.fits(&r)
	}
	switch {
	case err != nil:
		f := Classify(err)
		r.Reason, r.IsError, r.StructuredContent = f.Reason, true, nil
		r.Content = []events.Content{events.Text(f.Message)}
	case out.IsError:
		r.Reason = events.ReasonToolError
	case len(r.Content) == 0 && len(r.StructuredContent) == 0:
		r.Reason, r.IsError = events.ReasonToolError, true
		r.Content = []events.Content{events.Text("The tool completed without returning a result.")}
	}
	r.State = r.Reason.Outcome().State
	return r
}

// fits checks structured content against the output schema, and the size against the cap.
func (t *Tool) fits(r *events.ToolResult) error {
	if !r.IsError && len(r.StructuredContent) > 0 {
		if err := t.schema.Output(r.StructuredContent); err != nil {
			return Fatal(fmt.Errorf("the tool returned structured content that does not fit its output schema: %w", err))
		}
	}
	return t.limit(r)
}

// validated is the innermost layer but one: what the middleware let through is checked against
// the schema, then run.
func (t *Tool) validated(next Handler) Handler {
	return func(ctx context.Context, input json.RawMessage) (Result, error) {
		clean, _, err := t.schema.Prepare(input)
		if err != nil {
			return Result{}, err
		}
		return next(ctx, clean)
	}
}
