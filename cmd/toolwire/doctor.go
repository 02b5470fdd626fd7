package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/internal/show"
)

type doctorFlags struct {
	noCall bool
	wait   time.Duration
}

func (a *app) doctorCommand() *cobra.Command {
	var f doctorFlags
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check the installation step by step, and say what to do",
		Long: "Checks connection, server, JetStream, permissions, streams, consumers, dispatcher, workers and\n" +
			"clocks, and makes one harmless call. Exit code 0: nothing failed. With --wait it looks again\n" +
			"until then, so scripts can wait for an installation that starts.",
		Example: "  toolwire doctor\n  toolwire doctor --wait 30s --json",
		GroupID: "use", Args: args(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context(), f) },
	}
	cmd.Flags().BoolVar(&f.noCall, "no-call", false, "do not make a call")
	cmd.Flags().DurationVar(&f.wait, "wait", 0, "look again for so long until nothing fails")
	a.jsonFlag(cmd)
	return cmd
}

// verdict is how one check came out.
type verdict string

const (
	verdictOK   verdict = "ok"
	verdictWarn verdict = "warn"
	verdictFail verdict = "fail"
)

// check is one line of the doctor's report.
type check struct {
	Name    string  `json:"name"`
	Verdict verdict `json:"verdict"`
	Text    string  `json:"text"`
	Cure    string  `json:"cure,omitempty"`
}

func (a *app) doctor(ctx context.Context, f doctorFlags) error {
	end := time.Now().Add(f.wait)
	for {
		e := &examination{a: a, noCall: f.noCall}
		e.all(ctx)
		if e.failed() && time.Now().Before(end) && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(250 * time.Millisecond):
			}
			continue
		}
		return a.report(e)
	}
}

func (a *app) report(e *examination) error {
	if a.json {
		if err := a.printJSON(e.checks); err != nil {
			return err
		}
	} else {
		colour := map[verdict]string{verdictOK: green, verdictWarn: yellow, verdictFail: red}
		for _, c := range e.checks {
			a.print("%s  %-12s %s\n", a.paint(colour[c.Verdict], fmt.Sprintf("%-4s", c.Verdict)), c.Name, show.Line(c.Text))
			if c.Cure != "" {
				a.print("      %-12s → %s\n", "", show.Line(c.Cure))
			}
		}
	}
	if e.failed() {
		return silent(exitFailed)
	}
	return nil
}

// examination collects the checks of one round.
type examination struct {
	a      *app
	noCall bool
	checks []check
	link   *jet.Link
	bus    *jet.Bus
	client *agent.Client
}

func (e *examination) failed() bool {
	for _, c := range e.checks {
		if c.Verdict == verdictFail {
			return true
		}
	}
	return false
}

func (e *examination) ok(name, format string, args ...any) {
	e.checks = append(e.checks, check{name, verdictOK, fmt.Sprintf(format, args...), ""})
}

func (e *examination) warn(name, text, cure string) {
	e.checks = append(e.checks, check{name, verdictWarn, text, cure})
}

// fail notes an error; what follows its last "; " is the cure.
func (e *examination) fail(name string, err error, cure string) {
	text, _ := describe(err)
	if head, tail, ok := cutLast(text, "; "); ok {
		text = head
		if cure == "" {
			cure = tail
		}
	}
	e.checks = append(e.checks, check{name, verdictFail, text, cure})
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// stepTimeout bounds one check.
const stepTimeout = 5 * time.Second

// all goes from the connection outwards, and stops where nothing further could be learnt.
func (e *examination) all(ctx context.Context) {
	defer e.close()
	for _, step := range []func(context.Context) bool{
		e.connection, e.jetStream, e.permissions, e.streams, e.consumers, e.dispatcher, e.tools, e.call,
	} {
		sctx, cancel := context.WithTimeout(ctx, stepTimeout)
		more := step(sctx)
		cancel()
		if !more {
			return
		}
	}
}

func (e *examination) close() {
	if e.client != nil {
		e.client.Close()
	}
	if e.link != nil {
		e.link.Close()
	}
}

func (e *examination) connection(ctx context.Context) bool {
	t, err := e.a.target()
	if err != nil {
		e.fail("connection", err, "")
		return false
	}
	if e.client, e.link, _, err = e.a.client("doctor"); err != nil {
		e.fail("connection", err, "")
		return false
	}
	s, err := events.NewSubjects(e.a.prefix())
	if err == nil {
		e.bus, err = jet.NewBus(e.link.Conn, s)
	}
	if err != nil {
		e.fail("connection", err, "")
		return false
	}
	begin := time.Now()
	if err := e.link.FlushWithContext(ctx); err != nil {
		e.fail("connection", err, "check the network to the server")
		return false
	}
	e.ok("connection", "%s, %s there and back", t.where, time.Since(begin).Round(10*time.Microsecond))
	e.ok("server", "nats-server %s, %s or newer is needed", e.link.ConnectedServerVersion(), jet.MinServer)
	return true
}

func (e *examination) jetStream(ctx context.Context) bool {
	info, err := e.link.CheckJetStream(ctx)
	if errors.Is(err, jet.ErrDenied) {
		text, _ := describe(err)
		e.warn("jetstream", text, "an agent or worker does without; run this as an operator to have the streams checked")
		return true
	}
	if err != nil {
		e.fail("jetstream", err, "")
		return false
	}
	text := fmt.Sprintf("%s on disk, %d streams", humanBytes(info.Store), info.Streams)
	if limit := info.Limits.MaxStore; limit > 0 && float64(info.Store) > 0.8*float64(limit) {
		e.warn("jetstream", text+", over 80 % of the limit of "+humanBytes(uint64(limit)), "raise the limit, or shorten the history")
		return true
	}
	e.ok("jetstream", "%s", text)
	return true
}

func (e *examination) permissions(ctx context.Context) bool {
	what, subject := "results", e.bus.LiveResults("doctor")
	if e.a.held.Role == jet.RoleApprover {
		what, subject = "questions", e.bus.Under("live.require")
	}
	sub, err := e.link.SubscribeSync(subject)
	if err == nil {
		defer func() { _ = sub.Unsubscribe() }()
		err = e.link.FlushWithContext(ctx)
	}
	if err == nil {
		err = e.link.DeniedError()
	}
	if err != nil && !strings.Contains(err.Error(), "$JS.API") {
		e.fail("permissions", err, "")
		return true
	}
	e.ok("permissions", "%s can be read", what)
	return true
}

func (e *examination) streams(ctx context.Context) bool {
	_, err := e.link.Ask(ctx, "$JS.API.STREAM.INFO."+e.bus.CallsStream(), nil)
	if errors.Is(err, jet.ErrDenied) || e.link.DeniedError() != nil {
		e.warn("streams", "this user may not see the streams", "run this as an operator to have them checked")
		return true
	}
	findings, err := e.bus.Inspect(ctx)
	if err != nil {
		e.fail("streams", err, "")
		return false
	}
	var missing, wrong []string
	for _, f := range findings {
		if f.Info == nil {
			missing = append(missing, f.Name)
		}
		for _, w := range f.Wrong {
			wrong = append(wrong, f.Name+": "+w)
		}
		e.pressure(f)
	}
	switch {
	case len(missing) == len(findings):
		e.fail("streams", fmt.Errorf("there is no installation %q here", e.a.prefixOrDefault()),
			"start a dispatcher: it sets the streams up; or name another with --prefix")
		return false
	case len(missing) > 0:
		e.fail("streams", fmt.Errorf("missing: %s", strings.Join(missing, ", ")), "start a dispatcher: it sets them up again")
	case len(wrong) > 0:
		e.fail("streams", errors.New(strings.Join(wrong, ", ")), "a promise is broken: start a dispatcher, it sets right what can be")
	default:
		e.ok("streams", "%d streams and buckets as they should be, each on %s", len(findings), count(findings[0].Info.Config.Replicas, "server"))
	}
	e.skew(findings)
	return true
}

func (e *examination) pressure(f jet.Finding) {
	if f.Info == nil {
		return
	}
	if limit := f.Info.Config.MaxBytes; limit > 0 && float64(f.Info.State.Bytes) > 0.8*float64(limit) {
		e.warn("streams", fmt.Sprintf("%s is over 80 %% of its limit of %s: no turns are taken", f.Name, humanBytes(uint64(limit))),
			"add workers, or raise the limit with --max-bytes of the dispatchers")
	}
}

// skewMax is how far clocks may differ before it matters: deadlines are in seconds.
const skewMax = 2 * time.Second

func (e *examination) skew(findings []jet.Finding) {
	for _, f := range findings {
		if f.Info == nil || f.Info.TimeStamp.IsZero() {
			continue
		}
		// The answer was made within the last moments; its age bounds what can be said.
		msg, err := e.link.Request("$JS.API.STREAM.INFO."+f.Name, nil, stepTimeout)
		var resp jetstream.StreamInfo
		if err != nil || json.Unmarshal(msg.Data, &resp) != nil {
			return
		}
		off := time.Since(resp.TimeStamp).Round(time.Millisecond)
		if off.Abs() > skewMax {
			e.warn("clocks", fmt.Sprintf("this machine is %s off the server", off), "set the clocks by NTP: deadlines are the server's")
			return
		}
		e.ok("clocks", "within %s of the server", max(off.Abs(), time.Millisecond))
		return
	}
}

func (e *examination) consumers(ctx context.Context) bool {
	if e.link.DeniedError() != nil {
		return true
	}
	var waiting []string
	for stream, name := range map[string]string{
		e.bus.CallsStream(): jet.IntakeConsumer, e.bus.InboxStream(): jet.CancelConsumer, e.bus.TimersStream(): jet.DueConsumer,
	} {
		c, err := e.bus.JetStream().Consumer(ctx, stream, name)
		if err != nil {
			e.fail("consumers", fmt.Errorf("%s of %s: %w", name, stream, err), "start a dispatcher: it sets them up")
			return true
		}
		if n := c.CachedInfo().NumPending; n > 1000 {
			waiting = append(waiting, fmt.Sprintf("%d messages wait for %s", n, name))
		}
	}
	if len(waiting) > 0 {
		e.warn("consumers", strings.Join(waiting, ", "), "add dispatchers")
		return true
	}
	e.ok("consumers", "there, and nothing waits")
	return true
}

func (e *examination) dispatcher(ctx context.Context) bool {
	begin := time.Now()
	_, err := e.client.Tool(ctx, "toolwire_doctor")
	if err != nil && !errors.Is(err, agent.ErrNotFound) {
		e.fail("dispatcher", err, "")
		return false
	}
	e.ok("dispatcher", "answers in %s", time.Since(begin).Round(10*time.Microsecond))
	return true
}

// call makes one call that changes nothing: the time if somebody tells it, else one of a tool that
// does not exist, which has a defined result, too.
func (e *examination) call(ctx context.Context) bool {
	if e.noCall || e.a.held.Role == jet.RoleApprover { // who calls nothing
		return true
	}
	name, want := events.ToolName("get_current_time"), events.ReasonOK
	if t, err := e.client.Tool(ctx, name); err != nil || t.Info.Workers == 0 {
		name, want = "toolwire_doctor", events.ReasonNotFound
	}
	begin := time.Now()
	r, err := e.client.Call(ctx, events.SessionID("doctor-"+cmp.Or(string(e.a.acting), "local")), name, json.RawMessage("{}"))
	switch {
	case err != nil:
		e.fail("call", err, "look at the logs of dispatchers and workers")
	case r.Reason != want:
		e.fail("call", fmt.Errorf("%s: %s: %s", name, r.Reason, r.Text()), "look at the logs of the workers")
	default:
		e.ok("call", "%s came back with %s in %s", name, r.Reason, time.Since(begin).Round(10*time.Microsecond))
	}
	return true
}

func humanBytes[T ~uint64 | ~int64](n T) string {
	v := float64(n)
	for _, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if v < 1024 {
			return fmt.Sprintf("%.4g %s", v, unit)
		}
		v /= 1024
	}
	return fmt.Sprintf("%.4g TiB", v)
}
