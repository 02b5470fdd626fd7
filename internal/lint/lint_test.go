//go:build lint

package lint_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// root is the repository, seen from this package.
const root = "../.."

// finding is one report of the linter; of a depguard report, list is the rule it is from.
type finding struct {
	File, Linter, List, Import string
}

// TestImportRules plants every forbidden import and some allowed ones, one a file, and compares
// what is reported with what should be.
func TestImportRules(t *testing.T) {
	t.Parallel()
	dir := layout(t)
	var want []finding
	for i, p := range importPlants {
		file := filepath.Join(p.dir, p.fileName(i))
		write(t, dir, file, fmt.Sprintf("package %s\n\nimport _ %q\n", packageName(p.dir), p.imports))
		for _, list := range p.lists {
			want = append(want, finding{File: file, Linter: "depguard", List: list, Import: p.imports})
		}
	}
	diff(t, want, run(t, dir, "depguard"))
}

// TestForbiddenCalls does the same for the calls that forbidigo forbids.
func TestForbiddenCalls(t *testing.T) {
	t.Parallel()
	dir := layout(t)
	var want []finding
	for i, p := range callPlants {
		name := fmt.Sprintf("call_%02d.go", i)
		switch {
		case p.file != "":
			name = p.file
		case p.test:
			name = fmt.Sprintf("call_%02d_test.go", i)
		}
		file := filepath.Join("workers", name)
		source := fmt.Sprintf("func call%d(%s) { %s }\n", i, p.params, p.call)
		if p.imports != "" {
			source = fmt.Sprintf("import %q\n\n%s", p.imports, source)
		}
		write(t, dir, file, "package workers\n\n"+source)
		if !p.allowed {
			want = append(want, finding{File: file, Linter: "forbidigo"})
		}
	}
	diff(t, want, run(t, dir, "forbidigo"))
}

// TestEveryImportRuleIsPlanted reads the configuration, so that a rule added there without a plant
// here is noticed.
func TestEveryImportRuleIsPlanted(t *testing.T) {
	t.Parallel()
	var config struct {
		Linters struct {
			Settings struct {
				Depguard struct {
					Rules map[string]struct {
						ListMode string `yaml:"list-mode"` //nolint:tagliatelle // golangci-lint's own key
						Deny     []struct{ Pkg string }
					}
				}
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(root, ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	rules := config.Linters.Settings.Depguard.Rules
	if len(rules) == 0 {
		t.Fatal("no depguard rules found in .golangci.yml")
	}
	for list, rule := range rules {
		if rule.ListMode == "strict" && !planted(list, "") {
			t.Errorf("rule %s: nothing planted", list)
		}
		for _, deny := range rule.Deny {
			if !planted(list, deny.Pkg) {
				t.Errorf("rule %s: no import of %s planted", list, deny.Pkg)
			}
		}
	}
}

// planted reports whether some plant should be reported by the list for an import below prefix.
func planted(list, prefix string) bool {
	for _, p := range importPlants {
		for _, l := range p.lists {
			if l == list && strings.HasPrefix(p.imports, prefix) {
				return true
			}
		}
	}
	return false
}

// layout makes a module with our packages as empty leaves, every dependency a stub beside it, and
// our configuration. Plants import the leaves, so that they make no import cycle.
func layout(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(filepath.Join(root, ".golangci.yml"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, ".golangci.yml", string(text))
	var gomod strings.Builder
	fmt.Fprintf(&gomod, "module %s\n\ngo 1.26.0\n", module)
	for path, version := range stubs {
		fmt.Fprintf(&gomod, "\nrequire %[1]s %[2]s\n\nreplace %[1]s => ./stub/%[1]s\n", path, version)
		write(t, dir, filepath.Join("stub", path, "go.mod"), "module "+path+"\n\ngo 1.26.0\n")
		write(t, dir, filepath.Join("stub", path, "stub.go"), "package stub\n")
	}
	for path, source := range stubPackages {
		write(t, dir, filepath.Join("stub", path, "stub.go"), source)
	}
	write(t, dir, "go.mod", gomod.String())
	for _, pkg := range packages {
		write(t, dir, filepath.Join(pkg, "doc.go"), "package "+packageName(pkg)+"\n")
		write(t, dir, filepath.Join(pkg, "leaf", "leaf.go"), "package leaf\n")
	}
	return dir
}

// run runs one linter with our configuration over the module in dir.
func run(t *testing.T, dir, linter string) []finding {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary(t), "run", "--enable-only", linter, "--allow-parallel-runners", "--uniq-by-line=false",
		"--output.json.path", "stdout", "--output.text.path", "stderr", "--show-stats=false", "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false", "GOPROXY=off", "GOWORK=off",
		"GOLANGCI_LINT_CACHE="+t.TempDir())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) { // 1: there are findings
		t.Fatalf("golangci-lint: %v\n%s", err, stderr.String())
	}
	var report struct {
		Issues []struct {
			FromLinter, Text string
			Pos              struct{ Filename string }
		}
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v in the report of golangci-lint:\n%s%s", err, out, stderr.String())
	}
	var got []finding
	for _, issue := range report.Issues {
		f := finding{File: issue.Pos.Filename, Linter: issue.FromLinter}
		if m := depguardText.FindStringSubmatch(issue.Text); m != nil {
			f.Import, f.List = m[1], m[2]
		} else if f.Linter != "forbidigo" {
			t.Errorf("unexpected report: %s: %s: %s", f.File, f.Linter, issue.Text)
		}
		got = append(got, f)
	}
	return got
}

// binary returns golangci-lint as `make lint` built it, or builds it.
func binary(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(root, "bin", "golangci-lint"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		return path
	}
	path = filepath.Join(t.TempDir(), "golangci-lint")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-modfile=tools/go.mod", "-o", path,
		"github.com/golangci/golangci-lint/v2/cmd/golangci-lint")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build golangci-lint: %v\n%s", err, out)
	}
	return path
}

func write(t *testing.T, dir, file, text string) {
	t.Helper()
	path := filepath.Join(dir, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func diff(t *testing.T, want, got []finding) {
	t.Helper()
	if d := cmp.Diff(want, got, sorted); d != "" {
		t.Errorf("reports (-want +got):\n%s", d)
	}
}
