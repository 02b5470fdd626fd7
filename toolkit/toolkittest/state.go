package toolkittest

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// State keeps documents of sessions in memory, by the same rules as a worker's. It is safe for
// concurrent use.
type State struct {
	mu       sync.Mutex
	revision uint64 // of the last change of any document
	docs     map[documentKey]document
}

type documentKey struct {
	session events.SessionID
	name    string
}

type document struct {
	json     []byte
	revision uint64
}

// NewState returns a state without documents.
func NewState() *State { return &State{docs: map[documentKey]document{}} }

// Load returns a document and its revision; nil and 0 if there is none.
func (s *State) Load(_ context.Context, session events.SessionID, name string) (doc []byte, revision uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.docs[documentKey{session, name}]
	return bytes.Clone(d.json), d.revision, nil
}

// Swap stores a document in the place of the one at revision; [toolkit.ErrStateConflict] if another
// one is there.
func (s *State) Swap(_ context.Context, session events.SessionID, name string, doc []byte, revision uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := documentKey{session, name}
	if now := s.docs[key].revision; now != revision {
		return fmt.Errorf("%w: it is at revision %d", toolkit.ErrStateConflict, now)
	}
	s.revision++
	s.docs[key] = document{json: bytes.Clone(doc), revision: s.revision}
	return nil
}
