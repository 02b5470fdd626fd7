package console

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/toolwire/toolwire/internal/show"
)

const (
	maxReaders = 100 // streams of events at once
	heartbeat  = 20 * time.Second
	again      = 2 * time.Second // after a watch that failed
)

// change is what pages are told: that something was asked or decided, and of which tool.
type change struct{ kind, request, tool string }

// feed hands changes to the pages that are open. One that misses some only shows later what is new.
type feed struct {
	mu      sync.Mutex
	readers map[chan change]bool
	live    bool
}

func newFeed() *feed { return &feed{readers: make(map[chan change]bool)} }

func (f *feed) watching() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.live
}

func (f *feed) setLive(live bool) {
	f.mu.Lock()
	f.live = live
	f.mu.Unlock()
	if live {
		f.tell(change{kind: "begun"}) // what changed before is missed: look again
	}
}

func (f *feed) join() (in chan change, leave func(), ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.readers) >= maxReaders {
		return nil, nil, false
	}
	in = make(chan change, 16)
	f.readers[in] = true
	return in, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.readers, in)
	}, true
}

func (f *feed) tell(c change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for in := range f.readers {
		select {
		case in <- c:
		default: // it has enough to look again
		}
	}
}

// run watches until ctx ends.
func (f *feed) run(ctx context.Context, c Client, log zerolog.Logger) {
	for ctx.Err() == nil {
		for q, err := range c.WatchQuestions(ctx, func() { f.setLive(true) }) {
			switch {
			case err != nil:
				log.Warn().Err(err).Msg("watching questions")
			case q.Asked != nil:
				f.tell(change{"asked", q.Request, string(q.Asked.Call.Name)})
			case q.Decided != nil:
				f.tell(change{"decided", q.Request, string(q.Decided.Question.Call.Name)})
			}
		}
		f.setLive(false)
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

// stream is a stream of server-sent events. They only say that there is something to look at, so one that
// connects again misses nothing once it has looked.
func (c *Console) stream(w http.ResponseWriter, r *http.Request) {
	in, leave, ok := c.feed.join()
	if !ok {
		c.refuse(w, r, http.StatusServiceUnavailable, "Too many pages are open.")
		return
	}
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	send := func(text string) bool {
		_ = rc.SetWriteDeadline(time.Now().Add(pageTimeout))
		_, err := fmt.Fprint(w, text)
		return err == nil && rc.Flush() == nil
	}
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	if !send("retry: 2000\nevent: begun\ndata:\n\n") {
		return
	}
	for {
		text := ":\n\n"
		select {
		case <-r.Context().Done():
			return
		case ch := <-in:
			text = fmt.Sprintf("event: %s\ndata: %s %s\n\n", ch.kind, show.Line(ch.request), show.Line(ch.tool))
		case <-beat.C:
		}
		if !send(text) {
			return
		}
	}
}
