package workers

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/toolkit"
)

// source is a preset that is not a literal.
type source struct{ Env, File string }

func TestSecrets(t *testing.T) {
	outside := t.TempDir()
	dir := filepath.Join(t.TempDir(), "secrets")
	write := func(path, content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, path string) {
		t.Helper()
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(outside, "key"), "hunter2")
	write(filepath.Join(dir, "key"), "se\"same\r\n")
	write(filepath.Join(dir, "lines"), "a\n\n")
	write(filepath.Join(dir, "empty"), "\n")
	write(filepath.Join(dir, "binary"), "hunter2\xff")
	write(filepath.Join(dir, "large"), strings.Repeat("hunter2", 10000))
	write(filepath.Join(dir, "..2026", "token"), "mounted")
	link("..2026", filepath.Join(dir, "..data")) // as Kubernetes mounts them
	link("..data/token", filepath.Join(dir, "token"))
	link(filepath.Join(outside, "key"), filepath.Join(dir, "escape"))
	link("../../"+filepath.Base(outside)+"/key", filepath.Join(dir, "climb"))
	t.Setenv("ALLOWED", "hunter2")
	t.Setenv("FORBIDDEN", "hunter2")
	t.Setenv("EMPTY", "")

	s := secrets{env: []string{"ALLOWED", "EMPTY", "UNSET"}, dir: dir}
	if err := s.check(); err != nil {
		t.Fatal(err)
	}
	for preset, want := range map[source]string{
		{Env: "ALLOWED"}: `"hunter2"`, {File: "key"}: `"se\"same"`, {File: "lines"}: `"a\n"`,
		{File: "token"}: `"mounted"`, {File: "..2026/token"}: `"mounted"`,
		{Env: "FORBIDDEN"}: "", {Env: "EMPTY"}: "", {Env: "UNSET"}: "", {Env: "allowed"}: "", {}: "",
		{File: "empty"}: "", {File: "binary"}: "", {File: "large"}: "", {File: "."}: "", {File: "..2026"}: "", {File: "none"}: "",
		{File: "../secrets/key"}: "", {File: filepath.Join(dir, "key")}: "", {File: "escape"}: "", {File: "climb"}: "",
	} {
		got, err := s.resolve(map[string]toolkit.Preset{"key": {Env: preset.Env, File: preset.File}})
		switch {
		case want != "" && (err != nil || string(got["key"]) != want):
			t.Errorf("%+v: got %s, %v, want %s", preset, got, err, want)
		case want == "" && (err == nil || got != nil || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%+v: got %s, %v, want an error without the value", preset, got, err)
		}
	}
	values, err := s.resolve(map[string]toolkit.Preset{"a": {Value: json.RawMessage(`null`)}, "b": {Value: json.RawMessage(`{"n": 1}`)}})
	if diff := cmp.Diff(map[string]json.RawMessage{"a": json.RawMessage(`null`), "b": json.RawMessage(`{"n": 1}`)}, values); err != nil || diff != "" {
		t.Errorf("literals: %v (-want +got):\n%s", err, diff)
	}
	if _, err := (secrets{}).resolve(map[string]toolkit.Preset{"key": {File: "key"}}); err == nil {
		t.Error("a file without a directory of secrets")
	}
	if err := (secrets{dir: filepath.Join(dir, "none")}).check(); err == nil {
		t.Error("a directory that is not there")
	}
}
