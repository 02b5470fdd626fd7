package workers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// maxSecret bounds a file of secrets, in bytes.
const maxSecret = 64 << 10

// secrets are what presets may name: nothing but the variables and the directory that the worker was
// started with. They are read for each call, so that a new one takes effect at once. No error holds
// a value.
type secrets struct {
	env []string
	dir string
}

func (s secrets) check() error {
	if s.dir == "" {
		return nil
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return fmt.Errorf("directory of secrets: %w", err)
	}
	return root.Close()
}

// resolve turns presets into values, all or none.
func (s secrets) resolve(presets map[string]toolkit.Preset) (map[string]json.RawMessage, error) {
	if len(presets) == 0 {
		return nil, nil
	}
	values := make(map[string]json.RawMessage, len(presets))
	for name, p := range presets {
		v, err := s.value(p)
		if err != nil {
			return nil, fmt.Errorf("preset of %q: %w", name, err)
		}
		values[name] = v
	}
	return values, nil
}

func (s secrets) value(p toolkit.Preset) (json.RawMessage, error) {
	var text string
	var err error
	switch {
	case len(p.Value) > 0:
		return p.Value, nil
	case p.Env != "":
		text, err = s.variable(p.Env)
	case p.File != "":
		text, err = s.file(p.File)
	default:
		err = errors.New("neither value, env nor file is given")
	}
	switch {
	case err != nil:
		return nil, err
	case text == "":
		return nil, fmt.Errorf("%s%s is missing or empty", p.Env, p.File)
	case !utf8.ValidString(text):
		return nil, fmt.Errorf("%s%s is not UTF-8", p.Env, p.File)
	}
	return events.Marshal(text)
}

func (s secrets) variable(name string) (string, error) {
	if !slices.Contains(s.env, name) {
		return "", fmt.Errorf("environment variable %s is not among those that this worker may give away", name)
	}
	return os.Getenv(name), nil
}

// file reads a file within the directory; no path and no link leads out of it.
func (s secrets) file(name string) (string, error) {
	if s.dir == "" {
		return "", fmt.Errorf("file %s: this worker has no directory of secrets", name)
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return "", err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	if info, err := root.Stat(name); err != nil {
		return "", err
	} else if !info.Mode().IsRegular() { // a pipe would block
		return "", fmt.Errorf("%s is no regular file", name)
	}
	f, err := root.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	switch {
	case err != nil:
		return "", err
	case len(b) > maxSecret:
		return "", fmt.Errorf("%s has more than %d bytes", name, maxSecret)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), nil
}
