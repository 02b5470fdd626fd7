package jet_test

import (
	"fmt"
	"testing"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/internal/natstest"
)

// A batch has what is stored after a sequence, in order, as much as was asked for, and its events whole.
func TestBatch(t *testing.T) {
	t.Parallel()
	b := natstest.Start(t).Bus()
	ctx := t.Context()
	key := func(i int) events.CallKey {
		return events.CallKey{Session: events.SessionID(fmt.Sprint("s", i%2)), Turn: "t", Call: events.CallID(fmt.Sprint("c", i))}
	}
	for i := range 10 {
		e := events.Event{Attributes: events.Attributes{ID: fmt.Sprint("q", i), Source: "/test", Type: events.TypeRequireUserConfirm}, Data: []byte(`{ "n":1 }`)}
		if _, err := b.Store(ctx, jet.Out{Subject: b.Require(events.KindConfirm, "x", key(i), fmt.Sprint("r", i)), Event: e}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		filter  string
		after   uint64
		n, want int
		first   string
	}{
		{b.Under("require"), 0, 4, 4, "q0"},
		{b.Under("require"), 4, 100, 6, "q4"},
		{b.RequireAbout("", "", "s1"), 0, 100, 5, "q1"},
		{b.RequireAbout(events.KindExternal, "", ""), 0, 100, 0, ""},
		{b.Under("require"), 10, 100, 0, ""},
	} {
		got, err := b.Batch(ctx, b.QuestionsStream(), c.filter, c.after, c.n)
		if err != nil || len(got) != c.want {
			t.Errorf("%+v: %d messages, %v", c, len(got), err)
			continue
		}
		for i, m := range got {
			if m.Err != nil || m.Seq <= c.after || i > 0 && m.Seq <= got[i-1].Seq || string(m.Data) != `{ "n":1 }` || m.Time.IsZero() || i == 0 && m.Event.ID != c.first {
				t.Errorf("%+v: message %d is %+v", c, i, m)
			}
		}
	}
}
