package workers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
)

// Config says who a worker is and how much it does at once.
type Config struct {
	// Name is the worker program; required. All processes of one program share it.
	Name string
	// Pool is whose work it takes; default: Name. Programs may share a pool only if they run
	// the same tools. Names that begin with "lane-" are for tools with a limit of their own.
	Pool string
	// Prefix is the first token of all subjects; default [events.DefaultPrefix].
	Prefix string
	// Slots is how many calls of the pool run at once in this process; default 128. A tool with
	// a lane has slots of its own, as many as its limit and at most so many.
	Slots int
	// Drain is how long running calls may go on once Run's context has ended; default 30 s,
	// negative: not at all.
	Drain time.Duration
	// Grace is how long a tool may go on once its context has ended, before its call is settled
	// without it; default [toolkit.DefaultGrace].
	Grace time.Duration
	// Middleware surrounds every tool; the first is the outermost.
	Middleware []toolkit.Middleware
	// SecretEnv are the environment variables that presets of tools may name; default: none.
	SecretEnv []string
	// SecretDir is the directory whose files presets of tools may name; default: none. No name and
	// no link leads out of it.
	SecretDir string
	// Logger gets what a person should know; the zero value is silent.
	Logger zerolog.Logger
}

func (c Config) withDefaults() Config {
	if c.Pool == "" {
		c.Pool = c.Name
	}
	if c.Slots == 0 {
		c.Slots = 128
	}
	if c.Drain == 0 {
		c.Drain = 30 * time.Second
	}
	if c.Grace == 0 {
		c.Grace = toolkit.DefaultGrace
	}
	return c
}

func (c Config) validate() error {
	if err := events.CheckID("worker name", c.Name); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if err := events.CheckID("pool", c.Pool); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if strings.HasPrefix(c.Pool, lanePrefix) {
		return fmt.Errorf("%w: pool %q: names that begin with %q are for tools with a limit of their own", ErrConfig, c.Pool, lanePrefix)
	}
	if c.Slots < 0 || c.Grace < 0 {
		return fmt.Errorf("%w: slots or grace is negative", ErrConfig)
	}
	return nil
}

var (
	// ErrConfig is returned when a worker cannot be made of a configuration; its text says why.
	ErrConfig = errors.New("workers: bad configuration")
	// ErrClosed is returned when the connection was closed under a running worker.
	ErrClosed = errors.New("workers: connection closed")
	// ErrRan is returned when Run is called a second time.
	ErrRan = errors.New("workers: a worker runs once")
)

// Worker runs the tools of one toolkit. Its methods may be called at any time from anywhere.
type Worker struct {
	cfg      Config
	bus      *jet.Bus
	log      zerolog.Logger
	secrets  secrets
	tools    map[events.ToolName]*tool
	order    []*tool // as they were added
	instance string  // this process, in starts and announcements
	source   string  // CloudEvents source
	calls    table
	runners  runners
	stats    stats
	state    atomic.Int32 // stateNew …
	loops    int          // pull loops that there should be
	pulling  atomic.Int32 // pull loops that there are
	stopping chan struct{}
	started  time.Time
	step     func(point string, k events.CallKey) // nil but in tests
}

// The life of a worker.
const (
	stateNew int32 = iota
	stateRunning
	stateDraining
	stateEnded
)

// New makes a worker of the tools as they are now. The connection stays the caller's to close,
// after Run has returned. [ErrConfig] says what is wrong with cfg or tools.
func New(nc *nats.Conn, tools *toolkit.Toolkit, cfg Config) (*Worker, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	hidden := secrets{env: cfg.SecretEnv, dir: cfg.SecretDir}
	if err := hidden.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	subjects, err := events.NewSubjects(cfg.Prefix)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	bus, err := jet.NewBus(nc, subjects)
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	w := &Worker{
		cfg: cfg, bus: bus, secrets: hidden,
		instance: uuid.NewString(),
		source:   "/workers/" + events.Token(cfg.Name),
		tools:    map[events.ToolName]*tool{},
		calls:    newTable(),
		runners:  newRunners(),
		stopping: make(chan struct{}),
		started:  time.Now(),
	}
	w.log = cfg.Logger.With().Str("component", "worker").Str("worker", cfg.Name).Logger()
	for t := range tools.All() {
		w.add(t)
	}
	if len(w.order) == 0 {
		return nil, fmt.Errorf("%w: the toolkit is empty", ErrConfig)
	}
	w.loops = len(w.lanes())
	return w, nil
}

// Run takes work until ctx ends, then lets what runs finish, and returns when nothing of it is
// left (see the package comment). A missing server or consumer is waited for. A tool that ignores
// its context is left behind. [ErrClosed] if the connection is closed meanwhile.
func (w *Worker) Run(ctx context.Context) error {
	if !w.state.CompareAndSwap(stateNew, stateRunning) {
		return ErrRan
	}
	defer w.state.Store(stateEnded)
	defer w.runners.end()
	// Three lifetimes: ctx ends the intake, work ends the tools, last ends even the settling.
	work, cancelWork := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancelWork(nil)
	last, cancelLast := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelLast()

	desk, err := w.open()
	if err != nil {
		return err
	}
	pulls, pullCtx := errgroup.WithContext(ctx)
	for _, l := range w.lanes() {
		w.pulling.Add(1)
		pulls.Go(func() error { return w.pull(pullCtx, work, last, l) })
	}
	if w.loops == 0 { // all tools are answered elsewhere
		pulls.Go(func() error { <-pullCtx.Done(); return nil })
	}
	pulled := make(chan struct{})
	var rest errgroup.Group
	rest.Go(func() error { desk.serve(last, pulled); return nil })
	rest.Go(func() error {
		w.drain(pullCtx, pulled, cancelWork, cancelLast)
		return nil
	})
	err = pulls.Wait()
	close(pulled)
	_ = rest.Wait() // neither returns an error
	return errors.Join(err, w.close(ctx, last))
}

// pull runs one loop of the pool or a lane.
func (w *Worker) pull(ctx, work, last context.Context, l lane) error {
	defer w.pulling.Add(-1)
	return w.bus.Pull(ctx, jet.PullConfig{
		Stream: w.bus.WorkStream(), Consumer: events.Token(l.pool), Slots: l.slots, Logger: w.log,
	}, func(d *jet.Delivery) { w.handle(work, last, d) })
}

// drain waits for the end of the intake, and ends in turn what may go on after it.
func (w *Worker) drain(ctx context.Context, pulled <-chan struct{}, cancelWork context.CancelCauseFunc, cancelLast func()) {
	<-ctx.Done() // the group's context: it ends with Run's, with a failed pull, and after the last
	w.state.Store(stateDraining)
	close(w.stopping)
	limits := []struct {
		after time.Duration
		end   func()
	}{
		{max(w.cfg.Drain, 0), func() { cancelWork(toolkit.ErrShutdown) }},
		{w.cfg.Grace + settlePatience, cancelLast},
	}
	for _, l := range limits {
		timer := time.NewTimer(l.after)
		select {
		case <-pulled:
			timer.Stop()
			return
		case <-timer.C:
			l.end()
		}
	}
}

// close sees to it that the last acknowledgements leave the process.
func (w *Worker) close(ctx, last context.Context) error {
	if w.bus.Conn().IsClosed() {
		if ctx.Err() != nil {
			return nil
		}
		return ErrClosed
	}
	flush, cancel := context.WithTimeout(context.WithoutCancel(last), 2*time.Second)
	defer cancel()
	if err := w.bus.Conn().FlushWithContext(flush); err != nil {
		w.log.Warn().Err(err).Msg("last acknowledgements may be lost")
	}
	return nil
}

func (w *Worker) at(point string, k events.CallKey) {
	if w.step != nil {
		w.step(point, k)
	}
}
