package main

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/internal/natstest"
)

// The two halves of the example, with a dispatcher between them.
func TestHello(t *testing.T) {
	t.Parallel()
	srv := natstest.Start(t)
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	d, err := dispatcher.New(srv.Conn(), dispatcher.Config{NoHistory: true})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 2)
	go func() { ended <- d.Run(ctx) }()
	go func() { ended <- work(ctx, srv.Conn()) }()
	t.Cleanup(func() {
		stop()
		for range cap(ended) {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})

	// A tool that nobody has announced yet is not_found, which is a result like any other.
	want := "c1 ok: hello world\nhello world\n\nc2 tool_error: nobody is not here; greet somebody else\n"
	var got string
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for ; got != want && ctx.Err() == nil; <-again.C {
		var out bytes.Buffer
		if err := call(ctx, srv.Conn(), &out); err != nil {
			t.Fatal(err)
		}
		got = out.String()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
