package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

// LocalOperator is the name that a dispatcher takes for an operator's unless it is told other ones.
// No other role gets it.
const LocalOperator = "local"

// User is who has been given a credential.
type User struct {
	Name    string    `json:"name"`
	Role    jet.Role  `json:"role"`
	Pools   []string  `json:"pools,omitempty"` // of a worker: whose work it takes
	Key     string    `json:"key"`             // public
	Issued  time.Time `json:"issued"`
	Expires time.Time `json:"expires,omitzero"` // zero: never
}

// CheckName says whether a name, or that of a pool, can stand in a subject as it is, which the server needs
// to hold a credential to it. Errors: [ErrName].
func CheckName(what, name string) error {
	err := events.CheckID(what, name)
	if err == nil && events.Token(name) != name {
		err = fmt.Errorf("%s %q: only letters, digits, '-' and '_'", what, name)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrName, err)
	}
	return nil
}

func checkUser(u User) error {
	if !slices.Contains(jet.Roles(), u.Role) {
		words := make([]string, len(jet.Roles()))
		for i, r := range jet.Roles() {
			words[i] = string(r)
		}
		return fmt.Errorf("%w: there is no role %q; give one of %s", ErrName, u.Role, strings.Join(words, ", "))
	}
	if err := CheckName("name", u.Name); err != nil {
		return err
	}
	for _, pool := range u.Pools {
		if err := CheckName("pool", pool); err != nil {
			return err
		}
	}
	if u.Name == LocalOperator && u.Role != jet.RoleOperator && u.Role != jet.RoleDispatcher {
		return fmt.Errorf("%w: dispatchers take %q for an operator; give the %s another name", ErrName, u.Name, u.Role)
	}
	return nil
}

// Add makes a credential and notes its name, which no other gets. ttl 0: it is good for ever. A worker without
// pools takes the work of the pool of its name. save is given the contents of the credentials file, which are
// secret; if it fails, nothing has been made. Errors: [ErrName], [ErrExists], [ErrMissing], those of save.
func (d *Dir) Add(role jet.Role, name string, pools []string, ttl time.Duration, save func(creds []byte) error) (User, error) {
	u := User{Name: name, Role: role, Pools: pools}
	if role == jet.RoleWorker && len(pools) == 0 {
		u.Pools = []string{name}
	}
	if err := checkUser(u); err != nil {
		return u, err
	}
	u.Issued = time.Now().UTC().Truncate(time.Second)
	if ttl > 0 {
		u.Expires = u.Issued.Add(ttl)
	}
	token, seed, err := d.issue(&u)
	if err != nil {
		return u, err
	}
	creds, err := jwt.FormatUserConfig(token, seed)
	if err != nil {
		return u, fmt.Errorf("credentials: %w", err)
	}
	note, err := json.Marshal(u)
	if err != nil {
		return u, fmt.Errorf("credentials: %w", err)
	}
	err = create0600(d.userFile(name), append(note, '\n'))
	if errors.Is(err, ErrExists) {
		return u, fmt.Errorf("%w: a credential for the name %q; take another name, or end that one with `toolwire auth rm %s`", ErrExists, name, name)
	}
	if err != nil {
		return u, err
	}
	if err := save(creds); err != nil {
		return u, errors.Join(err, os.Remove(d.userFile(name)))
	}
	return u, nil
}

// Issue makes a credential that is noted nowhere, for a part of this very process.
func (d *Dir) Issue(role jet.Role, name string, pools ...string) (token string, seed []byte, err error) {
	u := User{Name: name, Role: role, Pools: pools, Issued: time.Now()}
	if err := checkUser(u); err != nil {
		return "", nil, err
	}
	return d.issue(&u)
}

func (d *Dir) issue(u *User) (token string, seed []byte, err error) {
	signer, err := d.key(roleKey(u.Role))
	if err != nil {
		return "", nil, err
	}
	key, err := nkeys.CreateUser()
	if err != nil {
		return "", nil, fmt.Errorf("key: %w", err)
	}
	if seed, err = key.Seed(); err != nil {
		return "", nil, fmt.Errorf("key: %w", err)
	}
	u.Key = public(key)
	c := jwt.NewUserClaims(u.Key)
	c.SetScoped(true)
	c.Name, c.IssuerAccount = u.Name, d.account.Subject
	// As they are: the method that adds tags would make them lower case, and a pool another one.
	c.Tags = jwt.TagList{roleTag + string(u.Role)}
	for _, pool := range u.Pools {
		c.Tags = append(c.Tags, poolTag+pool)
	}
	if !u.Expires.IsZero() {
		c.Expires = u.Expires.Unix()
	}
	if token, err = c.Encode(signer); err != nil {
		return "", nil, fmt.Errorf("credentials: %w", err)
	}
	return token, seed, nil
}

// Remove ends a credential: a server that reads the directory anew refuses it, and its name is free.
// Its file, wherever it is, is left alone. Errors: [ErrMissing].
func (d *Dir) Remove(name string) (User, error) {
	u, err := d.user(name)
	if err != nil {
		return u, err
	}
	d.account.Revoke(u.Key)
	if err := d.resign(); err != nil {
		return u, err
	}
	if err := os.Remove(d.userFile(name)); err != nil {
		return u, fmt.Errorf("forget %s: %w", name, err)
	}
	return u, nil
}

// Users are all who were given a credential, by name.
func (d *Dir) Users() ([]User, error) {
	entries, err := os.ReadDir(filepath.Join(d.path, usersDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	var all []User
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			continue
		}
		u, err := d.user(name)
		if err != nil {
			return nil, err
		}
		all = append(all, u)
	}
	return all, nil
}

func (d *Dir) user(name string) (u User, err error) {
	if err := CheckName("name", name); err != nil {
		return u, err
	}
	b, err := os.ReadFile(d.userFile(name))
	if errors.Is(err, fs.ErrNotExist) {
		return u, fmt.Errorf("%w: nobody has a credential for the name %q; see `toolwire auth ls`", ErrMissing, name)
	}
	if err == nil {
		err = json.Unmarshal(b, &u)
	}
	if err != nil {
		return u, fmt.Errorf("%w: %s: %w", ErrBroken, d.userFile(name), err)
	}
	return u, nil
}

func (d *Dir) userFile(name string) string { return filepath.Join(d.path, usersDir, name+".json") }

// CredsFile is where the credentials of a name are unless they were written elsewhere.
func (d *Dir) CredsFile(name string) string { return filepath.Join(d.path, credsDir, name+".creds") }

// SaveTo writes a credentials file that is not there yet, for its owner only. Errors: [ErrExists].
func SaveTo(path string) func(creds []byte) error {
	return func(creds []byte) error { return create0600(path, creds) }
}
