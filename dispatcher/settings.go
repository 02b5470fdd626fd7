package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
)

// settingsKey is where the declared configuration lies in its bucket: one document, so that it
// changes as one.
const settingsKey = "config"

// maxSettings is the most bytes of a configuration, well below the message limit.
const maxSettings = 768 << 10

// readSettings parses what is stored; what this version does not know or take is an error.
func readSettings(data []byte, revision uint64) (settings, error) {
	s := settings{revision: revision}
	if err := events.Unmarshal(data, &s.Config); err != nil {
		return settings{}, err
	}
	return s, s.Check()
}

// applySettings takes over a change of the configuration. One that cannot be used is left
// where it is, and the last good one stays.
func (r *registry) applySettings(e jetstream.KeyValueEntry) {
	if e.Key() != settingsKey {
		return
	}
	var set settings
	if e.Operation() == jetstream.KeyValuePut {
		var err error
		if set, err = readSettings(e.Value(), e.Revision()); err != nil {
			r.log.Error().Err(err).Uint64("revision", e.Revision()).Msg("configuration cannot be used, the last good one stays")
			return
		}
	}
	r.settings = set
	r.log.Info().Uint64("revision", set.revision).Int("groups", len(set.Groups)).Msg("configuration in force")
}

// opConfig returns the declared configuration.
func (d *Dispatcher) opConfig(ctx context.Context, _ *request) (any, error) {
	r, err := d.bus.Record(ctx, d.bus.SettingsBucket(), settingsKey)
	if errors.Is(err, jet.ErrNone) {
		return events.ConfigReply{}, nil
	}
	if err != nil {
		return nil, err
	}
	return events.ConfigReply{Revision: r.Revision, Config: r.Data}, nil
}

// opConfigSet declares a configuration: all of it, or nothing.
func (d *Dispatcher) opConfigSet(ctx context.Context, r *request) (any, error) {
	var q events.ConfigSet
	if err := r.read(&q); err != nil {
		return nil, err
	}
	var c toolkit.Config
	if err := events.Unmarshal(q.Config, &c); err != nil {
		return nil, refused(http.StatusBadRequest, "the configuration cannot be read: %v", err)
	}
	if err := c.Check(); err != nil {
		return nil, refused(http.StatusBadRequest, "%v", err)
	}
	if len(q.Config) > maxSettings {
		return nil, refused(http.StatusRequestEntityTooLarge, "the configuration has %d bytes, at most %d are allowed", len(q.Config), maxSettings)
	}
	revision, err := d.bus.PutRecord(ctx, d.bus.SettingsBucket(), settingsKey, q.Config, q.Revision)
	if errors.Is(err, jet.ErrConflict) {
		return nil, refused(http.StatusConflict, "the configuration is no longer at revision %d; read it again", q.Revision)
	}
	if err != nil {
		return nil, err
	}
	// Who applies a configuration and lists tools right after is to see what was applied.
	if err := d.registry.caughtUp(ctx, revision); err != nil {
		return nil, err
	}
	d.registry.ensurePools(ctx) // limits of lanes may have changed
	return events.ConfigReply{Revision: revision, Config: q.Config}, d.changed("group", "config", revision)
}

// caughtUp waits until this process works by the configuration of a revision, or a later one.
func (r *registry) caughtUp(ctx context.Context, revision uint64) error {
	for r.snapshot().revision < revision {
		select {
		case <-ctx.Done():
			return fmt.Errorf("configuration %d: %w", revision, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// changed tells whoever listens that something which is listed has changed.
func (d *Dispatcher) changed(what, id string, revision uint64) error {
	return d.bus.Send(d.bus.Changed(what), events.Event{Attributes: events.Attributes{
		ID: fmt.Sprintf("changed/%s/%s/%d", what, id, revision), Source: d.source(), Type: typeChanged, Time: time.Now(),
	}})
}
