package workers

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
)

const (
	// renewEvery leaves room for two lost renewals within a lease.
	renewEvery = jet.Lease * 3 / 10
	// renewPatience bounds what a renewal reads and stores, so that the next comes in time.
	renewPatience = 2 * time.Second
)

// lease renews something until it ends. A call that is done before the first renewal costs one
// timer and no goroutine.
type lease struct {
	mu    sync.Mutex
	timer *time.Timer
	ended bool
	busy  sync.WaitGroup
}

func keep(renew func()) *lease {
	l := &lease{}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = time.AfterFunc(renewEvery, func() { l.beat(renew) })
	return l
}

func (l *lease) beat(renew func()) {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return
	}
	l.busy.Add(1)
	l.timer.Reset(renewEvery) // from the start of this one: a slow renewal delays no other
	l.mu.Unlock()
	defer l.busy.Done()
	renew()
}

// end returns when no renewal is under way any more.
func (l *lease) end() {
	l.mu.Lock()
	l.ended = true
	l.timer.Stop()
	l.mu.Unlock()
	l.busy.Wait()
}

// renew keeps the work with this process, and then looks whether the call is still its own.
func (w *Worker) renew(ctx context.Context, c *call) {
	if err := c.delivery.Load().InProgress(); err != nil {
		w.note(c).Debug().Err(err).Msg("lease not renewed")
	}
	if !c.running.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, renewPatience)
	defer cancel()
	if !c.fenced && !c.told.Load() && w.tell(ctx, c) {
		c.told.Store(true)
	}
	if done, err := w.settled(ctx, c.key); err == nil && done && c.running.Load() {
		c.lost.Store(true)
		c.stop(toolkit.ErrLost)
	}
}

// tell stores the start of a call without a fence, so that others can tell running from never
// started. If somebody settles the call without running it, the tool is stopped. It reports
// whether there is nothing more to tell.
func (w *Worker) tell(ctx context.Context, c *call) bool {
	err := w.storeStart(ctx, c, "")
	if !errors.Is(err, jet.ErrExists) {
		return err == nil
	}
	start, err := w.readStart(ctx, c.key)
	if err != nil {
		return false
	}
	if start.Settle != "" {
		c.ruled.Store(&start.Settle)
		c.stop(toolkit.ErrCancelled)
	}
	return true
}
