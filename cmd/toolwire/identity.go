package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/synadia-io/orbit.go/natscontext"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/auth"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/workers"
)

// hold notes whose a credentials file is.
func (a *app) hold(file string) error {
	c, err := auth.Read(file)
	if err != nil {
		return err
	}
	if !c.Expires.IsZero() && c.Expires.Before(time.Now()) {
		return fmt.Errorf("%w: the credentials in %s are good until %s only; make new ones with `toolwire auth add`",
			jet.ErrRefused, file, c.Expires.Format(time.RFC3339))
	}
	a.held = c
	return nil
}

// holdOf notes whose the credentials of a context of the nats CLI are. They have served to connect, so what
// cannot be read of them is no error.
func (a *app) holdOf(s natscontext.Settings) {
	file := os.ExpandEnv(s.Creds)
	if rest, ok := strings.CutPrefix(file, "~"); ok {
		file = filepath.Join(a.setting("", "HOME", "USERPROFILE"), rest)
	}
	c, err := auth.Read(file)
	if s.Creds == "" && s.UserJwt != "" {
		c, err = auth.Decode(s.UserJwt)
	}
	if err == nil {
		a.held = c
	}
}

// identity is what a client acts as: whoever the credentials name, since the server lets them act as nobody
// else. Credentials that were made by other means name nobody that we know of.
func (a *app) identity() (events.AgentID, error) {
	given, by := a.setting(a.conn.agent, "TOOLWIRE_AGENT"), "--agent and TOOLWIRE_AGENT"
	if a.answers {
		given, by = a.setting(cmp.Or(a.actor, a.conn.agent), "TOOLWIRE_ACTOR"), "--actor and TOOLWIRE_ACTOR"
	}
	switch a.held.Role {
	case jet.RoleWorker:
		return "", a.mustHold(jet.RoleAgent, jet.RoleApprover, jet.RoleOperator)
	case jet.RoleAgent, jet.RoleApprover, jet.RoleOperator:
		if given != "" && given != a.held.Name {
			return "", usagef("the credentials are those of the %s %q, who cannot act as %q; leave out %s, or give those of %q with --creds",
				a.held.Role, a.held.Name, given, by, given)
		}
		return events.AgentID(a.held.Name), nil
	default: // a dispatcher may act as anybody
		if a.answers && given == "" {
			given = a.userName()
		}
		return events.AgentID(given), nil
	}
}

// mustHold refuses credentials that say they are of another role.
func (a *app) mustHold(roles ...jet.Role) error {
	if a.held.Role == "" || slices.Contains(roles, a.held.Role) {
		return nil
	}
	words := make([]string, len(roles))
	for i, r := range roles {
		words[i] = string(r)
	}
	role := words[len(words)-1]
	if rest := words[:len(words)-1]; len(rest) > 0 {
		role = strings.Join(rest, ", ") + " or " + role
	}
	return usagef("the credentials are those of the %s %q; this takes those of the role %s: give them with --creds", a.held.Role, a.held.Name, role)
}

// workAs gives a worker the name of its credentials, and sees that they are good for its pool.
func (a *app) workAs(cfg *workers.Config) error {
	if err := a.mustHold(jet.RoleWorker); err != nil || a.held.Role == "" {
		return err
	}
	if cfg.Name != "" && cfg.Name != a.held.Name {
		return usagef("the credentials are those of the worker %q, which cannot be %q; leave out --name, or give others with --creds", a.held.Name, cfg.Name)
	}
	cfg.Name = a.held.Name
	if cfg.Pool == "" && !slices.Contains(a.held.Pools, cfg.Name) && len(a.held.Pools) > 0 {
		cfg.Pool = a.held.Pools[0]
	}
	if pool := cfg.Pool; pool != "" && !slices.Contains(a.held.Pools, pool) {
		return usagef("the credentials are not good for the work of pool %q, only for %s; make others with `toolwire auth add worker … --pool %s`",
			pool, strings.Join(a.held.Pools, ", "), pool)
	}
	return nil
}
