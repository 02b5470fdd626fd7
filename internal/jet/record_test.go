package jet_test

import (
	"errors"
	"testing"

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
		for range 2 { // the second time it is gone already
			if err := b.DropRecord(ctx, bucket, second); err != nil {
				t.Fatal(err)
			}
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
