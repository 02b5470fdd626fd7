package main

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/internal/auth"
	"github.com/toolwire/toolwire/internal/console"
	"github.com/toolwire/toolwire/internal/embed"
	"github.com/toolwire/toolwire/internal/jet"
)

// guardFlags say whom a server of this process lets in.
type guardFlags struct {
	on  bool
	dir string
}

func (f *guardFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.on, "auth", false, "let in only who has credentials of `toolwire auth`; makes keys at its first start")
	cmd.Flags().StringVar(&f.dir, "auth-dir", "", "the same, with keys in `directory` (TOOLWIRE_AUTH_DIR; default: toolwire/auth in the state directory of the user)")
	_ = cmd.MarkFlagDirname("auth-dir")
}

// guard opens the directory of keys, or makes it with a credential of an operator; nil: everybody is let in.
func (a *app) guard(f guardFlags) (*auth.Dir, error) {
	if !f.on && f.dir == "" {
		return nil, nil //nolint:nilnil // nobody is kept out
	}
	d, err := a.openAuth(f.dir)
	if errors.Is(err, auth.ErrMissing) {
		if d, err = a.firstGuard(f); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, err
	}
	if d.Prefix() != a.prefixOrDefault() {
		return nil, usagef("the keys in %s are for the prefix %s, not %s; give --prefix %s, or another directory", d.Path(), d.Prefix(), a.prefixOrDefault(), d.Prefix())
	}
	if _, err := d.Refresh(); errors.Is(err, auth.ErrMissing) {
		a.note("the rights in %s are those of another version, and the keys to change them are not there; start this once where they are", d.Path())
	} else if err != nil {
		return nil, err
	}
	return d, nil
}

func (a *app) firstGuard(f guardFlags) (*auth.Dir, error) {
	path, err := a.authDir(f.dir)
	if err != nil {
		return nil, err
	}
	n, err := a.names()
	if err != nil {
		return nil, err
	}
	d, err := auth.Init(path, n)
	if err != nil {
		return nil, err
	}
	_, err = d.Add(jet.RoleOperator, auth.LocalOperator, nil, 0, auth.SaveTo(d.CredsFile(auth.LocalOperator)))
	a.note("made keys in %s, and credentials of an operator: %s", d.Path(), d.CredsFile(auth.LocalOperator))
	return d, err
}

// openAccount is where a server keeps what belongs to nobody with credentials.
const openAccount = "$G"

// trust gives a server the keys that it is to believe. What is stored belongs to the installation with these
// keys, or to the one without any: a server does not start on data of others.
func (a *app) trust(cfg *embed.Config, keys *auth.Dir) error {
	account := openAccount
	if keys != nil {
		t := keys.Trust()
		cfg.Auth, account = &t, keys.Account()
	}
	entries, err := os.ReadDir(filepath.Join(cfg.Store, "jetstream"))
	if err != nil {
		return nil //nolint:nilerr // nothing is stored, or the server will say what is wrong
	}
	of := ""
	for _, e := range entries {
		switch name := e.Name(); {
		case name == account:
			return nil
		case name == openAccount:
			of = "without credentials; start it without --auth"
		case auth.IsAccount(name) && keys == nil:
			of = "with credentials; start it with --auth"
		case auth.IsAccount(name):
			of = "with other keys than those in " + keys.Path() + "; give theirs with --auth-dir"
		}
	}
	if of == "" {
		return nil
	}
	return usagef("%s has the data of an installation %s, or choose another directory with --store", cfg.Store, of)
}

// inside are the connections of the parts of `up`, each with rights of its own.
type inside struct {
	srv   *embed.Server
	keys  *auth.Dir // nil: all may do everything
	conns []*nats.Conn
	page  *console.Console // nil: none is served
}

func (in *inside) connect(part string, role jet.Role, name string, pools ...string) (*nats.Conn, error) {
	opts := []nats.Option{nats.InProcessServer(in.srv), nats.Name("toolwire " + part), nats.MaxReconnects(-1)}
	if in.keys != nil {
		token, seed, err := in.keys.Issue(role, name, pools...)
		if err != nil {
			return nil, err
		}
		opts = append(opts, nats.UserJWTAndSeed(token, string(seed)))
	}
	nc, err := nats.Connect("", opts...)
	if err == nil {
		in.conns = append(in.conns, nc)
	}
	return nc, err
}

// operators are those who have been given a credential as such, and `up` itself; nil: the default.
func (in *inside) operators() ([]string, error) {
	if in.keys == nil {
		return nil, nil
	}
	users, err := in.keys.Users()
	if err != nil {
		return nil, err
	}
	names := []string{auth.LocalOperator}
	for _, u := range users {
		if u.Role == jet.RoleOperator && u.Name != auth.LocalOperator {
			names = append(names, u.Name)
		}
	}
	return names, nil
}

func (in *inside) close() {
	for _, nc := range in.conns {
		nc.Close()
	}
}
