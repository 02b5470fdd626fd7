package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/synadia-io/orbit.go/natscontext"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/internal/jet"
)

// connFlags say which installation a command talks to, and as whom.
type connFlags struct {
	server, context, creds, prefix, agent string
	tls                                   tlsFlags
}

func (f *connFlags) register(root *cobra.Command) {
	p := root.PersistentFlags()
	p.StringVar(&f.server, "server", "", "NATS `URL`, several separated by commas (TOOLWIRE_SERVER, NATS_URL)")
	p.StringVar(&f.context, "context", "", "`name` of a context of the nats CLI (NATS_CONTEXT)")
	p.StringVar(&f.creds, "creds", "", "credentials `file` (TOOLWIRE_CREDS, NATS_CREDS)")
	p.StringVar(&f.prefix, "prefix", "", "first token of all subjects: the installation (TOOLWIRE_PREFIX; default toolwire)")
	p.StringVar(&f.agent, "agent", "", "agent identity to act as (TOOLWIRE_AGENT; default: whose the credentials are, without any local)")
	f.registerTLS(p)
}

// alone refuses flags that say where to connect, in a command that brings a server of its own.
func (a *app) alone() error {
	if a.conn.server != "" || a.conn.context != "" || a.conn.creds != "" {
		return usagef("this brings a NATS server of its own and connects to no other; leave out --server, --context and --creds. " +
			"`toolwire dispatcher` and `toolwire worker` join a server")
	}
	return nil
}

// setting is a flag's value or that of the first environment variable that is set.
func (a *app) setting(flag string, vars ...string) string {
	if flag != "" {
		return flag
	}
	for _, v := range vars {
		if a.env[v] != "" {
			return a.env[v]
		}
	}
	return ""
}

func (a *app) prefix() string { return a.setting(a.conn.prefix, "TOOLWIRE_PREFIX") }

// target is where to connect, found once per command.
type target struct {
	where string // for people: no password in it
	dial  func(...nats.Option) (*nats.Conn, error)
}

// target goes through the ways to name a server, the most explicit first.
func (a *app) target() (target, error) {
	own, err := a.tlsOptions()
	if err != nil {
		return target{}, err
	}
	if creds := a.setting(a.conn.creds, "TOOLWIRE_CREDS", "NATS_CREDS"); creds != "" {
		if _, err := os.Stat(creds); err != nil {
			return target{}, usagef("credentials: %v; give the file that `toolwire auth add` or `nsc` wrote with --creds", err)
		}
		if err := a.hold(creds); err != nil {
			return target{}, err
		}
		own = append(own, nats.UserCredentials(creds))
	}
	named := func(name string) target {
		return target{"context " + name, func(o ...nats.Option) (*nats.Conn, error) {
			nc, settings, err := natscontext.Connect(name, append(o, own...)...)
			if err == nil && len(a.held.Name) == 0 {
				a.holdOf(settings)
			}
			if err != nil && (strings.HasPrefix(err.Error(), "unknown context") || strings.HasPrefix(err.Error(), "invalid context")) {
				err = fmt.Errorf("%w: %w", errContext, err)
			}
			return nc, err
		}}
	}
	at := func(urls, from string) target {
		return target{redact(urls) + from, func(o ...nats.Option) (*nats.Conn, error) {
			return nats.Connect(urls, append(o, own...)...)
		}}
	}
	switch {
	case a.conn.server != "" && a.conn.context != "":
		return target{}, usagef("--server and --context both name a server; give one of them")
	case a.conn.server != "":
		return at(a.conn.server, ""), nil
	case a.conn.context != "":
		return named(a.conn.context), nil
	case a.env["TOOLWIRE_SERVER"] != "":
		return at(a.env["TOOLWIRE_SERVER"], " (TOOLWIRE_SERVER)"), nil
	case a.env["NATS_CONTEXT"] != "":
		return named(a.env["NATS_CONTEXT"]), nil
	case a.env["NATS_URL"] != "":
		return at(a.env["NATS_URL"], " (NATS_URL)"), nil
	}
	if local, ok := a.readLocal(); ok {
		return at(local.URL, " (where the last `toolwire up` ran)"), nil
	}
	return at(nats.DefaultURL, ""), nil
}

// redact takes user names and passwords out of URLs.
func redact(urls string) string {
	parts := strings.Split(urls, ",")
	for i, p := range parts {
		if u, err := url.Parse(strings.TrimSpace(p)); err == nil && u.User != nil {
			u.User = nil
			parts[i] = u.String()
		}
	}
	return strings.Join(parts, ",")
}

// errContext is returned when there is no context of the nats CLI of a name.
var errContext = errors.New("context of the nats CLI")

// connect connects as the flags say. Close the link.
func (a *app) connect(name string) (*jet.Link, error) {
	t, err := a.target()
	if err != nil {
		return nil, err
	}
	l, err := jet.Dial(t.where, func(o ...nats.Option) (*nats.Conn, error) {
		return t.dial(append(o, nats.Name("toolwire "+name))...)
	})
	if errors.Is(err, errContext) {
		return nil, usagef("%s is not there; see `nats context ls`", t.where)
	}
	return l, err
}

// connectPatiently connects for a process that may be started before its server, for at most wait.
func (a *app) connectPatiently(ctx context.Context, name string, wait time.Duration, log zerolog.Logger) (*jet.Link, error) {
	end := time.Now().Add(wait)
	for {
		l, err := a.connect(name)
		if !errors.Is(err, jet.ErrUnreachable) || time.Now().After(end) {
			return l, err
		}
		log.Warn().Err(err).Msg("no server yet, trying again")
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(time.Second):
		}
	}
}

// client connects and makes an agent of it. close ends both.
func (a *app) client(name string) (c *agent.Client, l *jet.Link, closeAll func(), err error) {
	l, err = a.connect(name)
	if err != nil {
		return nil, nil, nil, err
	}
	if a.acting, err = a.identity(); err == nil {
		c, err = agent.New(l.Conn, agent.Config{Agent: a.acting, Prefix: a.prefix()})
	}
	if err != nil {
		l.Close()
		return nil, nil, nil, err
	}
	return c, l, func() { c.Close(); l.Close() }, nil
}

// stateDir is where `up` keeps what it knows, by the rules of XDG.
func (a *app) stateDir() (string, error) {
	if dir := a.env["XDG_STATE_HOME"]; filepath.IsAbs(dir) {
		return filepath.Join(dir, "toolwire"), nil
	}
	home := a.setting("", "HOME", "USERPROFILE")
	if home == "" {
		return "", errors.New("there is no HOME; give the data directory with --store")
	}
	return filepath.Join(home, ".local", "state", "toolwire"), nil
}

// local is what a running `up` writes down for the other commands.
type local struct {
	URL string `json:"url"`
	PID int    `json:"pid"`
}

const localFile = "server.json"

func (a *app) readLocal() (l local, ok bool) {
	dir, err := a.stateDir()
	if err != nil {
		return l, false
	}
	b, err := os.ReadFile(filepath.Join(dir, localFile)) //nolint:gosec // the user's own state directory
	if err != nil || json.Unmarshal(b, &l) != nil {
		return l, false
	}
	return l, l.URL != ""
}

// writeLocal writes the file whole or not at all, since others may read it at any time.
func (a *app) writeLocal(l local) (remove func(), err error) {
	dir, err := a.stateDir()
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, localFile)
	tmp := fmt.Sprintf("%s.%d", path, l.PID)
	err = os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.WriteFile(tmp, append(b, '\n'), 0o600)
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	return func() {
		if now, ok := a.readLocal(); ok && now == l { // else another `up` came after
			_ = os.Remove(path)
		}
	}, nil
}
