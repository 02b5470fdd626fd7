package dispatcher

import (
	"slices"
	"sync"
	"time"

	"github.com/toolwire/toolwire/events"
)

// presenceTTL is how long a worker counts as alive after its last announcement; workers
// announce every 5 s.
const presenceTTL = 15 * time.Second

// presence is which worker processes run which tools, as heard lately. It is for people and for
// readiness; it never decides whether a tool exists.
type presence struct {
	mu    sync.Mutex
	since time.Time // when this process began to listen
	tools map[events.ToolName]map[string]*sighting
	known map[string]*sighting // by the bytes of the announcement, which is repeated as it is
	runs  map[string]int       // tools of each process
}

type sighting struct {
	ann   events.Announce
	bytes string
	seen  time.Time
}

func newPresence() *presence {
	p := &presence{}
	p.begin()
	return p
}

// begin forgets all: what was heard before a pause in listening says nothing.
func (p *presence) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Now()
	p.tools = make(map[events.ToolName]map[string]*sighting)
	p.known = make(map[string]*sighting)
	p.runs = make(map[string]int)
}

// again notes the repetition of an announcement, and returns it; false: it is a new one.
func (p *presence) again(data []byte) (events.Announce, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.known[string(data)]
	if s == nil {
		return events.Announce{}, false
	}
	s.seen = time.Now()
	return s.ann, true
}

// note takes an announcement in, and says whether its process came or went by it.
func (p *presence) note(ann events.Announce, data []byte) (came, went bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	by := p.tools[ann.Tool]
	old := by[ann.Instance]
	if old != nil {
		delete(p.known, old.bytes)
	}
	if ann.Gone {
		if old == nil {
			return false, false
		}
		delete(by, ann.Instance)
		return false, p.left(ann.Instance)
	}
	if old == nil {
		p.runs[ann.Instance]++
		came = p.runs[ann.Instance] == 1
	}
	if by == nil {
		by = make(map[string]*sighting)
		p.tools[ann.Tool] = by
	}
	s := &sighting{ann: ann, bytes: string(data), seen: time.Now()}
	by[ann.Instance], p.known[s.bytes] = s, s
	return came, false
}

// left takes one tool from a process, and says whether that was its last.
func (p *presence) left(instance string) bool {
	p.runs[instance]--
	if p.runs[instance] > 0 {
		return false
	}
	delete(p.runs, instance)
	return true
}

// expire forgets who was not heard of for [presenceTTL], and returns an announcement of each process
// that is gone by it.
func (p *presence) expire() (gone []events.Announce) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, by := range p.tools {
		for instance, s := range by {
			if time.Since(s.seen) > presenceTTL {
				delete(by, instance)
				delete(p.known, s.bytes)
				if p.left(instance) {
					gone = append(gone, s.ann)
				}
			}
		}
		if len(by) == 0 {
			delete(p.tools, name)
		}
	}
	return gone
}

// warm says whether this process has listened long enough for silence to mean absence.
func (p *presence) warm() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.since) > presenceTTL
}

// alive counts the processes that run a tool, of one source or ("") of any, and says what is
// wrong with them.
func (p *presence) alive(name events.ToolName, source string) (n int, unhealthy []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.tools[name] {
		if time.Since(s.seen) > presenceTTL || source != "" && s.ann.Worker != source {
			continue
		}
		n++
		if s.ann.Unhealthy != "" {
			unhealthy = append(unhealthy, "worker "+s.ann.Worker+" "+s.ann.Instance+": "+s.ann.Unhealthy)
		}
	}
	slices.Sort(unhealthy)
	return n, unhealthy
}
