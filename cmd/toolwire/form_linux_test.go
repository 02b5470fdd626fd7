package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal with a command at its other end.
type terminal struct {
	t    *testing.T
	side *os.File
	cmd  *exec.Cmd

	mu   sync.Mutex
	seen strings.Builder
	done chan struct{}
}

func onTerminal(t *testing.T, env []string, args ...string) *terminal {
	t.Helper()
	side, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := side.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var n uint32
	err = raw.Control(func(fd uintptr) {
		if err := errors.Join(unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0),
			unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 120})); err != nil {
			t.Error(err)
		}
		if n, err = unix.IoctlGetUint32(int(fd), unix.TIOCGPTN); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, side: side, cmd: exec.CommandContext(t.Context(), "toolwire", args...), done: make(chan struct{})}
	term.cmd.Env = append(os.Environ(), env...)
	term.cmd.Stdin, term.cmd.Stdout, term.cmd.Stderr = tty, tty, tty
	term.cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	begin(t, term.cmd)
	if err := tty.Close(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(term.done)
		_, _ = io.Copy(term, side) // ends when the command does
	}()
	return term
}

func (p *terminal) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen.Write(b)
}

var escapes = regexp.MustCompile(`\x1b\[[0-9;?>=]*[a-zA-Z]|\x1b\][^\x07]*\x07`)

func (p *terminal) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return escapes.ReplaceAllString(p.seen.String(), "")
}

// sees waits for a text.
func (p *terminal) sees(want string) {
	p.t.Helper()
	if !poll(func() bool { return strings.Contains(p.text(), want) }) {
		p.t.Fatalf("the terminal does not show %q:\n%s", want, p.text())
	}
}

func (p *terminal) types(keys string) {
	p.t.Helper()
	if _, err := p.side.WriteString(keys); err != nil {
		p.t.Fatal(err)
	}
}

// ends waits for the command, and returns its exit code.
func (p *terminal) ends() int {
	<-p.done
	_ = p.cmd.Wait()
	_ = p.side.Close()
	return p.cmd.ProcessState.ExitCode()
}

const down = "\x1b[B"

// On a terminal the call is shown, and the answer asked for: by a form, or line by line.
func TestForm(t *testing.T) {
	t.Parallel()
	env, ask := formSetup(t)

	form := onTerminal(t, append(env, "TERM=xterm-256color"), "approvals", "approve", ask(`{"timezone":"UTC"}`))
	form.sees("may this call run?")
	form.sees("you answer as alice")
	form.sees("Not now")
	form.types(down)
	form.sees("> Approve this call")
	form.types("\r")
	form.sees("accepted, as alice: The call is approved.")
	if exit := form.ends(); exit != 0 {
		t.Errorf("exit code %d:\n%s", exit, form.text())
	}

	form = onTerminal(t, append(env, "TERM=xterm-256color"), "approvals", "approve", ask(`{"timezone":"UTC"}`))
	form.sees("Not now")
	form.types("\x03")
	if exit := form.ends(); exit != 10 || !strings.Contains(form.text(), "nothing was answered") {
		t.Errorf("exit code %d:\n%s", exit, form.text())
	}

	// Arguments are changed, shown again and denied after all.
	plain := onTerminal(t, append(env, "TERM=dumb", "EDITOR=sed -i s/UTC/Mars/"), "approvals", "approve", ask(`{"timezone":"UTC"}`))
	plain.sees("3. Change the arguments")
	plain.sees("Number [1]: ")
	plain.types("3\n")
	plain.sees("2. Approve it with these arguments")
	plain.sees(`"timezone": "Mars"`)
	plain.types("4\n")
	plain.sees("Why not? The model reads it: ")
	plain.types("nobody lives there\n")
	plain.sees("accepted, as alice: The call is denied.")
	if exit := plain.ends(); exit != 0 {
		t.Errorf("exit code %d:\n%s", exit, plain.text())
	}

	// Whoever asked is told at once.
	own := onTerminal(t, append(env, "TERM=dumb"), "approvals", "deny", ask(`{}`), "--actor", "local")
	own.sees("you (local) asked for this call yourself, and another person has to answer")
	if exit := own.ends(); exit != exitRefused {
		t.Errorf("exit code %d", exit)
	}
}

// formSetup starts an installation that asks about get_current_time. ask makes a call, and returns the
// request of its question.
func formSetup(t *testing.T) (env []string, ask func(input string) string) {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "toolwire.yaml")
	if err := os.WriteFile(config, []byte("permissions:\n  rules:\n    - ask: get_current_time\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env = []string{"HOME=" + dir, "XDG_STATE_HOME=" + dir, "TOOLWIRE_ACTOR=alice", "TOOLWIRE_ADDR=127.0.0.1:0", "NATS_URL=", "TOOLWIRE_SERVER=", "NO_COLOR=1"}
	up := exec.CommandContext(t.Context(), "toolwire", "up", "-f", config)
	up.Env = append(os.Environ(), env...)
	begin(t, up)
	if !poll(func() bool {
		_, err := os.Stat(filepath.Join(dir, "toolwire", "server.json"))
		return err == nil
	}) {
		t.Fatal("up does not come up")
	}
	quiet := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "toolwire", args...)
		cmd.Env = up.Env
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return string(out)
	}
	id := regexp.MustCompile(`"requestId":"([0-9a-f]+)"`)
	n := 0
	return env, func(input string) (request string) {
		t.Helper()
		n++
		session := fmt.Sprintf("s%d", n)
		quiet("call", "get_current_time", input, "--session", session, "--no-wait")
		if !poll(func() bool {
			m := id.FindStringSubmatch(quiet("approvals", "ls", "--all", "--json", "--session", session))
			if m != nil {
				request = m[1]
			}
			return m != nil
		}) {
			t.Fatal("nobody is asked")
		}
		return request
	}
}
