package console

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// news tells every open page that something was asked or decided.
type news struct {
	mu    sync.Mutex
	pages map[chan string]struct{}
}

// maxPages is how many pages are kept up to date at once; more work without.
const maxPages = 256

func newNews() *news { return &news{pages: make(map[chan string]struct{})} }

// join returns where a page hears what has changed; nil: there are too many.
func (n *news) join() chan string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.pages) >= maxPages {
		return nil
	}
	ch := make(chan string, 16)
	n.pages[ch] = struct{}{}
	return ch
}

func (n *news) leave(ch chan string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.pages, ch)
}

// tell says which question has changed; a page that is slow hears of it with the next one.
func (n *news) tell(request string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for ch := range n.pages {
		select {
		case ch <- request:
		default:
		}
	}
}

// watch follows questions until ctx ends. While it cannot, pages are as old as they were loaded.
func (c *Console) watch(ctx context.Context) {
	for wait := time.Second; ctx.Err() == nil; wait = min(2*wait, 30*time.Second) {
		for change, err := range c.client.WatchQuestions(ctx, func() { c.news.tell("") }) {
			if err != nil {
				c.log.Warn().Err(err).Msg("questions are not followed at present")
				break
			}
			c.news.tell(change.Request)
			wait = time.Second
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

const (
	beat   = 20 * time.Second       // between signs of life, so that nothing on the way hangs up
	gather = 250 * time.Millisecond // changes within this time are one
)

// events streams what changes to one page.
func (c *Console) events(w http.ResponseWriter, r *http.Request) {
	ch := c.news.join()
	if ch == nil {
		refuse(w, http.StatusServiceUnavailable, "Too many pages are open. This one works, and has to be loaded again to be up to date.")
		return
	}
	defer c.news.leave(ch)
	out := http.NewResponseController(w)
	if err := out.SetReadDeadline(time.Time{}); err != nil {
		c.log.Debug().Err(err).Msg("deadline not lifted")
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	send := func(format string, args ...any) bool {
		if _, err := fmt.Fprintf(w, format, args...); err != nil {
			return false
		}
		return out.Flush() == nil
	}
	if !send("retry: 2000\n\n") {
		return
	}
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
			if !send(": alive\n\n") {
				return
			}
		case request := <-ch:
			if !send("data: %s\n\n", request) {
				return
			}
			select { // a burst is one look at the list
			case <-r.Context().Done():
			case <-time.After(gather):
			}
		}
	}
}
