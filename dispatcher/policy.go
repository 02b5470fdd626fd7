package dispatcher

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit/permission"
)

// policy is what decides about the calls of a tool in a session: what the installation declares, then
// the session's own. Rules that were made for another definition of the tool are void.
func (s *snapshot) policy(rec *record, t *tool) permission.Context {
	c := s.Permissions
	if rec.Mode != "" {
		c.Mode = rec.Mode
	}
	if len(rec.Rules) == 0 {
		return c
	}
	c.Rules = slices.Clip(c.Rules)
	for _, r := range rec.Rules {
		if r.Definition == "" || r.Definition == t.hash {
			c.Rules = append(c.Rules, asRule(r.Rule))
		}
	}
	return c
}

// permit judges a call by the policy in force. own is what the tool's workers said of it; nil: they
// were not asked, or did not answer.
func (s *snapshot) permit(rec *record, t *tool, input json.RawMessage, own *permission.Check) permission.Decision {
	def := t.def.Permission()
	if t.pool == "" && control(def.Name) { // it changes what is seen, nothing else
		def.ReadOnly = true
	}
	return permission.Evaluate(s.policy(rec, t), def, input, own)
}

// helpful are the suggestions of an ask that would let the call run the next time. Where a rule asks, or
// safety, an allow rule changes nothing.
func helpful(p permission.Decision) []permission.Rule {
	if p.Immune || len(p.Rules) > 0 {
		return nil
	}
	return p.Suggestions
}

// deniedText is what a model reads of a call that the policy denies.
func deniedText(p permission.Decision) string {
	text := "Permission denied: " + p.Message
	if len(p.Suggestions) == 0 {
		return text + " Do not try the same call again; go on without it, or ask for something that is allowed."
	}
	allowed := make([]string, len(p.Suggestions))
	for i, r := range p.Suggestions {
		allowed[i] = r.String()
	}
	return text + " It would be allowed by: " + strings.Join(allowed, ", ") + ". Go on without it, or have that added."
}

func asRule(r events.Rule) permission.Rule {
	return permission.Rule{Tool: r.Tool, Content: r.Content, Behavior: permission.Behavior(r.Behavior), Source: r.Source}
}

func asRules(rules []permission.Rule) []events.Rule {
	out := make([]events.Rule, len(rules))
	for i, r := range rules {
		out[i] = events.Rule{Tool: r.Tool, Content: r.Content, Behavior: string(r.Behavior), Source: r.Source}
	}
	return out
}

func sameRule(a, b events.Rule) bool {
	return a.Tool == b.Tool && a.Content == b.Content && a.Behavior == b.Behavior
}

// allow adds rules to a session's own, each once, as long as there is room.
func (r *record) allow(rules []events.Rule, definition, by string, at time.Time) {
	for _, rule := range rules {
		i := slices.IndexFunc(r.Rules, func(have events.SessionRule) bool { return sameRule(have.Rule, rule) })
		added := events.SessionRule{Rule: rule, Definition: definition, By: by, At: at.UTC()}
		added.Source = "session"
		switch {
		case i < 0 && len(r.Rules) < maxSessionRules: // none that is there gives way: it may be a deny
			r.Rules = append(r.Rules, added)
		case i >= 0 && r.Rules[i].Definition != "" && r.Rules[i].Definition != definition:
			r.Rules[i] = added // made for another definition, and void
		}
	}
}
