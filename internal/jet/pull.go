package jet

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

// PullConfig says what to pull and how much at once.
type PullConfig struct {
	Stream, Consumer string
	Slots            int // handlers at once; no message is asked for without a free slot
	Logger           zerolog.Logger
}

const (
	pullExpires   = 30 * time.Second
	pullHeartbeat = 5 * time.Second // silence of twice this: ask again
	pullBackoff   = time.Second     // after a refusal, e.g. a consumer that does not exist yet
)

// Pull hands messages to handle, up to Slots at once, until ctx ends; then it asks
// for no more, gives back what arrives, and returns once every handler has. A handler's return
// is what frees its slot, so nothing waits in a buffer while its lease runs out, and an idle
// process is never starved by a busy one. A missing consumer or server is waited for.
func (b *Bus) Pull(ctx context.Context, cfg PullConfig, handle func(*Delivery)) error {
	p := &puller{
		cfg: cfg, nc: b.nc, handle: handle,
		inbox:  b.nc.NewInbox() + ".",
		next:   "$JS.API.CONSUMER.MSG.NEXT." + cfg.Stream + "." + cfg.Consumer,
		out:    make(chan *Delivery, cfg.Slots),
		in:     make(chan *nats.Msg, 2*cfg.Slots+256),
		ended:  make(chan struct{}, cfg.Slots+16),
		status: b.nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING, nats.CLOSED),
	}
	defer b.nc.RemoveStatusListener(p.status)
	sub, err := b.nc.ChanSubscribe(p.inbox+"*", p.in)
	if err != nil {
		return fmt.Errorf("pull %s/%s: %w", cfg.Stream, cfg.Consumer, err)
	}
	p.loop(ctx)
	err = sub.Unsubscribe()
	p.drain()
	close(p.out)
	if err != nil && b.nc.IsClosed() {
		err = nil
	}
	return err
}

// puller is the state of one pull loop; only its loop touches it.
type puller struct {
	cfg    PullConfig
	nc     *nats.Conn
	handle func(*Delivery)
	inbox  string
	next   string

	asked   []request // oldest first: the server serves them in this order
	pending int       // messages still to come, over all requests
	running int       // messages being handled
	serial  uint64

	handlers int            // goroutines that handle, as many as ever ran at once
	out      chan *Delivery // to them; buffered, so that the loop never waits

	in     chan *nats.Msg
	ended  chan struct{}
	status chan nats.Status
}

// request is one pull request under way. A delivered message does not say which request it
// answers; a status does.
type request struct {
	id   string
	left int
}

func (p *puller) loop(ctx context.Context) {
	silence := time.NewTimer(2 * pullHeartbeat)
	defer silence.Stop()
	backoff := time.NewTimer(0)
	defer backoff.Stop()
	held := false // a refusal is being waited out
	for {
		if !held {
			p.ask()
		}
		select {
		case <-ctx.Done():
			return
		case m := <-p.in:
			silence.Reset(2 * pullHeartbeat)
			if p.receive(m) {
				held = true
				backoff.Reset(pullBackoff)
			}
		case <-p.ended:
			p.running--
		case <-backoff.C:
			held = false
		case s, open := <-p.status:
			if !open || s == nats.CLOSED {
				return
			}
			p.forget() // a pull request dies with its connection
			held = s != nats.CONNECTED
		case <-silence.C:
			silence.Reset(2 * pullHeartbeat)
			p.forget()
		}
	}
}

// ask requests messages for the free slots, in batches rather than one by one.
func (p *puller) ask() {
	free := p.cfg.Slots - p.running - p.pending
	if free <= 0 || p.pending > 0 && free < (p.cfg.Slots+1)/2 {
		return
	}
	p.serial++
	id := strconv.FormatUint(p.serial, 36)
	req := fmt.Appendf(nil, `{"batch":%d,"expires":%d,"idle_heartbeat":%d}`, free, pullExpires, pullHeartbeat)
	if err := p.nc.PublishRequest(p.next, p.inbox+id, req); err != nil {
		return // closed or reconnecting: the status tells when to try again
	}
	p.asked = append(p.asked, request{id, free})
	p.pending += free
}

func (p *puller) forget() {
	p.asked, p.pending = nil, 0
}

// receive handles one message of the inbox. It reports whether the server refused a request,
// so that asking again at once would be of no use.
func (p *puller) receive(m *nats.Msg) (refused bool) {
	d, ok := newDelivery(p.nc, m)
	if !ok {
		return p.heard(strings.TrimPrefix(m.Subject, p.inbox), m.Header.Get("Status"), m.Header.Get("Description"))
	}
	if len(p.asked) > 0 {
		p.pending--
		if p.asked[0].left--; p.asked[0].left == 0 {
			p.asked = p.asked[1:]
		}
	}
	if p.running >= p.cfg.Slots { // an answer to a request given up for lost
		_ = d.Nak(100 * time.Millisecond)
		return false
	}
	p.running++
	p.start(d)
	return false
}

// start hands d to a handler that is free, or to a new one: a goroutine that has handled a
// message before has the stack it takes.
func (p *puller) start(d *Delivery) {
	if p.running > p.handlers {
		p.handlers++
		go func() {
			for d := range p.out {
				p.handle(d)
				p.ended <- struct{}{}
			}
		}()
	}
	p.out <- d
}

func (p *puller) heard(id, status, description string) (refused bool) {
	if status == "100" { // heartbeat
		return false
	}
	p.asked = slices.DeleteFunc(p.asked, func(r request) bool {
		if r.id == id {
			p.pending -= r.left
		}
		return r.id == id
	})
	switch {
	case status == "404", status == "408": // nothing more for this request
		return false
	case status == "409" && !strings.Contains(description, "Exceeded") && !strings.Contains(description, "Deleted"):
		return false // leadership change, server shutdown, batch completed
	}
	p.cfg.Logger.Debug().Str("consumer", p.cfg.Consumer).Str("status", status).Str("reason", description).Msg("pull refused")
	return true
}

// drain waits for the handlers and gives back what arrived after the end.
func (p *puller) drain() {
	for {
		select {
		case m := <-p.in:
			if d, ok := newDelivery(p.nc, m); ok {
				_ = d.Nak(0)
			}
			continue
		default:
		}
		if p.running == 0 {
			return
		}
		select {
		case m := <-p.in:
			if d, ok := newDelivery(p.nc, m); ok {
				_ = d.Nak(0)
			}
		case <-p.ended:
			p.running--
		}
	}
}
