//go:build natscli

package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// natscli is the tool as the tour installs it.
const natscli = "github.com/nats-io/natscli/nats@v0.4.0"

// The part of the tour with the plain nats CLI.
func TestTourWithNatsCLI(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	install := exec.CommandContext(t.Context(), "go", "install", natscli)
	install.Env = append(os.Environ(), "GOBIN="+bin, "GOFLAGS=")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("install %s: %v\n%s", natscli, err, out)
	}
	skipped := "## Kill a worker at work" // TestTour runs that
	script := tourScript(t, "tour.md", func(section string) bool { return section != skipped })
	script = strings.NewReplacer("kill \"$second\"\n", "", "wait \"$second\"\n", "").Replace(script)
	out := runTour(t, script, bin)
	for _, want := range []string{
		"ce-type: io.toolwire.v1.ToolResult",
		"ce-id: result/tour/binary/c1",
		`"text":"20`,
		"maximum messages per subject exceeded",
		"turn structured of session tour, from agent local",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the tour does not say %q:\n%s", want, out)
		}
	}
	if n := strings.Count(out, `"reason":"ok"`); n != 2 {
		t.Errorf("%d results, want 2, of the binary and the structured event:\n%s", n, out)
	}
}
