package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/toolwire/toolwire/internal/jet"
)

// A NATS server reads what `auth show` prints, and means by it what the table of rights says.
func TestServerReadsRights(t *testing.T) {
	t.Parallel()
	for role, want := range map[string]jet.Rights{
		"agent": jet.Names{}.AgentRights("shop"), "worker": jet.Names{}.WorkerRights("shop", "shop"), "dispatcher": jet.Names{}.DispatcherRights(),
	} {
		exit, out, stderr := command(t, t.Context(), "auth", "show", role, "--name", "shop")
		if exit != 0 {
			t.Fatal(stderr)
		}
		file := filepath.Join(t.TempDir(), "nats.conf")
		if err := os.WriteFile(file, []byte("authorization { users: [ { user: u, password: p, "+out+" } ] }\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		o, err := server.ProcessConfigFile(file)
		if err != nil {
			t.Fatalf("%s: %v\n%s", role, err, out)
		}
		p := o.Users[0].Permissions
		if !slices.Equal(p.Publish.Allow, want.Publish) || !slices.Equal(p.Subscribe.Allow, want.Subscribe) || (p.Response != nil) != want.Replies {
			t.Errorf("%s: got %+v %+v %+v, want %+v", role, p.Publish, p.Subscribe, p.Response, want)
		}
	}
}
