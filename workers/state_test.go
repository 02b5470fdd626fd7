package workers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/workers"
)

// note appends the id of its call to the document notes.
func note() *toolkit.Tool {
	return toolkit.MustDefine("note", "keeps a line", func(ctx context.Context, _ none) (string, error) {
		call, _ := toolkit.CallFrom(ctx)
		return "kept", toolkit.UpdateState(ctx, "notes", func(lines *[]string) error {
			*lines = append(*lines, string(call.Key.Call))
			return nil
		})
	}, &toolkit.Options{StateInjected: true, Idempotent: true})
}

// ST1: calls of a session run on two workers at once, and all of their changes are in the document;
// another session has its own.
func TestStateOfTwoWorkers_ST1(t *testing.T) {
	bubble(t, func(b *bench) {
		for range 2 {
			b.start(workers.Config{}, note())
		}
		const n = 12
		for i := range n {
			b.dispatch("note", fmt.Sprintf("c%02d", i), nil)
		}
		other := events.CallKey{Session: "s 2", Turn: "t.1", Call: "theirs"}
		b.dispatch("note", "theirs", func(o *jet.Out, _ *events.ToolWork) {
			o.Subject = b.bus.Work("pool", "note", other)
			o.Event.Session = other.Session
		})
		for i := range n {
			b.want(b.result(fmt.Sprintf("c%02d", i), time.Minute), events.ReasonOK)
		}
		b.idle()
		lines := b.document(key("").Session)
		slices.Sort(lines)
		if len(slices.Compact(lines)) != n || lines[0] != "c00" || lines[n-1] != "c11" {
			b.Errorf("got %v, want each of %d calls once", lines, n)
		}
		if theirs := b.document(other.Session); !slices.Equal(theirs, []string{"theirs"}) {
			b.Errorf("the other session has %v", theirs)
		}
	})
}

func (b *bench) document(session events.SessionID) (lines []string) {
	b.Helper()
	d, err := b.bus.Document(b.Context(), session, "notes")
	if err == nil {
		err = json.Unmarshal(d.Data, &lines)
	}
	if err != nil {
		b.Fatal(err)
	}
	return lines
}

// The stream of documents is away: the model hears that the tool is unavailable, or out of time, and
// nothing of the machinery.
func TestStateOutOfReach(t *testing.T) {
	bubble(t, func(b *bench) {
		if err := b.bus.JetStream().DeleteStream(b.Context(), b.bus.StateStream()); err != nil {
			b.Fatal(err)
		}
		b.start(workers.Config{}, note())
		b.dispatch("note", "c1", nil)
		b.want(b.result("c1", 10*time.Minute), events.ReasonUnavailable)
		if _, err := b.bus.Document(b.Context(), key("").Session, "notes"); errors.Is(err, jet.ErrNone) {
			b.Error("the stream is there")
		}
	})
}
