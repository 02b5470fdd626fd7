package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/permission"
)

// Settings whose lists have an order that counts: relative paths begin at the first working directory,
// and of several approvals that name a tool the first one holds.
const (
	settingDirectories = "permissions.workingDirectories"
	settingOrder       = "approvals.order"
)

// rulesOf are the rules by what they say. Which of two alike stands first, or twice, is no difference.
func rulesOf(c toolkit.Config) map[string]struct{} {
	all := make(map[string]struct{}, len(c.Permissions.Rules))
	for _, r := range c.Permissions.Rules {
		all[string(r.Behavior)+" "+r.String()] = struct{}{}
	}
	return all
}

// role is a list of people.
type role struct {
	People []string `json:"people"`
}

func rolesOf(c toolkit.Config) map[string]role {
	all := make(map[string]role, len(c.Roles))
	for name, people := range c.Roles {
		all[name] = role{people}
	}
	return all
}

// approvalsOf are the approvals by the tools they are for, and the order of those names.
func approvalsOf(c toolkit.Config) (all map[string]toolkit.Approval, order []string) {
	all = make(map[string]toolkit.Approval, len(c.Approvals))
	for _, a := range c.Approvals {
		name := strings.Join(a.Tools, " ")
		for n := 2; ; n++ {
			if _, taken := all[name]; !taken {
				break
			}
			name = fmt.Sprintf("%s (%d)", strings.Join(a.Tools, " "), n)
		}
		if a.OnExpiry == "" {
			a.OnExpiry = toolkit.ExpiryDeny
		}
		a.Tools = nil // they are the name
		all[name] = a
		order = append(order, name)
	}
	return all, order
}

// order says so if the approvals do not stand as they did, with new ones at the end.
func (p *plan) order(from, to []string) {
	usual := slices.DeleteFunc(slices.Clone(from), func(name string) bool { return !slices.Contains(to, name) })
	for _, name := range to {
		if !slices.Contains(from, name) {
			usual = append(usual, name)
		}
	}
	if !slices.Equal(usual, to) {
		p.setting(settingOrder, from, to)
	}
}

// externalOf are the declared tools by name.
func externalOf(c toolkit.Config) map[events.ToolName]toolkit.Definition {
	all := make(map[events.ToolName]toolkit.Definition, len(c.External))
	for _, def := range c.External {
		def.External = false // all of them are
		all[def.Name] = def
	}
	return all
}

// settings compares what there is only one of.
func (p *plan) settings(from, to toolkit.Config) {
	p.setting("metaTool", !from.NoMetaTool, !to.NoMetaTool)
	p.setting("askUser", from.AskUser, to.AskUser)
	old, now := from.Permissions, to.Permissions
	p.setting("permissions.mode", modeOf(old), modeOf(now))
	p.setting(settingDirectories, old.WorkingDirectories, now.WorkingDirectories)
	p.setting("permissions.home", old.Home, now.Home)
	p.setting("permissions.trustedServers", old.TrustedServers, now.TrustedServers)
}

// modeOf is the mode that holds; nil without permissions.
func modeOf(c permission.Context) any {
	switch {
	case c.Mode != "":
		return c.Mode
	case len(c.Rules)+len(c.WorkingDirectories) > 0:
		return permission.Default
	}
	return nil
}

// setting adds a setting that differs. Empty text, an empty list and nil are unset.
func (p *plan) setting(name string, from, to any) {
	fact := func(v any) []fact {
		raw, err := events.Marshal(v)
		if err != nil && p.err == nil {
			p.err = err
		}
		if s := string(raw); s == `""` || s == "[]" || s == "null" {
			return nil
		}
		return []fact{{name, json.RawMessage(raw)}}
	}
	if d := details(fact(from), fact(to)); len(d) > 0 {
		p.changes = append(p.changes, Change{Alter, "setting", name, d})
	}
}
