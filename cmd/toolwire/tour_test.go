package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// natsHeading begins the part of the tour that needs the nats CLI.
const natsHeading = "## Be a client with the plain `nats` CLI"

// The tour without the part that needs the nats CLI; tour_natscli_test.go runs all of it.
func TestTour(t *testing.T) {
	t.Parallel()
	out := runTour(t, tourScript(t, "tour.md", func(section string) bool { return section != natsHeading }), "")
	for _, want := range []string{
		"ok    call",
		"+01:00\n",
		"timezone: \"Mars\" is no IANA time zone",
		"exit code 4",
		"get_current_time  finished  success",
		"accepted, as alice: The call is approved.",
		"accepted, as alice: The call is denied.",
		"accepted, as alice: The call has its result.",
		"Permission denied by user: it is night there",
		"exit code 9",
		"\nthat\n",
		"by alice, with changed arguments",
		"demo_append  submitted",
		"slept 4 s\n",
		"demo_append  finished  error (outcome_unknown)",
		"exit code 6",
		"\nonce\n",
	} {
		if !strings.Contains(out, want) && (want != "+01:00\n" || !strings.Contains(out, "+02:00\n")) { // summer time
			t.Errorf("the tour does not say %q:\n%s", want, out)
		}
	}
	if n := strings.Count(out, "\nonce\n"); n != 1 {
		t.Errorf("%d side effects, want 1", n)
	}
}

// The processes of docs/operate.md, one after the other.
func TestOperate(t *testing.T) {
	t.Parallel()
	out := runTour(t, tourScript(t, "operate.md", func(string) bool { return true }), "")
	for _, want := range []string{
		"ok    call",
		"ops t1 c1\n",
		"turn t1 of session ops",
		`"callId":"c1"`,
		"accepted, as alice: The call is approved.",
		"approved    by alice",
		"no dead letters",
		"nobody runs get_current_time, todo_write",
		"tools ls: unavailable: tools: no dispatcher is running",
		"exit code 8",
		"planner  agent ",
		"Authorization Violation; give credentials with --creds",
		`only operators may do this, "planner" is none`,
		`the credentials are those of the agent "planner", who cannot act as "olga"`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("operate.md does not say %q:\n%s", want, out)
		}
	}
}

// tourScript joins the shell blocks of the sections of a document that are wanted.
func tourScript(t *testing.T, name string, want func(section string) bool) string {
	t.Helper()
	doc, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var script strings.Builder
	section, in := "", false
	for line := range strings.Lines(string(doc)) {
		switch trimmed := strings.TrimSpace(line); {
		case strings.HasPrefix(line, "## "):
			section = trimmed
		case trimmed == "```sh" && want(section):
			in = true
		case trimmed == "```":
			in = false
		case in:
			script.WriteString(line)
		}
	}
	if script.Len() == 0 {
		t.Fatal(name + " has no commands")
	}
	return script.String()
}

// runTour runs a script as a reader would, with a port and a home of its own, and returns what it said.
func runTour(t *testing.T, script, bin string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") // a free port, which the nats CLI has to know
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	dir := t.TempDir()
	// Whatever happens, nothing that it started is left.
	script = "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\nset -eu\n" + script
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Dir = dir
	path := os.Getenv("PATH")
	if bin != "" {
		path = bin + string(filepath.ListSeparator) + path
	}
	cmd.Env = []string{
		"PATH=" + path, "HOME=" + dir, "XDG_STATE_HOME=" + filepath.Join(dir, "state"),
		"TOOLWIRE_ADDR=" + addr, "NATS_URL=nats://" + addr,
	}
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// The guided tour plays by itself where nobody presses Enter, and leaves nothing.
func TestDemo(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	out := runTour(t, "TMPDIR="+tmp+" toolwire demo < /dev/null", "")
	for _, want := range []string{
		"+01:00\n",
		"$ toolwire call HumanApproval '{\"action\":\"refund 40 EUR\"}' --session demo --turn refund --no-wait",
		"The questions are still there",
		"accepted, as you: The call is approved.",
		"accepted, as you: The call is denied.",
		"accepted, as you: The call has its result.",
		"by you, with changed arguments",
		"once:\nwritten for the agent, as you corrected it\n\nThat is all",
	} {
		if !strings.Contains(out, want) && (want != "+01:00\n" || !strings.Contains(out, "+02:00\n")) { // summer time
			t.Errorf("the demo does not say %q:\n%s", want, out)
		}
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
