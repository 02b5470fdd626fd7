package permission

import "strings"

// Decision is what happens to a call, and why.
type Decision struct {
	Behavior    Behavior `json:"behavior"`              // allow, deny or ask
	Message     string   `json:"message"`               // for people: the reason in a sentence
	Rule        string   `json:"rule"`                  // what decided: "rule git:*", "read-only", "mode explore" …
	Rules       []Rule   `json:"rules,omitempty"`       // the rules that decided; several if one call is many commands
	Suggestions []Rule   `json:"suggestions,omitempty"` // allow rules that would have let it run; at most 5
	Immune      bool     `json:"immune,omitempty"`      // a safety ask: no allow rule and no mode answers it
}

// String is the decision in a line for the wire, such as "allow: rule execute_shell_command(git:*)".
func (d Decision) String() string { return string(d.Behavior) + ": " + d.Rule }

// Check is what a tool itself says of a call. Its zero value says nothing.
type Check struct {
	Behavior    Behavior `json:"behavior,omitempty"` // "" is passthrough
	Message     string   `json:"message,omitempty"`
	Immune      bool     `json:"immune,omitempty"`   // an ask for safety
	ReadOnly    bool     `json:"readOnly,omitempty"` // this call changes nothing
	Suggestions []string `json:"suggestions,omitempty"`
	// Matches tells of the contents of rules which match the call. A content that is missing could
	// not be judged.
	Matches map[string]bool `json:"matches,omitempty"`
}

func rulesText(rules []Rule) string {
	var b strings.Builder
	for i, r := range rules {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("rule ")
		b.WriteString(r.String())
	}
	return b.String()
}
