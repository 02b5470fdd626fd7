package dispatcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
)

// entry is the JSON under tool.<token> in the registry bucket.
type entry struct {
	Definition json.RawMessage `json:"definition"`
	Hash       string          `json:"hash"`
	Pool       string          `json:"pool"`
	Source     string          `json:"source"`
	StartedAt  time.Time       `json:"startedAt"` // of the process that announced it
}

// registry mirrors the registry bucket and the configuration, and writes the former.
type registry struct {
	bus     *jet.Bus
	log     zerolog.Logger
	schemas toolkit.Schemas
	now     atomic.Pointer[snapshot]

	settings settings // the last good one; touched by the watch only

	mu      sync.Mutex
	refused map[events.ToolName]map[string]refusal // by source
	claimed map[events.ToolName]bool               // lanes that this process set up
}

// refusal is an announcement that was not adopted, kept for people to see.
type refusal struct {
	why  string
	seen time.Time
}

func newRegistry(bus *jet.Bus, log zerolog.Logger) *registry {
	r := &registry{bus: bus, log: log, refused: make(map[events.ToolName]map[string]refusal), claimed: make(map[events.ToolName]bool)}
	r.now.Store(newSnapshot(nil, settings{}))
	return r
}

func (r *registry) snapshot() *snapshot { return r.now.Load() }

// covering is the snapshot, completed by what the bucket's leader has of the tools that the calls
// name and the snapshot lacks. The mirror may be behind: an agent that was shown a tool by one dispatcher
// must not hear from another that there is none.
func (r *registry) covering(ctx context.Context, calls []events.Call) (*snapshot, error) {
	now := r.snapshot()
	read := make(map[events.ToolName]*tool)
	for _, c := range calls {
		if _, asked := read[c.Name]; asked || now.tool(c.Name) != nil || control(c.Name) {
			continue
		}
		t, err := r.read(ctx, c.Name)
		if err != nil {
			return nil, err
		}
		read[c.Name] = t
	}
	maps.DeleteFunc(read, func(_ events.ToolName, t *tool) bool { return t == nil })
	if len(read) == 0 {
		return now, nil
	}
	return now.and(read), nil
}

// read reads one entry from the bucket's leader; nil: there is none that can be used.
func (r *registry) read(ctx context.Context, name events.ToolName) (*tool, error) {
	bucket := r.bus.RegistryBucket()
	m, err := r.bus.Next(ctx, "KV_"+bucket, 1, "$KV."+bucket+"."+toolKey(name))
	switch {
	case errors.Is(err, jet.ErrNone):
		return nil, nil //nolint:nilnil // no entry is an answer
	case err != nil:
		return nil, fmt.Errorf("registry: %w", err)
	}
	t, err := r.parse(m.Data, m.Seq)
	if err != nil || t.def.Name != name {
		return nil, nil //nolint:nilnil,nilerr // removed, or unusable: the watch logs it
	}
	return t, nil
}

// fenced says whether a call with the given definition must run at most once. A definition that
// is no longer registered counts as one with side effects.
func (r *registry) fenced(name events.ToolName, hash string) bool {
	t := r.snapshot().tool(name)
	return t == nil || t.hash != hash || t.def.Fenced()
}

const keyPrefix = "tool."

func toolKey(name events.ToolName) string { return keyPrefix + events.Token(name) }

// watch keeps the snapshot up to date until ctx ends, and closes loaded once the first state is in.
func (r *registry) watch(ctx context.Context, loaded chan struct{}) error {
	once := sync.OnceFunc(func() { close(loaded) })
	for {
		err := r.watchOnce(ctx, once)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it was asked to end
		case r.bus.Conn().IsClosed():
			return ErrDisconnected
		}
		r.log.Warn().Err(err).Msg("watching the registry again")
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

func (r *registry) watchOnce(ctx context.Context, loaded func()) error {
	entries, stop, err := r.follow(ctx, r.bus.RegistryBucket(), keyPrefix+"*")
	if err != nil {
		return err
	}
	defer stop()
	declared, stop, err := r.follow(ctx, r.bus.SettingsBucket(), settingsKey)
	if err != nil {
		return err
	}
	defer stop()
	tools := make(map[events.ToolName]*tool)
	r.settings = settings{}
	waiting := 2 // first states still to come
	for {
		var e jetstream.KeyValueEntry
		var open bool
		select {
		case <-ctx.Done():
			return nil
		case e, open = <-entries:
			if e != nil {
				r.apply(tools, e)
			}
		case e, open = <-declared:
			if e != nil {
				r.applySettings(e)
			}
		}
		switch {
		case !open:
			return errors.New("watch ended")
		case e == nil:
			waiting--
		}
		// Resolving costs what all tools cost, so changes that come together are resolved as one.
		if waiting == 0 && len(entries) == 0 && len(declared) == 0 {
			r.now.Store(newSnapshot(tools, r.settings))
			loaded()
		}
	}
}

// follow watches keys of a bucket. The first nil entry says that the present state is in.
func (r *registry) follow(ctx context.Context, bucket, keys string) (updates <-chan jetstream.KeyValueEntry, stop func(), err error) {
	kv, err := r.bus.JetStream().KeyValue(ctx, bucket)
	if err != nil {
		return nil, nil, err
	}
	w, err := kv.Watch(ctx, keys)
	if err != nil {
		return nil, nil, err
	}
	return w.Updates(), func() {
		_ = w.Stop()
		for range w.Updates() { // it may be blocked on an update that nobody reads
		}
	}, nil
}

func (r *registry) apply(tools map[events.ToolName]*tool, e jetstream.KeyValueEntry) {
	name, err := events.Untoken[events.ToolName](strings.TrimPrefix(e.Key(), keyPrefix))
	if err != nil {
		return
	}
	if e.Operation() != jetstream.KeyValuePut {
		delete(tools, name)
		return
	}
	t, err := r.parse(e.Value(), e.Revision())
	if err == nil && t.def.Name != name {
		err = fmt.Errorf("definition of %q", t.def.Name)
	}
	if err != nil {
		r.log.Error().Err(err).Str("tool", string(name)).Msg("registry entry ignored")
		delete(tools, name)
		return
	}
	tools[name] = t
}

func (r *registry) parse(value []byte, revision uint64) (*tool, error) {
	var e entry
	if err := json.Unmarshal(value, &e); err != nil {
		return nil, err
	}
	t := &tool{raw: e.Definition, hash: e.Hash, pool: e.Pool, source: e.Source, startedAt: e.StartedAt, revision: revision}
	if err := json.Unmarshal(e.Definition, &t.def); err != nil {
		return nil, err
	}
	t.schema = sync.OnceValues(func() (*toolkit.Schema, error) { return r.schemas.Of(t.hash, t.def) })
	return t, nil
}

// write makes e visible, in the place of old (nil: as new). The consumer of its pool exists
// before, so that no work is ever without one. False: another dispatcher was faster.
func (r *registry) write(ctx context.Context, name events.ToolName, e entry, inFlight int, old *tool) (bool, error) {
	if err := jet.EnsurePool(ctx, r.bus.JetStream(), r.bus.Names, e.Pool, inFlight); err != nil {
		return false, err
	}
	kv, err := r.bus.JetStream().KeyValue(ctx, r.bus.RegistryBucket())
	if err != nil {
		return false, err
	}
	value, err := events.Marshal(e)
	if err != nil {
		return false, err
	}
	if old == nil {
		_, err = kv.Create(ctx, toolKey(name), value)
	} else {
		_, err = kv.Update(ctx, toolKey(name), value, old.revision)
	}
	if errors.Is(err, jetstream.ErrKeyExists) || errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return false, nil
	}
	return err == nil, err
}

// remove takes an entry away, unless it was changed meanwhile, and waits until this process knows.
// Work that waits for the tool goes on waiting.
func (r *registry) remove(ctx context.Context, name events.ToolName, revision uint64) error {
	kv, err := r.bus.JetStream().KeyValue(ctx, r.bus.RegistryBucket())
	if err != nil {
		return err
	}
	err = kv.Delete(ctx, toolKey(name), jetstream.LastRevision(revision))
	if err != nil {
		return err
	}
	for r.snapshot().tool(name) != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// ensurePools puts back consumers that were lost since the entries were written.
func (r *registry) ensurePools(ctx context.Context) {
	for pool, limit := range r.snapshot().pools() {
		if err := jet.EnsurePool(ctx, r.bus.JetStream(), r.bus.Names, pool, limit); err != nil && ctx.Err() == nil {
			r.log.Error().Err(err).Str("pool", pool).Msg("no consumer for pool")
		}
	}
}

// claimLane says whether a tool may have a lane of its own. Dispatchers that learn of new tools in
// the same moment may exceed the limit by a few; it is about speed, not about right.
func (r *registry) claimLane(name events.ToolName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	lanes := maps.Clone(r.claimed)
	for other, t := range r.snapshot().tools {
		if t.def.MaxInFlight > 0 {
			lanes[other] = true
		}
	}
	if !lanes[name] && len(lanes) >= maxLanes {
		return false
	}
	r.claimed[name] = true
	return true
}

// refuse notes that source may not announce name; it is logged once while it lasts.
func (r *registry) refuse(name events.ToolName, source, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	by := r.refused[name]
	if by == nil {
		by = make(map[string]refusal)
		r.refused[name] = by
	}
	if by[source].why != why {
		r.log.Warn().Str("tool", string(name)).Str("worker", source).Str("reason", why).Msg("announcement refused")
	}
	by[source] = refusal{why, time.Now()}
}

// admitted forgets a refusal.
func (r *registry) admitted(name events.ToolName, source string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.refused[name], source)
}

// refusals lists why announcements of name are refused at present.
func (r *registry) refusals(name events.ToolName) (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for source, f := range r.refused[name] {
		if time.Since(f.seen) <= presenceTTL {
			out = append(out, fmt.Sprintf("worker %s is refused: %s", source, f.why))
		}
	}
	slices.Sort(out)
	return out
}

// expire forgets refusals of announcements that are not repeated.
func (r *registry) expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, by := range r.refused {
		maps.DeleteFunc(by, func(_ string, f refusal) bool { return time.Since(f.seen) > presenceTTL })
		if len(by) == 0 {
			delete(r.refused, name)
		}
	}
}
