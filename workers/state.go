package workers

import (
	"context"
	"errors"
	"fmt"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
)

// documents are what tools keep for sessions, on the bus: one for all workers.
type documents struct{ bus *jet.Bus }

// Load reads a document from the stream's leader.
func (d documents) Load(ctx context.Context, session events.SessionID, name string) (doc []byte, revision uint64, err error) {
	r, err := d.bus.Document(ctx, session, name)
	switch {
	case errors.Is(err, jet.ErrNone):
		return nil, 0, nil
	case err != nil:
		return nil, 0, err
	}
	return r.Data, r.Revision, nil
}

// Swap stores a document in the place of the one at revision.
func (d documents) Swap(ctx context.Context, session events.SessionID, name string, doc []byte, revision uint64) error {
	_, err := d.bus.PutDocument(ctx, session, name, doc, revision)
	if errors.Is(err, jet.ErrConflict) {
		return fmt.Errorf("%w: %w", toolkit.ErrStateConflict, err)
	}
	return err
}
