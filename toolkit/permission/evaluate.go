package permission

import (
	"encoding/json"
	"slices"
)

const maxSuggestions = 5

// Evaluate judges one call. The definition is the registered one, never what a caller sent; own is
// what the tool said itself, nil if it was not asked or gave no answer (see [NeedsCheck]).
func Evaluate(c Context, def Tool, input json.RawMessage, own *Check) Decision {
	e := evaluation{context: c, def: def, own: own, matcher: matcherFor(c, def, input, own)}
	d := e.judge()
	if d.Behavior == Ask {
		d.Suggestions = e.suggestions()
	}
	if d.Behavior == Ask && c.Mode == DontAsk {
		d.Behavior, d.Message = Deny, d.Message+" Nobody is there to be asked."
		d.Rule += ", mode dont_ask"
	}
	return d
}

// Covers says whether an allow rule covers all of a call by itself. Whether the call then runs is
// for [Evaluate] to say.
func Covers(c Context, r Rule, def Tool, input json.RawMessage, own *Check) bool {
	c.Rules = []Rule{{Tool: r.Tool, Content: r.Content, Behavior: Allow}}
	e := evaluation{context: c, def: def, own: own, matcher: matcherFor(c, def, input, own)}
	return e.allowed() != nil
}

type evaluation struct {
	context Context
	def     Tool
	own     *Check
	matcher matcher
}

func (e evaluation) judge() Decision {
	check := e.check()
	if e.context.off() {
		switch check.Behavior {
		case Deny, Ask:
			return checked(check)
		default:
			return Decision{Behavior: Allow, Message: "No permissions are configured.", Rule: "no configuration"}
		}
	}
	if d := e.refused(); d != nil {
		return *d
	}
	if !e.context.Mode.known() {
		return Decision{Behavior: Ask, Message: "The permission mode is unknown.", Rule: "unknown mode", Immune: true}
	}
	if e.readOnly() {
		return Decision{Behavior: Allow, Message: "The call only reads.", Rule: "read-only"}
	}
	if e.context.Mode == Explore {
		return Decision{Behavior: Deny, Message: "Mode explore is read-only.", Rule: "mode explore"}
	}
	if check.Behavior == Allow || check.Behavior == Deny || check.Behavior == Ask && check.Immune {
		return checked(check)
	}
	if rules := e.allowed(); rules != nil {
		return Decision{Behavior: Allow, Message: "Allowed by a rule.", Rule: rulesText(rules), Rules: rules}
	}
	return e.fallback(check)
}

func (e evaluation) fallback(check Check) Decision {
	switch e.context.Mode {
	case Bypass:
		return Decision{Behavior: Allow, Message: "Mode bypass lets everything run that no rule stops.", Rule: "mode bypass"}
	case Default, AcceptEdits, Explore:
	case DontAsk:
		d := Decision{Behavior: Deny, Message: "No rule allows the call, and nobody is there to be asked.", Rule: "mode dont_ask"}
		if check.Behavior == Ask {
			d.Message = check.Message + " Nobody is there to be asked."
		}
		d.Suggestions = e.suggestions()
		return d
	}
	if check.Behavior == Ask {
		return checked(check)
	}
	mode := e.context.Mode
	if mode == "" {
		mode = Default
	}
	return Decision{Behavior: Ask, Message: "No rule decides this call.", Rule: "mode " + string(mode)}
}

// refused is the decision of deny and ask rules, nil if none is about the call.
func (e evaluation) refused() *Decision {
	var asks, doubts []Rule
	for _, r := range e.context.Rules {
		if r.Behavior == Allow || !r.Covers(e.def.Name) {
			continue
		}
		v := hit
		if r.Content != "" {
			v = e.matcher.refuses(r.Content)
		}
		switch {
		case v == hit && r.Behavior == Deny:
			return &Decision{Behavior: Deny, Message: "Denied by a rule.", Rule: rulesText([]Rule{r}), Rules: []Rule{r}}
		case v == hit && r.Behavior == Ask:
			asks = append(asks, r)
		case v != miss: // or a behavior that is none
			doubts = append(doubts, r)
		}
	}
	switch {
	case doubts != nil:
		return &Decision{
			Behavior: Ask, Immune: true, Rules: doubts[:1], Rule: "safety: " + rulesText(doubts[:1]),
			Message: "It cannot be told whether a rule is about this call.",
		}
	case asks != nil:
		return &Decision{Behavior: Ask, Message: "A rule says to ask.", Rule: rulesText(asks[:1]), Rules: asks[:1]}
	}
	return nil
}

func (e evaluation) readOnly() bool {
	return e.context.trusted(e.def) && (e.def.ReadOnly || e.own != nil && e.own.ReadOnly || e.matcher.readOnly())
}

// check is what the tool says itself, its matcher and its own code, the stricter of both.
func (e evaluation) check() Check {
	built, own := e.matcher.check(e.context.Mode.edits()), Check{}
	switch {
	case e.own != nil:
		own = *e.own
	case NeedsCheck(e.def):
		own = Check{Behavior: Ask, Immune: true, Message: "The tool's own check gave no answer."}
	}
	if own.Behavior != "" && own.Behavior.UnmarshalText([]byte(own.Behavior)) != nil {
		own = Check{Behavior: Ask, Immune: true, Message: "The tool's own check gave an answer that is none."}
	}
	if !e.context.trusted(e.def) {
		// What it says in its own favour does not count.
		if own.Behavior != Deny && own.Behavior != Ask {
			own = Check{Behavior: Ask, Message: "The tool is of an MCP server that is not trusted."}
		}
	}
	if severity(own) > severity(built) {
		return own
	}
	return built
}

// severity orders opinions, from none over allow, ask and safety ask to deny.
func severity(c Check) int {
	switch {
	case c.Behavior == Deny:
		return 4
	case c.Behavior == Ask && c.Immune:
		return 3
	case c.Behavior == Ask:
		return 2
	case c.Behavior == Allow:
		return 1
	}
	return 0
}

func checked(c Check) Decision {
	d := Decision{Behavior: c.Behavior, Message: c.Message, Rule: "tool check", Immune: c.Behavior == Ask && c.Immune}
	if d.Immune {
		d.Rule = "safety: tool check"
	}
	if d.Message == "" {
		d.Message = "The tool's own check decided."
	}
	return d
}

// allowed are the allow rules that cover the call, nil if they do not.
func (e evaluation) allowed() []Rule {
	var rules []Rule
	var contents []string
	for _, r := range e.context.Rules {
		switch {
		case r.Behavior != Allow || !r.Covers(e.def.Name):
		case r.Content == "":
			return []Rule{r}
		default:
			rules, contents = append(rules, r), append(contents, r.Content)
		}
	}
	if len(rules) == 0 {
		return nil
	}
	used, ok := e.matcher.covers(contents)
	if !ok || len(used) == 0 {
		return nil
	}
	var out []Rule
	for _, i := range used {
		if !slices.Contains(out, rules[i]) {
			out = append(out, rules[i])
		}
	}
	return out
}

// suggestions are allow rules that cover the call, or the part of it that a rule can cover.
func (e evaluation) suggestions() []Rule {
	rule := func(content string) Rule {
		return Rule{Tool: string(e.def.Name), Content: content, Behavior: Allow, Source: "suggestion"}
	}
	contents, narrow := e.matcher.suggest()
	if e.own != nil && len(e.own.Suggestions) > 0 {
		contents, narrow = e.own.Suggestions, true
	}
	if !narrow {
		return []Rule{rule("")}
	}
	var out []Rule
	for _, content := range contents {
		r := rule(content)
		if content != "" && r.Check() == nil && !slices.Contains(out, r) && len(out) < maxSuggestions {
			out = append(out, r)
		}
	}
	return out
}
