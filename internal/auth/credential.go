package auth

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"

	"github.com/toolwire/toolwire/internal/jet"
)

// Tags of a credential. That of the role is for people and programs that hold the credential; what it may do
// lies in the key that signed it.
const (
	roleTag = "role:"
	poolTag = "pool:"
)

// Credential is what a credentials file says of itself, less its secret.
type Credential struct {
	Name    string
	Role    jet.Role // "": made by other means, so the name says nothing to us
	Pools   []string
	Expires time.Time // zero: never
}

// Read reads a credentials file. Errors: [ErrBroken].
func Read(path string) (Credential, error) {
	b, err := os.ReadFile(path) //nolint:gosec // the caller's own file
	if err != nil {
		return Credential{}, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	token, err := jwt.ParseDecoratedJWT(b)
	if err != nil {
		return Credential{}, fmt.Errorf("%w: %s: %w", ErrBroken, path, err)
	}
	return Decode(token)
}

// Decode reads a user's JWT. Errors: [ErrBroken].
func Decode(token string) (Credential, error) {
	claims, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return Credential{}, fmt.Errorf("%w: credentials: %w", ErrBroken, err)
	}
	c := Credential{Name: claims.Name}
	if claims.Expires > 0 {
		c.Expires = time.Unix(claims.Expires, 0)
	}
	for _, tag := range claims.Tags {
		if role, ok := strings.CutPrefix(tag, roleTag); ok && slices.Contains(jet.Roles(), jet.Role(role)) {
			c.Role = jet.Role(role)
		}
		if pool, ok := strings.CutPrefix(tag, poolTag); ok {
			c.Pools = append(c.Pools, pool)
		}
	}
	return c, nil
}
