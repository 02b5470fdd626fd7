package jet_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/internal/natstest"
)

// Records are written by compare-and-set, and read back the same by either way of reading.
func TestRecords(t *testing.T) {
	t.Parallel()
	for _, direct := range []bool{false, true} {
		b := natstest.Start(t).Bus()
		b.ReadDirectly(direct)
		ctx, bucket := t.Context(), b.SessionsBucket()
		if _, err := b.Record(ctx, bucket, "s=2E1"); !errors.Is(err, jet.ErrNone) {
			t.Fatalf("direct %v: read of nothing: %v", direct, err)
		}
		first, err := b.PutRecord(ctx, bucket, "s=2E1", []byte("one"), 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.PutRecord(ctx, bucket, "s=2E1", []byte("two"), 0); !errors.Is(err, jet.ErrConflict) {
			t.Fatalf("direct %v: created twice: %v", direct, err)
		}
		second, err := b.PutRecord(ctx, bucket, "s=2E1", []byte("two"), first)
		if err != nil {
			t.Fatal(err)
		}
		r, err := b.Record(ctx, bucket, "s=2E1")
		if err != nil || string(r.Data) != "two" || r.Revision != second || r.At.IsZero() {
			t.Fatalf("direct %v: read %+v, %v, want two at revision %d", direct, r, err, second)
		}
		key, r, err := b.RecordAfter(ctx, bucket, 1)
		if err != nil || key != "s=2E1" || r.Revision != second {
			t.Fatalf("direct %v: the first record is %q %+v, %v", direct, key, r, err)
		}
		if err := b.DropRecord(ctx, bucket, first); !errors.Is(err, jet.ErrConflict) {
			t.Fatalf("direct %v: a record that was changed meanwhile was dropped: %v", direct, err)
		}
		if err := b.DropRecord(ctx, bucket, second); err != nil {
			t.Fatal(err)
		}
		if err := b.DropRecord(ctx, bucket, second); !errors.Is(err, jet.ErrConflict) {
			t.Fatalf("direct %v: dropped twice: %v", direct, err)
		}
		if _, err := b.Record(ctx, bucket, "s=2E1"); !errors.Is(err, jet.ErrNone) {
			t.Fatalf("direct %v: read after the drop: %v", direct, err)
		}
		if _, _, err := b.RecordAfter(ctx, bucket, 1); !errors.Is(err, jet.ErrNone) {
			t.Fatalf("direct %v: a record is left: %v", direct, err)
		}
		if _, err := b.PutRecord(ctx, bucket, "s=2E1", []byte("three"), 0); err != nil {
			t.Fatalf("direct %v: not created again: %v", direct, err)
		}
	}
}

// Documents are changed by compare-and-set. A try whose acknowledgement was lost is the same write.
func TestDocuments(t *testing.T) {
	t.Parallel()
	b := natstest.Start(t).Bus()
	ctx, session := t.Context(), events.SessionID("s.1")
	if _, err := b.Document(ctx, session, "to do"); !errors.Is(err, jet.ErrNone) {
		t.Fatalf("read of nothing: %v", err)
	}
	first, err := b.PutDocument(ctx, session, "to do", []byte(`{"n":1}`), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []uint64{0, first + 1} {
		if _, err := b.PutDocument(ctx, session, "to do", []byte(`{"n":9}`), wrong); !errors.Is(err, jet.ErrConflict) {
			t.Errorf("written at revision %d: %v", wrong, err)
		}
	}
	second, err := b.PutDocument(ctx, session, "to do", []byte(`{"n":2}`), first)
	if err != nil {
		t.Fatal(err)
	}
	d, err := b.Document(ctx, session, "to do")
	if err != nil || string(d.Data) != `{"n":2}` || d.Revision != second {
		t.Errorf("got %+v, %v, want n 2 at revision %d", d, err, second)
	}
	if _, err := b.PutDocument(ctx, "s.2", "to do", []byte(`{}`), 0); err != nil {
		t.Errorf("another session: %v", err)
	}
}

// The acknowledgement of a write is lost: it is found again, and not made twice.
func TestDocumentWhoseAcknowledgementIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := natstest.Start(t).Bus()
		var writes atomic.Int32
		if _, err := b.Conn().Subscribe(b.State("s", "n"), func(m *nats.Msg) {
			if writes.Add(1) == 1 { // the answer of the stream comes after this one
				_ = m.Respond([]byte(`{"error":{"code":503,"err_code":10008,"description":"away"}}`))
			}
		}); err != nil {
			t.Fatal(err)
		}
		if err := b.Conn().Flush(); err != nil {
			t.Fatal(err)
		}
		seq, err := b.PutDocument(t.Context(), "s", "n", []byte(`1`), 0)
		if err != nil || seq != 1 || writes.Load() > 2 {
			t.Errorf("got %d, %v after %d writes, want 1 and the first write found", seq, err, writes.Load())
		}
		time.Sleep(time.Minute)
	})
}
