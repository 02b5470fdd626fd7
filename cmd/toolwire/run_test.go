package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

// command runs a command line in this process, away from the user's state and environment.
func command(t *testing.T, ctx context.Context, args ...string) (exit int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	exit = run(ctx, args, []string{"HOME=" + t.TempDir(), "NATS_URL=nats://127.0.0.1:1"}, streams{strings.NewReader(""), &out, &err})
	return exit, out.String(), err.String()
}

// Every command says what it is for and shows an example, and a test of each is somewhere.
func TestEveryCommandHasHelp(t *testing.T) {
	t.Parallel()
	a := &app{}
	var paths []string
	for _, c := range a.root().Commands() {
		if !c.HasSubCommands() {
			paths = append(paths, c.Name())
		}
		for _, sub := range c.Commands() {
			paths = append(paths, c.Name()+" "+sub.Name())
		}
	}
	if len(paths) < 15 {
		t.Errorf("only %v", paths)
	}
	for _, path := range paths {
		exit, out, _ := command(t, t.Context(), append(strings.Fields(path), "--help")...)
		if exit != 0 || !strings.Contains(out, "Usage:") || !strings.Contains(out, "Examples:") {
			t.Errorf("%s --help: exit %d, %q", path, exit, out)
		}
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		text string
		exit int
	}{
		{fmt.Errorf("%w: tool: no such tool (404)", agent.ErrNotFound), "not found: tool: no such tool (404)", 3},
		{fmt.Errorf("%w: tools: no dispatcher is running", agent.ErrUnavailable), "unavailable: tools: no dispatcher is running; start `toolwire up`", 8},
		{fmt.Errorf("x: %w at here; do this", jet.ErrUnreachable), "x: no NATS server at here; do this", 8},
		{fmt.Errorf("%w: this user may not publish", jet.ErrDenied), "not permitted: this user may not publish", 9},
		{fmt.Errorf("%w: session is empty", events.ErrToken), "identifier unfit for a subject: session is empty", 2},
		{errors.New("something else"), "something else", 1},
		{usagef("wrong; say it so"), "wrong; say it so", 2},
		{silent(6), "", 6},
		{fmt.Errorf("wait: %w", context.DeadlineExceeded), "wait: context deadline exceeded", 5},
	} {
		text, exit := describe(c.err)
		if !strings.HasPrefix(text, c.text) || exit != c.exit {
			t.Errorf("%v: got %q, %d, want %q, %d", c.err, text, exit, c.text, c.exit)
		}
	}
}

// An error is one line, whatever is in it.
func TestErrorIsOneLine(t *testing.T) {
	t.Parallel()
	exit, _, stderr := command(t, t.Context(), "call", "x", "{\x1b[31m\n")
	if exit != 2 || strings.Count(stderr, "\n") != 1 || strings.ContainsRune(stderr, '\x1b') {
		t.Errorf("got exit %d, %q", exit, stderr)
	}
}

// Text that others wrote is escaped for people, and stays as it is for programs (T-145).
func TestResultText(t *testing.T) {
	t.Parallel()
	var out, note bytes.Buffer
	a := &app{streams: streams{nil, &out, &note}}
	const text = "red \x1b[31m\u202e\u200b\xf3\xa0\x81\x81\n\n"
	k := events.CallKey{Session: "s", Turn: "t", Call: "c"}
	r := events.ToolResult{
		CallID: "c", Name: "x", State: events.StateSuccess, Reason: events.ReasonOK,
		Content: []events.Content{events.Text(text), events.Image("image/png", []byte{1})},
	}
	if err := a.printResult(k, r); err != nil || out.String() != text {
		t.Errorf("got %q, %v, want the bytes as they are", out.String(), err)
	}
	if note.String() != "1 blocks are no text; see them with --json\n" {
		t.Errorf("got note %q", note.String())
	}
	out.Reset()
	a.table([]string{"A", "B"}, [][]string{{"x\x1b[2J", "two\nlines"}, {"ü", "\u202ey"}})
	if got, want := out.String(), "A         B\nx\\u001b[2J  two\\nlines\nü           \\u202ey\n"; strings.ContainsAny(got, "\x1b\u202e") || strings.Count(got, "\n") != 3 {
		t.Errorf("got %q, want something like %q", got, want)
	}
	r.Reason, r.State = events.ReasonToolError, events.StateError
	err := a.printResult(k, r)
	if text, exit := describe(err); exit != 1 || !strings.HasPrefix(text, "x: tool_error: red") {
		t.Errorf("got %q, %d", text, exit)
	}
}

// The JSON of a result holds the tool's own JSON byte for byte.
func TestResultJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &app{streams: streams{nil, &out, &out}, json: true}
	r := events.ToolResult{
		CallID: "c", Name: "x", State: events.StateSuccess, Reason: events.ReasonOK, Content: []events.Content{},
		StructuredContent: json.RawMessage(`{"n": 123456789012345678901,  "a":"<&>"}`),
	}
	if err := a.printResult(events.CallKey{Session: "s", Turn: "t"}, r); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.HasPrefix(got, `{"session":"s","turn":"t","callId":"c"`) || !strings.Contains(got, string(r.StructuredContent)) ||
		strings.Count(got, "\n") != 1 || !json.Valid([]byte(got)) {
		t.Errorf("got %s", got)
	}
}

func TestByteSize(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int64{"17": 17, "500M": 500 << 20, "20g": 20 << 30, "1TiB": 1 << 40, "2KB": 2048} {
		var s byteSize
		if err := s.Set(in); err != nil || int64(s) != want {
			t.Errorf("%s: got %d, %v, want %d", in, s, err, want)
		}
	}
	for _, in := range []string{"", "0", "-1", "x", "1X", "G", "9999999999T", "1.5G"} {
		var s byteSize
		if err := s.Set(in); err == nil {
			t.Errorf("%q: got %d, want an error", in, s)
		}
	}
}

func TestRedact(t *testing.T) {
	t.Parallel()
	if got, want := redact("nats://u:p@a:1,nats://b:2"), "nats://a:1,nats://b:2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	var ready, health error
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "toolwire_test_total", Help: "of this test"})
	h, err := httpHandler([]service{{name: "x", ready: func() error { return ready }, health: func() error { return health }, figure: counter}})
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	for _, c := range []struct {
		path          string
		ready, health error
		code          int
		says          string
	}{
		{"/healthz", errors.New("no"), nil, 200, "ok"},
		{"/healthz", nil, errors.New("slots leak"), 503, "slots leak"},
		{"/readyz", nil, errors.New("slots leak"), 200, "ok"},
		{"/readyz", errors.New("draining"), nil, 503, "draining"},
		{"/metrics", nil, nil, 200, "toolwire_test_total 0"},
		{"/metrics", nil, nil, 200, "go_goroutines"},
		{"/", nil, nil, 404, ""},
	} {
		ready, health = c.ready, c.health
		if code, body := get(c.path); code != c.code || !strings.Contains(body, c.says) {
			t.Errorf("%s: got %d %q, want %d %q", c.path, code, body, c.code, c.says)
		}
	}
}

// A service that ends by itself ends all; one that is told to stop is no error.
func TestServe(t *testing.T) {
	t.Parallel()
	s := service{name: "x", ready: func() error { return nil }, health: func() error { return nil }, figure: noFigures{}}
	s.run = func(ctx context.Context) error { <-ctx.Done(); return nil }
	other := s
	other.run = func(context.Context) error { return errors.New("broken") }
	a := &app{streams: streams{nil, &bytes.Buffer{}, &bytes.Buffer{}}}
	log, err := a.logger(logFlags{"info"})
	if err != nil {
		t.Fatal(err)
	}
	if err := serve(t.Context(), "127.0.0.1:0", log, s, other); err == nil || err.Error() != "x: broken" {
		t.Errorf("got %v, want the first error", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := serve(ctx, "127.0.0.1:0", log, s); err != nil {
		t.Errorf("got %v", err)
	}
}

// A service that drains still answers: not ready, and well.
func TestServeWhileDraining(t *testing.T) {
	t.Parallel()
	draining, release := make(chan struct{}), make(chan struct{})
	s := service{name: "x", health: func() error { return nil }, figure: noFigures{}}
	s.ready = func() error {
		select {
		case <-draining:
			return errors.New("draining")
		default:
			return nil
		}
	}
	s.run = func(ctx context.Context) error {
		<-ctx.Done()
		close(draining)
		<-release
		return nil
	}
	said := make(addresses, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, "127.0.0.1:0", zerolog.New(said), s) }()
	url := "http://" + <-said
	get := func(path string) (code int) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if code := get("/readyz"); code != http.StatusOK {
		t.Errorf("running: got %d", code)
	}
	stop()
	<-draining
	if ready, well := get("/readyz"), get("/healthz"); ready != http.StatusServiceUnavailable || well != http.StatusOK {
		t.Errorf("draining: readyz %d, healthz %d, want 503 and 200", ready, well)
	}
	close(release)
	if err := <-ended; err != nil {
		t.Errorf("got %v", err)
	}
}

// addresses is a log from which the addresses that are served are taken.
type addresses chan string

// Write is for the log.
func (a addresses) Write(line []byte) (int, error) {
	var l struct {
		Addr string `json:"addr"`
	}
	if err := json.Unmarshal(line, &l); err == nil && l.Addr != "" {
		a <- l.Addr
	}
	return len(line), nil
}
