package toolkit

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit/permission"
)

// Result is what a tool returns: content blocks for the model, structured content, or both.
type Result struct {
	Content    []events.Content
	Structured json.RawMessage
	IsError    bool // the tool ran and reports a failure of its own
}

// Handler is the untyped form of every tool: arguments in, result out. Input is JSON that fits
// the tool's schema and must not be modified; it is the same bytes at each attempt.
type Handler func(ctx context.Context, input json.RawMessage) (Result, error)

// Middleware wraps a handler; the first one given is the outermost. It surrounds decoding and
// validation too, once for each attempt. It sees the input and may answer by itself, but cannot
// change what runs: the tool always gets the bytes that were judged.
type Middleware func(Handler) Handler

// Tool is a definition and what runs it.
type Tool struct {
	def     Definition
	hash    string // of def
	handler Handler
	schema  *Schema
	checker Checker
}

// Checker is a tool's own permission check: what it makes of a call before anybody decides about it. It
// sees the arguments as they would run, and the contents of rules about the tool, which it matches. It
// must be quick and change nothing; an error, a panic or no answer within two seconds means that a person
// is asked.
type Checker func(ctx context.Context, q events.CheckRequest) (permission.Check, error)

// OwnMatcher is the Matcher of a definition whose tool has a [Checker].
const OwnMatcher = "own"

// Raw makes a tool of a definition and an untyped handler, e.g. to pass calls on.
// [ErrDefinition] if the definition cannot be registered.
func Raw(def Definition, h Handler) (*Tool, error) {
	if err := def.Check(); err != nil {
		return nil, err
	}
	s, err := newSchema(def)
	if err != nil {
		return nil, err
	}
	return &Tool{def: def, hash: def.Hash(), handler: h, schema: s}, nil
}

// Definition describes the tool.
func (t *Tool) Definition() Definition { return t.def }

// Options are the fields of a [Definition] that [Define] cannot know. Nil means all defaults,
// and so does the zero value of each field; see [Definition] for their meaning.
type Options struct {
	Title                string
	ReadOnly             bool
	Idempotent           bool
	ConcurrencySafe      bool
	StateInjected        bool
	Strict               *bool
	Timeout              time.Duration
	QueueTimeout         time.Duration
	Attempts             int
	Backoff              Backoff
	MaxInFlight          int
	MaxResult            int
	Oversize             Oversize
	Group                string
	Matcher              string
	DangerousFiles       []string
	DangerousDirectories []string
	OutputSchema         json.RawMessage           // nil: inferred where Out is a struct and Convert nil
	Check                Checker                   // the tool's own permission check; Matcher is [OwnMatcher] then
	Convert              func(any) (Result, error) // makes the result of the returned value; nil: [Convert]
}

func (o *Options) definition() Definition {
	return Definition{
		Title: o.Title, OutputSchema: o.OutputSchema,
		ReadOnly: o.ReadOnly, Idempotent: o.Idempotent, ConcurrencySafe: o.ConcurrencySafe,
		StateInjected: o.StateInjected, Strict: o.Strict,
		Timeout: Duration(o.Timeout), QueueTimeout: Duration(o.QueueTimeout),
		Attempts: o.Attempts, Backoff: o.Backoff, MaxInFlight: o.MaxInFlight,
		MaxResult: o.MaxResult, Oversize: o.Oversize, Group: o.Group, Matcher: o.Matcher,
		DangerousFiles: o.DangerousFiles, DangerousDirectories: o.DangerousDirectories,
	}
}

// Define makes a tool of a typed function. The input schema comes from In: JSON names, and the
// struct tags description, enum, minimum, maximum, minLength, maxLength, pattern, format, default
// and required; those of a list are of its elements, but description and default. A field is
// required unless it is a pointer, has omitempty or omitzero, a default, or required:"false".
// A default is set where the field is absent or null, at any depth. A type that reads its own JSON
// or text is taken as that. Numbers that go into an interface arrive as json.Number, digit for digit.
//
// The returned value becomes the result by [Convert]; where Out is a struct, the output schema comes
// from it. [ErrDefinition] says what cannot be registered.
func Define[In, Out any](name, description string, fn func(context.Context, In) (Out, error), o *Options) (*Tool, error) {
	if o == nil {
		o = &Options{}
	}
	def := o.definition()
	def.Name, def.Description = events.ToolName(name), description
	schema, missing, err := inputSchema[In]()
	if err != nil {
		return nil, fmt.Errorf("%w: tool %q: input: %w", ErrDefinition, name, err)
	}
	def.InputSchema = schema
	if def.OutputSchema == nil && o.Convert == nil {
		if def.OutputSchema, err = outputSchema[Out](); err != nil {
			return nil, fmt.Errorf("%w: tool %q: output: %w", ErrDefinition, name, err)
		}
	}
	convert := o.Convert
	if convert == nil {
		convert = Convert
	}
	if o.Check != nil {
		def.Matcher = OwnMatcher
	}
	t, err := Raw(def, func(ctx context.Context, input json.RawMessage) (Result, error) {
		v, err := decode[In](missing, input)
		if err != nil {
			if r := from(ctx); r != nil && r.preset { // the text may quote one
				err = &InputError{Text: "The arguments do not fit the tool."}
			}
			return Result{}, err
		}
		out, err := fn(ctx, v)
		if err != nil {
			return Result{}, err
		}
		return convert(out)
	})
	if err == nil {
		t.checker = o.Check
	}
	return t, err
}

// Check asks the tool's own permission check about a call. ok: it has one, and it answered.
func (t *Tool) Check(ctx context.Context, q events.CheckRequest) (check permission.Check, ok bool) {
	if t.checker == nil {
		return check, false
	}
	defer func() {
		if recover() != nil {
			check, ok = permission.Check{}, false
		}
	}()
	check, err := t.checker(ctx, q)
	return check, err == nil
}

// Checks says whether the tool has a permission check of its own.
func (t *Tool) Checks() bool { return t.checker != nil }

// MustDefine is [Define] for package variables and tests; it panics on error.
func MustDefine[In, Out any](name, description string, fn func(context.Context, In) (Out, error), o *Options) *Tool {
	t, err := Define(name, description, fn, o)
	if err != nil {
		panic(err) //nolint:forbidigo // a Must function: a mistake in the program, not of its input
	}
	return t
}
