package main

import (
	"fmt"
	"sync"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/show"
)

// progress shows on one line of a terminal what a running tool says.
type progress struct {
	a     *app
	mu    sync.Mutex
	shown bool
	over  bool
}

func (a *app) progress() *progress { return &progress{a: a, over: !isTerminal(a.err)} }

func (p *progress) show(d events.ToolResultDelta) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	line := ""
	if d.Progress != nil && d.Total != nil && *d.Total > 0 {
		line = fmt.Sprintf("%3.0f %% ", 100**d.Progress / *d.Total)
	}
	text, _ := d.Content.Text()
	line += brief(show.Line(d.Message + text))
	_, _ = fmt.Fprintf(p.a.err, "\r\x1b[K%s", line)
	p.shown = true
}

// clear takes the line away; nothing is shown after it.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		_, _ = fmt.Fprint(p.a.err, "\r\x1b[K")
	}
	p.over = true
}
