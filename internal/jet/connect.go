package jet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var (
	// ErrUnreachable is returned when no server answers at an address; its text says what to do.
	ErrUnreachable = errors.New("jet: no NATS server")
	// ErrRefused is returned when a server wants other credentials, or TLS cannot be agreed on.
	ErrRefused = errors.New("jet: connection refused by the NATS server")
	// ErrServer is returned when a server lacks what Toolwire needs: its age, or JetStream.
	ErrServer = errors.New("jet: NATS server unfit")
	// ErrDenied is returned when this user may not publish or subscribe to a subject; its text names it.
	ErrDenied = errors.New("jet: not permitted")
)

// MinServer is the oldest nats-server that has all that Toolwire uses (repeating message schedules).
const MinServer = "2.14"

// connectTimeout bounds the attempt to reach one server.
const connectTimeout = 2 * time.Second

// Link is a connection that remembers what the server forbade: a forbidden request is not
// answered, the server complains on the connection instead.
type Link struct {
	*nats.Conn

	mu      sync.Mutex
	denied  []string // what the server said, oldest first, each once
	changed chan struct{}
}

// Dial connects by means of dial, which is nats.Connect with an address and credentials of the
// caller's. where names the address in errors. Errors: [ErrUnreachable], [ErrRefused], [ErrServer]
// (too old). A lost connection is made anew for ever.
func Dial(where string, dial func(...nats.Option) (*nats.Conn, error)) (*Link, error) {
	l := &Link{changed: make(chan struct{})}
	rec := &recorder{}
	nc, err := dial(
		nats.Timeout(connectTimeout), nats.MaxReconnects(-1), nats.ReconnectWait(250*time.Millisecond),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { l.heard(err) }),
		rec.option(),
	)
	if err != nil {
		return nil, explainDial(where, err, rec.last())
	}
	l.Conn = nc
	if err := checkVersion(nc.ConnectedServerVersion()); err != nil {
		nc.Close()
		return nil, fmt.Errorf("%w at %s: %w; upgrade it, or name another with --server", ErrServer, where, err)
	}
	return l, nil
}

// deniedMax is how many complaints are kept: enough to tell, and bounded.
const deniedMax = 64

func (l *Link) heard(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	_, what, ok := strings.Cut(err.Error(), "Permissions Violation for ")
	if !ok {
		what = err.Error()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Contains(l.denied, what) {
		return
	}
	if len(l.denied) < deniedMax {
		l.denied = append(l.denied, what)
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// Denied says what the server forbade so far, such as `Publish to "toolwire.call.local.s.t"`.
func (l *Link) Denied() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.denied...)
}

// DeniedError is nil, or an [ErrDenied] that names the first thing that was forbidden.
func (l *Link) DeniedError() error {
	d := l.Denied()
	if len(d) == 0 {
		return nil
	}
	return deniedError(d[0])
}

// deniedError makes an error of what the server said: Publish to "…", or Subscription to "…".
func deniedError(what string) error {
	verb, subject, _ := strings.Cut(what, ` "`)
	subject, _, _ = strings.Cut(subject, `"`)
	who := WhoPublishes(subject)
	if strings.HasPrefix(verb, "Subscription") {
		who = WhoSubscribes(subject)
	}
	if who != "" {
		who = ", which is for " + who
	}
	what = strings.ToLower(what[:1]) + what[1:]
	return fmt.Errorf("%w: this user may not %s%s; allow that, or give other credentials with --creds or --context", ErrDenied, what, who)
}

// Ask makes a request. If it is forbidden it ends at once, with [ErrDenied].
func (l *Link) Ask(ctx context.Context, subject string, data []byte) (*nats.Msg, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	defer close(done)
	go l.watchDenied(subject, done, cancel)
	m, err := l.RequestWithContext(ctx, subject, data)
	if cause := context.Cause(ctx); errors.Is(cause, ErrDenied) {
		return nil, cause
	}
	return m, err
}

func (l *Link) watchDenied(subject string, done <-chan struct{}, cancel context.CancelCauseFunc) {
	// A request needs its answer, too: the inbox is subscribed to at the first request, and who may not
	// has none for any.
	inbox := l.NewInbox()
	inbox = `Subscription to "` + inbox[:strings.LastIndexByte(inbox, '.')+1]
	for {
		l.mu.Lock()
		changed, denied := l.changed, l.denied
		l.mu.Unlock()
		for _, d := range denied {
			if strings.Contains(d, strconv.Quote(subject)) || strings.HasPrefix(d, inbox) {
				cancel(deniedError(d))
				return
			}
		}
		select {
		case <-changed:
		case <-done:
			return
		}
	}
}

// CheckJetStream says whether JetStream is there and this user may ask for it.
// Errors: [ErrServer], [ErrDenied], [ErrUnreachable].
func (l *Link) CheckJetStream(ctx context.Context) (*jetstream.AccountInfo, error) {
	m, err := l.Ask(ctx, "$JS.API.INFO", nil)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, fmt.Errorf("%w: JetStream is off; start nats-server with -js, and enable it for this account", ErrServer)
	case errors.Is(err, ErrDenied):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%w: JetStream does not answer: %w; check that the cluster has a leader", ErrUnreachable, err)
	}
	var resp struct {
		jetstream.AccountInfo
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &resp); err != nil {
		return nil, fmt.Errorf("%w: JetStream answers %.80q", ErrServer, m.Data)
	}
	if resp.Error != nil {
		return nil, fmt.Errorf("%w: JetStream: %w; enable it for this account", ErrServer, resp.Error)
	}
	return &resp.AccountInfo, nil
}

// checkVersion says whether a server of this version has what is needed. A version that does not
// look like one passes: it is a build of somebody's own.
func checkVersion(v string) error {
	major, minor, ok := majorMinor(v)
	wantMajor, wantMinor, _ := majorMinor(MinServer)
	if ok && (major < wantMajor || major == wantMajor && minor < wantMinor) {
		return fmt.Errorf("nats-server %s is too old, %s or newer is needed", v, MinServer)
	}
	return nil
}

func majorMinor(v string) (major, minor int, ok bool) {
	parts := strings.SplitN(strings.TrimPrefix(v, "v"), ".", 3)
	if len(parts) < 2 {
		return 0, 0, false
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return major, minor, err1 == nil && err2 == nil
}

// recorder keeps the last error of dialling: the client says "no servers available" in its place.
type recorder struct {
	mu    sync.Mutex
	inner nats.CustomDialer
	err   error
}

func (r *recorder) option() nats.Option {
	return func(o *nats.Options) error {
		r.inner = o.CustomDialer // perhaps a proxy
		if r.inner == nil {
			r.inner = &net.Dialer{Timeout: connectTimeout}
		}
		o.CustomDialer = r
		return nil
	}
}

// Dial is for the client.
func (r *recorder) Dial(network, address string) (net.Conn, error) {
	c, err := r.inner.Dial(network, address)
	if err != nil {
		r.mu.Lock()
		r.err = err
		r.mu.Unlock()
	}
	return c, err
}

func (r *recorder) last() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// explainDial says why a connection did not come about, and what to do about it.
func explainDial(where string, err, network error) error {
	var (
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		alert     tls.AlertError
		record    tls.RecordHeaderError
	)
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked),
		errors.Is(err, nats.ErrAccountAuthExpired), errors.Is(err, nats.ErrNkeysNotSupported):
		return fmt.Errorf("%w at %s: %w; give credentials with --creds or --context, or in the URL", ErrRefused, where, err)
	case errors.As(err, &authority), errors.As(err, &hostname), errors.As(err, &invalid):
		return fmt.Errorf("%w at %s: its certificate is not trusted: %w; name the right host, or its CA with --tls-ca or a context (--context)", ErrRefused, where, err)
	case errors.As(err, &alert), errors.As(err, &record), errors.Is(err, nats.ErrSecureConnRequired), errors.Is(err, nats.ErrSecureConnWanted),
		strings.Contains(err.Error(), "tls: "), strings.Contains(err.Error(), "tls error: "):
		return fmt.Errorf("%w at %s: %w; TLS is set up with --tls-ca, --tls-cert and --tls-key, or in a context of the nats CLI (--context)", ErrRefused, where, err)
	case network != nil && (errors.Is(err, nats.ErrNoServers) || errors.Is(err, network)):
		return fmt.Errorf("%w at %s: %w; start one with `toolwire up`, or name another with --server or --context", ErrUnreachable, where, network)
	}
	return fmt.Errorf("%w at %s: %w; check --server or --context: what listens there may not be NATS", ErrUnreachable, where, err)
}
