package auth_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/auth"
	"github.com/toolwire/toolwire/internal/jet"
)

func initDir(t *testing.T) *auth.Dir {
	t.Helper()
	d, err := auth.Init(filepath.Join(t.TempDir(), "state", "auth"), jet.Names{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// add makes a credential and returns where it is.
func add(t *testing.T, d *auth.Dir, role jet.Role, name string, ttl time.Duration, pools ...string) string {
	t.Helper()
	if _, err := d.Add(role, name, pools, ttl, auth.SaveTo(d.CredsFile(name))); err != nil {
		t.Fatal(err)
	}
	return d.CredsFile(name)
}

// serve runs a server on the configuration that the directory has for servers of others.
func serve(t *testing.T, d *auth.Dir) *server.Server {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte("include "+quoted(t, file, d.Conf())+"\nlisten: 127.0.0.1:-1\njetstream: { store_dir: \""+t.TempDir()+"\" }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	o.NoLog, o.NoSigs = true, true
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("nats-server is not ready")
	}
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

// quoted is a file as an include names it: relative to the one that includes it.
func quoted(t *testing.T, from, to string) string {
	t.Helper()
	rel, err := filepath.Rel(filepath.Dir(from), to)
	if err != nil {
		t.Fatal(err)
	}
	return `"` + rel + `"`
}

func connect(s *server.Server, opts ...nats.Option) error {
	nc, err := nats.Connect(s.ClientURL(), opts...)
	if err == nil {
		nc.Close()
	}
	return err
}

// Nothing can be read by others, nothing is replaced, and what is left to be given to a server is not secret.
func TestFiles(t *testing.T) {
	t.Parallel()
	d := initDir(t)
	add(t, d, jet.RoleAgent, "ann", 0)
	err := filepath.WalkDir(d.Path(), func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if e.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s is %v, want %v", path, info.Mode().Perm(), want)
		}
		if secret := strings.HasSuffix(path, ".nk") || strings.HasSuffix(path, ".creds"); !e.IsDir() && !secret {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if strings.Contains(string(b), "SU") && strings.Contains(string(b), "SEED") {
				t.Errorf("%s has a secret", path)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(d.Path(), "keys", "operator.nk"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := auth.Init(d.Path(), jet.Names{}); !errors.Is(err, auth.ErrExists) {
		t.Errorf("got %v", err)
	}
	after, err := os.ReadFile(filepath.Join(d.Path(), "keys", "operator.nk"))
	if err != nil || string(before) != string(after) {
		t.Error("a key was replaced")
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := auth.Init(other, jet.Names{}); !errors.Is(err, auth.ErrExists) {
		t.Errorf("a directory with something in it: got %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(d.Path()), ".auth-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := auth.Open(other); !errors.Is(err, auth.ErrMissing) {
		t.Errorf("got %v", err)
	}
}

// A name has one credential at a time, of one role, and can stand in a subject as it is.
func TestNames(t *testing.T) {
	t.Parallel()
	d := initDir(t)
	add(t, d, jet.RoleOperator, "oli", 0)
	keep := func([]byte) error { return nil }
	for _, c := range []struct {
		role jet.Role
		name string
		pool string
		want error
		says string
	}{
		{"agent", "", "", auth.ErrName, "empty"},
		{"agent", "a.b", "", auth.ErrName, "only letters, digits, '-' and '_'"},
		{"agent", "*", "", auth.ErrName, "only letters"},
		{"agent", ">", "", auth.ErrName, "only letters"},
		{"agent", "a=2e", "", auth.ErrName, "only letters"},
		{"agent", "ü", "", auth.ErrName, "only letters"},
		{"agent", "a b", "", auth.ErrName, "only letters"},
		{"agent", "{{name()}}", "", auth.ErrName, "only letters"},
		{"agent", "../oli", "", auth.ErrName, "only letters"},
		{"agent", strings.Repeat("x", 129), "", auth.ErrName, ""},
		{"worker", "shop", "*", auth.ErrName, `pool "*"`},
		{"boss", "x", "", auth.ErrName, `no role "boss"; give one of agent, approver`},
		{"agent", "local", "", auth.ErrName, `dispatchers take "local" for an operator`},
		{"agent", "oli", "", auth.ErrExists, "auth rm oli"},
	} {
		var pools []string
		if c.pool != "" {
			pools = []string{c.pool}
		}
		_, err := d.Add(c.role, c.name, pools, 0, keep)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %q: got %v, want %q", c.role, c.name, err, c.says)
		}
	}
	// What cannot be saved was not made.
	if _, err := d.Add(jet.RoleAgent, "ann", nil, 0, auth.SaveTo(d.CredsFile("oli"))); !errors.Is(err, auth.ErrExists) {
		t.Errorf("got %v", err)
	}
	users, err := d.Users()
	if err != nil || len(users) != 1 || users[0].Name != "oli" || users[0].Role != jet.RoleOperator {
		t.Errorf("got %+v, %v", users, err)
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	d := initDir(t)
	begin := time.Now().Truncate(time.Second)
	got, err := auth.Read(add(t, d, jet.RoleWorker, "shop", time.Hour, "shop", "Lane-Narrow"))
	if err != nil {
		t.Fatal(err)
	}
	if got.Expires.Before(begin.Add(time.Hour)) || got.Expires.After(time.Now().Add(time.Hour)) {
		t.Errorf("expires %v", got.Expires)
	}
	got.Expires = time.Time{}
	if diff := cmp.Diff(auth.Credential{Name: "shop", Role: jet.RoleWorker, Pools: []string{"shop", "Lane-Narrow"}}, got); diff != "" {
		t.Error(diff)
	}
	for _, path := range []string{filepath.Join(d.Path(), "none"), d.Conf()} {
		if _, err := auth.Read(path); !errors.Is(err, auth.ErrBroken) {
			t.Errorf("%s: got %v", path, err)
		}
	}
}

// A server of somebody else's takes the configuration, and lets in whom it should, for as long as it should.
func TestServerConfiguration(t *testing.T) {
	t.Parallel()
	d := initDir(t)
	ann, gone := add(t, d, jet.RoleAgent, "ann", 0), add(t, d, jet.RoleAgent, "gone", 0)
	short := add(t, d, jet.RoleAgent, "short", time.Second)
	stranger := add(t, initDir(t), jet.RoleAgent, "ann", 0)
	s := serve(t, d)
	for file, want := range map[string]bool{ann: true, gone: true, stranger: false, "": false} {
		opts := []nats.Option{nats.UserCredentials(file)}
		if file == "" {
			opts = nil
		}
		if err := connect(s, opts...); (err == nil) != want {
			t.Errorf("%s: got %v", file, err)
		}
	}
	closed := make(chan struct{})
	if nc, err := nats.Connect(s.ClientURL(), nats.UserCredentials(short), nats.MaxReconnects(0),
		nats.ClosedHandler(func(*nats.Conn) { close(closed) })); err == nil {
		defer nc.Close()
		select {
		case <-closed:
		case <-time.After(10 * time.Second):
			t.Error("credentials that have expired still serve")
		}
	}
	if _, err := d.Remove("gone"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Remove("gone"); !errors.Is(err, auth.ErrMissing) {
		t.Errorf("got %v", err)
	}
	if _, err := d.Add(jet.RoleAgent, "gone", nil, 0, auth.SaveTo(gone+".new")); err != nil {
		t.Errorf("the name is not free: %v", err)
	}
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	for what, s := range map[string]*server.Server{"reloaded": s, "started anew": serve(t, d)} {
		for file, want := range map[string]bool{ann: true, gone: false, gone + ".new": true} {
			if err := connect(s, nats.UserCredentials(file)); (err == nil) != want {
				t.Errorf("after rm, %s, %s: got %v", what, file, err)
			}
		}
	}
}

// A directory of before takes on the rights of now; its credentials and keys stay. Without keys it serves
// a server as it is.
func TestRefresh(t *testing.T) {
	t.Parallel()
	s, err := events.NewSubjects("other")
	if err != nil {
		t.Fatal(err)
	}
	d, err := auth.Init(filepath.Join(t.TempDir(), "auth"), jet.Names{Subjects: s})
	if err != nil {
		t.Fatal(err)
	}
	if changed, err := d.Refresh(); err != nil || changed || d.Prefix() != "other" {
		t.Errorf("got %v, %v, prefix %s", changed, err, d.Prefix())
	}
	if err := os.RemoveAll(filepath.Join(d.Path(), "keys")); err != nil {
		t.Fatal(err)
	}
	if _, err := auth.Open(d.Path()); err != nil {
		t.Error(err)
	}
	if _, err := d.Add(jet.RoleAgent, "ann", nil, 0, nil); !errors.Is(err, auth.ErrMissing) || !strings.Contains(err.Error(), "where the keys are") {
		t.Errorf("got %v", err)
	}
}

// A credential that was made before a right was added has it once the directory is brought up to date.
func TestRefreshAddsRights(t *testing.T) {
	t.Parallel()
	d := initDir(t)
	ann := add(t, d, jet.RoleAgent, "ann", 0)
	takeAway(t, d.Path(), "agent", "toolwire.cancel.{{name()}}.>")
	old, err := auth.Open(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	if may(t, serve(t, old), ann, "toolwire.cancel.ann.s.t") {
		t.Fatal("the right is still there")
	}
	if changed, err := old.Refresh(); err != nil || !changed {
		t.Fatalf("got %v, %v", changed, err)
	}
	s := serve(t, old)
	if !may(t, s, ann, "toolwire.cancel.ann.s.t") || may(t, s, ann, "toolwire.cancel.bob.s.t") {
		t.Error("the rights are not those of the table")
	}
	if changed, err := old.Refresh(); err != nil || changed {
		t.Errorf("once more: got %v, %v", changed, err)
	}
}

// takeAway makes a directory as it was before a right was added.
func takeAway(t *testing.T, dir, role, subject string) {
	t.Helper()
	file := filepath.Join(dir, "account.jwt")
	token, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := jwt.DecodeAccountClaims(strings.TrimSpace(string(token)))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range c.SigningKeys {
		if u, ok := s.(*jwt.UserScope); ok && u.Role == role {
			u.Template.Pub.Allow.Remove(subject)
		}
	}
	seed, err := os.ReadFile(filepath.Join(dir, "keys", "operator.nk"))
	if err != nil {
		t.Fatal(err)
	}
	operator, err := nkeys.FromSeed([]byte(strings.TrimSpace(string(seed))))
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Encode(operator)
	if err != nil {
		t.Fatal(err)
	}
	conf := filepath.Join(dir, "nats-server.conf")
	text, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{file: again, conf: strings.Replace(string(text), strings.TrimSpace(string(token)), again, 1)} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func may(t *testing.T, s *server.Server, creds, subject string) bool {
	t.Helper()
	nc, err := nats.Connect(s.ClientURL(), nats.UserCredentials(creds), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if err := errors.Join(nc.Publish(subject, nil), nc.Flush()); err != nil {
		t.Fatal(err)
	}
	return nc.LastError() == nil
}

// A name that is let through is one token, and no template.
func FuzzCheckName(f *testing.F) {
	for _, s := range []string{"ann", "a.b", "*", ">", "", "a b", "{{name()}}", "a=2e", "../x", "\x00", strings.Repeat("x", 129)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if auth.CheckName("name", name) != nil {
			return
		}
		if name == "" || len(name) > 128 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" || events.Token(name) != name {
			t.Errorf("%q passes for a name", name)
		}
	})
}
