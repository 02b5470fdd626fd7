// Package natstest runs a real JetStream server inside a test. Only tests import it.
package natstest

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

// Server is an in-process JetStream server that ends with the test. It opens no port, so it
// also works inside a synctest bubble (where tests must not be parallel).
type Server struct {
	tb    testing.TB
	dir   string
	users []User
	trust func(*server.Options) error

	mu   sync.Mutex     // tests connect from several goroutines
	ncs  []*nats.Conn   // closed by Stop
	kept []*nats.Conn   // closed at the end of the test
	s    *server.Server // nil while stopped
}

// User may publish and subscribe to what is named, and nothing else.
type User struct {
	Name               string
	Publish, Subscribe []string
	Replies            bool // may answer what it was asked
}

func (u User) response() *server.ResponsePermission {
	if !u.Replies {
		return nil
	}
	return &server.ResponsePermission{MaxMsgs: 1, Expires: time.Minute}
}

// password is everybody's.
const password = "test"

// As is the option to connect as a user given to [Start]; without it, all is allowed.
func As(user string) nats.Option { return nats.UserInfo(user, password) }

// Start starts a server with its store in a directory of the test's.
func Start(tb testing.TB, users ...User) *Server {
	tb.Helper()
	return start(&Server{tb: tb, dir: tb.TempDir(), users: users})
}

// StartTrusting starts a server that knows only the credentials that trust makes it trust.
func StartTrusting(tb testing.TB, trust func(*server.Options) error) *Server {
	tb.Helper()
	return start(&Server{tb: tb, dir: tb.TempDir(), trust: trust})
}

func start(s *Server) *Server {
	s.tb.Helper()
	s.start()
	s.tb.Cleanup(func() {
		for _, nc := range s.kept {
			nc.Close()
		}
		s.Stop()
	})
	return s
}

func (s *Server) start() {
	s.tb.Helper()
	opts := &server.Options{
		ServerName: "test", DontListen: true, JetStream: true, StoreDir: s.dir, NoLog: true, NoSigs: true,
	}
	if len(s.users) > 0 {
		opts.NoAuthUser = "test"
		opts.Users = []*server.User{{Username: opts.NoAuthUser, Password: password}}
	}
	for _, u := range s.users {
		opts.Users = append(opts.Users, &server.User{Username: u.Name, Password: password, Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: u.Publish},
			Subscribe: &server.SubjectPermission{Allow: u.Subscribe},
			Response:  u.response(),
		}})
	}
	if s.trust != nil {
		if err := s.trust(opts); err != nil {
			s.tb.Fatal(err)
		}
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		s.tb.Fatal(err)
	}
	go srv.Start()
	if !srv.ReadyForConnections(10 * time.Second) {
		s.tb.Fatal("nats-server is not ready")
	}
	s.mu.Lock()
	s.s = srv
	s.mu.Unlock()
}

// dialer reaches whichever server runs now.
type dialer struct{ s *Server }

// InProcessConn is what [nats.InProcessServer] asks for at each connect.
func (d dialer) InProcessConn() (net.Conn, error) {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	if d.s.s == nil {
		return nil, errors.New("natstest: the server is stopped")
	}
	return d.s.s.InProcessConn()
}

// Conn opens a connection that ends with the server or the test.
func (s *Server) Conn(opts ...nats.Option) *nats.Conn {
	s.tb.Helper()
	nc := s.connect(opts)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ncs = append(s.ncs, nc)
	return nc
}

// Lasting opens a connection that comes back by itself after [Server.Restart], as that of a
// process that outlives the server; it ends with the test.
//
// A reconnect takes a timer from a pool of the client library that all tests share, and a timer
// made in one bubble is fatal in another. Collecting garbage twice empties the pool.
func (s *Server) Lasting(opts ...nats.Option) *nats.Conn {
	s.tb.Helper()
	runtime.GC()
	runtime.GC()
	nc := s.connect(append([]nats.Option{
		nats.MaxReconnects(-1), nats.ReconnectWait(10 * time.Millisecond), nats.ReconnectJitter(0, 0),
	}, opts...))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, nc)
	return nc
}

// Dial opens a connection without a client, for what no client would send. It is the caller's to close.
func (s *Server) Dial() (net.Conn, error) { return dialer{s}.InProcessConn() }

func (s *Server) connect(opts []nats.Option) *nats.Conn {
	s.tb.Helper()
	nc, err := nats.Connect("", append([]nats.Option{nats.InProcessServer(dialer{s})}, opts...)...)
	if err != nil {
		s.tb.Fatal(err)
	}
	return nc
}

// Bus opens a connection with the topology in place, less the history: a server that is stopped
// while it sets up a stream with sources leaves a goroutine behind for 30 s. A test of the history
// adds it by [jet.Ensure].
func (s *Server) Bus(opts ...nats.Option) *jet.Bus {
	s.tb.Helper()
	b, err := jet.NewBus(s.Conn(opts...), events.Subjects{})
	if err != nil {
		s.tb.Fatal(err)
	}
	if err := jet.Ensure(s.tb.Context(), b.JetStream(), b.Names, jet.Config{NoHistory: true}); err != nil {
		s.tb.Fatal(err)
	}
	return b
}

// Stop closes the connections, but for the lasting ones, and the server; its store stays for
// [Server.Restart].
func (s *Server) Stop() {
	s.mu.Lock()
	ncs, srv := s.ncs, s.s
	s.ncs, s.s = nil, nil
	s.mu.Unlock()
	for _, nc := range ncs {
		nc.Close()
	}
	if srv == nil {
		return
	}
	srv.Shutdown()
	srv.WaitForShutdown()
}

// Restart stops the server, if it runs, and starts another on the same store. Connections
// opened by [Server.Conn] and [Server.Bus] are closed: whoever used them is dead, as after a crash of everything.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Stop()
	s.start()
}
