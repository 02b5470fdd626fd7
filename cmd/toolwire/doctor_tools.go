package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

func (e *examination) tools(ctx context.Context) bool {
	tools, err := collect(e.client.Tools(ctx, ""))
	if err != nil {
		e.fail("workers", err, "")
		return true
	}
	var idle, said []string
	ill := make(map[string][]string) // what is wrong, and with which tools
	for _, t := range tools {
		if t.Info.Workers == 0 {
			idle = append(idle, string(t.Name))
		}
		for _, what := range t.Info.Unhealthy {
			ill[what] = append(ill[what], string(t.Name))
		}
	}
	for _, what := range slices.Sorted(maps.Keys(ill)) {
		said = append(said, some(ill[what])+": "+what)
	}
	switch {
	case len(tools) == 0:
		e.warn("workers", "no tools are registered", "start a worker, such as `toolwire worker`")
	case len(ill) > 0:
		e.warn("workers", strings.Join(said, "; "), "look at the logs of these workers, and restart those that hang; `toolwire tools show` says more")
	case len(idle) > 0:
		e.warn("workers", "nobody runs "+some(idle), "start their workers: calls wait in the queue until then; `toolwire tools rm` forgets tools that are no more")
	default:
		e.ok("workers", "%s, each with a worker", count(len(tools), "tool"))
	}
	return true
}

// some lists names for one line: the first few, and how many more there are.
func some(names []string) string {
	const most = 10
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
