package console

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"html/template"
	"iter"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
)

// DefaultAddr is where a console listens unless told otherwise.
const DefaultAddr = "127.0.0.1:4280"

// Errors of [New] and [Console.Run].
var (
	// ErrConfig is returned when a Config cannot be used; its text says why.
	ErrConfig = errors.New("console: bad configuration")
	// ErrListen is returned when the address cannot be listened on.
	ErrListen = errors.New("console: cannot listen")
)

// Client is what the console needs of an [agent.Client], in whose name it answers.
type Client interface {
	Questions(context.Context, events.QuestionsRequest) iter.Seq2[events.OpenQuestion, error]
	Question(ctx context.Context, request string) (events.QuestionReply, error)
	Decisions(context.Context) iter.Seq2[events.Decision, error]
	WatchQuestions(ctx context.Context, begun func()) iter.Seq2[agent.QuestionChange, error]
	Confirm(context.Context, events.OpenQuestion, events.UserConfirmResult) (events.AnswerJudged, error)
	Answer(context.Context, events.OpenQuestion, events.ExternalExecutionResult) (events.AnswerJudged, error)
}

// Config says how a console is served.
type Config struct {
	// Actor is in whose name the client answers, for people to see. It is needed.
	Actor string
	// Addr is where it listens; "": [DefaultAddr]. Port 0 is any free one.
	Addr string
	// Token lets people in; "": a random one. At least 16 characters.
	Token string
	// Hosts are the names under which it may be reached, besides that of Addr and those of this machine
	// itself (localhost, 127.0.0.1, ::1): the name that a proxy in front of it has, for instance.
	Hosts []string
	// Logger is told of starts, refusals and failures; the zero value is silent. Tokens are never logged.
	Logger zerolog.Logger
}

const (
	leastToken  = 16
	maxBody     = 2 << 20 // of a form: arguments, percent-encoded
	askTimeout  = 15 * time.Second
	pageTimeout = 30 * time.Second
)

// Console is a console. Make it with [New].
type Console struct {
	c     Client
	cfg   Config
	given bool // the token was chosen by somebody, who knows it
	keys  keys
	hosts map[string]bool
	pages *template.Template
	feed  *feed
	said  *notes
	log   zerolog.Logger

	serving chan struct{} // closed once addr is set
	addr    string
}

// New makes a console that answers by a client, which stays the caller's to close. The error is [ErrConfig].
func New(c Client, cfg Config) (*Console, error) {
	given := cfg.Token != ""
	if cfg.Addr == "" {
		cfg.Addr = DefaultAddr
	}
	if cfg.Token == "" {
		cfg.Token = rand.Text()
	}
	host, _, err := net.SplitHostPort(cfg.Addr)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: address %q: %w", ErrConfig, cfg.Addr, err)
	case cfg.Actor == "":
		return nil, fmt.Errorf("%w: no actor: say in whose name it answers", ErrConfig)
	case len(cfg.Token) < leastToken:
		return nil, fmt.Errorf("%w: the token has %d characters, at least %d are needed", ErrConfig, len(cfg.Token), leastToken)
	}
	hosts := map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true}
	for _, h := range append(cfg.Hosts, host) {
		if h = bareHost(h); h != "" {
			hosts[h] = true
		}
	}
	pages, err := parsePages()
	if err != nil {
		return nil, err
	}
	return &Console{
		c: c, cfg: cfg, given: given, serving: make(chan struct{}), hosts: hosts, pages: pages, keys: newKeys(cfg.Token), feed: newFeed(), said: newNotes(),
		log: cfg.Logger.With().Str("component", "console").Logger(),
	}, nil
}

// Ready says whether changes are being watched: without them its pages are only as new as when they were
// loaded.
func (c *Console) Ready() error {
	if !c.feed.watching() {
		return errors.New("console: not watching questions yet")
	}
	return nil
}

// Serving is closed once it is served.
func (c *Console) Serving() <-chan struct{} { return c.serving }

// Addr is where it is served; "" until it is.
func (c *Console) Addr() string {
	select {
	case <-c.serving:
		return c.addr
	default:
		return ""
	}
}

// URL is what a person of this machine opens; "" until it is served. It has the token in it, unless that was
// chosen: whoever chose it knows it, and may not want it in a log.
func (c *Console) URL() string {
	host, port, err := net.SplitHostPort(c.Addr())
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	u := "http://" + net.JoinHostPort(host, port) + "/"
	if !c.given {
		u += "?token=" + c.cfg.Token
	}
	return u
}

// Run serves until ctx ends; nothing of it runs any more when it returns. It can be called once. Errors: [ErrListen].
func (c *Console) Run(ctx context.Context) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", c.cfg.Addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: %s is taken by another process; give another address, or port 0 for a free one", ErrListen, c.cfg.Addr)
	case err != nil:
		return fmt.Errorf("%w: %w; give an address such as %s", ErrListen, err, DefaultAddr)
	}
	c.addr = l.Addr().String()
	close(c.serving)
	g, ctx := errgroup.WithContext(ctx)
	s := &http.Server{
		Handler: c.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: pageTimeout, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10,
		BaseContext:    func(net.Listener) context.Context { return ctx }, // so that streams of events end
	}
	if ip := net.ParseIP(bareHost(l.Addr().String())); ip != nil && !ip.IsLoopback() {
		c.log.Warn().Str("addr", l.Addr().String()).Msg("other machines can reach the console, and without TLS others can read its token")
	}
	c.log.Info().Str("addr", l.Addr().String()).Str("actor", c.cfg.Actor).Msg("serving the console")
	g.Go(func() error { c.feed.run(ctx, c.c, c.log); return nil })
	g.Go(func() error {
		<-ctx.Done()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if err := s.Shutdown(end); err != nil {
			c.log.Debug().Err(err).Msg("a request was cut")
			return s.Close()
		}
		return nil
	})
	g.Go(func() error {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("console: %w", err)
		}
		return nil
	})
	return g.Wait()
}

// bareHost is a host without port and brackets, in lower case.
func bareHost(s string) string {
	if h, _, err := net.SplitHostPort(s); err == nil {
		s = h
	}
	return strings.TrimSuffix(strings.ToLower(strings.Trim(s, "[]")), ".")
}
