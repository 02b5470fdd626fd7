package workers

import "github.com/toolwire/toolwire/events"

// SetStep makes the worker call f at the named points of a call: before start, after start,
// after run, after result, after step. Tests kill it there.
func (w *Worker) SetStep(f func(point string, k events.CallKey)) { w.step = f }

// Instance names this worker process in starts.
func (w *Worker) Instance() string { return w.instance }
