package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/internal/show"
)

type callFlags struct {
	session, turn, user string
	attrs               map[string]string
	timeout, deadline   time.Duration
	noWait              bool
}

const callHelp = `Submits one call as a turn of its own, waits for its result and prints its text on stdout.

The arguments are a JSON object, @file, or - for stdin; nothing means {}. On a terminal the text is
escaped where it could deceive; anywhere else its bytes are what the tool returned. A result that is
no success is told on stderr instead, and by the exit code:

   1 the tool reported an error     6 the worker was lost; the outcome is perhaps unknown
   2 wrong usage                    7 the result is too large
   3 no such tool, or inactive      8 nobody there: server, dispatcher
   4 invalid arguments              9 denied
   5 out of time                   10 cancelled

Ctrl-C cancels the call. The same --session and --turn given again attach to the first call.`

func (a *app) callCommand() *cobra.Command {
	var f callFlags
	cmd := &cobra.Command{
		Use: "call <tool> [json|@file|-]", Short: "Call a tool and print its result", Long: callHelp,
		Example: `  toolwire call get_current_time '{"timezone":"Europe/Berlin"}'` + "\n" +
			"  toolwire call get_current_time --json | jq .structuredContent\n" +
			"  echo '{\"timezone\":\"UTC\"}' | toolwire call get_current_time - --no-wait",
		GroupID: "use", Args: args(1, 2),
		ValidArgsFunction: a.completeTools,
		RunE: func(cmd *cobra.Command, args []string) error {
			input := "{}"
			if len(args) == 2 {
				input = args[1]
			}
			return a.call(cmd.Context(), events.ToolName(args[0]), input, f)
		},
	}
	p := cmd.Flags()
	p.StringVar(&f.session, "session", "", "session `id` (default: a new one)")
	p.StringVar(&f.turn, "turn", "", "turn `id` (default: a new one)")
	p.StringVar(&f.user, "user", "", "`who` the call is for, in the context that the worker gets")
	p.StringToStringVar(&f.attrs, "attr", nil, "`key=value` of the context that the worker gets; repeat for more")
	p.Lookup("attr").DefValue = "" // no "[]" in the help
	p.DurationVar(&f.timeout, "timeout", 0, "how long to wait; the call goes on (default: until it ends)")
	p.DurationVar(&f.deadline, "deadline", 0, "how long the call may take in all; then it ends (default: the tool's own)")
	p.BoolVar(&f.noWait, "no-wait", false, "print session, turn and call, and do not wait")
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) call(ctx context.Context, tool events.ToolName, input string, f callFlags) error {
	raw, err := a.arguments(input)
	if err != nil {
		return err
	}
	c, l, done, err := a.client("call")
	if err != nil {
		return err
	}
	defer done()
	progress := a.progress()
	t := agent.Turn{
		Session: events.SessionID(f.session), ID: events.TurnID(f.turn),
		Calls:    []events.Call{{ID: "c1", Name: tool, Input: raw}},
		Progress: progress.show,
	}
	if t.Session == "" {
		t.Session = events.SessionID("cli-" + uuid.NewString()[:8])
	}
	if f.user != "" || len(f.attrs) > 0 {
		t.Context = &events.Context{User: f.user, Attributes: f.attrs}
	}
	if f.deadline > 0 {
		t.Deadline = time.Now().Add(f.deadline)
	}
	p, err := a.submit(ctx, c, l, t)
	if err != nil {
		return fmt.Errorf("%s: %w", tool, err)
	}
	defer p.Close()
	key := events.CallKey{Session: p.Session(), Turn: p.Turn(), Call: p.Calls()[0]}
	if f.noWait {
		return a.printKey(key)
	}
	r, err := a.await(ctx, c, p, key, f.timeout)
	progress.clear()
	if err != nil {
		return fmt.Errorf("%s: %w", tool, err)
	}
	return a.printResult(key, r)
}

const (
	// submitTimeout bounds the time until the turn is stored, over lost connections and all.
	submitTimeout = 10 * time.Second
	// firstTry is after how long it is looked into why a turn is not stored.
	firstTry = 1500 * time.Millisecond
)

// submit stores the turn. A hopeless case is told early; trying twice stores it once.
func (a *app) submit(ctx context.Context, c *agent.Client, l *jet.Link, t agent.Turn) (*agent.Pending, error) {
	if t.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, fmt.Errorf("new turn id: %w", err)
		}
		t.ID = events.TurnID(id.String())
	}
	var err error
	for _, limit := range [...]time.Duration{firstTry, submitTimeout - firstTry} {
		var p *agent.Pending
		try, cancel := context.WithTimeout(ctx, limit)
		p, err = c.Submit(try, t)
		cancel()
		if err == nil {
			return p, nil
		}
		if cause := a.diagnose(ctx, l, err); ctx.Err() != nil || !errors.Is(cause, agent.ErrUnavailable) {
			return nil, cause
		}
	}
	if errors.Is(err, nats.ErrNoResponders) {
		err = fmt.Errorf("%w: nothing takes calls for %q at this server", agent.ErrUnavailable, a.prefixOrDefault())
	}
	return nil, err
}

// arguments reads the input of a call: JSON itself, a file, or stdin.
func (a *app) arguments(s string) (json.RawMessage, error) {
	raw, from := []byte(s), "the arguments"
	var err error
	switch {
	case s == "-":
		from = "stdin"
		raw, err = io.ReadAll(a.in)
	case strings.HasPrefix(s, "@"):
		from = s[1:]
		raw, err = os.ReadFile(s[1:])
	}
	if err != nil {
		return nil, usagef("arguments: %v; give JSON, @file, or - for stdin", err)
	}
	if len(strings.TrimSpace(string(raw))) == 0 {
		return json.RawMessage("{}"), nil
	}
	var v json.RawMessage
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, usagef("%s: not JSON: %v; give an object, quoted for the shell: '{\"name\":\"value\"}'", from, err)
	}
	return raw, nil
}

// await waits for the result. When ctx ends (Ctrl-C), it cancels the call and gives it a moment to
// settle.
func (a *app) await(ctx context.Context, c *agent.Client, p *agent.Pending, key events.CallKey, timeout time.Duration) (events.ToolResult, error) {
	wait := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	rs, err := p.Await(wait)
	switch {
	case err == nil:
		return rs[0], nil
	case ctx.Err() != nil:
		a.note("cancelling; again to leave it to itself")
		return a.cancelAndAwait(context.WithoutCancel(ctx), c, p, key)
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("no result within %s, and the call goes on; see `toolwire calls show %s %s`",
			timeout, quote(string(key.Session)), quote(string(key.Turn)))
		return events.ToolResult{}, &exitError{err, events.ReasonTimeout.Outcome().Exit}
	}
	return events.ToolResult{}, err
}

// cancelTimeout bounds the time a cancelled call may take to settle.
const cancelTimeout = 15 * time.Second

func (a *app) cancelAndAwait(ctx context.Context, c *agent.Client, p *agent.Pending, key events.CallKey) (events.ToolResult, error) {
	ctx, cancel := context.WithTimeout(ctx, cancelTimeout)
	defer cancel()
	what := events.CancelCalls{Reason: "interrupted at the command line"}
	if err := c.Cancel(ctx, key.Session, key.Turn, what); err != nil { // stored: it holds even if nobody dispatches now
		return events.ToolResult{}, err
	}
	rs, err := p.Await(ctx)
	if err != nil {
		return events.ToolResult{}, fmt.Errorf("the wish to cancel is stored, and the call has not ended yet: %w", err)
	}
	return rs[0], nil
}

func (a *app) printKey(k events.CallKey) error {
	if a.json {
		return a.printJSON(struct {
			Session events.SessionID `json:"session"`
			Turn    events.TurnID    `json:"turn"`
			Call    events.CallID    `json:"callId"`
		}{k.Session, k.Turn, k.Call})
	}
	a.print("%s %s %s\n", show.Line(string(k.Session)), show.Line(string(k.Turn)), show.Line(string(k.Call)))
	return nil
}

// printResult writes a result to stdout, or an error that says why there is none.
func (a *app) printResult(k events.CallKey, r events.ToolResult) error {
	exit := r.Reason.Outcome().Exit
	if a.json {
		if err := a.printResultJSON(k, r); err != nil {
			return err
		}
		if exit != 0 {
			return silent(exit)
		}
		return nil
	}
	text := r.Text()
	if exit != 0 {
		return &exitError{fmt.Errorf("%s: %s: %s", r.Name, r.Reason, strings.TrimRight(text, "\n")), exit}
	}
	if isTerminal(a.out) {
		a.print("%s\n", strings.TrimSuffix(show.Text(text), "\n"))
	} else {
		a.print("%s", text)
	}
	if n := others(r); n > 0 {
		a.note("%d blocks are no text; see them with --json", n)
	}
	return nil
}

// printResultJSON writes the result as it was stored, led by where it is stored.
func (a *app) printResultJSON(k events.CallKey, r events.ToolResult) error {
	b, err := events.Marshal(r)
	if err != nil {
		return err
	}
	head, err := events.Marshal(struct {
		Session events.SessionID `json:"session"`
		Turn    events.TurnID    `json:"turn"`
	}{k.Session, k.Turn})
	if err != nil {
		return err
	}
	a.print("%s,%s\n", head[:len(head)-1], b[1:])
	return nil
}

// others counts the blocks of a result that are not text.
func others(r events.ToolResult) (n int) {
	for _, c := range r.Content {
		if _, ok := c.Text(); !ok {
			n++
		}
	}
	return n
}

// quote makes a word that a shell takes as it is.
func quote(s string) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:", r)
	}) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// diagnose looks for the cause behind "nobody answers", where the connection itself is fine.
func (a *app) diagnose(ctx context.Context, l *jet.Link, err error) error {
	if !errors.Is(err, agent.ErrUnavailable) || ctx.Err() != nil {
		return err
	}
	if denied := l.DeniedError(); denied != nil {
		return denied
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if _, js := l.CheckJetStream(ctx); js != nil && !errors.Is(js, jet.ErrDenied) { // an agent need not have that right
		return js
	}
	return err
}
