package toolkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/toolwire/toolwire/events"
)

// Call is what a running tool may know of its call.
type Call struct {
	Agent       events.AgentID
	Key         events.CallKey
	ReplyID     string
	Tool        events.ToolName
	Attempt     int       // 1, 2, …
	Deadline    time.Time // of this attempt
	Worker      string
	TraceParent string
	TraceState  string
}

// Session is the session of the call.
func (c Call) Session() events.SessionID { return c.Key.Session }

// running is what the context of a call carries.
type running struct {
	call     Call
	input    json.RawMessage
	context  *events.Context
	preset   bool // input has values that nobody may be told
	injected bool // the tool is StateInjected
	state    StateStore
	emit     func(events.ToolResultDelta)
	scratch  *sync.Map
	seq      *sequence
}

type sequence struct {
	mu sync.Mutex
	n  uint64
}

type contextKey struct{}

func from(ctx context.Context) *running {
	r, _ := ctx.Value(contextKey{}).(*running)
	return r
}

// CallFrom returns the call that ctx belongs to; false outside of a call.
func CallFrom(ctx context.Context) (Call, bool) {
	r := from(ctx)
	if r == nil {
		return Call{}, false
	}
	return r.call, true
}

// Input returns the arguments of the call as JSON; nil outside of a call. A tool sees what it runs
// with, so that a typed one can read further properties that the installation has added, and values
// that it has preset; middleware sees what was judged. It must not be modified.
func Input(ctx context.Context) json.RawMessage {
	r := from(ctx)
	if r == nil {
		return nil
	}
	return r.input
}

// withInput is ctx for a tool that gets other bytes than its middleware, presets perhaps.
func withInput(ctx context.Context, input json.RawMessage, preset bool) context.Context {
	r := from(ctx)
	if r == nil {
		return ctx
	}
	own := *r
	own.input, own.preset = input, preset
	return context.WithValue(ctx, contextKey{}, &own)
}

// ContextFrom returns the runtime context that the agent sent with the turn; empty if none.
func ContextFrom(ctx context.Context) events.Context {
	if r := from(ctx); r != nil && r.context != nil {
		return *r.context
	}
	return events.Context{}
}

// Scratch is a map of this call alone, shared by its middleware and tool over all attempts.
// Outside of a call it is a new map each time.
func Scratch(ctx context.Context) *sync.Map {
	if r := from(ctx); r != nil {
		return r.scratch
	}
	return &sync.Map{}
}

// ErrNoValue is returned when the runtime context holds no value of a type.
var ErrNoValue = errors.New("toolkit: no such value in the runtime context")

// Value reads the typed value of the runtime context named after T, e.g. "UserContext"; a pointer
// to T has the name of T.
// [ErrNoValue] if the agent sent none.
func Value[T any](ctx context.Context) (T, error) {
	var v T
	name := indirect(reflect.TypeFor[T]()).Name()
	raw, ok := ContextFrom(ctx).Values[name]
	if !ok {
		return v, fmt.Errorf("%w: %s", ErrNoValue, name)
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, fmt.Errorf("runtime context value %s: %w", name, err)
	}
	return v, nil
}

// ValueOr is [Value] for a tool that can do without: otherwise if the agent sent none. The error says
// that there is a value, and that it does not fit T.
func ValueOr[T any](ctx context.Context, otherwise T) (T, error) {
	v, err := Value[T](ctx)
	if errors.Is(err, ErrNoValue) {
		return otherwise, nil
	}
	return v, err
}

// Emit sends a piece of output to whoever listens; the result must still hold all of it. It never
// fails and never blocks the tool, and does nothing outside of a call or when nobody listens.
func Emit(ctx context.Context, c events.Content) { emit(ctx, events.ToolResultDelta{Content: c}) }

// Progress says how far the tool is: done of total (0: unknown), with a message for people.
func Progress(ctx context.Context, done, total float64, message string) {
	d := events.ToolResultDelta{Progress: &done, Message: message}
	if total > 0 {
		d.Total = &total
	}
	emit(ctx, d)
}

func emit(ctx context.Context, d events.ToolResultDelta) {
	r := from(ctx)
	if r == nil || r.emit == nil || ctx.Err() != nil {
		return
	}
	r.seq.mu.Lock()
	defer r.seq.mu.Unlock()
	r.seq.n++
	d.CallID, d.Seq, d.Attempt = r.call.Key.Call, r.seq.n, r.call.Attempt
	r.emit(d)
}
