package dispatcher

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

const (
	// maxLanes is the most tools with a limit of their own: each costs WORK a consumer, and every
	// acknowledgement visits all of them.
	maxLanes = 64
	// maxDefinition is the most bytes of one definition.
	maxDefinition = 512 << 10
	// learners is how many definitions are asked for at once, maxLearning how many may wait for that.
	learners    = 8
	maxLearning = 4096
)

// typeChanged is the type of the note that the registry changed; it carries only attributes.
const typeChanged events.Type = "io.toolwire.v1.Changed"

// hearAnnouncements listens to workers until ctx ends. A repeated announcement costs a look into
// two maps; a new one has its definition fetched and written to the registry.
func (d *Dispatcher) hearAnnouncements(ctx context.Context) error {
	in := make(chan *nats.Msg, 4096)
	sub, err := d.bus.Conn().ChanSubscribe(d.bus.Under("announce"), in)
	if err != nil {
		return fmt.Errorf("listen to announcements: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	d.presence.begin()
	// Workers announce themselves to a new dispatcher at once; otherwise it hears them within seconds.
	err = d.bus.Send(d.bus.Changed("dispatcher"), events.Event{Attributes: events.Attributes{
		ID: "changed/dispatcher/" + d.cfg.Instance, Source: d.source(), Type: typeChanged, Time: time.Now(),
	}})
	if err != nil {
		return fmt.Errorf("ask for announcements: %w", err)
	}
	l := &learner{d: d, gate: make(chan struct{}, learners), busy: make(map[events.ToolName]bool)}
	defer l.wg.Wait()
	tick := time.NewTicker(presenceTTL / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			d.registry.expire()
			for _, ann := range d.presence.expire() {
				d.workerChanged(ann, "lost")
			}
		case m := <-in:
			d.heard(ctx, l, m)
		}
	}
}

func (d *Dispatcher) heard(ctx context.Context, l *learner, m *nats.Msg) {
	ann, again := d.presence.again(m.Data)
	if !again {
		e, err := events.Decode(m.Header, m.Data)
		if err == nil && e.Type != events.TypeAnnounce {
			err = fmt.Errorf("%w: type %s", events.ErrMalformed, e.Type)
		}
		if err == nil {
			err = events.Unmarshal(e.Data, &ann)
		}
		if err == nil && d.bus.Announce(ann.Worker, ann.Tool) != m.Subject {
			err = fmt.Errorf("%w: it contradicts its subject", events.ErrMalformed)
		}
		if err != nil {
			d.log.Warn().Err(err).Str("subject", m.Subject).Msg("announcement ignored")
			return
		}
		switch came, went := d.presence.note(ann, m.Data); {
		case came:
			d.workerChanged(ann, "came")
		case went:
			d.workerChanged(ann, "left")
		}
	}
	if ann.Gone || current(d.registry.snapshot().tool(ann.Tool), ann) {
		return
	}
	l.learn(ctx, ann, m.Reply)
}

// workerChanged tells whoever listens that a worker process came, left, or was lost. Every dispatcher
// says so, under one id.
func (d *Dispatcher) workerChanged(ann events.Announce, how string) {
	err := d.bus.Send(d.bus.Changed("worker"), events.Event{
		Attributes: events.Attributes{
			ID: "changed/worker/" + ann.Instance + "/" + how, Source: "/workers/" + events.Token(ann.Worker), Type: typeChanged, Time: time.Now(),
		},
		Extensions: map[string]string{"change": how, "worker": ann.Worker, "instance": ann.Instance},
	})
	if err != nil {
		d.log.Debug().Err(err).Str("worker", ann.Worker).Msg("change of a worker not told")
	}
}

// current says whether the registry has just what ann announces.
func current(t *tool, ann events.Announce) bool {
	return t != nil && t.hash == ann.Definition && t.source == ann.Worker && t.pool == poolOf(t.def, ann.Pool)
}

// poolOf is whose consumer gets the work of a tool: the pool of its workers, or a lane of its own
// if its calls in flight are limited over the whole fleet.
func poolOf(def toolkit.Definition, pool string) string {
	if def.MaxInFlight > 0 {
		return "lane-" + string(def.Name)
	}
	return pool
}

// learner fetches definitions, one per tool at a time.
type learner struct {
	d    *Dispatcher
	wg   sync.WaitGroup
	gate chan struct{}

	mu   sync.Mutex
	busy map[events.ToolName]bool
}

// learn works on one announcement in the background. What is more than a fleet announces is left:
// workers announce again.
func (l *learner) learn(ctx context.Context, ann events.Announce, reply string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy[ann.Tool] || len(l.busy) >= maxLearning {
		return
	}
	l.busy[ann.Tool] = true
	l.wg.Go(func() {
		defer func() {
			l.mu.Lock()
			delete(l.busy, ann.Tool)
			l.mu.Unlock()
		}()
		select {
		case l.gate <- struct{}{}:
			defer func() { <-l.gate }()
		case <-ctx.Done():
			return
		}
		if err := l.d.adopt(ctx, ann, reply); err != nil && ctx.Err() == nil {
			l.d.log.Warn().Err(err).Str("tool", string(ann.Tool)).Str("worker", ann.Worker).Msg("definition not taken")
		}
	})
}

// adopt brings the registry up to an announcement, if it may.
func (d *Dispatcher) adopt(ctx context.Context, ann events.Announce, reply string) error {
	if control(ann.Tool) {
		d.registry.refuse(ann.Tool, ann.Worker, "the name is reserved")
		return nil
	}
	old := d.registry.snapshot().tool(ann.Tool)
	owners := 0
	if old != nil {
		owners, _ = d.presence.alive(ann.Tool, old.source)
	}
	switch admit(old, ann, owners > 0 || !d.presence.warm()) {
	case keepEntry:
		return nil
	case refuseOwner:
		d.registry.refuse(ann.Tool, ann.Worker, fmt.Sprintf("the tool belongs to worker %s; give one of the two tools another name", old.source))
		return nil
	case adoptEntry:
	}
	raw, def, err := d.fetchDefinition(ctx, ann, reply)
	if err != nil {
		d.registry.refuse(ann.Tool, ann.Worker, err.Error())
		return nil
	}
	if def.MaxInFlight > 0 && !d.registry.claimLane(ann.Tool) {
		d.registry.refuse(ann.Tool, ann.Worker, fmt.Sprintf("%d tools have a limit of their own already; leave maxInFlight out", maxLanes))
		return nil
	}
	pool := poolOf(def, ann.Pool)
	if err := events.CheckID("pool", pool); err != nil {
		d.registry.refuse(ann.Tool, ann.Worker, err.Error())
		return nil
	}
	e := entry{Definition: raw, Hash: ann.Definition, Pool: pool, Source: ann.Worker, StartedAt: ann.StartedAt}
	won, err := d.registry.write(ctx, ann.Tool, e, def.MaxInFlight, old)
	if err != nil || !won {
		return err
	}
	d.registry.admitted(ann.Tool, ann.Worker)
	change := "registered"
	if old != nil {
		change = "redefined"
	}
	d.log.Info().Str("tool", string(ann.Tool)).Str("worker", ann.Worker).Str("pool", pool).Str("definition", ann.Definition).Msg("tool registered")
	return d.bus.Send(d.bus.Changed("tool"), events.Event{Attributes: events.Attributes{
		ID: "changed/tool/" + string(ann.Tool) + "/" + ann.Definition, Source: d.source(), Type: typeChanged, Tool: ann.Tool, Time: time.Now(),
	}, Extensions: map[string]string{"change": change, "worker": ann.Worker}})
}

// admission is what an announcement may do to the registry.
type admission int

const (
	keepEntry   admission = iota // the entry stays
	adoptEntry                   // the announced definition takes its place
	refuseOwner                  // the name belongs to another worker program
)

// admit says what ann may do to the entry of its tool. ownerAlive: the owner's workers live, or
// may live. Of one owner's processes the one that started last decides, so that a rolling
// update moves forward, and so does going back to an old version.
func admit(old *tool, ann events.Announce, ownerAlive bool) admission {
	switch {
	case old == nil:
		return adoptEntry
	case old.source != ann.Worker:
		if ownerAlive {
			return refuseOwner
		}
		return adoptEntry
	case !ann.StartedAt.After(old.startedAt), current(old, ann):
		return keepEntry
	}
	return adoptEntry
}

// fetchDefinition asks the announcing worker for its definition and checks it.
func (d *Dispatcher) fetchDefinition(ctx context.Context, ann events.Announce, reply string) (json.RawMessage, toolkit.Definition, error) {
	var def toolkit.Definition
	// The reply subject comes from outside: a request to any other subject would be made with a
	// dispatcher's rights, $JS.API ones included.
	if !strings.HasPrefix(reply, "_INBOX") {
		return nil, def, fmt.Errorf("the announcement has no inbox to ask for its definition")
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	m, err := d.bus.Conn().RequestWithContext(ctx, reply, nil)
	if err != nil {
		return nil, def, fmt.Errorf("the worker does not answer with its definition: %w", err)
	}
	if len(m.Data) > maxDefinition {
		return nil, def, fmt.Errorf("the definition has %d bytes, at most %d are allowed", len(m.Data), maxDefinition)
	}
	if err := events.Unmarshal(m.Data, &def); err != nil {
		return nil, def, fmt.Errorf("the definition cannot be read: %w", err)
	}
	if def.Name != ann.Tool {
		return nil, def, fmt.Errorf("the definition is of tool %q", def.Name)
	}
	if err := def.Check(); err != nil {
		return nil, def, err
	}
	if hash := toolkit.HashOf(m.Data); hash != ann.Definition {
		return nil, def, fmt.Errorf("the definition has the hash %s, announced was %s", hash, ann.Definition)
	}
	return m.Data, def, nil
}
