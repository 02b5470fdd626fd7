package agent

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// The live copy of a result is at most once, so the stored facts are read too: when a turn is
// attached to, after a reconnect, and again and again while somebody waits.
const (
	readEvery = 2 * time.Second        // awaited, in its first minute
	readLater = 10 * time.Second       // awaited, after it: a person may be asked, for days
	readIdle  = 5 * time.Minute        // nobody waits
	readSoon  = time.Minute            // how long a turn counts as young
	readsMost = 8                      // reads at once
	readGap   = 100 * time.Millisecond // between looks at what is due
)

// wake makes the reader look at what is due.
func (c *Client) wake() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// reread reads stored facts when they are due, until ctx ends or the connection is closed.
func (c *Client) reread(ctx context.Context) {
	var reads sync.WaitGroup
	defer reads.Wait()
	gate := make(chan struct{}, readsMost)
	for {
		select {
		case <-ctx.Done():
			return
		case s, open := <-c.status:
			if !open || s == nats.CLOSED {
				c.end()
				return
			}
			c.hurryAll() // live results were missed meanwhile
		case <-c.kick:
		case <-c.timer.C:
		}
		for _, p := range c.due() {
			select {
			case <-ctx.Done():
				return
			case gate <- struct{}{}:
			}
			reads.Go(func() {
				defer func() { <-gate }()
				again := c.catchUp(ctx, p)
				p.finishRead(again)
			})
		}
	}
}

// due returns the turns to be read now, lets idle sessions go, and sets the timer to the next.
func (c *Client) due() (due []*Pending) {
	now := time.Now()
	var next time.Time
	at := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ps := range c.turns {
		for _, p := range ps {
			when := p.startRead(now)
			if when.Equal(now) {
				due = append(due, p)
				when = now.Add(readEvery)
			}
			at(when)
		}
	}
	for id, s := range c.sessions {
		if s.turns > 0 {
			continue
		}
		if end := s.idle.Add(sessionLinger); now.Before(end) {
			at(end)
		} else {
			c.unsubscribe(s.sub)
			delete(c.sessions, id)
		}
	}
	if c.armed = !c.closed && (!next.IsZero() || len(c.turns) > 0); c.armed {
		if next.IsZero() {
			next = now.Add(readEvery)
		}
		c.timer.Reset(max(readGap, next.Sub(now)))
	}
	return due
}

// startRead returns now if the turn is due, else when it will be (zero: not known yet).
func (p *Pending) startRead(now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.begun || p.reading:
		return time.Time{}
	case p.due.After(now):
		return p.due
	}
	p.reading = true
	p.due = now.Add(readIdle) // unless somebody is in a hurry meanwhile
	return now
}

// finishRead says when to read next.
func (p *Pending) finishRead(again bool) {
	now := time.Now()
	p.mu.Lock()
	every := readEvery
	switch {
	case again:
	case p.waiting == 0:
		every = readIdle
	case now.Sub(p.since) > readSoon:
		every = readLater
	}
	p.reading, p.read = false, now
	if next := now.Add(every); next.Before(p.due) {
		p.due = next
	}
	hurried := !p.due.After(now)
	p.mu.Unlock()
	if hurried {
		p.c.wake()
	}
}

// hurry makes the turn due now.
func (p *Pending) hurry() {
	p.mu.Lock()
	p.due = time.Now()
	p.mu.Unlock()
	p.c.wake()
}

func (c *Client) hurryAll() {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ps := range c.turns {
		for _, p := range ps {
			p.mu.Lock()
			p.due = now
			p.mu.Unlock()
		}
	}
}
