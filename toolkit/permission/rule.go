package permission

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/toolwire/toolwire/events"
)

var (
	// ErrRule is returned when a rule cannot be used; its text says why.
	ErrRule = errors.New("permission: bad rule")
	// ErrWord is returned when a mode or behavior is none that is known.
	ErrWord = errors.New("permission: unknown word")
)

// Behavior is what happens to a call.
type Behavior string

// The behaviors. Pass is a [Check]'s alone: the tool has no opinion.
const (
	Allow Behavior = "allow"
	Deny  Behavior = "deny"
	Ask   Behavior = "ask"
	Pass  Behavior = "passthrough"
)

// UnmarshalText reads allow, deny, ask or passthrough in any case, and nothing else.
func (b *Behavior) UnmarshalText(text []byte) error {
	switch v := Behavior(strings.ToLower(string(text))); v {
	case Allow, Deny, Ask, Pass:
		*b = v
		return nil
	}
	return fmt.Errorf("%w: behavior %q is none of allow, deny, ask", ErrWord, text)
}

// Rule says what happens to the calls of a tool, or to some of them.
type Rule struct {
	Tool     string   `json:"tool"`              // a name, or a pattern in which * is any text
	Content  string   `json:"content,omitempty"` // for the tool's matcher; "": every call
	Behavior Behavior `json:"behavior"`          // allow, deny or ask
	Source   string   `json:"source,omitempty"`  // where it comes from, for people
}

const (
	maxTool    = 128  // bytes of a pattern of names
	maxContent = 4096 // bytes of a rule's content
)

// Check says whether the rule can be used.
func (r Rule) Check() error {
	switch r.Behavior {
	case Allow, Deny, Ask:
	case Pass:
		return fmt.Errorf("%w %s: passthrough is for a tool's own check", ErrRule, r)
	default:
		return fmt.Errorf("%w %s: behavior %q is none of allow, deny, ask", ErrRule, r, r.Behavior)
	}
	if r.Tool == "" || len(r.Tool) > maxTool || !nameOnly(r.Tool) {
		return fmt.Errorf("%w: tool %q must be 1 to %d letters, digits, '_', '-' or '*'", ErrRule, r.Tool, maxTool)
	}
	if len(r.Content) > maxContent {
		return fmt.Errorf("%w: content of %d bytes, at most %d", ErrRule, len(r.Content), maxContent)
	}
	if !utf8.ValidString(r.Content) || strings.ContainsFunc(r.Content, unicode.IsControl) {
		return fmt.Errorf("%w: content %q has control characters, or is no UTF-8", ErrRule, r.Content)
	}
	return nil
}

const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-*"

func nameOnly(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !strings.ContainsRune(nameLetters, r) })
}

// String writes the rule as [ParseRule] reads it: `tool` or `tool(content)`.
func (r Rule) String() string {
	if r.Content == "" {
		return r.Tool
	}
	return r.Tool + "(" + r.Content + ")"
}

// ParseRule reads `tool` or `tool(content)`, for example `mcp__github__*` or
// `execute_shell_command(git commit:*)`. The content is everything up to the last parenthesis, as it
// stands. The behavior is the caller's to set. The error is [ErrRule].
func ParseRule(text string) (Rule, error) {
	tool, rest, found := strings.Cut(strings.TrimSpace(text), "(")
	r := Rule{Tool: tool, Behavior: Ask}
	if found {
		content, ok := strings.CutSuffix(rest, ")")
		switch {
		case !ok:
			return Rule{}, fmt.Errorf("%w %q: the closing parenthesis is missing", ErrRule, text)
		case content == "":
			return Rule{}, fmt.Errorf("%w %q: nothing between the parentheses; for every call, write %s", ErrRule, text, tool)
		}
		r.Content = content
	}
	if err := r.Check(); err != nil {
		return Rule{}, err
	}
	r.Behavior = ""
	return r, nil
}

// Covers says whether the rule is about the tool at all.
func (r Rule) Covers(tool events.ToolName) bool {
	return r.Tool == string(tool) || strings.Contains(r.Tool, "*") && wildcard(r.Tool).match(string(tool), false)
}
