package main

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// natsServer runs a server of somebody else's, with a port.
func natsServer(t *testing.T, o server.Options) string {
	t.Helper()
	o.Host, o.Port, o.NoLog, o.NoSigs, o.StoreDir = "127.0.0.1", server.RANDOM_PORT, true, true, t.TempDir()
	s, err := server.NewServer(&o)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("nats-server is not ready")
	}
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return strings.Replace(s.ClientURL(), "://", "://u:p@", 1)
}

// What stands in the way at somebody else's server is told at once, with the cure.
func TestUnfitServers(t *testing.T) {
	t.Parallel()
	user := func(deny ...string) server.Options {
		return server.Options{JetStream: true, Users: []*server.User{{
			Username: "u", Password: "p",
			Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: deny}},
		}}}
	}
	other := func(o server.Options) string { return strings.Replace(natsServer(t, o), "u:p@", "u:wrong@", 1) }
	off := natsServer(t, server.Options{Users: []*server.User{{Username: "u", Password: "p"}}})
	noCalls, noJS := natsServer(t, user("toolwire.call.>")), natsServer(t, user("$JS.API.>"))
	for _, c := range []struct {
		url  string
		args string
		exit int
		says string
	}{
		{off, "dispatcher --wait 0s", 8, "JetStream is off"},
		{off, "call x", 8, "JetStream is off"},
		{off, "doctor", 1, "start nats-server with -js"},
		{noCalls, "call x --session s --turn t", 9, "may not publish to toolwire.call.local.s.t"},
		{noJS, "dispatcher --wait 0s", 9, `publish to "$JS.API.INFO"; allow that`},
		{noJS, "doctor", 1, "this user may not see the streams"},
		{other(user()), "tools ls", 9, "give credentials with --creds or --context"},
		{other(user()), "worker --wait 10s", 9, "give credentials"},
	} {
		begin := time.Now()
		exit, out, stderr := command(t, t.Context(), append(strings.Fields(c.args), "--server", c.url)...)
		if !strings.Contains(out+stderr, c.says) || exit != c.exit {
			t.Errorf("%s: exit %d, %q %q, want %d, %q", c.args, exit, out, stderr, c.exit, c.says)
		}
		if strings.Contains(out+stderr, "u:p") {
			t.Errorf("%s shows the password: %q", c.args, out+stderr)
		}
		t.Logf("%s: %s, %s", c.args, stderr, time.Since(begin).Round(time.Millisecond))
	}
}
