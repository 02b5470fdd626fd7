package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// process is one program; lines are what it has printed.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.Writer
	done chan struct{}
	news chan struct{}

	mu    sync.Mutex
	lines []string
}

func start(t *testing.T, dir string, env []string, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.CommandContext(context.WithoutCancel(t.Context()), name, args...), done: make(chan struct{}), news: make(chan struct{}, 1)}
	p.cmd.Dir, p.cmd.Env = dir, append(os.Environ(), env...)
	out, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = w, w
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	go func() {
		defer close(p.done)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, s.Text())
			p.mu.Unlock()
			select {
			case p.news <- struct{}{}:
			default:
			}
		}
		_, _ = out.Close(), p.cmd.Wait()
	}()
	t.Cleanup(p.kill)
	return p
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (p *process) say(text string) {
	if _, err := io.WriteString(p.in, text+"\n"); err != nil {
		p.t.Error(err)
	}
}

// next waits for the next line that holds part, and takes it with all before it.
func (p *process) next(part string) string {
	p.t.Helper()
	late := time.After(time.Minute)
	for {
		if l, ok := p.take(part); ok {
			return l
		}
		select {
		case <-p.news:
		case <-p.done:
			if l, ok := p.take(part); ok {
				return l
			}
			p.t.Fatalf("%v ended without %q: %q", p.cmd.Args, part, p.lines)
		case <-late:
			p.t.Fatalf("%v: no %q within a minute: %q", p.cmd.Args, part, p.lines)
		}
	}
}

func (p *process) take(part string) (string, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, l := range p.lines {
		if strings.Contains(l, part) {
			p.lines = p.lines[i+1:]
			return l, true
		}
	}
	return "", false
}

// installation is everything that runs, and where.
type installation struct {
	t                   *testing.T
	dir                 string
	toolwire, approvals string
	addr                string
	env                 []string
	running             []*process
}

// up starts the server and the worker.
func (i *installation) up() {
	i.t.Helper()
	config, err := filepath.Abs("toolwire.yaml")
	if err != nil {
		i.t.Fatal(err)
	}
	up := start(i.t, i.dir, i.env, i.toolwire, "up", "--addr", i.addr, "--store", filepath.Join(i.dir, "nats"), "--console", "off", "-f", config)
	for f := range strings.FieldsSeq(up.next("ready in ")) {
		if url, ok := strings.CutSuffix(f, ","); ok && strings.HasPrefix(url, "nats://") {
			i.addr = strings.TrimPrefix(url, "nats://")
		}
	}
	i.running = append(i.running, up)
	i.program("worker")
}

// program starts one of the example's programs.
func (i *installation) program(args ...string) *process {
	i.t.Helper()
	p := start(i.t, i.dir, append(i.env, "NATS_URL=nats://"+i.addr), i.approvals, args...)
	i.running = append(i.running, p)
	return p
}

// crash kills everything at once, as far as that can be done.
func (i *installation) crash() {
	for _, p := range i.running {
		_ = p.cmd.Process.Kill()
	}
	for _, p := range i.running {
		p.kill()
	}
	i.running = nil
}

func (i *installation) tell(args ...string) string {
	i.t.Helper()
	cmd := exec.CommandContext(i.t.Context(), i.toolwire, append(args, "--server", "nats://"+i.addr)...)
	cmd.Env = append(os.Environ(), i.env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		i.t.Fatalf("%v: %v: %s", args, err, out)
	}
	return string(out)
}

func build(t *testing.T, dir, name string) string {
	t.Helper()
	bin := filepath.Join(dir, filepath.Base(name))
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, name).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return bin
}

// An agent asks a person, and for two deployments that a rule asks about. Everything is killed while they wait, and
// again between the answers: one deployment happens, once, and each call has its result.
func TestKilledWhileWaiting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	i := &installation{
		t: t, dir: dir, addr: "127.0.0.1:0", env: []string{"XDG_STATE_HOME=" + dir, "XDG_CONFIG_HOME=" + dir},
		toolwire: build(t, filepath.Join(dir, "bin"), "github.com/toolwire/toolwire/cmd/toolwire"), approvals: build(t, filepath.Join(dir, "bin"), "github.com/toolwire/toolwire/examples/approvals"),
	}
	i.up()
	i.tell("tools", "show", "deploy", "--wait", "30s")
	answers := map[string]string{"HumanApproval": "fine by me", "shop": "yes", "bank": "not on a Friday"}
	for len(answers) > 0 {
		agent := i.program("agent") // it submits the same turn again
		agent.next("submitted")
		i.program("approver", "bob").next(" wants ")
		i.crash() // bob has read a question, and says nothing

		i.up()
		agent = i.program("agent")
		alice := i.program("approver", "alice")
		asked := alice.next(" wants ")
		for what, answer := range answers {
			if strings.Contains(asked, what) {
				alice.say(answer)
				delete(answers, what)
			}
		}
		if got := alice.next(": "); !strings.Contains(got, "accepted: ") {
			t.Fatalf("%s: %s", asked, got)
		}
		if strings.Contains(asked, "shop") {
			agent.next("shop: ") // killed while it deploys, how that ended would be unknown
		}
		i.crash()
		i.up()
	}
	agent := i.program("agent")
	<-agent.done
	slices.Sort(agent.lines)
	want := []string{"ask: ok: fine by me", "bank: denied_by_user: Permission denied by user: not on a Friday", "shop: ok: shop 1.4 is live", "submitted"}
	if diff := cmp.Diff(want, agent.lines); diff != "" {
		t.Error(diff)
	}
	if deploys, err := os.ReadFile(filepath.Join(dir, "deploys.txt")); err != nil || string(deploys) != "shop 1.4\n" {
		t.Errorf("deployed %q, %v", deploys, err)
	}
	record := i.tell("calls", "show", "friday", "release")
	for want, times := range map[string]int{"requested": 3, "approved    by alice": 1, "ran         attempt": 1, "not on a Friday": 2, "ok: fine by me": 1} {
		if n := strings.Count(record, want); n != times {
			t.Errorf("the record says %q %d times, want %d:\n%s", want, n, times, record)
		}
	}
}
