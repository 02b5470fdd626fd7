package agent

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/internal/jet"
)

var (
	// ErrInvalid is returned when a turn or request breaks the contract; nothing was published,
	// and the text says what to change.
	ErrInvalid = errors.New("agent: invalid")
	// ErrTurnReused is returned when another turn is stored under this session and turn id.
	ErrTurnReused = errors.New("agent: turn id already used for a different turn")
	// ErrConflict is returned when what is stored stands against a request: it was changed meanwhile,
	// or was dealt with already. Nothing was changed.
	ErrConflict = errors.New("agent: conflict")
	// ErrNotFound is returned when no such turn, result, tool or dead letter is known, or no longer.
	ErrNotFound = errors.New("agent: not found")
	// ErrDenied is returned when this identity may not do what it asked for.
	ErrDenied = errors.New("agent: denied")
	// ErrUnavailable is returned when no server or no dispatcher answers. A turn whose submission
	// ends so may have been stored or not: submit it again with the same id.
	ErrUnavailable = errors.New("agent: unavailable")
	// ErrFull is returned when the installation takes no more for now; nothing was stored.
	ErrFull = errors.New("agent: no room")
	// ErrClosed is returned when the client or its connection was closed.
	ErrClosed = errors.New("agent: closed")
)

// stored names what became of an attempt to store something, in this package's errors.
func storeError(what string, err error) error {
	kind := ErrUnavailable
	switch {
	case errors.Is(err, ErrDenied), errors.Is(err, ErrClosed):
		return fmt.Errorf("%s: %w", what, err)
	case errors.Is(err, jet.ErrFull):
		kind = ErrFull
	case errors.Is(err, nats.ErrConnectionClosed):
		kind = ErrClosed
	case errors.Is(err, jet.ErrBody), errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrBadSubject):
		kind = ErrInvalid
	}
	return fmt.Errorf("%w: %s: %w", kind, what, err)
}

// apiError names an error that a dispatcher answered with.
func apiError(op, code, text string) error {
	kind := errors.New("agent: refused")
	switch code {
	case "400", "413", "422":
		kind = ErrInvalid
	case "409":
		kind = ErrConflict
	case "401", "403":
		kind = ErrDenied
	case "404", "410":
		kind = ErrNotFound
	case "429":
		kind = ErrFull
	case "503", "504":
		kind = ErrUnavailable
	}
	return fmt.Errorf("%w: %s: %s (%s)", kind, op, text, code)
}
