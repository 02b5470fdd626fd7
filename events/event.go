package events

import "errors"

// Event is one CloudEvents 1.0 event of the contract.
type Event struct {
	Attributes
	Extensions map[string]string // extensions that the contract does not name; kept, never read
	Data       []byte            // JSON; empty when DataRef says where it is
}

// New makes an event of attributes and data (one of the types of this package).
func New(a Attributes, data any) (Event, error) {
	b, err := Marshal(data)
	return Event{Attributes: a, Data: b}, err
}

// ErrMalformed is returned when bytes from the bus are no event of the contract.
var ErrMalformed = errors.New("events: malformed")
