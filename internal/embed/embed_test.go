package embed_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/toolwire/toolwire/internal/embed"
)

// free picks a free port.
const free = "127.0.0.1:0"

func start(t *testing.T, cfg embed.Config) *embed.Server {
	t.Helper()
	s, err := embed.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func connect(t *testing.T, url string, opts ...nats.Option) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// What one server stored the next one finds, over a port and without one.
func TestStoreOutlivesTheServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, embed.Config{Store: dir, Addr: "127.0.0.1:0"})
	js := connect(t, s.URL())
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s", []byte("x")); err != nil {
		t.Fatal(err)
	}
	s.Stop()

	s = start(t, embed.Config{Store: dir, Addr: "127.0.0.1:0", Sync: "always", MaxStore: 1 << 30})
	defer s.Stop()
	st, err := connect(t, "", nats.InProcessServer(s)).Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	if got := st.CachedInfo().State.Msgs; got != 1 {
		t.Errorf("got %d messages, want 1", got)
	}
}

// Two servers on one directory would destroy each other's data: nats-server takes no lock itself.
func TestDirectoryIsLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, embed.Config{Store: dir, Addr: free})
	_, err := embed.Start(embed.Config{Store: dir, Addr: free})
	if !errors.Is(err, embed.ErrInUse) || !strings.Contains(err.Error(), "process "+strconv.Itoa(os.Getpid())) || !strings.Contains(err.Error(), "--store") {
		t.Errorf("got %v, want ErrInUse naming this process and --store", err)
	}
	s.Stop()
	start(t, embed.Config{Store: dir, Addr: free}).Stop()
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cfg  embed.Config
		want error
		says string
	}{
		"port taken":         {embed.Config{Store: t.TempDir(), Addr: taken.Addr().String()}, embed.ErrAddr, "--addr 127.0.0.1:0 picks a free one"},
		"cluster port taken": {embed.Config{Store: t.TempDir(), Addr: free, ClusterName: "c", Cluster: taken.Addr().String()}, embed.ErrAddr, "--cluster"},
		"foreign address":    {embed.Config{Store: t.TempDir(), Addr: "192.0.2.1:4222"}, embed.ErrAddr, "--addr"},
		"no port":            {embed.Config{Store: t.TempDir(), Addr: "localhost"}, embed.ErrAddr, "host:port"},
		"port too high":      {embed.Config{Store: t.TempDir(), Addr: "localhost:70000"}, embed.ErrAddr, "65535"},
		"store is a file":    {embed.Config{Store: file, Addr: free}, embed.ErrStart, "--store"},
		"sync nonsense":      {embed.Config{Store: t.TempDir(), Addr: free, Sync: "often"}, embed.ErrStart, "always"},
		"sync never":         {embed.Config{Store: t.TempDir(), Addr: free, Sync: "0s"}, embed.ErrStart, "always"},
		"bad route":          {embed.Config{Store: t.TempDir(), Addr: free, ClusterName: "c", Cluster: free, Routes: []string{"x"}}, embed.ErrStart, "--routes"},
	} {
		s, err := embed.Start(c.cfg)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %v naming %q", name, err, c.want, c.says)
		}
		if s != nil {
			t.Errorf("%s: got a server", name)
		}
	}
}

// A store that cannot be read is an error of the start, not the end of the process.
func TestBrokenStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "jetstream"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	_, err := embed.Start(embed.Config{Store: dir, Addr: free, Logger: zerolog.New(&log).Level(zerolog.WarnLevel)})
	if !errors.Is(err, embed.ErrStart) || !strings.Contains(err.Error(), "JetStream") {
		t.Errorf("got %v, want ErrStart", err)
	}
	if !strings.Contains(log.String(), "JetStream") {
		t.Errorf("the log says %q", log.String())
	}
}

// Three servers find each other and keep a stream on all of them.
func TestCluster(t *testing.T) {
	t.Parallel()
	routes := make([]string, 3)
	for i := range routes { // free at this moment, which has to do
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		routes[i] = "nats://" + l.Addr().String()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	servers := make([]*embed.Server, 3)
	for i := range servers {
		servers[i] = start(t, embed.Config{
			Store: t.TempDir(), Name: "n" + strconv.Itoa(i), Addr: "127.0.0.1:0",
			ClusterName: "c", Cluster: strings.TrimPrefix(routes[i], "nats://"), Routes: routes,
		})
	}
	js := connect(t, servers[0].URL())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		try, cancel := context.WithTimeout(ctx, 2*time.Second)
		_, err := js.CreateStream(try, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Replicas: 3})
		cancel()
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
	for _, s := range servers {
		s.Stop()
	}
}
