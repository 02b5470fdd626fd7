package auth

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

var (
	// ErrExists is returned when what is to be made is there already.
	ErrExists = errors.New("auth: there already")
	// ErrMissing is returned when a directory, key or name is not there.
	ErrMissing = errors.New("auth: not there")
	// ErrName is returned when a name is no name for a credential of a role.
	ErrName = errors.New("auth: unfit name")
	// ErrBroken is returned when a file is not what this package writes.
	ErrBroken = errors.New("auth: cannot be read")
)

// Names of the files; see the package comment.
const (
	operatorFile = "operator.jwt"
	accountFile  = "account.jwt"
	systemFile   = "system.jwt"
	confFile     = "nats-server.conf"
	keysDir      = "keys"
	usersDir     = "users"
	credsDir     = "creds"

	operatorKey = "operator"
	accountKey  = "account"
	systemKey   = "system"
)

// Dir is a directory of keys and credentials of one installation.
type Dir struct {
	path    string
	names   jet.Names
	account *jwt.AccountClaims
	trust   Trust
}

// Trust is what a server has to know to check credentials. Nothing of it is secret.
type Trust struct {
	Operator string            // JWT
	System   string            // public key of the system account
	Accounts map[string]string // JWT of each account by its public key
}

// Path is where the directory is.
func (d *Dir) Path() string { return d.path }

// Prefix is that of the subjects which the rights are for.
func (d *Dir) Prefix() string { return d.names.Prefix() }

// Account is the public key of the account, under which a server keeps the installation's data.
func (d *Dir) Account() string { return d.account.Subject }

// IsAccount says whether a name is the public key of an account.
func IsAccount(name string) bool { return nkeys.IsValidPublicAccountKey(name) }

// Trust is what a server has to know.
func (d *Dir) Trust() Trust { return d.trust }

// Conf is where the configuration for a NATS server is.
func (d *Dir) Conf() string { return filepath.Join(d.path, confFile) }

// Init makes the directory with new keys: all of it, or nothing. Errors: [ErrExists].
func Init(path string, names jet.Names) (*Dir, error) {
	if _, err := os.Stat(filepath.Join(path, operatorFile)); err == nil {
		return nil, fmt.Errorf("%w: %s has keys, which are never replaced; choose another directory", ErrExists, path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("credentials directory: %w", err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(path), ".auth-*")
	if err != nil {
		return nil, fmt.Errorf("credentials directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := fill(tmp, names); err != nil {
		return nil, err
	}
	if err := os.Rename(tmp, path); err != nil {
		return nil, fmt.Errorf("%w: %s is there and not empty, or cannot be made (%w); choose another directory", ErrExists, path, err)
	}
	return Open(path)
}

func fill(dir string, names jet.Names) error {
	for _, sub := range []string{keysDir, usersDir, credsDir} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			return fmt.Errorf("credentials directory: %w", err)
		}
	}
	d := &Dir{path: dir, names: names}
	operator, err := d.newKey(operatorKey, nkeys.CreateOperator)
	if err != nil {
		return err
	}
	system, err := d.newKey(systemKey, nkeys.CreateAccount)
	if err != nil {
		return err
	}
	account, err := d.newKey(accountKey, nkeys.CreateAccount)
	if err != nil {
		return err
	}
	scopes := make(map[jet.Role]string)
	for _, role := range jet.Roles() {
		key, err := d.newKey(roleKey(role), nkeys.CreateAccount)
		if err != nil {
			return err
		}
		scopes[role] = public(key)
	}
	return d.writeNew(operator, public(system), accountClaims(public(account), names, scopes))
}

// Open opens a directory that [Init] made. The keys are read when they are used: a server needs none.
// Errors: [ErrMissing], [ErrBroken].
func Open(path string) (*Dir, error) {
	d := &Dir{path: path}
	tokens := make(map[string]string)
	for _, name := range []string{operatorFile, accountFile, systemFile} {
		b, err := os.ReadFile(filepath.Join(path, name)) //nolint:gosec // the directory is the caller's
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %s has no %s; make the directory with `toolwire auth init`", ErrMissing, path, name)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBroken, err)
		}
		tokens[name] = strings.TrimSpace(string(b))
	}
	operator, err := jwt.DecodeOperatorClaims(tokens[operatorFile])
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrBroken, operatorFile, err)
	}
	if d.account, err = jwt.DecodeAccountClaims(tokens[accountFile]); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrBroken, accountFile, err)
	}
	s, err := events.NewSubjects(d.account.Name)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrBroken, accountFile, err)
	}
	d.names = jet.Names{Subjects: s}
	d.trust = Trust{
		Operator: tokens[operatorFile], System: operator.SystemAccount,
		Accounts: map[string]string{d.account.Subject: tokens[accountFile], operator.SystemAccount: tokens[systemFile]},
	}
	return d, nil
}

func (d *Dir) newKey(name string, create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, error) {
	key, err := create()
	if err != nil {
		return nil, fmt.Errorf("key of the %s: %w", name, err)
	}
	seed, err := key.Seed()
	if err != nil {
		return nil, fmt.Errorf("key of the %s: %w", name, err)
	}
	return key, create0600(d.keyFile(name), append(seed, '\n'))
}

// roleKey is the name of the signing key of a role.
func roleKey(role jet.Role) string { return "role-" + string(role) }

func (d *Dir) keyFile(name string) string { return filepath.Join(d.path, keysDir, name+".nk") }

func (d *Dir) key(name string) (nkeys.KeyPair, error) {
	seed, err := os.ReadFile(d.keyFile(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s; do this where the keys are", ErrMissing, d.keyFile(name))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	key, err := nkeys.FromSeed([]byte(strings.TrimSpace(string(seed))))
	if err != nil { // the text of the error has nothing of the seed
		return nil, fmt.Errorf("%w: %s: %w", ErrBroken, d.keyFile(name), err)
	}
	return key, nil
}

// public is the public half of a key that was just made or read, which cannot fail.
func public(key nkeys.KeyPair) string {
	pub, _ := key.PublicKey()
	return pub
}

// create0600 writes a file that is not there yet, for its owner only.
func create0600(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // as the caller says
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s, which is never overwritten", ErrExists, path)
	}
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// replace0600 writes a file whole or not at all.
func replace0600(path string, data []byte) error {
	tmp := path + ".new"
	err := os.WriteFile(tmp, data, 0o600)
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}
