package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/micro"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/natstest"
	"github.com/toolwire/toolwire/toolkit"
)

// A change between plan and apply is not overwritten, and said as one.
func TestApplyConflict(t *testing.T) {
	t.Parallel()
	nc := natstest.Start(t).Conn()
	svc, err := micro.AddService(nc, micro.Config{Name: "configuration", Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	sets := make(chan events.ConfigSet, 1)
	for op, answer := range map[string]micro.HandlerFunc{
		events.OpConfig: func(r micro.Request) {
			_ = r.RespondJSON(events.ConfigReply{Revision: 7, Config: json.RawMessage(`{"noMetaTool":true}`)})
		},
		events.OpConfigSet: func(r micro.Request) {
			var q events.ConfigSet
			_ = json.Unmarshal(r.Data(), &q)
			sets <- q
			_ = r.Error("409", "no longer at revision 7", nil)
		},
	} {
		if err := svc.AddEndpoint(op, answer, micro.WithEndpointSubject("toolwire.api.*."+op)); err != nil {
			t.Fatal(err)
		}
	}
	c, err := agent.New(nc, agent.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var out, note bytes.Buffer
	a := &app{streams: streams{strings.NewReader(""), &out, &note}}
	err = a.applyConfig(t.Context(), c, toolkit.Config{Groups: []toolkit.Group{{Name: "a"}}}, applyFlags{})
	text, exit := describe(err)
	if exit != 4 || !strings.Contains(text, "somebody else changed the configuration meanwhile; nothing was changed, run it again") {
		t.Errorf("got %d, %s", exit, text)
	}
	if want := "+ group a: scope meta\n~ setting: metaTool false → true\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	if q := <-sets; q.Revision != 7 || string(q.Config) != `{"groups":[{"name":"a"}]}` {
		t.Errorf("set %d %s", q.Revision, q.Config)
	}
}

func TestConfirm(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]bool{"y\n": true, "Yes \n": true, "\n": false, "": false, "no\n": false, "yeah": false} {
		var note bytes.Buffer
		a := &app{streams: streams{strings.NewReader(in), nil, &note}}
		if got := a.confirm(t.Context(), 3); got != want || note.String() != "Changes to make: 3. Make them? [y/N] " {
			t.Errorf("%q: got %t after %q", in, got, note.String())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in, end := io.Pipe()
	defer end.Close() //nolint:errcheck // a pipe
	a := &app{streams: streams{in, nil, io.Discard}}
	if a.confirm(ctx, 1) {
		t.Error("confirmed without an answer")
	}
}
