package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/workers"
)

type e2eInput struct {
	ID     string `json:"id"`
	Millis int    `json:"millis"`
}

// testWorker is a worker program of its own: `testworker URL FILE`. Its tool e2e_append has a side
// effect, a line in the file; e2e_wait has none. Both go on for a while, so that a kill finds them at it.
func testWorker() {
	url, file := os.Args[1], os.Args[2]
	wait := func(ctx context.Context, in e2eInput) (string, error) {
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(time.Duration(in.Millis) * time.Millisecond):
			return in.ID, nil
		}
	}
	tools := toolkit.New()
	err := tools.Add(
		toolkit.MustDefine("e2e_wait", "waits", wait, &toolkit.Options{Idempotent: true}),
		toolkit.MustDefine("e2e_append", "appends a line", func(ctx context.Context, in e2eInput) (string, error) {
			if err := appendLine(file, in.ID); err != nil {
				return "", err
			}
			return wait(ctx, in)
		}, nil),
	)
	nc, cerr := nats.Connect(url, nats.MaxReconnects(-1))
	if err = errors.Join(err, cerr); err == nil {
		var w *workers.Worker
		if w, err = workers.New(nc, tools, workers.Config{Name: "e2e", Slots: 4}); err == nil {
			err = w.Run(context.Background())
		}
	}
	_, _ = fmt.Fprintln(os.Stderr, err)
}

// Real processes, killed at random without warning while 200 calls run: each call has exactly one
// result, and no call with a side effect has it twice.
func TestKilledProcesses(t *testing.T) {
	t.Parallel()
	const turns, perTurn = 50, 4
	f := startFleet(t)
	c, bus := f.agent(t)

	pending := f.submit(t, c, turns, perTurn)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	lines := f.lines(t) // so far; read again below
	reasons := map[events.Reason]int{}
	results := map[string]events.ToolResult{}
	for _, p := range pending {
		rs, err := p.Await(ctx)
		if err != nil {
			t.Fatalf("%v; %d lines by then", err, len(lines))
		}
		for _, r := range rs {
			results[string(p.Turn())+"/"+string(r.CallID)] = r
			reasons[r.Reason]++
		}
	}
	t.Logf("%d workers and %d dispatchers killed; results: %v", f.killed["worker"], f.killed["dispatcher"], reasons)

	lines = f.lines(t)
	for id, r := range results {
		fenced := r.Name == "e2e_append"
		switch {
		case r.Reason == events.ReasonOK && fenced && lines[id] != 1:
			t.Errorf("%s: ok, with %d side effects", id, lines[id])
		case r.Reason == events.ReasonOutcomeUnknown && fenced && lines[id] > 1:
			t.Errorf("%s: %d side effects", id, lines[id])
		case r.Reason != events.ReasonOK && (!fenced || r.Reason != events.ReasonOutcomeUnknown):
			t.Errorf("%s %s: %s: %s", id, r.Name, r.Reason, r.Text())
		}
	}
	if len(results) != turns*perTurn {
		t.Errorf("%d results, want %d", len(results), turns*perTurn)
	}
	if n := stored(t, bus); n != turns*perTurn {
		t.Errorf("%d results are stored, want %d", n, turns*perTurn)
	}
}

// stored counts the results in JOURNAL.
func stored(t *testing.T, b *jet.Bus) int {
	t.Helper()
	s, err := b.JetStream().Stream(t.Context(), b.JournalStream())
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(t.Context(), jetstream.WithSubjectFilter(b.Under("result")))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, count := range info.State.Subjects {
		n += int(count)
	}
	return n
}

// fleet is a server, two dispatchers and three workers.
type fleet struct {
	url, file string
	rng       *rand.Rand
	running   map[string][]*exec.Cmd
	killed    map[string]int
}

func startFleet(t *testing.T) *fleet {
	t.Helper()
	dir := t.TempDir()
	f := &fleet{
		file: filepath.Join(dir, "effects"), rng: rand.New(rand.NewPCG(1, 2)),
		running: map[string][]*exec.Cmd{}, killed: map[string]int{},
	}
	server := exec.CommandContext(t.Context(), "toolwire", "server", "--addr", "127.0.0.1:0", "--store", filepath.Join(dir, "data"))
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	begin(t, server)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	f.url = strings.TrimSuffix(strings.Fields(line)[2], ",")
	go func() { _, _ = io.Copy(io.Discard, out) }()
	f.start(t, "dispatcher", 2)
	f.start(t, "worker", 3)
	return f
}

// begin starts a process that ends with the test.
func begin(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

func (f *fleet) start(t *testing.T, what string, n int) {
	t.Helper()
	for range n {
		cmd := exec.CommandContext(t.Context(), "testworker", f.url, f.file)
		if what == "dispatcher" {
			cmd = exec.CommandContext(t.Context(), "toolwire", "dispatcher", "--server", f.url, "--log-level", "error")
		}
		begin(t, cmd)
		f.running[what] = append(f.running[what], cmd)
	}
}

// kill ends one process of a kind by SIGKILL and starts another in its place.
func (f *fleet) kill(t *testing.T, what string) {
	t.Helper()
	i := f.rng.IntN(len(f.running[what]))
	if err := f.running[what][i].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	f.running[what] = append(f.running[what][:i], f.running[what][i+1:]...)
	f.killed[what]++
	f.start(t, what, 1)
}

func (f *fleet) agent(t *testing.T) (*agent.Client, *jet.Bus) {
	t.Helper()
	nc, err := nats.Connect(f.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	c, err := agent.New(nc, agent.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	bus, err := jet.NewBus(nc, events.Subjects{})
	if err != nil {
		t.Fatal(err)
	}
	if !poll(func() bool {
		tool, err := c.Tool(t.Context(), "e2e_append")
		return err == nil && tool.Info.Workers == 3
	}) {
		t.Fatal("the fleet does not come up")
	}
	return c, bus
}

// submit submits turns at a steady pace, and kills somebody after every third.
func (f *fleet) submit(t *testing.T, c *agent.Client, turns, perTurn int) []*agent.Pending {
	t.Helper()
	pace := time.NewTicker(40 * time.Millisecond)
	defer pace.Stop()
	var all []*agent.Pending
	for n := range turns {
		turn := agent.Turn{Session: "e2e", ID: events.TurnID(fmt.Sprintf("t%d", n))}
		for i := range perTurn {
			tool := events.ToolName("e2e_append")
			if i%2 == 1 {
				tool = "e2e_wait"
			}
			id := events.CallID(fmt.Sprintf("c%d", i))
			in, err := json.Marshal(e2eInput{ID: string(turn.ID) + "/" + string(id), Millis: 10 + f.rng.IntN(100)})
			if err != nil {
				t.Fatal(err)
			}
			turn.Calls = append(turn.Calls, events.Call{ID: id, Name: tool, Input: in})
		}
		p, err := c.Submit(t.Context(), turn)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
		if n%3 == 2 {
			f.kill(t, []string{"worker", "worker", "dispatcher"}[f.rng.IntN(3)])
		}
		<-pace.C
	}
	return all
}

// lines counts the side effects of each call.
func (f *fleet) lines(t *testing.T) map[string]int {
	t.Helper()
	b, err := os.ReadFile(f.file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	count := map[string]int{}
	for line := range strings.Lines(string(b)) {
		count[strings.TrimSpace(line)]++
	}
	return count
}
