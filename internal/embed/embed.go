// Package embed runs a NATS server inside a process: for `toolwire up`, `toolwire server` and
// measurements. It owns its store directory by a lock, which nats-server itself does not take.
package embed

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"github.com/toolwire/toolwire/internal/auth"
)

// Config says how the server runs.
type Config struct {
	Store       string   // directory of the streams; made if it does not exist
	Addr        string   // host:port for clients; "": 127.0.0.1:4222; port 0 picks a free one
	Name        string   // of the server; "": toolwire
	Sync        string   // "always", or how often written data is forced to disk; "": 1s
	MaxStore    int64    // bytes of all streams; 0: 1 TiB, bounded by the limits of the streams
	ClusterName string   // with Cluster
	Cluster     string   // host:port for the other servers; "": alone
	Routes      []string // nats:// URLs of the other servers
	// TLS is what clients have to speak; nil: none. With client certificates required, the other servers of a
	// cluster have to show them, too.
	TLS *tls.Config
	// Auth is who may connect; nil: everybody.
	Auth   *auth.Trust
	Logger zerolog.Logger
	Ready  time.Duration // how long to wait for it; 0: 10 s
}

var (
	// ErrInUse is returned when another process holds the store directory.
	ErrInUse = errors.New("embed: the store directory is in use")
	// ErrAddr is returned when the server cannot listen where it should.
	ErrAddr = errors.New("embed: cannot listen")
	// ErrStart is returned when the server does not come up.
	ErrStart = errors.New("embed: the server does not start")
)

// Server is a running server.
type Server struct {
	s    *server.Server
	lock *os.File
}

// Start locks the store and starts a server on it. The errors name the cure.
func Start(c Config) (*Server, error) {
	opts, err := options(c)
	if err != nil {
		return nil, err
	}
	lock, err := lockStore(c.Store)
	if err != nil {
		return nil, err
	}
	s, err := start(c, opts)
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	return &Server{s: s, lock: lock}, nil
}

func start(c Config, opts *server.Options) (*server.Server, error) {
	s, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrStart, err)
	}
	log := &natsLog{log: c.Logger}
	s.SetLoggerV2(log, false, false, false)
	go s.Start()
	wait := c.Ready
	if wait == 0 {
		wait = 10 * time.Second
	}
	err = await(s, log, wait)
	if err == nil && opts.Cluster.Port == 0 {
		if h := s.Healthz(&server.HealthzOptions{}); h.Error != "" {
			err = fmt.Errorf("%w: %s", ErrStart, h.Error)
		}
	}
	if err != nil {
		s.Shutdown()
		s.WaitForShutdown()
		return nil, err
	}
	return s, nil
}

// await waits until the server takes connections or gives up. Only ReadyForConnections is to be
// trusted: a server whose JetStream failed still says that it runs.
func await(s *server.Server, log *natsLog, limit time.Duration) error {
	for end := time.Now().Add(limit); !s.ReadyForConnections(20 * time.Millisecond); {
		if why := log.fatal.Load(); why != nil {
			return fmt.Errorf("%w: %s", ErrStart, *why)
		}
		if time.Now().After(end) {
			return fmt.Errorf("%w within %v; look at its log with --log-level debug", ErrStart, limit)
		}
	}
	return nil
}

// URL is where clients connect.
func (s *Server) URL() string { return s.s.ClientURL() }

// InProcessConn lets a client of the same process connect without a socket.
func (s *Server) InProcessConn() (net.Conn, error) { return s.s.InProcessConn() }

// Stop ends the server and frees its store. Clients should have drained before.
func (s *Server) Stop() {
	s.s.Shutdown()
	s.s.WaitForShutdown()
	_ = s.lock.Close()
}

func options(c Config) (*server.Options, error) {
	addr := c.Addr
	if addr == "" {
		addr = "127.0.0.1:4222"
	}
	host, port, err := hostPort(addr, "--addr")
	if err != nil {
		return nil, err
	}
	o := &server.Options{
		ServerName: c.Name, Host: host, Port: port, StoreDir: c.Store, JetStream: true, NoSigs: true,
		JetStreamMaxStore: c.MaxStore, JetStreamMaxMemory: 1 << 30, SyncInterval: time.Second,
	}
	if o.ServerName == "" {
		o.ServerName = "toolwire"
	}
	if o.JetStreamMaxStore == 0 {
		o.JetStreamMaxStore = 1 << 40
	}
	switch c.Sync {
	case "":
	case "always":
		o.SyncAlways = true
	default:
		if o.SyncInterval, err = time.ParseDuration(c.Sync); err != nil || o.SyncInterval <= 0 {
			return nil, fmt.Errorf("%w: sync %q is neither \"always\" nor a duration such as 1s", ErrStart, c.Sync)
		}
	}
	if c.TLS != nil {
		o.TLS, o.TLSConfig, o.TLSTimeout = true, c.TLS, tlsTimeout.Seconds()
		o.TLSVerify = c.TLS.ClientAuth == tls.RequireAndVerifyClientCert
	}
	if c.Auth != nil {
		if err := Trust(o, *c.Auth); err != nil {
			return nil, err
		}
	}
	if c.Cluster == "" {
		return o, nil
	}
	return o, c.join(o)
}

// Trust makes a server accept the credentials that an operator vouches for, and no others.
func Trust(o *server.Options, t auth.Trust) error {
	operator, err := jwt.DecodeOperatorClaims(t.Operator)
	if err != nil {
		return fmt.Errorf("%w: operator: %w", ErrStart, err)
	}
	accounts := &server.MemAccResolver{}
	for key, token := range t.Accounts {
		if err := accounts.Store(key, token); err != nil {
			return fmt.Errorf("%w: account: %w", ErrStart, err)
		}
	}
	o.TrustedOperators = []*jwt.OperatorClaims{operator}
	o.SystemAccount, o.AccountResolver = t.System, accounts
	return nil
}

// tlsTimeout bounds the handshake.
const tlsTimeout = 5 * time.Second

// join makes the server a node of a cluster. Whoever reaches the port of a cluster is believed all it says,
// credentials or not: with them, the other nodes have to show certificates.
func (c Config) join(o *server.Options) (err error) {
	if c.TLS != nil && o.TLSVerify {
		o.Cluster.TLSConfig, o.Cluster.TLSTimeout = c.TLS.Clone(), tlsTimeout.Seconds()
	}
	if c.Auth != nil && o.Cluster.TLSConfig == nil {
		return fmt.Errorf("%w: in a cluster with credentials the nodes have to prove who they are: give --tls-cert, --tls-key and --tls-ca", ErrStart)
	}
	o.Cluster.Name = c.ClusterName
	if o.Cluster.Host, o.Cluster.Port, err = hostPort(c.Cluster, "--cluster"); err != nil {
		return err
	}
	for _, r := range c.Routes {
		u, err := url.Parse(r)
		if err != nil || u.Host == "" {
			return fmt.Errorf("%w: route %q is no URL; give --routes nats://host:port,…", ErrStart, r)
		}
		o.Routes = append(o.Routes, u)
	}
	return nil
}

// hostPort reads host:port and tries whether the port is free, so that a taken one is an error
// here and not a dead server; port 0 becomes the server's "pick one".
func hostPort(addr, flag string) (string, int, error) {
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("%w on %q: give host:port, e.g. %s 127.0.0.1:4222", ErrAddr, addr, flag)
	}
	port, err := strconv.Atoi(p)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("%w on %q: %q is no port; give a number up to 65535 with %s", ErrAddr, addr, p, flag)
	}
	if port == 0 {
		return host, server.RANDOM_PORT, nil
	}
	l, err := net.Listen("tcp", addr) //nolint:noctx // a probe that ends at once
	if errors.Is(err, syscall.EADDRINUSE) {
		return "", 0, fmt.Errorf("%w on %s: another program has the port; stop it, or choose another (%s 127.0.0.1:0 picks a free one)", ErrAddr, addr, flag)
	}
	if err != nil {
		return "", 0, fmt.Errorf("%w on %s: %w; choose another address with %s", ErrAddr, addr, err, flag)
	}
	return host, port, l.Close()
}
