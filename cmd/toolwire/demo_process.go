package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"
)

// demoProcess is a service of the demo.
type demoProcess struct {
	cmd   *exec.Cmd
	ended chan struct{}

	mu   sync.Mutex
	said bytes.Buffer
}

// Write keeps what the process says.
func (p *demoProcess) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(b)
}

func (p *demoProcess) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.String()
}

// service starts a process that stays.
func (d *demo) service(ctx context.Context, args ...string) (*demoProcess, error) {
	d.print("\n$ toolwire %s &\n", quoted(args))
	p := &demoProcess{cmd: d.command(context.WithoutCancel(ctx), args...), ended: make(chan struct{})} // ended by kill
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	d.running = append(d.running, p)
	go func() { _ = p.cmd.Wait(); close(p.ended) }()
	return p, nil
}

var (
	addrOf = regexp.MustCompile(`nats://([0-9.:]+),`)
	pageOf = regexp.MustCompile(`Calls that wait for people: (http\S+)`)
)

// start starts the server with all that belongs to it, and the worker.
func (d *demo) start(ctx context.Context) error {
	up, err := d.service(ctx, "up", "--addr", d.addr, "--store", "nats", "-f", "toolwire.yaml", "--console", "127.0.0.1:0")
	if err != nil {
		return err
	}
	for late := time.Now().Add(30 * time.Second); !pageOf.MatchString(up.text()); {
		select {
		case <-up.ended:
			return fmt.Errorf("the server ended: %s", strings.TrimSpace(up.text()))
		default:
		}
		if time.Now().After(late) {
			return fmt.Errorf("the server does not start: %s", strings.TrimSpace(up.text()))
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	d.addr, d.page = addrOf.FindStringSubmatch(up.text())[1], pageOf.FindStringSubmatch(up.text())[1]
	if _, err := d.service(ctx, "worker", "--demo", "demo.log"); err != nil {
		return err
	}
	if out, err := d.command(ctx, "tools", "show", "demo_append", "--wait", "30s").CombinedOutput(); err != nil {
		return fmt.Errorf("the worker does not start: %w: %s", err, out)
	}
	return nil
}

// kill ends all processes at once, as a crash would.
func (d *demo) kill() {
	for _, p := range d.running {
		_ = p.cmd.Process.Kill()
	}
	for _, p := range d.running {
		<-p.ended
	}
	d.running = nil
}
