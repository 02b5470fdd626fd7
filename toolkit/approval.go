package toolkit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolwire/toolwire/events"
)

// OnExpiry says what happens to a question that nobody answers in time.
type OnExpiry string

// What may happen. A call that waits for another system ends as external_expired where a
// confirmation is denied.
const (
	ExpiryDeny     OnExpiry = "deny"     // the call is denied; the default
	ExpiryPark     OnExpiry = "park"     // nothing: the question stays open for as long as it takes
	ExpiryEscalate OnExpiry = "escalate" // others are asked, rung by rung
)

// Defaults of how long a question waits.
const (
	DefaultConfirmExpiry  = 24 * time.Hour
	DefaultExternalExpiry = 7 * 24 * time.Hour
)

// Approval says who answers for calls of some tools, and what happens when nobody does. Of several
// that name a tool, the first one counts.
type Approval struct {
	Tools    []string `json:"tools"`              // names, or patterns in which * is any text
	Roles    []string `json:"roles,omitempty"`    // who may answer: people of one of them; none: anyone but the requester
	Quorum   int      `json:"quorum,omitempty"`   // people who have to approve; 0: 1
	Expires  Duration `json:"expires,omitzero"`   // 0: 24 h for a confirmation, 7 d for another system
	OnExpiry OnExpiry `json:"onExpiry,omitempty"` // "": deny
	Rungs    []Rung   `json:"rungs,omitempty"`    // escalate: who is asked next, and so on
	Last     OnExpiry `json:"last,omitempty"`     // escalate: deny or park, once the last rung did not answer either
}

// Rung is one step of an escalation.
type Rung struct {
	Roles   []string `json:"roles"`
	Quorum  int      `json:"quorum,omitempty"` // 0: 1
	Expires Duration `json:"expires,omitzero"` // 0: as the first question
}

// AskUser is the name of the external tool by which a model asks its user; see [Config].
const AskUser events.ToolName = "ask_user"

// AskUserDefinition is that tool.
func AskUserDefinition() Definition {
	return Definition{
		Name: AskUser, Title: "Ask the user", External: true, ConcurrencySafe: true, ReadOnly: true,
		Description: "Ask the user a question and wait for the answer. Use it when only the user can know or decide.",
		InputSchema: []byte(`{"type":"object","properties":{` +
			`"question":{"type":"string","minLength":1,"description":"What to ask."},` +
			`"options":{"type":"array","items":{"type":"string"},"description":"Answers to choose from, if there are only these."}},` +
			`"required":["question"],"additionalProperties":false}`),
	}
}

// ApprovalFor is the approval of a tool; the zero value, with its defaults, if none names it.
func (c Config) ApprovalFor(tool events.ToolName) Approval {
	for _, a := range c.Approvals {
		if slices.ContainsFunc(a.Tools, func(pattern string) bool { return matchName(pattern, string(tool)) }) {
			return a
		}
	}
	return Approval{}
}

// matchName compares a name with a pattern in which * is any text.
func matchName(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == name
	}
	if !strings.HasPrefix(name, parts[0]) {
		return false
	}
	name = name[len(parts[0]):]
	for _, part := range parts[1 : len(parts)-1] {
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name = name[i+len(part):]
	}
	return strings.HasSuffix(name, parts[len(parts)-1])
}

// RolesOf are the roles of a person.
func (c Config) RolesOf(person string) []string {
	var out []string
	for role, people := range c.Roles {
		if slices.Contains(people, person) {
			out = append(out, role)
		}
	}
	slices.Sort(out)
	return out
}

// checkPeople says what is wrong with permissions, approvals, roles and external tools.
func (c Config) checkPeople(all *[]error) {
	root := place{nil, "", all}
	if err := c.Permissions.Check(); err != nil {
		p := root.in("permissions")
		p.where = "permissions"
		p.bad("", "%v", err)
	}
	for role, people := range c.Roles {
		p := place{[]string{"roles", role}, "roles." + role, all}
		if err := events.CheckID("role", role); err != nil {
			p.bad("", "%v", err)
		}
		for i, person := range people {
			if err := events.CheckID("person", person); err != nil {
				p.bad(strconv.Itoa(i), "%v", err)
			}
		}
	}
	for i, a := range c.Approvals {
		c.checkApproval(a, place{[]string{"approvals", strconv.Itoa(i)}, fmt.Sprintf("approvals[%d]", i), all})
	}
	seen := make(map[events.ToolName]bool)
	for i, def := range c.External {
		p := place{[]string{"external", strconv.Itoa(i)}, fmt.Sprintf("external[%d] %q", i, def.Name), all}
		def.External = true
		if err := def.Check(); err != nil {
			p.bad("", "%v", strings.TrimPrefix(err.Error(), ErrDefinition.Error()+": "))
		}
		if seen[def.Name] || c.AskUser && def.Name == AskUser {
			p.bad("name", "the name appears twice")
		}
		seen[def.Name] = true
	}
}

func (c Config) checkApproval(a Approval, p place) {
	if len(a.Tools) == 0 {
		p.bad("tools", "tools names none")
	}
	tools := place{append(slices.Clone(p.path), "tools"), p.where, p.all}
	for i, pattern := range a.Tools {
		if pattern == "" || !validName.MatchString(strings.ReplaceAll(pattern, "*", "x")) {
			tools.bad(strconv.Itoa(i), "tool %q is neither a name nor a pattern with *", pattern)
		}
	}
	c.checkAsked(a.Roles, a.Quorum, a.Expires, p)
	switch a.OnExpiry {
	case "", ExpiryDeny, ExpiryPark:
		if len(a.Rungs) > 0 || a.Last != "" {
			p.bad("onExpiry", "rungs and last are for onExpiry: escalate")
		}
	case ExpiryEscalate:
		if len(a.Rungs) == 0 {
			p.bad("rungs", "escalate needs rungs: who is asked next")
		}
		if a.Last != ExpiryDeny && a.Last != ExpiryPark {
			p.bad("last", "say what happens after the last rung: last: deny, or last: park")
		}
	default:
		p.bad("onExpiry", "onExpiry %q is none of deny, park, escalate", a.OnExpiry)
	}
	for i, r := range a.Rungs {
		in := p.in("rungs").in(strconv.Itoa(i))
		if len(r.Roles) == 0 {
			in.bad("roles", "roles names none")
		}
		c.checkAsked(r.Roles, r.Quorum, r.Expires, in)
	}
}

// checkAsked checks that those who are asked exist, and are enough.
func (c Config) checkAsked(roles []string, quorum int, expires Duration, p place) {
	people := make(map[string]bool)
	for i, role := range roles {
		list, known := c.Roles[role]
		if !known {
			place{append(slices.Clone(p.path), "roles"), p.where + ".roles", p.all}.bad(strconv.Itoa(i), "there is no role %q", role)
		}
		for _, person := range list {
			people[person] = true
		}
	}
	switch {
	case quorum < 0:
		p.bad("quorum", "quorum is negative")
	case quorum > 1 && len(roles) > 0 && quorum > len(people):
		p.bad("quorum", "quorum %d is more than the %d people of these roles", quorum, len(people))
	}
	if expires < 0 {
		p.bad("expires", "expires is negative")
	}
}
