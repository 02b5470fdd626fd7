package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain lets the test binary be the command: scripts and tests start it under its name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"toolwire": main, "testworker": testWorker})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
			e.Setenv("XDG_CONFIG_HOME", filepath.Join(e.WorkDir, "config"))
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("TOOLWIRE_ADDR", "127.0.0.1:0")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"waitfor": waitFor, "exits": exits, "local": localURL, "publish": publish, "request": request,
		},
		RequireUniqueNames: true,
	})
}

// patience bounds all waiting in tests; nothing takes so long unless it is broken.
const patience = 30 * time.Second

// poll tries f every few milliseconds until it is true.
func poll(f func() bool) bool {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		if f() {
			return true
		}
	}
	return false
}

// waitFor file PATH, or: waitfor [-stdout PATTERN] COMMAND…, until it succeeds and says so.
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: waitfor file PATH | waitfor [-stdout PATTERN] COMMAND…")
	}
	what, pattern := strings.Join(args, " "), regexp.MustCompile("")
	f := func() bool {
		out := quietly(ts, args)
		return out != nil && pattern.Match(out)
	}
	switch args[0] {
	case "file":
		f = func() bool {
			_, err := os.Stat(ts.MkAbs(args[1]))
			return err == nil
		}
	case "-stdout":
		pattern, args = regexp.MustCompile("(?m)"+args[1]), args[2:]
	}
	if !poll(f) {
		ts.Fatalf("waited %s for: %s", patience, what)
	}
	if args[0] != "file" {
		ts.Check(ts.Exec(args[0], args[1:]...)) // once more, for stdout and stderr
	}
}

// quietly runs a command without a word in the log, and returns what it printed, nil if it failed.
func quietly(ts *testscript.TestScript, args []string) []byte {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "TOOLWIRE_SERVER", "TOOLWIRE_CREDS", "NATS_CONTEXT", "NATS_URL"} {
		if v := ts.Getenv(name); v != "" {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	out, err := cmd.Output()
	if err != nil {
		return nil
	}
	return append(out, '\n')
}

// exits CODE COMMAND…: it ends with this exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%s: %v", args[1], err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// local sets URL and ADDR to where the running `up` of the script listens.
func localURL(ts *testscript.TestScript, _ bool, _ []string) {
	var l local
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("state/toolwire/server.json")), &l))
	ts.Setenv("URL", l.URL)
	ts.Setenv("ADDR", strings.TrimPrefix(l.URL, "nats://"))
}

// publish SUBJECT DATA, as it is, where `local` points to.
func publish(ts *testscript.TestScript, _ bool, args []string) {
	nc, err := nats.Connect(ts.Getenv("URL"))
	ts.Check(err)
	defer nc.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err = nc.RequestWithContext(ctx, args[0], []byte(args[1]))
	ts.Check(err)
}

// request VAR SESSION: the request id of the one open question of a session.
func request(ts *testscript.TestScript, _ bool, args []string) {
	id := regexp.MustCompile(`"requestId":"([0-9a-f]+)"`)
	if !poll(func() bool {
		m := id.FindSubmatch(quietly(ts, []string{"toolwire", "approvals", "ls", "--all", "--json", "--session", args[1]}))
		if m != nil {
			ts.Setenv(args[0], string(m[1]))
		}
		return m != nil
	}) {
		ts.Fatalf("no question of session %s", args[1])
	}
}
