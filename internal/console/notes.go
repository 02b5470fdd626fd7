package console

import (
	"crypto/rand"
	"sync"

	"github.com/toolwire/toolwire/events"
)

// maxNotes is how many answers are remembered between a form and the page after it.
const maxNotes = 256

// notes keep what became of answers until the page that follows shows it.
type notes struct {
	mu   sync.Mutex
	said map[string]events.AnswerJudged
	in   []string // order
}

func newNotes() *notes { return &notes{said: make(map[string]events.AnswerJudged)} }

func (n *notes) keep(j events.AnswerJudged) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	id := rand.Text()
	n.said[id] = j
	if n.in = append(n.in, id); len(n.in) > maxNotes {
		delete(n.said, n.in[0])
		n.in = n.in[1:]
	}
	return id
}

func (n *notes) get(id string) *events.AnswerJudged {
	n.mu.Lock()
	defer n.mu.Unlock()
	if j, ok := n.said[id]; ok {
		return &j
	}
	return nil
}
