package workers

import (
	"errors"
	"fmt"
)

// ErrUnhealthy is returned when a worker should be looked at, or restarted; the text says why.
var ErrUnhealthy = errors.New("workers: unhealthy")

// ErrNotReady is returned when a worker takes no work at present; the text says why.
var ErrNotReady = errors.New("workers: not ready")

// Health says whether the worker does its duty: every pull loop is there, and no tool keeps a
// slot that it should have left. It says nothing of the server; see [Worker.Ready].
func (w *Worker) Health() error {
	if n := w.stats.leaked.Load(); n > 0 {
		return fmt.Errorf("%w: %d slots are held by tools that ignore the end of their context", ErrUnhealthy, n)
	}
	if n := int(w.pulling.Load()); w.state.Load() == stateRunning && n < w.loops {
		return fmt.Errorf("%w: %d of %d pull loops are running", ErrUnhealthy, n, w.loops)
	}
	return nil
}

// Ready says whether the worker takes work: it runs, does not drain, has a server, and pulls.
// A worker that merely lives is not ready.
func (w *Worker) Ready() error {
	switch w.state.Load() {
	case stateNew:
		return fmt.Errorf("%w: not running yet", ErrNotReady)
	case stateDraining:
		return fmt.Errorf("%w: draining", ErrNotReady)
	case stateEnded:
		return fmt.Errorf("%w: ended", ErrNotReady)
	}
	if s := w.bus.Conn().Status(); !w.bus.Conn().IsConnected() {
		return fmt.Errorf("%w: connection is %s", ErrNotReady, s)
	}
	if n := int(w.pulling.Load()); n < w.loops {
		return fmt.Errorf("%w: %d of %d pull loops are running", ErrNotReady, n, w.loops)
	}
	return nil
}
