package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// demoConfig is what the demo asks people about.
const demoConfig = `permissions:
  mode: bypass
  rules:
    - ask: demo_append   # a person has to say yes
external:
  - name: HumanApproval  # no worker runs it: a person gives its result
    description: Have a person decide.
    concurrencySafe: true
    inputSchema:
      type: object
      properties: {action: {type: string}}
      required: [action]
`

// demo plays the guided tour: real processes of this program in a directory of their own.
type demo struct {
	*app

	dir       string
	self      string
	inherited []string // environment of its processes
	addr      string
	page      string // where people answer in a browser
	running   []*demoProcess
}

func (a *app) demoCommand() *cobra.Command {
	keep := false
	cmd := &cobra.Command{
		Use: "demo", Short: "A guided tour: calls, people who decide, kills, and the record of it all",
		Long: "Starts everything in a temporary directory and shows, step by step, what Toolwire does: a call; calls\n" +
			"that wait for a person; all processes killed and started again; answers; what was done, once; and the\n" +
			"record. Each command is printed before it runs, so that you can do the same.\n\n" +
			"On a terminal it waits for Enter between the steps, and you may answer in the browser meanwhile. Elsewhere it\n" +
			"plays by itself. Nothing of yours is touched, and the directory is removed at the end unless --keep is given.",
		Example: "  toolwire demo\n  toolwire demo --keep < /dev/null",
		GroupID: "run", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), keep) },
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the directory with its data, and say where it is")
	return cmd
}

func (a *app) demo(ctx context.Context, keep bool) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "toolwire-demo-")
	if err != nil {
		return err
	}
	d := &demo{app: a, dir: dir, self: self, addr: "127.0.0.1:0", inherited: []string{
		"PATH=" + a.env["PATH"], "HOME=" + dir, "XDG_STATE_HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "TMPDIR=" + os.TempDir(), "TOOLWIRE_ACTOR=you",
	}}
	defer func() {
		d.kill()
		if keep {
			a.print("\nThe data is in %s\n", dir)
			return
		}
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	if err := os.WriteFile(filepath.Join(dir, "toolwire.yaml"), []byte(demoConfig), 0o600); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{d.begin, d.ask, d.crash, d.answer, d.record} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	a.print("\nThat is all. Go on with `toolwire up`, and docs/tour.md.\n")
	return nil
}

func (d *demo) begin(ctx context.Context) error {
	d.say("Everything in one process, and a worker with tools of its own:")
	if err := d.start(ctx); err != nil {
		return err
	}
	d.say("An agent calls a tool:")
	err := d.do(ctx, "call", "get_current_time", `{"timezone":"Europe/Berlin"}`)
	return errors.Join(err, d.pause(ctx))
}

func (d *demo) ask(ctx context.Context) error {
	d.say("It wants a decision, and two actions that a rule asks about. Nobody holds a connection for them:")
	for _, c := range []struct{ turn, tool, input string }{
		{"refund", "HumanApproval", `{"action":"refund 40 EUR"}`},
		{"write", "demo_append", `{"line":"written for the agent"}`},
		{"wipe", "demo_append", `{"line":"everything is wiped"}`},
	} {
		if err := d.do(ctx, "call", c.tool, c.input, "--session", "demo", "--turn", c.turn, "--no-wait"); err != nil {
			return err
		}
		if _, err := d.request(ctx, c.turn); err != nil {
			return err
		}
	}
	err := d.do(ctx, "approvals", "ls")
	if d.page != "" {
		d.print("\nPeople can answer in a browser as well: %s\n", d.page)
	}
	return errors.Join(err, d.pause(ctx))
}

func (d *demo) crash(ctx context.Context) error {
	d.say("Now all processes are killed, with kill -9, and started again. The questions are still there:")
	d.kill()
	if err := d.start(ctx); err != nil {
		return err
	}
	err := d.do(ctx, "approvals", "ls")
	if d.page != "" {
		d.print("\nThe page is now at %s\n", d.page)
	}
	return errors.Join(err, d.pause(ctx))
}

func (d *demo) answer(ctx context.Context) error {
	d.say("You answer: one action with other arguments, one not at all, and the decision. (What you have answered in the browser stays so.)")
	for _, a := range []struct {
		turn string
		args []string
	}{
		{"write", []string{"approve", "", "--input", `{"line":"written for the agent, as you corrected it"}`}},
		{"wipe", []string{"deny", "", "--reason", "we need it"}},
		{"refund", []string{"answer", "", "fine by me"}},
	} {
		request, err := d.request(ctx, a.turn)
		if err != nil {
			return err
		}
		if request == "" {
			continue // answered in the browser
		}
		a.args[1] = request
		if err := d.do(ctx, append([]string{"approvals"}, a.args...)...); err != nil {
			return err
		}
	}
	return d.pause(ctx)
}

func (d *demo) record(ctx context.Context) error {
	d.say("Each call has exactly one result, and the whole story is on record:")
	for _, turn := range []string{"refund", "wipe", "write"} {
		if err := d.finished(ctx, turn); err != nil {
			return err
		}
	}
	if err := d.do(ctx, "calls", "show", "demo", "write"); err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join(d.dir, "demo.log"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	d.say("And this is what was done, once:")
	d.print("%s", b)
	return nil
}

func (d *demo) say(text string) { d.print("\n%s\n", d.paint(green, text)) }

// pause waits for Enter where there is somebody to press it.
func (d *demo) pause(ctx context.Context) error {
	if !d.interactive() {
		return ctx.Err()
	}
	p := &prompter{in: d.in, out: d.err, lines: bufio.NewReader(d.in)}
	_, err := p.line(ctx, "\nEnter goes on, Ctrl-C ends. ")
	return err
}

// command is this program with other arguments, as the tour shows it.
func (d *demo) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, d.self) //nolint:gosec // this program
	cmd.Args = append([]string{"toolwire"}, args...)
	cmd.Dir, cmd.Env = d.dir, append([]string{"NATS_URL=nats://" + d.addr}, d.inherited...)
	return cmd
}

// do prints a command, runs it, and prints what it says.
func (d *demo) do(ctx context.Context, args ...string) error {
	d.print("\n$ toolwire %s\n", quoted(args))
	out, err := d.command(ctx, args...).CombinedOutput()
	if len(out) > 0 {
		d.print("%s\n", bytes.TrimSuffix(out, []byte("\n")))
	}
	if err != nil {
		return fmt.Errorf("toolwire %s: %w", quoted(args), err)
	}
	return nil
}

var plainWord = regexp.MustCompile(`^[a-zA-Z0-9_./:=-]+$`)

// quoted writes arguments as a shell reads them.
func quoted(args []string) string {
	out := make([]string, len(args))
	for i, a := range args {
		if out[i] = a; !plainWord.MatchString(a) {
			out[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
	}
	return strings.Join(out, " ")
}

var (
	requestOf = regexp.MustCompile(`"request":"([0-9a-f]+)"`)
	doneOf    = regexp.MustCompile(`"state":"finished"`)
)

// request is the open question of a turn, as soon as there is one; "": it is answered.
func (d *demo) request(ctx context.Context, turn string) (string, error) {
	b, err := d.status(ctx, turn, func(b []byte) bool { return requestOf.Match(b) || doneOf.Match(b) })
	if m := requestOf.FindSubmatch(b); m != nil {
		return string(m[1]), err
	}
	return "", err
}

func (d *demo) finished(ctx context.Context, turn string) error {
	_, err := d.status(ctx, turn, doneOf.Match)
	return err
}

// status waits until a turn stands as wanted.
func (d *demo) status(ctx context.Context, turn string, want func([]byte) bool) ([]byte, error) {
	for late := time.Now().Add(30 * time.Second); ; {
		b, err := d.command(ctx, "calls", "ls", "demo", turn, "--json").Output()
		if err == nil && want(b) {
			return b, nil
		}
		if ctx.Err() != nil || time.Now().After(late) {
			return nil, fmt.Errorf("turn %s does not go on: %w", turn, errors.Join(err, ctx.Err()))
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
