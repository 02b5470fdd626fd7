package main

import (
	"strings"
	"testing"

	"github.com/toolwire/toolwire/internal/auth"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/workers"
)

// A client acts as whom its credentials name; those made by other means name nobody.
func TestIdentity(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		held            auth.Credential
		flag, env       string
		want, complaint string
	}{
		{auth.Credential{}, "", "", "", ""},
		{auth.Credential{}, "ann", "bob", "ann", ""},
		{auth.Credential{}, "", "bob", "bob", ""},
		{auth.Credential{Name: "CI user"}, "", "bob", "bob", ""},
		{auth.Credential{Name: "CI user"}, "", "", "", ""},
		{auth.Credential{Name: "ann", Role: jet.RoleAgent}, "", "", "ann", ""},
		{auth.Credential{Name: "ann", Role: jet.RoleApprover}, "ann", "bob", "ann", ""},
		{auth.Credential{Name: "ann", Role: jet.RoleOperator}, "", "bob", "", `operator "ann", who cannot act as "bob"`},
		{auth.Credential{Name: "shop", Role: jet.RoleWorker}, "", "", "", `worker "shop"; this takes those of the role agent, approver or operator`},
		{auth.Credential{Name: "d", Role: jet.RoleDispatcher}, "bob", "", "bob", ""},
	} {
		a := &app{held: c.held, env: map[string]string{"TOOLWIRE_AGENT": c.env}, conn: connFlags{agent: c.flag}}
		got, err := a.identity()
		if string(got) != c.want || (err != nil) != (c.complaint != "") || err != nil && !strings.Contains(err.Error(), c.complaint) {
			t.Errorf("%+v: got %q, %v", c, got, err)
		}
	}
}

func TestWorkAs(t *testing.T) {
	t.Parallel()
	shop := auth.Credential{Name: "shop", Role: jet.RoleWorker, Pools: []string{"tills", "lane-x"}}
	for _, c := range []struct {
		held       auth.Credential
		name, pool string
		want       workers.Config
		complaint  string
	}{
		{auth.Credential{}, "x", "y", workers.Config{Name: "x", Pool: "y"}, ""},
		{shop, "", "", workers.Config{Name: "shop", Pool: "tills"}, ""},
		{shop, "shop", "lane-x", workers.Config{Name: "shop", Pool: "lane-x"}, ""},
		{shop, "other", "", workers.Config{}, `cannot be "other"`},
		{shop, "", "other", workers.Config{}, `pool "other", only for tills, lane-x`},
		{auth.Credential{Name: "ann", Role: jet.RoleAgent}, "", "", workers.Config{}, `agent "ann"; this takes those of the role worker`},
	} {
		cfg := workers.Config{Name: c.name, Pool: c.pool}
		err := (&app{held: c.held}).workAs(&cfg)
		if c.complaint != "" {
			if err == nil || !strings.Contains(err.Error(), c.complaint) {
				t.Errorf("%+v: got %v", c, err)
			}
			continue
		}
		if err != nil || cfg.Name != c.want.Name || cfg.Pool != c.want.Pool {
			t.Errorf("%+v: got %q %q, %v", c, cfg.Name, cfg.Pool, err)
		}
	}
}

func TestTTL(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"30d": "720h0m0s", "12h": "12h0m0s", "1s": "1s"} {
		var d ttl
		if err := d.Set(in); err != nil || d.String() != want {
			t.Errorf("%s: got %s, %v", in, d.String(), err)
		}
	}
	for _, in := range []string{"", "0", "-1d", "d", "1.5d", "1ms", "soon", "99999999d"} {
		var d ttl
		if err := d.Set(in); err == nil {
			t.Errorf("%q: got %s, want an error", in, d.String())
		}
	}
}
