package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

// Config says who the client is. The zero value is the agent "local" of the default installation.
type Config struct {
	Agent  events.AgentID // identity; NATS permissions pin it to the credential. Default: local
	Prefix string         // first token of every subject. Default: [events.DefaultPrefix]
	Logger zerolog.Logger // default: silent
}

// DefaultAgent is the identity of an agent that has none, without authentication.
const DefaultAgent events.AgentID = "local"

// Client submits turns for one agent identity over one connection.
type Client struct {
	bus   *jet.Bus
	agent events.AgentID
	log   zerolog.Logger

	live   chan *nats.Msg   // results of all sessions, as JOURNAL stores them
	kick   chan struct{}    // something is due to be read now
	status chan nats.Status // of the connection
	done   chan struct{}    // closed once nothing more will arrive
	stop   context.CancelFunc
	ending sync.Once
	wg     sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	armed    bool        // timer will fire
	timer    *time.Timer // when something may be due to be read
	sessions map[events.SessionID]*session
	turns    map[string][]*Pending // by the tokens session.turn; a slice is never changed, only replaced
}

// liveBuffer is how many live results may wait for the client; what does not fit is lost,
// and found by reading the stored facts.
const liveBuffer = 8192

// New returns a client over nc, which stays the caller's to close, after the client.
// It asks nothing of the server yet.
func New(nc *nats.Conn, cfg Config) (*Client, error) {
	if cfg.Agent == "" {
		cfg.Agent = DefaultAgent
	}
	if err := events.CheckID("agent", cfg.Agent); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	subjects, err := events.NewSubjects(cfg.Prefix)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	bus, err := jet.NewBus(nc, subjects)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &Client{
		bus: bus, agent: cfg.Agent, log: cfg.Logger, stop: stop,
		live:     make(chan *nats.Msg, liveBuffer),
		kick:     make(chan struct{}, 1),
		done:     make(chan struct{}),
		status:   nc.StatusChanged(nats.CONNECTED, nats.CLOSED),
		timer:    time.NewTimer(time.Hour),
		sessions: make(map[events.SessionID]*session),
		turns:    make(map[string][]*Pending),
	}
	c.timer.Stop()
	c.wg.Go(func() { c.listen(ctx) })
	c.wg.Go(func() { c.reread(ctx) })
	return c, nil
}

// Close ends the client: waiting calls return [ErrClosed], subscriptions are released. Submitted
// turns go on; another client may attach to them.
func (c *Client) Close() {
	c.end()
	c.stop()
	c.wg.Wait()
}

// end lets go of all turns. It is called by Close, or when the connection was closed.
func (c *Client) end() {
	c.ending.Do(func() {
		c.mu.Lock()
		c.closed = true
		sessions, turns := c.sessions, c.turns
		c.sessions, c.turns = nil, nil
		c.timer.Stop()
		c.mu.Unlock()
		c.bus.Conn().RemoveStatusListener(c.status)
		for _, s := range sessions {
			c.unsubscribe(s.sub)
		}
		for _, ps := range turns {
			for _, p := range ps {
				p.fail(ErrClosed)
				c.unsubscribe(p.progress)
			}
		}
		close(c.done)
	})
}

func (c *Client) unsubscribe(sub *nats.Subscription) {
	if sub == nil {
		return
	}
	if err := sub.Unsubscribe(); err != nil && !c.bus.Conn().IsClosed() {
		c.log.Debug().Err(err).Str("subject", sub.Subject).Msg("unsubscribe")
	}
}

// store stores o, trying again while ctx lasts.
func (c *Client) store(ctx context.Context, o jet.Out) error {
	ctx, done := c.guard(ctx, o.Subject)
	defer done()
	_, err := c.bus.Store(ctx, o)
	return err
}

// denialAfter is how long after a publish the connection is asked whether it was forbidden.
const denialAfter = 250 * time.Millisecond

// guard ends ctx with [ErrDenied] if publishing to subject turns out to be forbidden: the server
// does not answer such a publish, it complains on the connection.
func (c *Client) guard(ctx context.Context, subject string) (guarded context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	t := time.AfterFunc(denialAfter, func() {
		if err := c.bus.Conn().LastError(); errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), `"`+subject+`"`) {
			text := fmt.Sprintf("%q may not publish to %s", c.agent, subject)
			if who := jet.WhoPublishes(subject); who != "" {
				text += ", which is for " + who
			}
			cancel(fmt.Errorf("%w: %s", ErrDenied, text))
		}
	})
	return ctx, func() {
		t.Stop()
		cancel(nil)
	}
}
