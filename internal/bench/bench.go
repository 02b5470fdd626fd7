package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// Options say how much is measured. The zero value of each field takes its default.
type Options struct {
	Calls   int           // calls of one throughput run; 0: 20,000
	Window  int           // calls in flight; 0: 1,024
	Size    int           // bytes of arguments; 0: 256
	Reps    int           // runs of each system, in turn; 0: 3
	Rate    int           // calls per second of the paced run; 0: 2,000
	Paced   time.Duration // length of the paced run; 0: 5 s
	Single  int           // sequential calls of the unloaded run; 0: 1,000
	Slots   int           // of the worker; 0: its default
	History bool          // keep the replayable record while measuring
	Tools   int           // further tools that are registered
	Groups  int           // groups that are declared; the further tools are in them by turns
}

func (o Options) withDefaults() Options {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&o.Calls, 20_000)
	def(&o.Window, 1024)
	def(&o.Size, 256)
	def(&o.Reps, 3)
	def(&o.Rate, 2000)
	def(&o.Single, 1000)
	if o.Paced == 0 {
		o.Paced = 5 * time.Second
	}
	return o
}

// Server starts a fresh server for one run.
type Server func(ctx context.Context) (*Served, error)

// Served is a server that runs for one measurement.
type Served struct {
	Connect func() (*nats.Conn, error)
	Stop    func()
	Store   string                 // its directory
	Memory  func() (uint64, error) // bytes that its process has resident; nil: it runs in this process
}

// Run is what one run of one system measured.
type Run struct {
	System     string        `json:"system"` // "reference" or "toolwire"
	PerSecond  float64       `json:"perSecond"`
	P50, P99   time.Duration `json:"-"` // unloaded
	PacedP50   time.Duration `json:"-"`
	PacedP99   time.Duration `json:"-"`
	Lost       int           `json:"lost"`
	Duplicates int           `json:"duplicates"`
	CPU        time.Duration `json:"-"`       // of this process, per call of the throughput run
	HeapMiB    float64       `json:"heapMiB"` // live heap of this process after the throughput run
}

// system is a pipeline under test.
type system interface {
	call(ctx context.Context, i int, done func()) error
	// verdict says how many of the calls have no result stored, and how many results are there
	// beyond the first of a call.
	verdict(ctx context.Context, calls int) (lost, duplicates int, err error)
	stop()
}

// errLost is returned when results are missing long after their calls.
var errLost = errors.New("bench: no result for a minute")

// Compare measures reference and Toolwire in turn, Reps times each on a fresh server,
// and tells progress of each finished run. Runs come back in the order they were made.
func Compare(ctx context.Context, server Server, o Options, progress func(Run)) ([]Run, error) {
	o = o.withDefaults()
	var runs []Run
	for range o.Reps {
		for _, name := range []string{"reference", "toolwire"} {
			r, err := measure(ctx, name, server, o)
			if err != nil {
				return runs, fmt.Errorf("%s: %w", name, err)
			}
			progress(r)
			runs = append(runs, r)
		}
	}
	return runs, nil
}

func measure(ctx context.Context, name string, server Server, o Options) (r Run, err error) {
	served, err := server(ctx)
	if err != nil {
		return r, err
	}
	defer served.Stop()
	var s system
	if name == "reference" {
		s, err = startReference(ctx, served.Connect, o)
	} else {
		s, err = startToolwire(ctx, served.Connect, o, groups(o))
	}
	if err != nil {
		return r, err
	}
	defer s.stop()
	r.System = name
	next := 0
	if _, err = pipelined(ctx, s, &next, min(o.Calls, 2000), o.Window); err != nil { // warm-up
		return r, err
	}
	single, err := sequential(ctx, s, &next, o.Single)
	if err != nil {
		return r, err
	}
	r.P50, r.P99 = quantiles(single)
	used := cpuTime()
	d, err := pipelined(ctx, s, &next, o.Calls, o.Window)
	if err != nil {
		return r, err
	}
	r.CPU = (cpuTime() - used) / time.Duration(o.Calls)
	r.PerSecond = float64(o.Calls) / d.Seconds()
	r.HeapMiB = heapMiB()
	paced, err := paced(ctx, s, &next, o.Rate, o.Paced)
	if err != nil {
		return r, err
	}
	r.PacedP50, r.PacedP99 = quantiles(paced)
	r.Lost, r.Duplicates, err = s.verdict(ctx, next)
	return r, err
}

// pipelined makes n calls with window of them in flight.
func pipelined(ctx context.Context, s system, next *int, n, window int) (time.Duration, error) {
	slots := make(chan struct{}, window)
	var open sync.WaitGroup
	open.Add(n)
	t0 := time.Now()
	for range n {
		select {
		case slots <- struct{}{}:
		case <-time.After(time.Minute):
			return 0, errLost
		}
		if err := s.call(ctx, *next, func() { <-slots; open.Done() }); err != nil {
			return 0, err
		}
		*next++
	}
	if err := wait(&open); err != nil {
		return 0, err
	}
	return time.Since(t0), nil
}

// sequential makes n calls one after the other and returns how long each took.
func sequential(ctx context.Context, s system, next *int, n int) ([]time.Duration, error) {
	took := make([]time.Duration, 0, n)
	one := make(chan struct{}, 1)
	for range n {
		t0 := time.Now()
		if err := s.call(ctx, *next, func() { one <- struct{}{} }); err != nil {
			return nil, err
		}
		*next++
		select {
		case <-one:
			took = append(took, time.Since(t0))
		case <-time.After(time.Minute):
			return nil, errLost
		}
	}
	return took, nil
}

// paced makes rate calls a second, whether or not earlier ones are done, and returns how long
// each took from the moment it was due: a system that falls behind shows it.
func paced(ctx context.Context, s system, next *int, rate int, length time.Duration) ([]time.Duration, error) {
	n := int(length.Seconds() * float64(rate))
	took := make([]time.Duration, n)
	var open sync.WaitGroup
	open.Add(n)
	var failed atomic.Pointer[error]
	t0 := time.Now()
	for i := range n {
		due := t0.Add(time.Duration(i) * time.Second / time.Duration(rate))
		if d := time.Until(due); d > 0 {
			<-time.After(d)
		}
		if err := s.call(ctx, *next, func() { took[i] = time.Since(due); open.Done() }); err != nil {
			failed.Store(&err)
			break
		}
		*next++
	}
	if err := failed.Load(); err != nil {
		return nil, *err
	}
	return took, wait(&open)
}

func wait(open *sync.WaitGroup) error {
	all := make(chan struct{})
	go func() { open.Wait(); close(all) }()
	select {
	case <-all:
		return nil
	case <-time.After(time.Minute):
		return errLost
	}
}

func quantiles(d []time.Duration) (p50, p99 time.Duration) {
	if len(d) == 0 {
		return 0, 0
	}
	slices.Sort(d)
	return d[len(d)/2], d[len(d)*99/100]
}
