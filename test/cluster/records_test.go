//go:build cluster

package cluster_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

// A record is read as it was last written, through whichever server.
func TestNoStaleRecord(t *testing.T) {
	servers := cluster(t)
	led(t, connect(t, servers[0]))
	buses := make([]*jet.Bus, len(servers))
	for i, s := range servers {
		var err error
		if buses[i], err = jet.NewBus(connect(t, s), events.Subjects{}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := jet.Ensure(ctx, buses[0].JetStream(), buses[0].Names, jet.Config{Replicas: 3, NoHistory: true}); err != nil {
		t.Fatal(err)
	}
	revision, bucket := uint64(0), buses[0].SessionsBucket()
	for n := range 1500 {
		value := strconv.Itoa(n)
		var err error
		if revision, err = buses[n%3].PutRecord(ctx, bucket, "s", []byte(value), revision); err != nil {
			t.Fatal(err)
		}
		for _, b := range buses {
			if r, err := b.Record(ctx, bucket, "s"); err != nil || string(r.Data) != value {
				t.Fatalf("write %d: read %+v, %v", n, r, err)
			}
		}
	}
}
