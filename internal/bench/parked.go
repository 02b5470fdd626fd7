package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/toolwire/toolwire/events"
)

// ParkedOptions say how many calls are parked and answered. The zero value of each field takes its default.
type ParkedOptions struct {
	Options

	Parked   int           // calls that are parked at once; 0: 100,000
	Kind     events.Kind   // whether people confirm them or others answer them; "": external
	Sessions int           // over which they are spread; 0: 1,000
	Singles  int           // answered one after the other, before and after the others are parked; 0: 500
	Burst    int           // answered at once; 0: 10,000
	Beside   int           // ordinary calls per second meanwhile; 0: 200
	Alone    time.Duration // length of that stream of calls without answers beside it; 0: 5 s
}

func (o ParkedOptions) withDefaults() ParkedOptions {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	o.Options = o.Options.withDefaults()
	def(&o.Parked, 100_000)
	def(&o.Sessions, 1000)
	def(&o.Singles, 500)
	def(&o.Burst, 10_000)
	def(&o.Beside, 200)
	if o.Kind == "" {
		o.Kind = events.KindExternal
	}
	if o.Alone == 0 {
		o.Alone = 5 * time.Second
	}
	o.Singles = min(o.Singles, o.Parked)
	o.Burst = min(o.Burst, o.Parked-o.Singles)
	return o
}

// Load is what an installation takes at one moment.
type Load struct {
	Disk       int64  `json:"diskBytes"`
	Server     uint64 `json:"serverBytes,omitempty"` // resident memory of its process; 0: it is this one
	Heap       uint64 `json:"heapBytes"`             // live heap of this process: dispatcher, worker, the bench and, if it is embedded, the server
	Goroutines int    `json:"goroutines"`            // of this process
}

// ParkedRun is what one run measured. Latencies are from the publish of an answer to the arrival of the
// live copy of its call's result.
type ParkedRun struct {
	Kind     events.Kind
	Parked   int
	Ordinary float64 // calls per second on the fresh server, nothing being parked

	ParkedPerSecond      float64
	Before, After        Load          // of parking
	Listed               time.Duration // all pages of the list of open questions
	FewP50, FewP99       time.Duration // single answers, while nothing else is parked
	DeepP50, DeepP99     time.Duration // the same beside all that are parked
	AloneP50, AloneP99   time.Duration // ordinary calls beside all that are parked
	BesideP50, BesideP99 time.Duration // the same while a burst is answered
	BurstPerSecond       float64
	BurstP50, BurstP99   time.Duration
	RestPerSecond        float64       // all other answers, also published at once
	CallCPU, ParkCPU     time.Duration // of this process, per ordinary call and per parked one
	AnswerCPU            time.Duration // per answer of the rest
	CleanedIn            time.Duration

	Lost, Doubled, Refused int
	Left                   int // messages of questions, timers, turns, work and inbox beyond what was there before
}

// Park measures calls that wait for an answer, on a fresh server.
func Park(ctx context.Context, server Server, o ParkedOptions, progress func(what string)) (r ParkedRun, err error) {
	o = o.withDefaults()
	served, err := server(ctx)
	if err != nil {
		return r, err
	}
	defer served.Stop()
	p, err := newParking(ctx, served, o)
	if err != nil {
		return r, err
	}
	defer p.stop()
	r.Kind, r.Parked = o.Kind, o.Parked
	for _, phase := range []struct {
		name string
		run  func(context.Context, *parking, *ParkedRun) error
	}{
		{"ordinary calls", ordinaryPhase},
		{"few parked", fewPhase},
		{"parking", parkPhase},
		{"listing", listPhase},
		{"single answers", singlesPhase},
		{"burst", burstPhase},
		{"the rest", restPhase},
		{"clean-up", cleanPhase},
	} {
		progress(phase.name)
		if err := phase.run(ctx, p, &r); err != nil {
			return r, fmt.Errorf("%s: %w", phase.name, err)
		}
	}
	return r, nil
}

func ordinaryPhase(ctx context.Context, p *parking, r *ParkedRun) error {
	if _, err := pipelined(ctx, p.calls, &p.next, 2000, p.o.Window); err != nil { // warm-up
		return err
	}
	used := cpuTime()
	d, err := pipelined(ctx, p.calls, &p.next, p.o.Calls, p.o.Window)
	r.CallCPU = (cpuTime() - used) / time.Duration(p.o.Calls)
	r.Ordinary = float64(p.o.Calls) / d.Seconds()
	return err
}

func fewPhase(ctx context.Context, p *parking, r *ParkedRun) error {
	if err := p.park(ctx, p.o.Singles); err != nil {
		return err
	}
	if err := p.list(ctx); err != nil {
		return err
	}
	took, err := p.oneByOne(ctx, p.o.Singles)
	r.FewP50, r.FewP99 = quantiles(took)
	return err
}

func parkPhase(ctx context.Context, p *parking, r *ParkedRun) error {
	if err := p.settled(ctx, 0); err != nil {
		return err
	}
	var err error
	if r.Before, err = p.load(); err != nil {
		return err
	}
	t0, used := time.Now(), cpuTime()
	if err := p.park(ctx, p.o.Parked); err != nil {
		return err
	}
	r.ParkCPU = (cpuTime() - used) / time.Duration(p.o.Parked)
	r.ParkedPerSecond = float64(p.o.Parked) / time.Since(t0).Seconds()
	r.After, err = p.load()
	return err
}

func listPhase(ctx context.Context, p *parking, r *ParkedRun) error {
	t0 := time.Now()
	err := p.list(ctx)
	r.Listed = time.Since(t0)
	return err
}

func singlesPhase(ctx context.Context, p *parking, r *ParkedRun) error {
	took, err := p.oneByOne(ctx, p.o.Singles)
	r.DeepP50, r.DeepP99 = quantiles(took)
	return err
}

func burstPhase(ctx context.Context, p *parking, r *ParkedRun) error {
	alone, err := p.beside(ctx, func() error { return pause(ctx, p.o.Alone) })
	if err != nil {
		return err
	}
	r.AloneP50, r.AloneP99 = quantiles(alone)
	var took []time.Duration
	beside, err := p.beside(ctx, func() (err error) {
		took, r.BurstPerSecond, err = p.atOnce(ctx, p.o.Burst)
		return err
	})
	r.BurstP50, r.BurstP99 = quantiles(took)
	r.BesideP50, r.BesideP99 = quantiles(beside)
	return err
}

func restPhase(ctx context.Context, p *parking, r *ParkedRun) (err error) {
	if left := len(p.open); left > 0 {
		used := cpuTime()
		_, r.RestPerSecond, err = p.atOnce(ctx, left)
		r.AnswerCPU = (cpuTime() - used) / time.Duration(left)
	}
	return err
}

func cleanPhase(ctx context.Context, p *parking, r *ParkedRun) (err error) {
	t0 := time.Now()
	if err := p.settled(ctx, 0); err != nil && !errors.Is(err, errLost) {
		return err
	}
	r.CleanedIn = time.Since(t0)
	if r.Left, err = p.left(ctx); err != nil {
		return err
	}
	r.Lost, r.Doubled, r.Refused, err = p.verdict(ctx)
	return err
}

// load is what the installation takes now.
func (p *parking) load() (l Load, err error) {
	l.Heap, l.Goroutines = uint64(heapMiB()*(1<<20)), runtime.NumGoroutine()
	if l.Disk, err = size(p.served.Store); err != nil {
		return l, err
	}
	if p.served.Memory != nil {
		l.Server, err = p.served.Memory()
	}
	return l, err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
