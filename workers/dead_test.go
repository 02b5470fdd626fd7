package workers_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/workers"
)

// What cannot be read is copied, then settled, then gone; and it says why.
func TestDeadLetter(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*jet.Out, *events.ToolWork)
		why    string
	}{
		"body is no JSON":            {func(o *jet.Out, _ *events.ToolWork) { o.Event.Data = []byte("{") }, ""},
		"unknown version":            {func(o *jet.Out, _ *events.ToolWork) { o.Event.Type = "io.toolwire.v2.ToolWork" }, "v2"},
		"another type":               {func(o *jet.Out, _ *events.ToolWork) { o.Event.Type = events.TypeToolCalls }, "ToolCalls"},
		"attributes of another call": {func(o *jet.Out, _ *events.ToolWork) { o.Event.Call = "c2" }, "contradict"},
		"another session":            {func(o *jet.Out, _ *events.ToolWork) { o.Event.Session = "theirs" }, "contradict"},
		"body of another call":       {func(_ *jet.Out, w *events.ToolWork) { w.Call.ID = "c2" }, "subject"},
		"body of another tool":       {func(_ *jet.Out, w *events.ToolWork) { w.Call.Name = "other" }, "subject"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				var runs atomic.Int32
				w := b.start(workers.Config{}, counted("charge", &runs, nil, nil))
				b.dispatch("charge", "c1", func(o *jet.Out, w *events.ToolWork) {
					o.Header = nats.Header{"Nats-Expected-Stream": {b.bus.WorkStream()}}
					c.change(o, w)
				})
				r := b.result("c1", time.Second)
				b.want(r, events.ReasonDeadLetter)
				subject := b.bus.Work("pool", "charge", key("c1"))
				s, err := b.bus.Fact(b.Context(), b.bus.Dead("work", subject))
				if err != nil {
					b.Fatal(err)
				}
				if s.Header.Get(events.HeaderDeadSubject) != subject || !strings.Contains(s.Header.Get(events.HeaderDeadReason), c.why) ||
					s.Header.Get(events.HeaderDeadReason) == "" {
					b.Errorf("headers: got %v", s.Header)
				}
				if got := s.Header.Get(nats.MsgIdHdr); got != b.bus.WorkStream()+"-1" {
					b.Errorf("message id: got %q", got)
				}
				if start, _ := b.startStored("c1"); start.Settle != events.ReasonDeadLetter {
					b.Errorf("start: got %+v", start)
				}
				if runs.Load() != 0 || w.Stats().Dead != 1 {
					b.Errorf("%d runs, %d dead letters", runs.Load(), w.Stats().Dead)
				}
				b.idle()
			})
		})
	}
}

// A subject that names no call has nobody to hear of it: the copy is all.
func TestDeadLetterWithoutACall(t *testing.T) {
	bubble(t, func(b *bench) {
		var runs atomic.Int32
		b.start(workers.Config{}, counted("charge", &runs, nil, nil))
		if _, err := b.bus.JetStream().Publish(b.Context(), "toolwire.work.pool.charge.s", []byte("x")); err != nil {
			b.Fatal(err)
		}
		time.Sleep(time.Second)
		if _, err := b.bus.Fact(b.Context(), "toolwire.dead.work.work.pool.charge.s"); err != nil {
			b.Error(err)
		}
		b.idle()
	})
}

// The body of the work has gone: looked for a few times, then a dead letter.
func TestBodyOfTheWorkIsGone(t *testing.T) {
	bubble(t, func(b *bench) {
		var runs atomic.Int32
		b.start(workers.Config{}, counted("charge", &runs, nil, nil))
		b.dispatch("charge", "c1", func(o *jet.Out, _ *events.ToolWork) {
			o.Event.DataRef = "toolwire-body:gone?chunks=1&size=1&sha256=" + strings.Repeat("0", 64)
			o.Event.Data = []byte{}
		})
		b.want(b.result("c1", time.Minute), events.ReasonDeadLetter)
		b.idle()
	})
}

// A dead letter's result cannot be stored yet, and its worker dies: the work is still there.
func TestDeadLetterIsSettledBeforeItIsGone(t *testing.T) {
	bubble(t, func(b *bench) {
		b.journalLimit(1)
		var runs atomic.Int32
		first := b.start(workers.Config{}, counted("charge", &runs, nil, nil))
		b.dispatch("charge", "c1", func(o *jet.Out, _ *events.ToolWork) { o.Event.Data = []byte("{") })
		time.Sleep(time.Minute)
		first.kill()
		b.journalLimit(-1)
		b.start(workers.Config{}, counted("charge", &runs, nil, nil))
		b.want(b.result("c1", time.Minute), events.ReasonDeadLetter)
		b.idle()
	})
}

// The dead letter cannot be copied: the work stays until it can.
func TestDeadLetterIsCopiedBeforeItIsSettled(t *testing.T) {
	bubble(t, func(b *bench) {
		if err := b.bus.JetStream().DeleteStream(b.Context(), b.bus.DeadStream()); err != nil {
			b.Fatal(err)
		}
		var runs atomic.Int32
		b.start(workers.Config{}, counted("charge", &runs, nil, nil))
		b.dispatch("charge", "c1", func(o *jet.Out, _ *events.ToolWork) { o.Event.Data = []byte("{") })
		time.Sleep(20 * time.Second)
		if _, err := b.bus.Fact(b.Context(), b.bus.Result(key("c1"))); !errors.Is(err, jet.ErrNone) {
			b.Errorf("result before the copy: %v", err)
		}
		if err := jet.Ensure(b.Context(), b.bus.JetStream(), b.bus.Names, jet.Config{NoHistory: true}); err != nil {
			b.Fatal(err)
		}
		b.want(b.result("c1", time.Minute), events.ReasonDeadLetter)
		b.idle()
	})
}

// A dead letter may be as large as a message can be, in its body or its headers: it is put aside all the same.
func TestLargeDeadLetter(t *testing.T) {
	for name, m := range map[string]nats.Msg{
		"body":    {Data: make([]byte, 1<<20)},
		"headers": {Header: nats.Header{"ce-id": {strings.Repeat("x", 64<<10-64)}}},
		"both":    {Header: nats.Header{"ce-id": {strings.Repeat("x", 64<<10-64)}}, Data: make([]byte, 900<<10)},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				var runs atomic.Int32
				b.start(workers.Config{}, counted("charge", &runs, nil, nil))
				m.Subject = b.bus.Work("pool", "charge", key("c1"))
				if _, err := b.bus.JetStream().PublishMsg(b.Context(), &m); err != nil {
					b.Fatal(err)
				}
				b.want(b.result("c1", time.Second), events.ReasonDeadLetter)
				b.idle()
			})
		})
	}
}
