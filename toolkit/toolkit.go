package toolkit

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/toolwire/toolwire/events"
)

// ErrDuplicate is returned when a toolkit holds a tool of that name already.
var ErrDuplicate = errors.New("toolkit: tool already registered")

// Toolkit is a named set of tools in the order they were added. It is safe for concurrent use.
type Toolkit struct {
	mu    sync.RWMutex
	tools []*Tool
	index map[events.ToolName]*Tool
}

// New returns an empty toolkit.
func New() *Toolkit { return &Toolkit{index: map[events.ToolName]*Tool{}} }

// Add registers tools, all or none. [ErrDuplicate] if a name is taken.
func (t *Toolkit) Add(tools ...*Tool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, tool := range tools {
		name := tool.def.Name
		if t.index[name] != nil || slices.ContainsFunc(tools[:i], func(o *Tool) bool { return o.def.Name == name }) {
			return fmt.Errorf("%w: %s", ErrDuplicate, name)
		}
	}
	for _, tool := range tools {
		t.index[tool.def.Name] = tool
		t.tools = append(t.tools, tool)
	}
	return nil
}

// Remove takes a tool out; false if there was none of that name.
func (t *Toolkit) Remove(name events.ToolName) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.index[name] == nil {
		return false
	}
	delete(t.index, name)
	t.tools = slices.DeleteFunc(slices.Clone(t.tools), func(o *Tool) bool { return o.def.Name == name })
	return true
}

// Lookup finds a tool by name.
func (t *Toolkit) Lookup(name events.ToolName) (*Tool, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	tool, ok := t.index[name]
	return tool, ok
}

// All are the tools as they stand now, in the order they were added.
func (t *Toolkit) All() iter.Seq[*Tool] {
	t.mu.RLock()
	tools := t.tools
	t.mu.RUnlock()
	return slices.Values(slices.Clip(tools))
}
