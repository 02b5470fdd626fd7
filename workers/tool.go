package workers

import (
	"sync/atomic"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// lanePrefix begins the pool of a tool with a limit of its own.
const lanePrefix = "lane-"

// tool is a tool of the toolkit with what need not be worked out for every call.
type tool struct {
	*toolkit.Tool
	name       events.ToolName
	definition []byte // JSON, as dispatchers ask for it
	hash       string
	pool       string // pool or lane whose consumer holds its calls
	limit      int    // of its lane; 0: none
	external   bool   // never run here
	fenced     bool
	stats      *toolStats
	variant    atomic.Pointer[variant] // of the last call that came with a tuning
}

func (w *Worker) add(t *toolkit.Tool) {
	def := t.Definition()
	entry := &tool{
		Tool: t, name: def.Name, definition: def.JSON(), hash: def.Hash(),
		pool: w.cfg.Pool, limit: def.MaxInFlight, external: def.External, fenced: def.Fenced(),
		stats: &toolStats{},
	}
	if entry.limit > 0 {
		entry.pool = lanePrefix + string(def.Name)
	}
	w.tools[def.Name] = entry
	w.order = append(w.order, entry)
}

// lane is one consumer to pull from.
type lane struct {
	pool  string
	slots int
}

// lanes are the pool, if a tool needs it, and the lanes of tools with a limit of their own.
func (w *Worker) lanes() []lane {
	var lanes []lane
	pooled := false
	for _, t := range w.order {
		switch {
		case t.external:
		case t.limit > 0:
			lanes = append(lanes, lane{t.pool, min(t.limit, w.cfg.Slots)})
		default:
			pooled = true
		}
	}
	if pooled {
		lanes = append(lanes, lane{w.cfg.Pool, w.cfg.Slots})
	}
	return lanes
}
