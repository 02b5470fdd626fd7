package auth

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/toolwire/toolwire/internal/jet"
)

// accountClaims are those of the account of an installation: no limits but the server's, and the rights of
// each role in its signing key. The account itself signs nobody.
func accountClaims(subject string, names jet.Names, scopes map[jet.Role]string) *jwt.AccountClaims {
	c := jwt.NewAccountClaims(subject)
	c.Name = names.Prefix()
	c.Limits.JetStreamLimits = jwt.JetStreamLimits{
		MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit,
	}
	for _, role := range jet.Roles() {
		c.SigningKeys.AddScopedSigner(scope(role, scopes[role], names))
	}
	return c
}

// scope are the rights of a role, in the form of a scoped signing key.
func scope(role jet.Role, key string, names jet.Names) *jwt.UserScope {
	r := names.RightsTemplate(role)
	s := jwt.NewUserScope()
	s.Key, s.Role = key, string(role)
	s.Template.Pub.Allow = jwt.StringList(r.Publish)
	s.Template.Sub.Allow = jwt.StringList(r.Subscribe)
	if r.Replies {
		s.Template.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: time.Minute}
	}
	return s
}

// signer is the public signing key of a role.
func (d *Dir) signer(role jet.Role) (string, bool) {
	for key, s := range d.account.SigningKeys {
		if u, ok := s.(*jwt.UserScope); ok && u.Role == string(role) {
			return key, true
		}
	}
	return "", false
}

// Refresh brings the rights in the directory up to those of this version of Toolwire, and says whether they
// differed. Credentials stay as they are. Errors: [ErrMissing] if they differ and the keys are elsewhere.
func (d *Dir) Refresh() (changed bool, err error) {
	for _, role := range jet.Roles() {
		key, ok := d.signer(role)
		if !ok {
			signing, err := d.newKey(roleKey(role), nkeys.CreateAccount)
			if err != nil {
				return false, err
			}
			key = public(signing)
		}
		want := scope(role, key, d.names)
		if got, ok := d.account.SigningKeys[key].(*jwt.UserScope); ok && reflect.DeepEqual(got.Template, want.Template) {
			continue
		}
		d.account.SigningKeys.AddScopedSigner(want)
		changed = true
	}
	if !changed {
		return false, nil
	}
	return true, d.resign()
}

// resign writes the account as it is now.
func (d *Dir) resign() error {
	operator, err := d.key(operatorKey)
	if err != nil {
		return err
	}
	if err := d.writeClaims(operator, d.trust.System, d.account); err != nil {
		return err
	}
	again, err := Open(d.path)
	if err == nil {
		*d = *again
	}
	return err
}

// writeClaims signs and writes what a server has to know.
func (d *Dir) writeClaims(operator nkeys.KeyPair, system string, account *jwt.AccountClaims) error {
	oc := jwt.NewOperatorClaims(public(operator))
	oc.Name, oc.SystemAccount = "toolwire", system
	sc := jwt.NewAccountClaims(system)
	sc.Name = "SYS"
	tokens := make(map[string]string)
	for file, claims := range map[string]jwt.Claims{operatorFile: oc, systemFile: sc, accountFile: account} {
		if problems := validate(claims); problems != "" {
			return fmt.Errorf("%s: %s", file, problems)
		}
		token, err := claims.Encode(operator)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		tokens[file] = token
	}
	conf := renderConf(tokens, system, account.Subject)
	for file, content := range map[string]string{
		operatorFile: tokens[operatorFile] + "\n", systemFile: tokens[systemFile] + "\n", accountFile: tokens[accountFile] + "\n", confFile: conf,
	} {
		if err := replace0600(filepath.Join(d.path, file), []byte(content)); err != nil {
			return err
		}
	}
	return nil
}

func validate(c jwt.Claims) string {
	var results jwt.ValidationResults
	c.Validate(&results)
	var problems []string
	for _, err := range results.Errors() {
		problems = append(problems, err.Error())
	}
	return strings.Join(problems, ", ")
}

// renderConf is what a NATS server includes in its configuration.
func renderConf(tokens map[string]string, system, account string) string {
	return fmt.Sprintf(`# Who may do what in this installation of Toolwire; nothing in here is secret.
# In the configuration of a NATS server with JetStream: include "<this file>"
# After `+"`toolwire auth rm`"+`: nats-server --signal reload
operator: %s
system_account: %s
resolver: MEMORY
resolver_preload: {
  %s: %s # %s
  %s: %s # the system
}
`, tokens[operatorFile], system, account, tokens[accountFile], "the installation", system, tokens[systemFile])
}
