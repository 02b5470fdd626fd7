package jet

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Every request gets its own answer, however many are under way, and whoever gave up.
func TestRequestsGetTheirOwnAnswers(t *testing.T) {
	t.Parallel()
	s, err := server.NewServer(&server.Options{ServerName: "plain", DontListen: true, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("nats-server is not ready")
	}
	defer s.WaitForShutdown()
	defer s.Shutdown()
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Subscribe("echo", func(m *nats.Msg) { _ = m.Respond(m.Data); _ = m.Respond(m.Data) }); err != nil {
		t.Fatal(err)
	}
	r := newRequests(nc)
	var wg sync.WaitGroup
	for g := range 32 {
		wg.Go(func() {
			for i := range 100 {
				want := strconv.Itoa(g*1000 + i)
				ctx, cancel := context.WithCancel(t.Context())
				if i%7 == 0 {
					cancel() // races with the answer
				}
				m, err := r.do(ctx, &nats.Msg{Subject: "echo", Data: []byte(want)})
				cancel()
				if err == nil && string(m.Data) != want {
					t.Errorf("got the answer %s, want %s", m.Data, want)
				}
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("request %s: %v", want, err)
				}
			}
		})
	}
	wg.Wait()
	if _, err := r.do(t.Context(), &nats.Msg{Subject: "nobody"}); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("nobody there: got %v, want ErrNoResponders", err)
	}
	if len(r.waiting) != 0 {
		t.Errorf("%d requests still wait", len(r.waiting))
	}
}
