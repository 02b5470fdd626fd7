//go:build cluster

package cluster_test

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/embed"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/workers"
)

// patience bounds all waiting; nothing takes so long unless it is broken.
const patience = time.Minute

// cluster starts three servers and returns them.
func cluster(t *testing.T) []*embed.Server {
	t.Helper()
	routes := make([]string, 3)
	for i := range routes { // free at this moment, which has to do
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		routes[i] = "nats://" + l.Addr().String()
		_ = l.Close()
	}
	type started struct {
		s   *embed.Server
		err error
	}
	all := make(chan started, len(routes))
	for i := range routes {
		go func() {
			s, err := embed.Start(embed.Config{
				Store: filepath.Join(t.TempDir(), strconv.Itoa(i)), Addr: "127.0.0.1:0", Name: "s" + strconv.Itoa(i),
				ClusterName: "c", Cluster: strings.TrimPrefix(routes[i], "nats://"), Routes: routes, Sync: "1s", Ready: patience, Logger: zerolog.Nop(),
			})
			all <- started{s, err}
		}()
	}
	var servers []*embed.Server
	for range routes {
		s := <-all
		if s.err != nil {
			t.Fatal(s.err)
		}
		t.Cleanup(s.s.Stop)
		servers = append(servers, s.s)
	}
	return servers
}

// run runs a service until the test ends.
func run(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func connect(t *testing.T, s *embed.Server) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(s.URL(), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		if f() {
			return
		}
	}
	t.Fatalf("waited %v for: %s", patience, what)
}

// led waits until the servers have a leader and place streams on all three.
func led(t *testing.T, nc *nats.Conn) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "a stream on three servers", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, Replicas: 3})
		return err == nil && js.DeleteStream(ctx, "S") == nil
	})
}

// A session that was switched through one server is switched for whoever asks through another, at once:
// listings and calls never see what was before (agentscope-spec §2.3, case of a stale follower).
func TestNoStaleSession(t *testing.T) {
	servers := cluster(t)
	led(t, connect(t, servers[0]))
	tools := toolkit.New()
	for i := range 2 {
		name := "tool" + strconv.Itoa(i)
		err := tools.Add(toolkit.MustDefine(name, "A tool.", func(context.Context, struct{}) (string, error) { return name, nil },
			&toolkit.Options{Group: "group" + strconv.Itoa(i), ReadOnly: true}))
		if err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range servers {
		d, err := dispatcher.New(connect(t, s), dispatcher.Config{Name: fmt.Sprintf("d%d", i), Replicas: 3, NoHistory: true})
		if err != nil {
			t.Fatal(err)
		}
		run(t, d.Run)
		until(t, "a dispatcher", func() bool { return d.Ready() == nil })
		w, err := workers.New(connect(t, s), tools, workers.Config{Name: "w"})
		if err != nil {
			t.Fatal(err)
		}
		run(t, w.Run)
	}
	agents := make([]*agent.Client, len(servers))
	for i, s := range servers {
		c, err := agent.New(connect(t, s), agent.Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		agents[i] = c
		for _, name := range []events.ToolName{"tool0", "tool1"} {
			until(t, "a tool", func() bool {
				tl, err := c.Tool(t.Context(), name)
				return err == nil && tl.Info.Workers == len(servers)
			})
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	defer cancel()
	var wg sync.WaitGroup
	for n := range 24 { // at once, so that copies lag behind
		wg.Go(func() {
			if err := switches(ctx, agents, events.SessionID("s"+strconv.Itoa(n))); err != nil {
				t.Errorf("session %d: %v", n, err)
			}
		})
	}
	wg.Wait()
}

// switches has groups of a session switched through one server after the other, and asks through the next.
func switches(ctx context.Context, agents []*agent.Client, session events.SessionID) error {
	revision := uint64(0)
	for n := range 40 {
		on := n % 2
		change, read := agents[n%3], agents[(n+1)%3]
		group := []string{"group" + strconv.Itoa(on)}
		if n%4 < 2 { // by application code, or by the agent
			if _, err := change.SetSession(ctx, events.SessionSet{Session: session, Active: &group}); err != nil {
				return err
			}
		} else if r, err := change.Call(ctx, session, "reset_tools", fmt.Appendf(nil, `{%q:true}`, group[0])); err != nil || r.Reason != events.ReasonOK {
			return fmt.Errorf("reset: %s %w", r.Text(), err)
		}
		r, err := read.Call(ctx, session, events.ToolName("tool"+strconv.Itoa(on)), nil)
		if err != nil {
			return err
		}
		if r.Reason != events.ReasonOK || r.Meta.SessionRevision <= revision {
			return fmt.Errorf("change %d: a call ended %s at %d, after %d", n, r.Reason, r.Meta.SessionRevision, revision)
		}
		revision = r.Meta.SessionRevision
		var listed []string
		for tl, err := range read.Tools(ctx, session) {
			if err != nil {
				return err
			}
			listed = append(listed, string(tl.Name))
		}
		if want := []string{"reset_tools", "tool" + strconv.Itoa(on)}; !slices.Equal(listed, want) {
			return fmt.Errorf("change %d: listed %v, want %v", n, listed, want)
		}
	}
	return nil
}
