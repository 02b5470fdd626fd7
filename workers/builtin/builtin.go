package builtin

import (
	"fmt"

	"github.com/toolwire/toolwire/toolkit"
)

// Toolkit returns a new toolkit of all built-in tools.
func Toolkit() (*toolkit.Toolkit, error) {
	tools := toolkit.New()
	for _, build := range []func() (*toolkit.Tool, error){currentTime, todoWrite} {
		tool, err := build()
		if err == nil {
			err = tools.Add(tool)
		}
		if err != nil {
			return nil, fmt.Errorf("built-in tools: %w", err)
		}
	}
	return tools, nil
}
