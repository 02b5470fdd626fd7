package events

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Identifiers as their owners wrote them. They hold the raw text; in subjects
// and bucket keys they appear as tokens (see [Token]).
type (
	// AgentID names the agent identity that publishes calls; NATS permissions pin it to the credential.
	AgentID string
	// SessionID names one conversation; unique across users.
	SessionID string
	// TurnID names one ToolCalls event; fresh for each event in a session.
	TurnID string
	// CallID names one call within a turn, as the model or agent numbered it.
	CallID string
	// ToolName names a tool as the model calls it.
	ToolName string
)

// CallKey names one call: (session, turn, call).
type CallKey struct {
	Session SessionID
	Turn    TurnID
	Call    CallID
}

// String renders the key for people and logs.
func (k CallKey) String() string {
	return string(k.Session) + "/" + string(k.Turn) + "/" + string(k.Call)
}

// MaxToken is the greatest length of a token in bytes, after escaping.
const MaxToken = 128

// ErrToken is returned when an identifier is empty, not UTF-8, or longer than [MaxToken] after escaping.
var ErrToken = errors.New("events: identifier unfit for a subject")

// Token renders an identifier as one subject token: letters, digits, '-' and '_'
// pass, any other byte becomes '=' and two upper-case hex digits. The result never
// holds '.', '*', '>' or white space, and is a valid bucket key (design §2).
// The empty identifier becomes "=", which no identifier escapes to and [Untoken] refuses;
// [CheckID] says whether an identifier may be used at all.
func Token[T ~string](id T) string {
	s := string(id)
	if s == "" {
		return "="
	}
	if plain(s) {
		return s
	}
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(s) + 8)
	for i := range len(s) {
		if c := s[i]; tokenByte(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('=')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}

// Untoken is the inverse of [Token]. It accepts only what Token writes, so that one
// identifier has one token; anything else is [ErrToken].
func Untoken[T ~string](token string) (T, error) {
	if plain(token) {
		return T(token), CheckID("token", token)
	}
	var b strings.Builder
	for i := 0; i < len(token); i++ {
		c := token[i]
		if tokenByte(c) {
			b.WriteByte(c)
			continue
		}
		if c != '=' || i+2 >= len(token) {
			return "", fmt.Errorf("%w: token %q", ErrToken, token)
		}
		hi, lo := unhex(token[i+1]), unhex(token[i+2])
		if hi < 0 || lo < 0 || tokenByte(byte(hi<<4|lo)) {
			return "", fmt.Errorf("%w: token %q", ErrToken, token)
		}
		b.WriteByte(byte(hi<<4 | lo))
		i += 2
	}
	id := T(b.String())
	return id, CheckID("token", id)
}

// CheckID says whether id may name something on the wire: not empty, UTF-8 (JSON cannot carry
// anything else), and at most [MaxToken] bytes once escaped. what names the identifier in the error.
func CheckID[T ~string](what string, id T) error {
	n := 0
	for i := range len(id) {
		if n++; !tokenByte(id[i]) {
			n += 2
		}
	}
	switch {
	case n == 0:
		return fmt.Errorf("%w: %s is empty", ErrToken, what)
	case !utf8.ValidString(string(id)):
		return fmt.Errorf("%w: %s is not UTF-8", ErrToken, what)
	case n > MaxToken:
		return fmt.Errorf("%w: %s takes %d bytes as a subject token, at most %d are allowed", ErrToken, what, n, MaxToken)
	}
	return nil
}

// plain says whether s is a token as it stands.
func plain(s string) bool {
	for i := range len(s) {
		if !tokenByte(s[i]) {
			return false
		}
	}
	return true
}

func tokenByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
