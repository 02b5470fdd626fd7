package toolkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/toolwire/toolwire/events"
)

var (
	// ErrCancelled is the cause of a call's context when the agent cancelled the call.
	ErrCancelled = errors.New("toolkit: call cancelled")
	// ErrShutdown is the cause of a call's context when its worker stops before the call ended.
	ErrShutdown = errors.New("toolkit: worker shutting down")
	// ErrLost is the cause of a call's context when somebody else settled the call.
	ErrLost = errors.New("toolkit: call settled elsewhere")
	// ErrDeadline is the cause of a call's context when the deadline that the agent set has passed.
	ErrDeadline = errors.New("toolkit: deadline passed")
	// errTimeout is the cause of an attempt's context when its time is up.
	errTimeout = errors.New("toolkit: attempt timed out")
)

// PanicError is a panic of a tool. The value and stack are for the log, never for the wire.
type PanicError struct {
	Value any
	Stack []byte
}

// Error names the panic's value.
func (e *PanicError) Error() string { return fmt.Sprintf("tool panicked: %v", e.Value) }

// InputError is returned when the arguments do not fit the tool; its text is for the model.
type InputError struct{ Text string }

// Error is the text for the model.
func (e *InputError) Error() string { return e.Text }

type retryError struct {
	err   error
	after time.Duration
}

func (e *retryError) Error() string { return e.err.Error() }
func (e *retryError) Unwrap() error { return e.err }

type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }
func (e *fatalError) Unwrap() error { return e.err }

// Retryable marks err: nothing happened, another try may succeed. Attempts and backoff are the
// definition's. Nil stays nil.
func Retryable(err error) error { return RetryAfter(err, 0) }

// RetryAfter is [Retryable] with a pause of its own; 0: the definition's backoff. The call keeps
// its place in the worker meanwhile.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &retryError{err: err, after: d}
}

// Fatal marks err as final, whatever it wraps. Nil stays nil.
func Fatal(err error) error {
	if err == nil {
		return nil
	}
	return &fatalError{err: err}
}

type unavailableError struct{ err error }

func (e *unavailableError) Error() string { return e.err.Error() }
func (e *unavailableError) Unwrap() error { return e.err }

// Unavailable marks err as a failure of what the tool stands on, such as its state or a secret: its
// text is for the log, and the model hears a neutral sentence. Nil stays nil.
func Unavailable(err error) error {
	if err == nil {
		return nil
	}
	return &unavailableError{err: err}
}

// PendingError is how a handler asks to be answered outside: a person or another system gives the result
// of the call, in a second or in a week, and the handler is not run again (design §7). Wrapped in
// other errors it is still that. See [Pending].
type PendingError struct {
	Message string          // for whoever answers: what is to be done
	Schema  json.RawMessage // of the structured content of the answer; nil: any
}

// Error is the message.
func (e *PendingError) Error() string { return "waits to be answered outside: " + e.Message }

// Pending makes the error by which a handler ends to be answered outside.
func Pending(message string) error { return &PendingError{Message: message} }

// Failure is what an error of a tool means for its call.
type Failure struct {
	Reason  events.Reason
	Retry   bool          // another attempt may be made
	After   time.Duration // before that attempt; 0: the definition's backoff
	Message string        // for the model
}

// unavailableText is what a model hears of a failure that is none of its business.
const unavailableText = "The tool cannot be used at present, and calling it again right away will not help. An operator has been told."

// Classify tells what err means. The text of a tool's own error is for the model and crosses;
// panics and failures of the machinery cross as a neutral sentence. A time-out is retried (the
// definition says how often), if the tool may run again.
func Classify(err error) Failure {
	var (
		input *InputError
		crash *PanicError
		fatal *fatalError
		retry *retryError
		large *tooLargeError
		away  *unavailableError
		ask   *PendingError
	)
	switch {
	case errors.As(err, &ask): // where nobody can be asked
		return Failure{Reason: events.ReasonUnavailable, Message: "The tool is to be answered by somebody else, who cannot be asked here."}
	case errors.Is(err, ErrCancelled), errors.Is(err, ErrLost):
		return Failure{Reason: events.ReasonCancelled, Message: "The call was cancelled before it finished."}
	case errors.Is(err, ErrShutdown):
		return Failure{Reason: events.ReasonShutdown, Message: "The worker was shut down before the call finished. Call again if it is still needed."}
	case errors.Is(err, ErrDeadline):
		return Failure{Reason: events.ReasonTimeout, Message: "The tool did not finish before the deadline."}
	case errors.Is(err, errTimeout):
		return Failure{Reason: events.ReasonTimeout, Retry: true, Message: "The tool did not finish in time."}
	case errors.As(err, &large):
		return Failure{Reason: events.ReasonResultTooLarge, Message: large.Error()}
	case errors.As(err, &crash):
		return Failure{Reason: events.ReasonToolPanic, Message: "The tool failed because of an internal error."}
	case errors.As(err, &away):
		return Failure{Reason: events.ReasonUnavailable, Retry: errors.As(err, &retry), Message: unavailableText}
	case errors.As(err, &input):
		return Failure{Reason: events.ReasonInvalidInput, Message: input.Text}
	case errors.As(err, &fatal):
		return Failure{Reason: events.ReasonToolError, Message: fatal.Error()}
	case errors.As(err, &retry):
		return Failure{Reason: events.ReasonToolError, Retry: true, After: retry.after, Message: retry.Error()}
	}
	return Failure{Reason: events.ReasonToolError, Message: err.Error()}
}

// cause turns a context's end into the error that says why. What others ended it with is kept for
// the log and means cancelled, or the deadline: its text is none of the model's business.
func cause(ctx context.Context) error {
	err := context.Cause(ctx)
	for _, ours := range []error{ErrCancelled, ErrShutdown, ErrLost, ErrDeadline, errTimeout} {
		if errors.Is(err, ours) {
			return err
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: %w", ErrDeadline, err)
	}
	return fmt.Errorf("%w: %w", ErrCancelled, err)
}
