package workers_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/workers"
)

// tuned dispatches a call with a tuning.
func (b *bench) tuned(tool, call, input string, tuning toolkit.Tuning) {
	b.Helper()
	raw, err := json.Marshal(tuning)
	if err != nil {
		b.Fatal(err)
	}
	b.dispatch(tool, call, func(_ *jet.Out, w *events.ToolWork) {
		w.Call.Input, w.Tuning = json.RawMessage(input), raw
	})
}

// spoken is everything that can be heard on the bus or read in the log.
type spoken struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *spoken) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *spoken) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.b.String(), text)
}

func (b *bench) overhear() (*spoken, zerolog.Logger) {
	b.Helper()
	s := &spoken{}
	if _, err := b.bus.Conn().Subscribe(">", func(m *nats.Msg) {
		if !strings.HasPrefix(m.Subject, "toolwire.work.") && !strings.HasPrefix(m.Subject, "_INBOX.") { // the tuning itself
			_, _ = s.Write(m.Data)
		}
	}); err != nil {
		b.Fatal(err)
	}
	return s, zerolog.New(s)
}

// search returns what it runs with.
func search(o *toolkit.Options) *toolkit.Tool {
	return toolkit.MustDefine("search", "searches", func(ctx context.Context, in struct {
		Q   string `json:"q"`
		Key string `json:"key"`
	},
	) (string, error) {
		toolkit.Progress(ctx, 1, 2, "searching")
		if in.Key == "" {
			return "", toolkit.Retryable(context.Canceled)
		}
		return in.Q + "/" + strings.ToUpper(in.Key) + "/" + string(toolkit.Input(ctx)[:5]), nil
	}, o)
}

// T9: presets are set where the tool runs, whatever the model sent; secret ones come from the worker's own
// environment and files, and are heard nowhere.
func TestPresetsAreSetByTheWorker_T9(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SEARCH_KEY", "hunter2")
	bubble(t, func(b *bench) {
		heard, log := b.overhear()
		b.start(workers.Config{SecretEnv: []string{"SEARCH_KEY"}, SecretDir: dir, Logger: log}, search(nil))
		for call, p := range map[string]toolkit.Preset{
			"c1": {Env: "SEARCH_KEY"}, "c2": {File: "key"}, "c3": {Value: json.RawMessage(`"hunter2"`)},
		} {
			b.tuned("search", call, `{"q":"x","key":"mine"}`, toolkit.Tuning{Presets: map[string]toolkit.Preset{"key": p}})
			if r := b.result(call, 5*time.Second); r.Text() != `x/HUNTER2/{"q":` {
				b.Errorf("%s: got %s %q", call, r.Reason, r.Text())
			}
		}
		b.idle()
		if heard.has("hunter2") {
			b.Error("the secret was told")
		}
	})
}

// What cannot be set as it is configured is the operator's concern: the model hears that the tool is
// unavailable, the log why, and nobody the value.
func TestPresetsThatCannotBeSet(t *testing.T) {
	t.Setenv("SEARCH_KEY", "hunter2")
	for name, c := range map[string]struct {
		tuning string
		log    string
	}{
		"variable not given":   {`{"presets":{"key":{"env":"OTHER_KEY"}}}`, "OTHER_KEY is not among those"},
		"no directory":         {`{"presets":{"key":{"file":"key"}}}`, "no directory of secrets"},
		"no such parameter":    {`{"presets":{"none":{"value":"hunter2"}}}`, "no such parameter"},
		"does not fit":         {`{"presets":{"key":{"value":{"a":"hunter2"}}}}`, `preset of \"key\" does not fit`},
		"extended in conflict": {`{"extended":{"properties":{"q":{}}}}`, "conflicting property"},
		"malformed":            {`{"presets":"hunter2"}`, "tuning is malformed"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				heard, log := b.overhear()
				b.start(workers.Config{SecretEnv: []string{"SEARCH_KEY"}, Logger: log}, search(nil))
				b.dispatch("search", "c1", func(_ *jet.Out, w *events.ToolWork) {
					w.Call.Input, w.Tuning = json.RawMessage(`{"q":"x","key":"mine"}`), json.RawMessage(c.tuning)
				})
				r := b.result("c1", 5*time.Second)
				b.want(r, events.ReasonUnavailable)
				b.idle()
				if strings.Contains(r.Text(), "KEY") || heard.has("hunter2") || !heard.has(c.log) {
					b.Errorf("result %q, secret told: %t, reason in the log: %t", r.Text(), heard.has("hunter2"), heard.has(c.log))
				}
			})
		})
	}
}

// Extended properties are checked, and reach the tool.
func TestExtendedPropertiesAreChecked(t *testing.T) {
	bubble(t, func(b *bench) {
		tool := toolkit.MustDefine("search", "searches", func(ctx context.Context, _ none) (string, error) {
			return string(toolkit.Input(ctx)), nil
		}, nil)
		b.start(workers.Config{}, tool)
		tuning := toolkit.Tuning{Extended: json.RawMessage(`{"properties":{"why":{"type":"string"}},"required":["why"]}`)}
		hash := tool.Definition().Hash()
		for call, c := range map[string]struct {
			input  string
			reason events.Reason
		}{"c1": {`{"why": "x"}`, events.ReasonOK}, "c2": {`{"why":1}`, events.ReasonInvalidInput}, "c3": {`{}`, events.ReasonInvalidInput}} {
			raw, err := json.Marshal(tuning)
			if err != nil {
				b.Fatal(err)
			}
			b.dispatch("search", call, func(_ *jet.Out, w *events.ToolWork) {
				w.Call.Input, w.Tuning, w.Definition = json.RawMessage(c.input), raw, hash
			})
			r := b.result(call, 5*time.Second)
			b.want(r, c.reason)
			if c.reason == events.ReasonOK && r.Text() != c.input {
				b.Errorf("%s: got %s, want %s", call, r.Text(), c.input)
			}
		}
	})
}

// The installation's timeout and attempts are in the place of the definition's; a later tuning is
// in the place of an earlier one.
func TestTuningOfTimeoutAndAttempts(t *testing.T) {
	bubble(t, func(b *bench) {
		var runs atomic.Int32
		b.start(workers.Config{}, counted("slow", &runs, &toolkit.Options{ReadOnly: true}, working(time.Hour)))
		for call, want := range map[string]struct {
			tuning toolkit.Tuning
			runs   int32
			took   time.Duration
		}{
			"c1": {toolkit.Tuning{Timeout: toolkit.Duration(time.Second), Attempts: 3}, 3, 6 * time.Second},
			"c2": {toolkit.Tuning{Timeout: toolkit.Duration(20 * time.Second)}, 1, 20 * time.Second},
			"c3": {toolkit.Tuning{}, 1, 5 * time.Minute},
		} {
			runs.Store(0)
			began := time.Now()
			b.tuned("slow", call, `{}`, want.tuning)
			s := b.stored(call, 10*time.Minute)
			b.want(s.result, events.ReasonTimeout)
			if took := s.at.Sub(began); runs.Load() != want.runs || took < want.took-time.Second || took > want.took+time.Second {
				b.Errorf("%s: %d runs in %s, want %d in %s", call, runs.Load(), took, want.runs, want.took)
			}
		}
	})
}
