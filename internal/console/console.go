package console

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"iter"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
)

// DefaultAddr is where the page is served unless said otherwise: on this machine only.
const DefaultAddr = "127.0.0.1:4280"

// Config says where the page is served, and to whom.
type Config struct {
	Addr  string   // default: [DefaultAddr]; port 0: any free one
	Token string   // that a browser has to bring once; default: a random one
	Hosts []string // names that it is served under, beside the address itself and localhost
	Actor string   // whose answers they are, for people to see; it is the client's identity

	Logger zerolog.Logger // default: silent
}

// Client is what the page needs of an installation; [agent.Client] is one.
type Client interface {
	Questions(ctx context.Context, q events.QuestionsRequest) iter.Seq2[events.OpenQuestion, error]
	Question(ctx context.Context, request string) (events.QuestionReply, error)
	Decisions(ctx context.Context) iter.Seq2[events.Decision, error]
	WatchQuestions(ctx context.Context, begun func()) iter.Seq2[agent.QuestionChange, error]
	Confirm(ctx context.Context, q events.OpenQuestion, a events.UserConfirmResult) (events.AnswerJudged, error)
	Answer(ctx context.Context, q events.OpenQuestion, a events.ExternalExecutionResult) (events.AnswerJudged, error)
}

var (
	// ErrConfig is returned when a [Config] cannot be used; its text says which field.
	ErrConfig = errors.New("console: bad configuration")
	// ErrListen is returned when the address cannot be served; its text says what to do.
	ErrListen = errors.New("console: cannot listen")
)

// Console serves the page.
type Console struct {
	client Client
	cfg    Config
	log    zerolog.Logger
	guard  *guard
	pages  map[string]*template.Template
	news   *news
	serves atomic.Pointer[string] // the address, once it is served
	begun  chan struct{}          // closed then
}

// New makes a console for a client, which stays the caller's to close. Nothing is served yet.
func New(client Client, cfg Config) (*Console, error) {
	if cfg.Addr == "" {
		cfg.Addr = DefaultAddr
	}
	if cfg.Token == "" {
		cfg.Token = randomToken()
	}
	if len(cfg.Token) < 16 {
		return nil, fmt.Errorf("%w: the token has %d characters, at least 16 are needed", ErrConfig, len(cfg.Token))
	}
	if _, _, err := net.SplitHostPort(cfg.Addr); err != nil {
		return nil, fmt.Errorf("%w: address %q: %w; write it as 127.0.0.1:4280", ErrConfig, cfg.Addr, err)
	}
	c := &Console{client: client, cfg: cfg, log: cfg.Logger.With().Str("component", "console").Logger(), news: newNews(), pages: parsePages(), begun: make(chan struct{})}
	c.guard = newGuard(cfg)
	return c, nil
}

func randomToken() string {
	b := make([]byte, 24)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// Addr is where the page is served; "" until it is.
func (c *Console) Addr() string {
	if a := c.serves.Load(); a != nil {
		return *a
	}
	return ""
}

// URL is what a person opens: the address with the token, which the browser keeps as a cookie. "" until
// the page is served.
func (c *Console) URL() string {
	if c.Addr() == "" {
		return ""
	}
	return "http://" + c.Addr() + "/?token=" + c.cfg.Token
}

// Serving is closed once the page is served.
func (c *Console) Serving() <-chan struct{} { return c.begun }

// Run serves the page until ctx ends. It can be called once. [ErrListen]: the address cannot be had.
func (c *Console) Run(ctx context.Context) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", c.cfg.Addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: %s is taken by another process; give another address, or port 0 for a free one", ErrListen, c.cfg.Addr)
	case err != nil:
		return fmt.Errorf("%w: %w; give an address such as %s", ErrListen, err, DefaultAddr)
	}
	addr := l.Addr().String()
	c.guard.serve(addr)
	c.serves.Store(&addr)
	close(c.begun)
	defer c.serves.Store(nil)
	c.log.Info().Str("addr", addr).Msg("serving the console")
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		c.watch(ctx)
	}()
	s := &http.Server{
		Handler: c.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: time.Minute, IdleTimeout: time.Minute,
		MaxHeaderBytes: 64 << 10, BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		end, done := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer done()
		stopped <- s.Shutdown(end)
	}()
	err = s.Serve(l)
	cancel()
	<-watched
	if cut := <-stopped; cut != nil {
		c.log.Debug().Err(cut).Msg("a request was cut")
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("console: %w", err)
}
