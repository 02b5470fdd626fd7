// Package natstest runs a real JetStream server inside a test. Only tests import it.
package natstest

import (
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
	tb  testing.TB
	dir string
	s   *server.Server
	ncs []*nats.Conn
}

// Start starts a server with its store in a directory of the test's.
func Start(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{tb: tb, dir: tb.TempDir()}
	s.start()
	tb.Cleanup(s.Stop)
	return s
}

func (s *Server) start() {
	s.tb.Helper()
	srv, err := server.NewServer(&server.Options{
		ServerName: "test", DontListen: true, JetStream: true, StoreDir: s.dir, NoLog: true, NoSigs: true,
	})
	if err != nil {
		s.tb.Fatal(err)
	}
	go srv.Start()
	if !srv.ReadyForConnections(10 * time.Second) {
		s.tb.Fatal("nats-server is not ready")
	}
	s.s = srv
}

// InProcessConn lets nats.InProcessServer reach whichever server runs now, so that
// connections come back after [Server.Restart].
func (s *Server) provider() nats.Option { return nats.InProcessServer(s.s) }

// Conn opens a connection that ends with the test.
func (s *Server) Conn(opts ...nats.Option) *nats.Conn {
	s.tb.Helper()
	nc, err := nats.Connect("", append([]nats.Option{s.provider()}, opts...)...)
	if err != nil {
		s.tb.Fatal(err)
	}
	s.ncs = append(s.ncs, nc)
	return nc
}

// Bus opens a connection with the topology in place.
func (s *Server) Bus(opts ...nats.Option) *jet.Bus {
	s.tb.Helper()
	b, err := jet.NewBus(s.Conn(opts...), events.Subjects{})
	if err != nil {
		s.tb.Fatal(err)
	}
	if err := jet.Ensure(s.tb.Context(), b.JetStream(), b.Names, jet.Config{}); err != nil {
		s.tb.Fatal(err)
	}
	return b
}

// Stop closes the connections and the server; its store stays for [Server.Restart].
func (s *Server) Stop() {
	for _, nc := range s.ncs {
		nc.Close()
	}
	s.ncs = nil
	s.s.Shutdown()
	s.s.WaitForShutdown()
}

// Restart stops the server and starts another on the same store. Connections made before are
// closed: whoever used them is dead, as after a crash of everything.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Stop()
	s.start()
}
