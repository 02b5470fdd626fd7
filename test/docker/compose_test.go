//go:build docker

package docker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	// root is the repository, seen from this package.
	root = "../.."
	// readyTimeout is how long the fleet may take until a first call comes back: three servers elect
	// their leaders, a dispatcher makes the streams, a worker announces its tools.
	readyTimeout = 2 * time.Minute
	// callTimeout bounds one call in a container of its own.
	callTimeout = 30 * time.Second
	servers     = "nats://nats-1:4222,nats://nats-2:4222,nats://nats-3:4222"
)

// TestCompose starts the installation with two workers, calls a tool, then kills a NATS node, a
// dispatcher and a worker, and calls again.
func TestCompose(t *testing.T) {
	t.Parallel()
	f := start(t, "worker=2")

	f.awaitCall(t)
	for service, want := range map[string]int{"dispatcher": 2, "worker": 2} {
		if got := len(f.containers(t, service)); got != want {
			t.Errorf("%d containers of service %s, want %d", got, service, want)
		}
	}

	f.kill(t, f.containers(t, "nats-3")[0])
	f.kill(t, f.containers(t, "dispatcher")[0])
	f.kill(t, f.containers(t, "worker")[0])
	f.awaitCall(t)
}

// fleet is one running compose project.
type fleet struct {
	compose []string
	env     []string
}

// start builds the binary and the images and brings the project up; it goes down with the test.
func start(t *testing.T, scale string) *fleet {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", filepath.Join(dir, "toolwire"), "./cmd/toolwire")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the static binary: %v\n%s", err, out)
	}
	dockerfile, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), dockerfile, 0o600); err != nil {
		t.Fatal(err)
	}

	f := &fleet{
		compose: append(composeCommand(t), "-p", fmt.Sprintf("toolwiretest%d", os.Getpid()),
			"-f", "docker-compose.yml", "-f", "docker-compose.test.yml"),
		// Port 0: any free one, since 4222 may be taken.
		env: append(os.Environ(), "TOOLWIRE_TEST_CONTEXT="+dir, "TOOLWIRE_NATS_PORT=0", "TOOLWIRE_CONSOLE_PORT=0", "DOCKER_BUILDKIT=0"),
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if t.Failed() {
			out, _ := f.run(ctx, "logs", "--no-color", "--tail=40")
			t.Logf("logs:\n%s", out)
		}
		if out, err := f.run(ctx, "down", "--volumes", "--remove-orphans", "--timeout=5"); err != nil {
			t.Errorf("down: %v\n%s", err, out)
		}
	})
	f.must(t, "up", "--detach", "--build", "--scale", scale)
	return f
}

// composeCommand is the v2 plugin where there is one, else docker-compose 1.29.
func composeCommand(t *testing.T) []string {
	t.Helper()
	if exec.CommandContext(t.Context(), "docker", "compose", "version").Run() == nil {
		return []string{"docker", "compose"}
	}
	path, err := exec.LookPath("docker-compose")
	if err != nil {
		t.Fatal("neither `docker compose` nor docker-compose is there: install one, or run .ci/with-docker")
	}
	return []string{path}
}

// awaitCall calls the time tool until a result comes back, and checks it.
func (f *fleet) awaitCall(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), readyTimeout)
	defer cancel()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for {
		out, err := f.call(ctx)
		if err == nil {
			checkResult(t, out)
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("no call came back within %s; the last said: %v\n%s", readyTimeout, err, out)
		case <-again.C:
		}
	}
}

// call runs one call in a container of its own and returns what it wrote.
func (f *fleet) call(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return f.run(ctx, "run", "--rm", "-T", "cli", "call", "get_current_time", "{}", "--json", "--server", servers)
}

// checkResult finds the one line of JSON that `toolwire call --json` prints.
func checkResult(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		var result struct{ Name, State string }
		if json.Unmarshal([]byte(line), &result) != nil {
			continue // compose itself talks, too
		}
		if result.Name != "get_current_time" || result.State != "success" {
			t.Errorf("result %s, want success of get_current_time", line)
		}
		return
	}
	t.Errorf("no result in:\n%s", out)
}

func (f *fleet) containers(t *testing.T, service string) []string {
	t.Helper()
	return strings.Fields(f.must(t, "ps", "--quiet", service))
}

// kill ends a container by SIGKILL, and keeps it down.
func (f *fleet) kill(t *testing.T, container string) {
	t.Helper()
	for _, args := range [][]string{{"update", "--restart=no", container}, {"kill", container}} {
		cmd := exec.CommandContext(t.Context(), "docker", args...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

func (f *fleet) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := f.run(t.Context(), args...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", args[0], err, out)
	}
	return out
}

// run runs compose; what it returns is stdout, followed by stderr when it failed.
func (f *fleet) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, f.compose[0], append(f.compose[1:len(f.compose):len(f.compose)], args...)...)
	cmd.Dir = root
	cmd.Env = f.env
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String() + stderr.String(), err
	}
	return stdout.String(), nil
}
