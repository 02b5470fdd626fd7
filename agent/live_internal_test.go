package agent

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

func FuzzLiveKey(f *testing.F) {
	f.Add("s", "t", "c")
	f.Add("a.b", "*", ">")
	f.Add("會話", " ", "=2E")
	f.Fuzz(func(t *testing.T, session, turn, call string) {
		c := &Client{bus: &jet.Bus{}}
		k := events.CallKey{Session: events.SessionID(session), Turn: events.TurnID(turn), Call: events.CallID(call)}
		key, token, ok := c.liveKey(c.bus.Live(c.bus.Result(k)))
		p := newPending(c, k.Session, k.Turn, []events.CallID{k.Call})
		if _, _, open := p.find(token); !ok || key != p.key || !open {
			t.Errorf("%q: got %q, %q, %v", k, key, token, ok)
		}
		if key, _, ok := c.liveKey(session); ok && !strings.HasPrefix(session, "toolwire.live.result."+key+".") {
			t.Errorf("%q: read as %q", session, key)
		}
	})
}

// FuzzPending applies deliveries and ends in any order: a call's first result counts, nothing
// comes after an end, and readers see what arrived, in that order.
func FuzzPending(f *testing.F) {
	f.Add([]byte{0, 1, 2})
	f.Add([]byte{2, 2, 0xff, 0})
	f.Add([]byte{1, 0xfe, 1, 0, 2})
	f.Fuzz(func(t *testing.T, steps []byte) {
		const calls = 3
		p := newPending(&Client{}, "s", "t", []events.CallID{"a", "b", "c"})
		var want []int
		ended := false
		for n, step := range steps {
			switch step {
			case 0xff:
				p.Close()
				ended = true
			case 0xfe:
				p.refer(int(step)%calls, events.Event{})
			default:
				i := int(step) % calls
				if _, _, open := p.find(p.slots[i].token); open && !ended {
					want = append(want, n)
				}
				p.deliver(i, events.ToolResult{Meta: events.ResultMeta{Attempt: n}})
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		n := 0
		for r, err := range p.Results(ctx) {
			switch {
			case err == nil && (n >= len(want) || r.Meta.Attempt != want[n]):
				t.Fatalf("result %d is that of step %d, want %v", n, r.Meta.Attempt, want)
			case err == nil:
				n++
			case n < len(want), ended && !errors.Is(err, ErrClosed), !ended && !errors.Is(err, context.Canceled):
				t.Fatalf("after %d of %d results: %v", n, len(want), err)
			}
		}
		if n != len(want) {
			t.Errorf("%d results, want %d", n, len(want))
		}
	})
}
