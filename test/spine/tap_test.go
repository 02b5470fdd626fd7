package spine_test

import (
	"bytes"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// verdict is what becomes of one message that a process publishes.
type verdict int

const (
	pass      verdict = iota
	cutBefore         // the process dies before the server has it
	cutAfter          // the process dies when the server has it, and hears no answer
	drop              // it is lost on the way
	hold              // it, and all after it, is late by holdFor
)

const holdFor = 30 * time.Second

// tapped is a connection of a process whose every publish is put to a judge first, in order. A cut
// one does not come back.
func tapped(judge func(subject, data string) verdict) nats.Option {
	return func(o *nats.Options) error {
		o.InProcessServer = tap{o.InProcessServer, judge}
		o.AllowReconnect = false
		o.AsyncErrorCB = func(*nats.Conn, *nats.Subscription, error) {} // else the cut is told on stderr
		return nil
	}
}

type tap struct {
	inner nats.InProcessConnProvider
	judge func(subject, data string) verdict
}

// InProcessConn is what the client library asks for.
func (t tap) InProcessConn() (net.Conn, error) {
	c, err := t.inner.InProcessConn()
	if err != nil {
		return nil, err
	}
	return &tappedConn{Conn: c, judge: t.judge}, nil
}

type tappedConn struct {
	net.Conn
	judge func(subject, data string) verdict

	mu   sync.Mutex
	rest []byte // the beginning of a frame
	late []byte // frames that are held
	held bool
	dead bool

	deaf atomic.Bool
}

// Read hears nothing any more once the process is to die.
func (c *tappedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.deaf.Load() {
		return 0, net.ErrClosed
	}
	return n, err
}

// Write sends on whole frames of the protocol only.
func (c *tappedConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest = append(c.rest, b...)
	for {
		if c.dead {
			return 0, net.ErrClosed
		}
		frame, subject, data := cutFrame(c.rest)
		if frame == nil {
			return len(b), nil
		}
		c.rest = c.rest[len(frame):]
		if err := c.send(frame, c.rule(subject, data)); err != nil {
			return 0, err
		}
	}
}

func (c *tappedConn) rule(subject, data string) verdict {
	if subject == "" {
		return pass
	}
	return c.judge(subject, data)
}

func (c *tappedConn) send(frame []byte, v verdict) error {
	switch v {
	case drop:
		return nil
	case hold:
		if !c.held {
			c.held = true
			time.AfterFunc(holdFor, c.release)
		}
	case cutBefore:
		return c.cut()
	case cutAfter:
		c.deaf.Store(true)
	case pass:
	}
	if c.held {
		c.late = append(c.late, frame...)
		return nil
	}
	if _, err := c.Conn.Write(frame); err != nil {
		return err
	}
	if v == cutAfter {
		return c.cut()
	}
	return nil
}

func (c *tappedConn) cut() error {
	c.dead = true
	_ = c.Close()
	return net.ErrClosed
}

func (c *tappedConn) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = false
	_, _ = c.Conn.Write(c.late) // the process may be gone by now
	c.late = nil
}

// cutFrame returns the first whole frame of b, and what is published by it, if it publishes.
func cutFrame(b []byte) (frame []byte, subject, data string) {
	end := bytes.Index(b, []byte("\r\n"))
	if end < 0 {
		return nil, "", ""
	}
	words := strings.Fields(string(b[:end]))
	if len(words) < 3 || words[0] != "PUB" && words[0] != "HPUB" {
		return b[:end+2], "", ""
	}
	size, err := strconv.Atoi(words[len(words)-1])
	if err != nil {
		panic(fmt.Sprintf("spine: frame %q", b[:end])) //nolint:forbidigo // the client library writes no such frame
	}
	whole := end + 2 + size + 2
	if len(b) < whole {
		return nil, "", ""
	}
	return b[:whole], words[1], string(b[end+2 : whole-2])
}

// point is a moment in the life of a process: a publish it is about to make, or has made.
type point struct {
	what    string // how the subject begins
	data    string // how the payload begins
	verdict verdict
}

// killer lets a process die at a point, once it is armed.
type killer struct {
	point       // what is empty: any publish that changes something
	nth   int32 // of those publishes; 0 is the first
	armed atomic.Bool
	seen  atomic.Int32
	fired atomic.Bool
}

func (k *killer) judge(subject, data string) verdict {
	if !k.armed.Load() || !k.meant(subject, data) {
		return pass
	}
	if k.seen.Add(1)-1 != k.nth || !k.fired.CompareAndSwap(false, true) {
		return pass
	}
	return k.verdict
}

func (k *killer) meant(subject, data string) bool {
	if k.what != "" {
		return strings.HasPrefix(subject, k.what) && strings.HasPrefix(data, k.data)
	}
	for _, prefix := range []string{
		"toolwire.timer.", "toolwire.work.", "toolwire.start.", "toolwire.result.", "toolwire.stop.", "toolwire.dead.", "toolwire.cancel.",
		"$JS.API.STREAM.MSG.DELETE.", "$JS.API.STREAM.PURGE.", "$JS.ACK.TOOLWIRE_CALLS.", "$JS.ACK.TOOLWIRE_INBOX.",
	} {
		if strings.HasPrefix(subject, prefix) {
			return true
		}
	}
	return false
}
