package agent_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/micro"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// declared answers for the declared configuration as a dispatcher does.
type declared struct {
	mu  sync.Mutex
	now events.ConfigReply
}

func (d *declared) config(r micro.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = r.RespondJSON(d.now)
}

func (d *declared) set(r micro.Request) {
	var q events.ConfigSet
	_ = json.Unmarshal(r.Data(), &q)
	d.mu.Lock()
	defer d.mu.Unlock()
	if q.Revision != d.now.Revision {
		_ = r.Error("409", "no longer at that revision", nil)
		return
	}
	d.now = events.ConfigReply{Revision: q.Revision + 1, Config: q.Config}
	_ = r.RespondJSON(d.now)
}

func TestConfig(t *testing.T) {
	t.Parallel()
	_, f, c := setup(t, nil)
	var d declared
	svc, err := micro.AddService(f.Conn(), micro.Config{Name: "configuration", Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	for op, answer := range map[string]micro.HandlerFunc{events.OpConfig: d.config, events.OpConfigSet: d.set} {
		if err := svc.AddEndpoint(op, answer, micro.WithEndpointSubject(f.Prefix()+".api.*."+op)); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	if now, err := c.Config(t.Context()); err != nil || now.Revision != 0 || now.Config != nil {
		t.Errorf("at first: %+v, %v", now, err)
	}
	config := toolkit.Config{Groups: []toolkit.Group{{Name: "a", Tools: []string{"b"}}}}
	revision, err := c.SetConfig(t.Context(), 0, config)
	if err != nil || revision != 1 {
		t.Fatalf("got %d, %v", revision, err)
	}
	now, err := c.Config(t.Context())
	var got toolkit.Config
	if err == nil {
		err = events.Unmarshal(now.Config, &got)
	}
	if d := cmp.Diff(config, got); err != nil || d != "" || now.Revision != 1 {
		t.Errorf("%v, revision %d\n-want +got:\n%s", err, now.Revision, d)
	}
	if _, err := c.SetConfig(t.Context(), 0, config); !errors.Is(err, agent.ErrConflict) {
		t.Errorf("got %v, want a conflict", err)
	}
	config.Groups[0].Name = "basic"
	if _, err := c.SetConfig(t.Context(), 1, config); !errors.Is(err, agent.ErrInvalid) || !errors.Is(err, toolkit.ErrConfig) {
		t.Errorf("got %v", err)
	}
	config.Groups[0] = toolkit.Group{Name: "a", Description: strings.Repeat("x", 1<<20)}
	if _, err := c.SetConfig(t.Context(), 1, config); !errors.Is(err, agent.ErrInvalid) {
		t.Errorf("too large: got %v", err)
	}
}
