package jet

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// requests publishes messages and waits for their acknowledgements: one subscription for all,
// one waiter per request under way, used again and again. The client's own requests make a
// context, a channel and a timer each time, which shows at tens of thousands a second.
type requests struct {
	nc     *nats.Conn
	prefix string

	once sync.Once
	err  error // of the subscription

	mu      sync.Mutex
	waiting map[string]*waiter
	free    []*waiter
	serial  uint64
}

type waiter struct {
	answer chan *nats.Msg // of one
	timer  *time.Timer
}

func newRequests(nc *nats.Conn) *requests {
	return &requests{nc: nc, prefix: nc.NewInbox() + ".", waiting: map[string]*waiter{}}
}

// do publishes msg and waits for its answer, for [attemptTimeout] at most. It sets msg.Reply.
// Errors are those of the client: nats.ErrTimeout, nats.ErrNoResponders, nats.ErrConnectionClosed and others.
func (r *requests) do(ctx context.Context, msg *nats.Msg) (*nats.Msg, error) {
	r.once.Do(r.subscribe)
	if r.err != nil {
		return nil, r.err
	}
	id, w := r.enter()
	defer r.leave(id, w)
	msg.Reply = r.prefix + id
	if err := r.nc.PublishMsg(msg); err != nil {
		return nil, err
	}
	w.timer.Reset(attemptTimeout)
	select {
	case answer := <-w.answer:
		if len(answer.Data) == 0 && answer.Header.Get("Status") == "503" {
			return nil, nats.ErrNoResponders
		}
		return answer, nil
	case <-w.timer.C:
		return nil, nats.ErrTimeout
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *requests) subscribe() {
	_, err := r.nc.Subscribe(r.prefix+"*", func(m *nats.Msg) {
		// Under the lock, so that no answer reaches a waiter that serves the next request already.
		r.mu.Lock()
		defer r.mu.Unlock()
		w := r.waiting[m.Subject[len(r.prefix):]]
		if w == nil {
			return // given up meanwhile
		}
		select {
		case w.answer <- m:
		default: // a second answer
		}
	})
	if err != nil {
		r.err = fmt.Errorf("subscribe to acknowledgements: %w", err)
	}
}

func (r *requests) enter() (string, *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.serial++
	id := strconv.FormatUint(r.serial, 36)
	var w *waiter
	if n := len(r.free); n > 0 {
		w, r.free = r.free[n-1], r.free[:n-1]
	} else {
		w = &waiter{answer: make(chan *nats.Msg, 1), timer: time.NewTimer(attemptTimeout)}
	}
	r.waiting[id] = w
	return id, w
}

func (r *requests) leave(id string, w *waiter) {
	w.timer.Stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.waiting, id)
	select { // an answer that came as the wait ended
	case <-w.answer:
	default:
	}
	r.free = append(r.free, w)
}
