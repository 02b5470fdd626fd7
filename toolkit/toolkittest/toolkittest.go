// Package toolkittest runs a tool in a test as a worker would, without NATS: validation,
// attempts, timeouts, panics and conversion are those of production.
//
//	out := toolkittest.Run(t, weather, `{"city":"Bonn"}`, nil)
//	if out.Result.Text() != "sunny" { … }
package toolkittest

import (
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// Options say what the call looks like. Nil means a call of an agent "test" without a context.
type Options struct {
	Call       toolkit.Call               // zero identifiers are filled in
	Context    *events.Context            // what the agent sends along
	State      *State                     // documents of sessions, to share between runs; nil: new and empty
	Presets    map[string]json.RawMessage // see [toolkit.Execution]
	Middleware []toolkit.Middleware
	Grace      time.Duration // see [toolkit.Execution]
}

// Outcome is what became of a call.
type Outcome struct {
	Result   events.ToolResult
	Deltas   []events.ToolResultDelta // what the tool emitted, in order
	Failures []error                  // of attempts; for the log in production
	Leaked   bool                     // the tool ignored the end of its context
}

// Run runs tool with input under the test's context.
func Run(tb testing.TB, tool *toolkit.Tool, input string, o *Options) Outcome {
	tb.Helper()
	if o == nil {
		o = &Options{}
	}
	state := o.State
	if state == nil {
		state = NewState()
	}
	var (
		mu  sync.Mutex // a tool left behind may still emit
		out Outcome
	)
	result := tool.Execute(tb.Context(), toolkit.Execution{
		Call: identify(o.Call, tool), Input: json.RawMessage(input), Context: o.Context,
		State: state, Presets: o.Presets, Middleware: o.Middleware, Grace: o.Grace,
		Emit: func(d events.ToolResultDelta) {
			mu.Lock()
			defer mu.Unlock()
			out.Deltas = append(out.Deltas, d)
		},
		Failed: func(_ int, err error) { out.Failures = append(out.Failures, err) },
		Leaked: func(<-chan struct{}) { out.Leaked = true },
	})
	mu.Lock()
	defer mu.Unlock()
	out.Result = result
	return out
}

func identify(c toolkit.Call, tool *toolkit.Tool) toolkit.Call {
	if c.Agent == "" {
		c.Agent = "test"
	}
	if c.Key == (events.CallKey{}) {
		c.Key = events.CallKey{Session: "session", Turn: "turn", Call: "call"}
	}
	if c.Worker == "" {
		c.Worker = "toolkittest"
	}
	c.Tool = tool.Definition().Name
	return c
}
