package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/events"
)

// watch counts results and judgements.
func (p *parking) watch(nc *nats.Conn) error {
	note := func(f func()) {
		p.mu.Lock()
		defer p.mu.Unlock()
		f()
		close(p.changed)
		p.changed = make(chan struct{})
	}
	_, err := nc.Subscribe(p.names.Live(p.names.Under("result")), func(m *nats.Msg) {
		now := time.Now()
		k, err := p.names.ParseCall("result", m.Subject)
		i, ok := number(k)
		if err != nil || !ok {
			return // an ordinary call
		}
		note(func() {
			if !p.arrived[i].IsZero() {
				p.extra++
				return
			}
			p.arrived[i] = now
			p.results++
		})
	})
	if err != nil {
		return err
	}
	_, err = nc.Subscribe(p.names.Live(p.names.Under("judged")), func(m *nats.Msg) {
		accepted := bytes.Contains(m.Data, []byte(`"judgement":"accepted"`))
		note(func() {
			p.judged++
			if !accepted {
				p.refused++
			}
		})
	})
	if err != nil {
		return err
	}
	return nc.Flush()
}

// seen is how many of the parked calls have their results.
func (p *parking) seen() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.results
}

// told is how many answers somebody was told about what became of them.
func (p *parking) told() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.judged
}

// answer publishes the answer to the next open question, and says which call it is about.
func (p *parking) answer() (int, error) {
	q := p.open[len(p.open)-1]
	p.open = p.open[:len(p.open)-1]
	k := p.key(q.number)
	var data any = events.UserConfirmResult{Digest: q.digest, Decision: events.Approve}
	typ := events.TypeUserConfirmResult
	if p.o.Kind == events.KindExternal {
		data, typ = events.ExternalExecutionResult{Digest: q.digest, Content: []events.Content{events.Text("ok")}}, events.TypeExternalExecutionResult
	}
	e, err := events.New(events.Attributes{ID: "answer/" + q.request, Source: "/approvers/" + benchActor, Type: typ, Request: q.request, Actor: benchActor}, data)
	if err != nil {
		return 0, err
	}
	p.mu.Lock()
	p.answered[q.number] = time.Now()
	p.mu.Unlock()
	return q.number, p.publish(p.names.Answer(benchActor, k, q.request), e)
}

// oneByOne answers n questions, each after the result of the one before.
func (p *parking) oneByOne(ctx context.Context, n int) ([]time.Duration, error) {
	took := make([]time.Duration, 0, n)
	for range n {
		i, err := p.answer()
		if err == nil {
			err = p.reach(ctx, p.seen, p.parkedBefore()+1)
		}
		if err != nil {
			return nil, err
		}
		p.mu.Lock()
		took = append(took, p.arrived[i].Sub(p.answered[i]))
		p.mu.Unlock()
	}
	return took, nil
}

// parkedBefore is how many results there are once all answers before the last have theirs.
func (p *parking) parkedBefore() int { return p.parked - len(p.open) - 1 }

// atOnce answers n questions as fast as they can be published, and waits for their results.
func (p *parking) atOnce(ctx context.Context, n int) (took []time.Duration, perSecond float64, err error) {
	numbers := make([]int, n)
	t0 := time.Now()
	for j := range numbers {
		if numbers[j], err = p.answer(); err != nil {
			return nil, 0, err
		}
	}
	if err := p.reach(ctx, p.seen, p.parked-len(p.open)); err != nil {
		return nil, 0, err
	}
	perSecond = float64(n) / time.Since(t0).Seconds()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range numbers {
		took = append(took, p.arrived[i].Sub(p.answered[i]))
	}
	return took, perSecond, nil
}

// reach waits until a count has grown to n; [errLost]: it has not grown for a minute.
func (p *parking) reach(ctx context.Context, count func() int, n int) error {
	patience, last := time.Now().Add(time.Minute), -1
	for {
		p.mu.Lock()
		changed := p.changed
		p.mu.Unlock()
		now := count()
		if now >= n {
			return nil
		}
		if now != last {
			patience, last = time.Now().Add(time.Minute), now
		}
		select {
		case <-changed:
		case <-time.After(time.Until(patience)):
			return fmt.Errorf("%w: %d of %d", errLost, now, n)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// beside makes ordinary calls at a steady rate while f runs, and says how long each took from the moment
// it was due.
func (p *parking) beside(ctx context.Context, f func() error) ([]time.Duration, error) {
	var mu sync.Mutex
	var took []time.Duration
	var open sync.WaitGroup
	done := make(chan error, 1)
	go func() { done <- f() }()
	for due := time.Now(); ; due = due.Add(time.Second / time.Duration(p.o.Beside)) {
		select {
		case err := <-done:
			return took, errors.Join(err, wait(&open))
		case <-time.After(time.Until(due)):
		}
		open.Add(1)
		err := p.calls.call(ctx, p.next, func() {
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(due))
			open.Done()
		})
		if err != nil {
			return nil, err
		}
		p.next++
	}
}

// verdict says how many calls have no result stored, how many results or runs are there beyond the first
// of a call, and how many answers were not accepted.
func (p *parking) verdict(ctx context.Context) (lost, doubled, refused int, err error) {
	if lost, doubled, err = p.calls.verdict(ctx, p.next+p.parked); err != nil {
		return 0, 0, 0, err
	}
	if err := p.reach(ctx, p.told, p.parked); err != nil && !errors.Is(err, errLost) {
		return 0, 0, 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	doubled += p.extra
	if p.o.Kind == events.KindConfirm {
		doubled += max(0, int(p.ran.Load())-p.parked)
		lost += max(0, p.parked-int(p.ran.Load()))
	}
	return lost, doubled, p.refused + p.parked - p.judged, nil
}
