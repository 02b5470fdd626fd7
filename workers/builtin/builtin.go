package builtin

import (
	"fmt"

	"github.com/toolwire/toolwire/toolkit"
)

// Toolkit returns a new toolkit of all built-in tools.
func Toolkit() (*toolkit.Toolkit, error) {
	now, err := currentTime()
	if err != nil {
		return nil, fmt.Errorf("built-in tools: %w", err)
	}
	tools := toolkit.New()
	return tools, tools.Add(now)
}
