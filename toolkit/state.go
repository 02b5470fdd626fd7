package toolkit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/toolwire/toolwire/events"
)

const (
	// MaxState is the largest document that a tool may keep, in bytes of JSON.
	MaxState = 256 << 10
	// stateTries is how often a change is made before too many others are in its way.
	stateTries = 32
)

var (
	// ErrNoState is returned when documents are asked for outside of a call, or by a tool that is not
	// StateInjected.
	ErrNoState = errors.New("toolkit: no state here")
	// ErrState is returned when a document cannot be kept or read as it is; its text says why.
	ErrState = errors.New("toolkit: bad state")
	// ErrStateConflict is returned when a document has changed since it was read.
	ErrStateConflict = errors.New("toolkit: the document was changed meanwhile")
)

// StateStore keeps the documents of all sessions, each under a name. A worker has one on the bus,
// a test one in memory.
type StateStore interface {
	// Load returns a document and its revision; nil and 0 if there is none.
	Load(ctx context.Context, session events.SessionID, name string) (doc []byte, revision uint64, err error)
	// Swap stores doc in the place of the document at revision (0: there must be none).
	// [ErrStateConflict] if another one is there.
	Swap(ctx context.Context, session events.SessionID, name string, doc []byte, revision uint64) error
}

// ReadState reads a document that tools keep for the session of the call; the zero T if there is
// none yet. Any StateInjected tool of the session reads the same document under a name.
// [ErrNoState], and [ErrState] if the document does not fit T.
func ReadState[T any](ctx context.Context, name string) (T, error) {
	var v T
	s, err := stateOf(ctx, name)
	if err != nil {
		return v, err
	}
	doc, _, err := s.load(ctx)
	if err != nil {
		return v, err
	}
	return v, s.decode(doc, &v)
}

// UpdateState changes a document of the call's session: it reads it (the zero T if there is none
// yet), calls change, and stores what change made of it.
//
//	err := toolkit.UpdateState(ctx, "todo", func(list *Todos) error {
//		list.Items = append(list.Items, item)
//		return nil
//	})
//
// No change of another call is overwritten: if one came in between, change is called again with
// the newer document, so it must have no effect but on its argument. If it returns an error, nothing
// is stored, and the error is returned as it is. A document has at most [MaxState] bytes of JSON.
// [ErrNoState], [ErrState], and [ErrStateConflict] if others change the document all the time.
func UpdateState[T any](ctx context.Context, name string, change func(doc *T) error) error {
	s, err := stateOf(ctx, name)
	if err != nil {
		return err
	}
	for try := range stateTries {
		if try > 0 && !sleep(ctx, rand.N(time.Duration(min(try, 10))*10*time.Millisecond)) { //nolint:gosec // spreads tries, guards nothing
			return s.failed("update", cause(ctx))
		}
		before, revision, err := s.load(ctx)
		if err != nil {
			return err
		}
		var v T
		if err := s.decode(before, &v); err != nil {
			return err
		}
		if err := change(&v); err != nil {
			return err
		}
		after, err := s.encode(v)
		if err != nil || before != nil && bytes.Equal(before, after) {
			return err
		}
		err = s.store.Swap(ctx, s.session, name, after, revision)
		if !errors.Is(err, ErrStateConflict) {
			return s.failed("store", err)
		}
	}
	return fmt.Errorf("state %q: %w, %d times in a row", name, ErrStateConflict, stateTries)
}

// state is a document of the session of a call.
type state struct {
	store   StateStore
	session events.SessionID
	name    string
}

func stateOf(ctx context.Context, name string) (state, error) {
	r := from(ctx)
	switch {
	case r == nil:
		return state{}, fmt.Errorf("%w: state %q was asked for outside of a call", ErrNoState, name)
	case !r.injected:
		return state{}, fmt.Errorf("%w: tool %q asked for state %q but is not StateInjected", ErrNoState, r.call.Tool, name)
	case r.state == nil:
		return state{}, fmt.Errorf("%w: whoever runs tool %q gave it none", ErrNoState, r.call.Tool)
	}
	if err := events.CheckID("its name", name); err != nil {
		return state{}, fmt.Errorf("%w: state %q: %w", ErrState, name, err)
	}
	return state{store: r.state, session: r.call.Session(), name: name}, nil
}

func (s state) load(ctx context.Context) ([]byte, uint64, error) {
	doc, revision, err := s.store.Load(ctx, s.session, s.name)
	return doc, revision, s.failed("load", err)
}

// failed marks a failure of the store: its text is for the log.
func (s state) failed(what string, err error) error {
	if err == nil {
		return nil
	}
	return Unavailable(fmt.Errorf("%s state %q: %w", what, s.name, err))
}

func (s state) decode(doc []byte, v any) error {
	if doc == nil {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber() // an interface keeps all digits
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("%w: state %q does not fit %T: %w", ErrState, s.name, v, err)
	}
	return nil
}

func (s state) encode(v any) ([]byte, error) {
	doc, err := events.Marshal(v)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: state %q: %w", ErrState, s.name, err)
	case len(doc) > MaxState:
		return nil, fmt.Errorf("%w: state %q would have %d bytes, at most %d are kept", ErrState, s.name, len(doc), MaxState)
	}
	return doc, nil
}
