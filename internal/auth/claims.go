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

// resign writes the account as it is now. The operator's claims stay, byte by byte: a server does not reload
// others.
func (d *Dir) resign() error {
	operator, err := d.key(operatorKey)
	if err != nil {
		return err
	}
	account, err := sign(operator, d.account)
	if err != nil {
		return err
	}
	system := d.trust.System
	if err := d.write(d.trust.Operator, system, d.trust.Accounts[system], d.account.Subject, account); err != nil {
		return err
	}
	again, err := Open(d.path)
	if err == nil {
		*d = *again
	}
	return err
}

// writeNew signs and writes what a server has to know.
func (d *Dir) writeNew(operator nkeys.KeyPair, system string, account *jwt.AccountClaims) error {
	oc := jwt.NewOperatorClaims(public(operator))
	oc.Name, oc.SystemAccount = "toolwire", system
	sc := jwt.NewAccountClaims(system)
	sc.Name = "SYS"
	var tokens [3]string
	for i, claims := range [...]jwt.Claims{oc, sc, account} {
		token, err := sign(operator, claims)
		if err != nil {
			return err
		}
		tokens[i] = token
	}
	return d.write(tokens[0], system, tokens[1], account.Subject, tokens[2])
}

func (d *Dir) write(operator, system, systemToken, account, accountToken string) error {
	for file, content := range map[string]string{
		operatorFile: operator + "\n", systemFile: systemToken + "\n", accountFile: accountToken + "\n",
		confFile: fmt.Sprintf(confText, operator, system, account, accountToken, system, systemToken),
	} {
		if err := replace0600(filepath.Join(d.path, file), []byte(content)); err != nil {
			return err
		}
	}
	return nil
}

// confText is what a NATS server includes in its configuration.
const confText = `# Who may do what in this installation of Toolwire; nothing in here is secret.
# In the configuration of a NATS server with JetStream: include "<this file>"
# After toolwire auth rm: nats-server --signal reload
operator: %s
system_account: %s
resolver: MEMORY
resolver_preload: {
  %s: %s # the installation
  %s: %s # the system
}
`

func sign(operator nkeys.KeyPair, c jwt.Claims) (string, error) {
	if problems := validate(c); problems != "" {
		return "", fmt.Errorf("claims: %s", problems)
	}
	token, err := c.Encode(operator)
	if err != nil {
		return "", fmt.Errorf("claims: %w", err)
	}
	return token, nil
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
