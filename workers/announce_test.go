package workers_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/workers"
)

type heard struct {
	msg *nats.Msg
	ann events.Announce
}

func (b *bench) listen() func() []heard {
	b.Helper()
	in := make(chan *nats.Msg, 1024)
	sub, err := b.bus.Conn().ChanSubscribe(b.bus.Under("announce"), in)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = sub.Unsubscribe() })
	return func() (out []heard) {
		for len(in) > 0 {
			m := <-in
			h := heard{msg: m}
			e, err := events.Decode(m.Header, m.Data)
			if err == nil {
				err = events.Unmarshal(e.Data, &h.ann)
			}
			if err != nil || e.Type != events.TypeAnnounce {
				b.Errorf("announcement %s of %s: %v", m.Data, e.Type, err)
			}
			out = append(out, h)
		}
		return out
	}
}

func TestAnnounces(t *testing.T) {
	bubble(t, func(b *bench) {
		hear := b.listen()
		var runs atomic.Int32
		tools := []*toolkit.Tool{counted("charge", &runs, nil, nil), counted("narrow", &runs, &toolkit.Options{MaxInFlight: 3}, nil)}
		w := b.start(workers.Config{Name: "billing", Slots: 5}, tools...)
		time.Sleep(time.Second)
		first := hear()
		if len(first) != 2 {
			b.Fatalf("heard %d announcements at the start, want 2", len(first))
		}
		for i, pool := range []string{"billing", "lane-narrow"} {
			def := tools[i].Definition()
			want := events.Announce{
				Worker: "billing", Instance: w.Instance(), Pool: pool, Tool: def.Name, Definition: def.Hash(),
				StartedAt: first[i].ann.StartedAt, Slots: []int{5, 3}[i],
			}
			if diff := cmp.Diff(want, first[i].ann); diff != "" {
				b.Errorf("announcement (-want +got):\n%s", diff)
			}
			if want := b.bus.Announce("billing", def.Name); first[i].msg.Subject != want {
				b.Errorf("subject: got %s, want %s", first[i].msg.Subject, want)
			}
			m, err := b.bus.Conn().Request(first[i].msg.Reply, nil, time.Second)
			if err != nil {
				b.Fatal(err)
			}
			if toolkit.HashOf(m.Data) != def.Hash() {
				b.Errorf("definition: got %s", m.Data)
			}
			var got toolkit.Definition
			if err := json.Unmarshal(m.Data, &got); err != nil || got.Name != def.Name {
				b.Errorf("definition: got %+v, %v", got, err)
			}
		}
		time.Sleep(15 * time.Second)
		if n := len(hear()); n != 6 {
			b.Errorf("heard %d announcements in 15 s, want 6", n)
		}
		if err := w.end(); err != nil {
			b.Error(err)
		}
		last := hear()
		if len(last) != 2 || !last[0].ann.Gone || !last[1].ann.Gone {
			b.Errorf("at the end: got %+v, want 2 that say gone", last)
		}
	})
}

func TestAnnouncesWhatAilsIt(t *testing.T) {
	bubble(t, func(b *bench) {
		hear := b.listen()
		let := make(chan struct{})
		var runs atomic.Int32
		b.start(workers.Config{Grace: time.Second}, counted("stuck", &runs, &toolkit.Options{Timeout: time.Second}, func(context.Context) (string, error) {
			<-let
			return "", nil
		}))
		b.dispatch("stuck", "c1", nil)
		time.Sleep(20 * time.Second)
		all := hear()
		if all[0].ann.Unhealthy != "" {
			b.Errorf("at the start: %q", all[0].ann.Unhealthy)
		}
		if last := all[len(all)-1].ann; !strings.Contains(last.Unhealthy, "slots are held") {
			b.Errorf("announces %q", last.Unhealthy)
		}
		close(let)
	})
}

// T-59: ready means pulling from a server that is there; a worker that merely lives is not ready.
func TestReadyMeansPulling_T59(t *testing.T) {
	bubble(t, func(b *bench) {
		var runs atomic.Int32
		w := b.prepareOn(b.srv.Lasting(), workers.Config{}, counted("x", &runs, nil, nil))
		if w.Ready() == nil {
			b.Error("ready before it runs")
		}
		b.run(w)
		time.Sleep(time.Second)
		if err := w.Ready(); err != nil {
			b.Errorf("ready: %v", err)
		}
		if err := w.Health(); err != nil {
			b.Errorf("health: %v", err)
		}
		b.srv.Stop()
		time.Sleep(time.Second)
		if w.Ready() == nil {
			b.Error("ready without a server")
		}
		b.restart()
		time.Sleep(5 * time.Second)
		if err := w.Ready(); err != nil {
			b.Errorf("ready again: %v", err)
		}
		b.dispatch("x", "c1", nil)
		b.want(b.result("c1", 10*time.Second), events.ReasonOK)
		if err := w.end(); err != nil || w.Ready() == nil {
			b.Errorf("after its end: %v, ready %v", err, w.Ready())
		}
	})
}
