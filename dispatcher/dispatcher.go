package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

// Config says how a dispatcher works. The zero value suits one embedded server.
type Config struct {
	Prefix   string // of all subjects, streams and buckets; "": [events.DefaultPrefix]
	Name     string // of the program, in events and logs; "": dispatcher
	Instance string // of this process; "": a random one

	// How the streams are kept; see the configuration of the installation.
	Replicas  int   // 0: 1
	NoHistory bool  // do not keep the replayable record
	MaxBytes  int64 // size limit of CALLS, WORK and JOURNAL each; 0: 4 GiB
	Memory    bool  // keep all in memory (benchmarks)

	Slots     int           // turns handled at once; 0: 256
	Window    time.Duration // how long facts are kept at least, and a turn is refused a second time; 0: 15 min
	Tick      time.Duration // between two sweeps, at least 1 s; 0: 10 s
	Operators []string      // actors who may act on anyone's turn; nil: local

	Logger zerolog.Logger // zero: silent
}

func (c Config) withDefaults() Config {
	def := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	def(&c.Name, "dispatcher")
	def(&c.Instance, uuid.NewString())
	if c.Slots == 0 {
		c.Slots = 256
	}
	if c.Window == 0 {
		c.Window = 15 * time.Minute
	}
	if c.Tick == 0 {
		c.Tick = 10 * time.Second
	}
	if c.Operators == nil {
		c.Operators = []string{"local"}
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Slots < 0:
		return fmt.Errorf("%w: slots %d", ErrConfig, c.Slots)
	case c.Window < time.Minute:
		return fmt.Errorf("%w: window %v, at least 1 min: a fact must outlive what is under way", ErrConfig, c.Window)
	case c.Tick < time.Second:
		return fmt.Errorf("%w: tick %v, at least 1 s", ErrConfig, c.Tick)
	}
	for what, id := range map[string]string{"name": c.Name, "instance": c.Instance} {
		if err := events.CheckID(what, id); err != nil {
			return fmt.Errorf("%w: %w", ErrConfig, err)
		}
	}
	return nil
}

var (
	// ErrConfig is returned when a [Config] cannot be used; its text says which field.
	ErrConfig = errors.New("dispatcher: bad configuration")
	// ErrRunning is returned when Run is called while the dispatcher runs already.
	ErrRunning = errors.New("dispatcher: already running")
	// ErrDisconnected is returned when the connection was closed under a running dispatcher.
	ErrDisconnected = errors.New("dispatcher: connection closed")
	// ErrNotReady is returned when the dispatcher takes no turns at present; its text says why.
	ErrNotReady = errors.New("dispatcher: not ready")
)

// Dispatcher is one process's share of the dispatching. It is a [prometheus.Collector].
type Dispatcher struct {
	cfg      Config
	bus      *jet.Bus
	log      zerolog.Logger
	registry *registry
	presence *presence
	metrics  *metrics
	infos    infoCache
	sessions *sessions
	steps    stepper
	hidden   secretCache
	large    chan struct{} // a place for each turn whose data came from BODIES, while it is handled

	running                  atomic.Bool
	loaded                   atomic.Bool   // the registry's first state is in
	congested                atomic.Bool   // a stream is nearly full: no turns are taken
	swept                    atomic.Int64  // when the last sweep began, in ns since epoch
	staleTurn, staleQuestion atomic.Uint64 // up to where sweeps have looked

	fault func(step string) error // tests only: dies between two publishes
}

// New makes a dispatcher on a connection, which stays the caller's to close.
func New(nc *nats.Conn, cfg Config) (*Dispatcher, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s, err := events.NewSubjects(cfg.Prefix)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	bus, err := jet.NewBus(nc, s)
	if err != nil {
		return nil, err
	}
	log := cfg.Logger.With().Str("component", "dispatcher").Str("instance", cfg.Instance).Logger()
	return &Dispatcher{
		cfg: cfg, bus: bus, log: log,
		registry: newRegistry(bus, log), presence: newPresence(), metrics: newMetrics(), sessions: newSessions(bus),
		large: make(chan struct{}, largeTurns),
	}, nil
}

// Run sets up the streams, then takes turns until ctx ends; what it holds then it finishes, and
// returns nil once all its goroutines are gone. [ErrDisconnected]: the connection was closed.
func (d *Dispatcher) Run(ctx context.Context) error {
	if !d.running.CompareAndSwap(false, true) {
		return ErrRunning
	}
	defer d.running.Store(false)
	defer d.loaded.Store(false)
	err := jet.Ensure(ctx, d.bus.JetStream(), d.bus.Names, jet.Config{
		Replicas: d.cfg.Replicas, Memory: d.cfg.Memory, NoHistory: d.cfg.NoHistory, MaxBytes: d.cfg.MaxBytes,
	})
	if err == nil {
		d.bus.ReadDirectly(d.cfg.Replicas <= 1)
		err = d.run(ctx)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (d *Dispatcher) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	loaded := make(chan struct{})
	g.Go(func() error { return d.registry.watch(ctx, loaded) })
	g.Go(func() error { return d.hearAnnouncements(ctx) })
	g.Go(func() error {
		// A call must not be refused as unknown because the registry was still being read.
		select {
		case <-loaded:
		case <-ctx.Done():
			return nil
		}
		return d.serve(ctx, g)
	})
	return g.Wait()
}

func (d *Dispatcher) serve(ctx context.Context, g *errgroup.Group) error {
	d.registry.ensurePools(ctx)
	if err := d.scheduleSweep(ctx); err != nil {
		return err
	}
	serveAPI, err := d.openAPI(ctx)
	if err != nil {
		return err
	}
	for _, service := range []func(context.Context) error{d.watchPressure, d.takeTurns, d.takeSteps, d.takeAnswers, d.takeSuspended, d.takeCancels, d.takeDues, serveAPI} {
		g.Go(func() error { return service(ctx) })
	}
	d.loaded.Store(true)
	d.log.Info().Int("tools", len(d.registry.snapshot().tools)).Msg("dispatching")
	return nil
}

// Ready says whether the dispatcher takes turns now: nil, or [ErrNotReady] with the reason.
func (d *Dispatcher) Ready() error {
	switch {
	case !d.running.Load():
		return fmt.Errorf("%w: not running", ErrNotReady)
	case !d.loaded.Load():
		return fmt.Errorf("%w: starting", ErrNotReady)
	case !d.bus.Conn().IsConnected():
		return fmt.Errorf("%w: not connected to NATS", ErrNotReady)
	case d.congested.Load():
		return fmt.Errorf("%w: a stream is over %d %% of its limit", ErrNotReady, congestedAt)
	}
	return nil
}

// pull runs one shared consumer until ctx ends.
func (d *Dispatcher) pull(ctx context.Context, stream, consumer string, slots int, handle func(*jet.Delivery)) error {
	err := d.bus.Pull(ctx, jet.PullConfig{Stream: stream, Consumer: consumer, Slots: slots, Logger: d.log}, handle)
	if err == nil && ctx.Err() == nil {
		err = ErrDisconnected
	}
	return err
}

// finishing is the context of a handler: what was begun is finished though the process is asked
// to stop, but before the lease on its message ends.
func finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), jet.Lease*8/10)
}

// at is a point between two publishes, where tests let the process die.
func (d *Dispatcher) at(step string) error {
	if d.fault == nil {
		return nil
	}
	return d.fault(step)
}

func (d *Dispatcher) source() string { return "/dispatchers/" + events.Token(d.cfg.Name) }

func (d *Dispatcher) operator(actor string) bool { return slices.Contains(d.cfg.Operators, actor) }
