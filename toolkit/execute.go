package toolkit

import (
	"bytes"
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
	Call    Call // Attempt and Deadline are set for each attempt
	Input   json.RawMessage
	Checked string          // hash of the definition that Input was made ready for; if it is the tool's, that is not done again
	Context *events.Context // the agent's runtime context; nil: none
	State   StateStore      // documents of the session, for a tool that is StateInjected; nil: none

	// Presets are the values that the installation has set, by parameter: the tool runs with them, whatever
	// Input says, and middleware does not see them. An external tool gets none.
	Presets map[string]json.RawMessage

	Middleware []Middleware // outermost first
	Emit       func(events.ToolResultDelta)
	Grace      time.Duration // 0: [DefaultGrace]

	// Go starts a handler on a goroutine that is not the caller's; nil: a new one each time.
	Go func(func())

	// Pending is told that the handler asks to be answered outside. The call is not decided then, and what
	// Execute returns is void. nil: it cannot be.
	Pending func(*PendingError)

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
	run := t.layers(e)
	shared := &running{
		input: e.Input, context: e.Context, emit: e.Emit, scratch: &sync.Map{},
		injected: t.def.StateInjected, state: e.State,
	}
	var (
		out     Result
		err     error
		attempt int
	)
	for attempt = 1; ; attempt++ {
		out, err = t.attempt(ctx, e, run, shared, attempt)
		if err == nil {
			break
		}
		if ask, pending := errors.AsType[*PendingError](err); pending && e.Pending != nil {
			e.Pending(ask)
			return events.ToolResult{}
		}
		if e.Failed != nil {
			e.Failed(attempt, err)
		}
		pause, again := t.again(ctx, err, attempt)
		if !again {
			break
		}
		if !sleep(ctx, pause) {
			err = cause(ctx)
			break
		}
	}
	return t.result(e, out, err, attempt, started)
}

// layers puts the handler into validation and middleware. Middleware sees the input, and the tool
// gets it: what middleware hands on instead is not used, for what was judged is what runs.
func (t *Tool) layers(e Execution) Handler {
	run := t.handler
	if e.Checked == "" || e.Checked != t.hash || len(e.Presets) > 0 {
		run = t.validated(run, e.Presets)
	}
	if len(e.Middleware) == 0 {
		return run
	}
	judged := run
	run = func(ctx context.Context, _ json.RawMessage) (Result, error) { return judged(ctx, e.Input) }
	for _, wrap := range slices.Backward(e.Middleware) {
		run = wrap(run)
	}
	outermost := run
	return func(ctx context.Context, input json.RawMessage) (Result, error) {
		return outermost(ctx, bytes.Clone(input)) // not even in place can it be changed
	}
}

// again says whether a failed attempt is followed by another, and after which pause. A time-out
// leaves open what the tool did, so only a tool that may run twice is tried again; a failure
// marked retryable says that nothing happened. What the deadline would cut short is not begun.
func (t *Tool) again(ctx context.Context, err error, attempt int) (pause time.Duration, ok bool) {
	f := Classify(err)
	if ctx.Err() != nil || !f.Retry || attempt >= t.def.Attempts || f.Reason == events.ReasonTimeout && t.def.Fenced() {
		return 0, false
	}
	if pause = f.After; pause == 0 {
		pause = t.def.Backoff.Delay(attempt)
	}
	deadline, limited := ctx.Deadline()
	return pause, !limited || time.Until(deadline) > pause
}

// outcome is what a handler returned; late if its context had ended by then.
type outcome struct {
	out  Result
	err  error
	late bool
}

// attempt runs the handler once. A handler that ignores its context is left behind after the grace.
func (t *Tool) attempt(ctx context.Context, e Execution, run Handler, shared *running, attempt int) (Result, error) {
	if ctx.Err() != nil {
		return Result{}, cause(ctx)
	}
	tctx, cancel := context.WithTimeoutCause(ctx, t.def.AttemptTimeout(), errTimeout)
	defer cancel()
	r := *shared
	r.call, r.seq = e.Call, &sequence{}
	r.call.Attempt = attempt
	r.call.Deadline, _ = tctx.Deadline()

	start := e.Go
	if start == nil {
		start = func(f func()) { go f() }
	}
	ended := make(chan struct{})
	var got outcome // read once ended is closed
	start(func() {
		defer close(ended)
		got = call(context.WithValue(tctx, contextKey{}, &r), run, e.Input)
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
	if got.err != nil && got.late && !isPanic(got.err) {
		return Result{}, cause(tctx) // whatever the tool made of the end of its context
	}
	return got.out, got.err
}

// call calls the handler and catches its panic.
func call(ctx context.Context, run Handler, input json.RawMessage) (o outcome) {
	defer func() {
		if v := recover(); v != nil {
			o = outcome{err: &PanicError{Value: v, Stack: debug.Stack()}}
		}
	}()
	o.out, o.err = run(ctx, input)
	o.late = ctx.Err() != nil
	return o
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
		r.Content = []events.Content{events.Text(orText(f.Message, "The tool failed and did not say why."))}
		if size(&r) > t.maxResult() {
			truncate(&r, t.maxResult()) // an error is cut whatever the policy: it has to be told
		}
	case r.IsError:
		r.Reason = events.ReasonToolError
		if len(r.Content) == 0 {
			r.Content = []events.Content{events.Text("The tool failed and did not say why.")}
		}
	case len(r.Content) == 0:
		r.Reason, r.IsError = events.ReasonToolError, true
		r.Content = []events.Content{events.Text("The tool completed without returning a result.")}
	}
	r.State = r.Reason.Outcome().State
	return r
}

func orText(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// fits checks structured content, against the output schema too if the call succeeded, and the
// size against the cap. Structured content alone gets a text block of the same JSON, as MCP advises:
// models read text.
func (t *Tool) fits(r *events.ToolResult) error {
	if s := bytes.TrimLeft(r.StructuredContent, " \t\r\n"); len(s) > 0 {
		if s[0] != '{' {
			return Fatal(errors.New("the tool returned structured content that is no JSON object"))
		}
		if !r.IsError {
			if err := t.schema.Output(r.StructuredContent); err != nil {
				return Fatal(fmt.Errorf("the tool returned structured content that does not fit its output schema: %w", err))
			}
		}
		if len(r.Content) == 0 {
			r.Content = []events.Content{events.Text(string(r.StructuredContent))}
		}
	}
	return t.limit(r)
}

// validated is the innermost layer but one: what the middleware let through is completed with the
// presets and checked against the schema, then run.
func (t *Tool) validated(next Handler, presets map[string]json.RawMessage) Handler {
	if t.def.External {
		presets = nil
	}
	return func(ctx context.Context, input json.RawMessage) (Result, error) {
		clean, _, err := t.schema.prepare(input, presets)
		if err != nil {
			return Result{}, err
		}
		return next(withInput(ctx, clean, len(presets) > 0), clean)
	}
}
