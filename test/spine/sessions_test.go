package spine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/workers"
	"github.com/toolwire/toolwire/workers/builtin"
)

// declare changes the configuration.
func (f *fleet) declare(c *agent.Client, change func(*toolkit.Config)) {
	f.Helper()
	if err := c.ChangeConfig(f.Context(), func(config *toolkit.Config) error { change(config); return nil }); err != nil {
		f.Fatal(err)
	}
}

type search struct {
	Query string `json:"query"`
	Key   string `json:"key"`
	Limit int    `json:"limit" default:"3"`
}

// A preset is set by the worker: the model neither sees nor overrides it, and it shows nowhere (T9).
func TestPresetsReachTheToolAndNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "key"), []byte("s3cret\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		f := newFleet(t)
		var got []string
		if err := f.tools.Add(toolkit.MustDefine("search", "Searches.", func(ctx context.Context, in search) (string, error) {
			var extra struct {
				Reason string `json:"reason"`
			}
			err := json.Unmarshal(toolkit.Input(ctx), &extra)
			got = append(got, fmt.Sprintf("%s/%s/%d/%s", in.Query, in.Key, in.Limit, extra.Reason))
			return "found", err
		}, &toolkit.Options{ReadOnly: true})); err != nil {
			t.Fatal(err)
		}
		f.dispatcher()
		nc := f.conn(nil)
		w, err := workers.New(nc, f.tools, workers.Config{Name: "test", SecretDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		f.start(nc, w.Run)
		c := f.agent("local")
		f.ready(c)
		f.declare(c, func(config *toolkit.Config) {
			config.Tools = map[events.ToolName]toolkit.Override{"search": {Tuning: toolkit.Tuning{
				Presets:  map[string]toolkit.Preset{"key": {File: "key"}, "limit": {Value: json.RawMessage("7")}},
				Extended: json.RawMessage(`{"properties":{"reason":{"type":"string"}},"required":["reason"]}`),
			}}}
		})
		for tl, err := range c.Tools(t.Context(), "s") {
			if err != nil {
				t.Fatal(err)
			}
			if s := string(tl.InputSchema); strings.Contains(s, `"key"`) || strings.Contains(s, "limit") || !strings.Contains(s, "reason") {
				t.Errorf("shown: %s", s)
			}
		}
		r, err := c.Call(t.Context(), "s", "search", json.RawMessage(`{"query":"tea","reason":"thirst"}`))
		if err != nil || r.Reason != events.ReasonOK {
			t.Fatal(r.Text(), err)
		}
		if want := "tea/s3cret/7/thirst"; len(got) != 1 || got[0] != want {
			t.Errorf("got %v, want %s", got, want)
		}
		if b, err := events.Marshal(r); err != nil || strings.Contains(string(b), "s3cret") {
			t.Errorf("the result holds the secret: %s, %v", b, err)
		}
		if r, err := c.Call(t.Context(), "s", "search", json.RawMessage(`{"query":"tea"}`)); err != nil || r.Reason != events.ReasonInvalidInput {
			t.Errorf("without an extended property: %s, %v", r.Reason, err)
		}
		if err := os.Remove(filepath.Join(dir, "key")); err != nil {
			t.Fatal(err)
		}
		if r, err := c.Call(t.Context(), "s", "search", json.RawMessage(`{"query":"tea","reason":"thirst"}`)); err != nil || r.Reason != events.ReasonUnavailable {
			t.Errorf("without the secret: %s, %v", r.Reason, err)
		}
	})
}

type user struct {
	Name string `json:"name"`
}

// Context and state reach tools on whatever worker runs them; sessions share neither (G7, ST1).
func TestContextAndStateOnAnyWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		add := func(ctx context.Context, in struct {
			N int `json:"n"`
		},
		) (string, error) {
			u, err := toolkit.Value[user](ctx)
			if err != nil {
				return "", err
			}
			err = toolkit.UpdateState(ctx, "sum", func(sum *int) error { *sum += in.N; return nil })
			return u.Name + " of " + toolkit.ContextFrom(ctx).Attributes["team"], err
		}
		if err := f.tools.Add(toolkit.MustDefine("add", "Adds.", add, &toolkit.Options{StateInjected: true, ConcurrencySafe: true})); err != nil {
			t.Fatal(err)
		}
		todo, err := builtin.Toolkit()
		if err != nil {
			t.Fatal(err)
		}
		f.program("builtin", todo, 4)
		c := f.up(4)
		f.known(c, todo)
		values := map[string]json.RawMessage{"user": json.RawMessage(`{"name":"Ann"}`)}
		var wg sync.WaitGroup
		for _, s := range []events.SessionID{"one", "two"} {
			for i := range 20 {
				wg.Go(func() {
					turn := agent.Turn{Session: s, ID: events.TurnID(strconv.Itoa(i)), Context: &events.Context{Values: values, Attributes: map[string]string{"team": string(s)}}}
					for n := range 5 {
						turn.Calls = append(turn.Calls, events.Call{ID: events.CallID(strconv.Itoa(n)), Name: "add", Input: json.RawMessage(`{"n":1}`)})
					}
					for _, r := range f.await(f.submit(c, turn)) {
						if r.Text() != "Ann of "+string(s) {
							t.Errorf("got %s %s", r.Reason, r.Text())
						}
					}
				})
			}
		}
		wg.Wait()
		for _, s := range []events.SessionID{"one", "two"} {
			sum := 0
			if _, err := c.State(t.Context(), s, "sum", &sum); err != nil || sum != 100 {
				t.Errorf("%s: got %d, %v, want 100", s, sum, err)
			}
		}
		if r, err := c.Call(t.Context(), "one", "add", json.RawMessage(`{"n":1}`)); err != nil || r.Reason != events.ReasonToolError || !strings.Contains(r.Text(), "user") {
			t.Errorf("without the value: %s %s, %v", r.Reason, r.Text(), err)
		}
		r, err := c.Call(t.Context(), "two", "todo_write", json.RawMessage(`{"todos":[{"content":"a"},{"content":"b","status":"completed"}]}`))
		if err != nil || !strings.HasPrefix(r.Text(), "1 open todo(s):") {
			t.Errorf("got %s, %v", r.Text(), err)
		}
		var list struct{ Tasks []struct{ Subject string } }
		if revision, err := c.State(t.Context(), "two", "todo", &list); err != nil || revision == 0 || len(list.Tasks) != 2 {
			t.Errorf("got %+v, %v", list, err)
		}
		if revision, err := c.State(t.Context(), "one", "todo", &list); err != nil || revision != 0 {
			t.Errorf("the other session has a list: %d, %v", revision, err)
		}
	})
}

// Staged turns over dispatchers and workers that are killed again and again: every call one result, in
// its place, and side effects once.
func TestStagedTurnsUnderFire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		var mu sync.Mutex
		began, ran := map[string]int{}, map[string]int{}
		note := func(ctx context.Context) (string, error) {
			call, _ := toolkit.CallFrom(ctx)
			mu.Lock()
			began[string(call.Key.Turn)]++
			ran[call.Key.String()]++
			n := began[string(call.Key.Turn)]
			mu.Unlock()
			return strconv.Itoa(n), pause(ctx, 300*time.Millisecond)
		}
		mail := toolkit.MustDefine("mail", "Has side effects.", func(ctx context.Context, _ none) (string, error) { return note(ctx) }, nil)
		if err := f.tools.Add(mail); err != nil {
			t.Fatal(err)
		}
		d, w := f.dispatcher(), f.worker(16)
		c := f.agent("local")
		f.ready(c)
		const turns, calls = 12, 6
		var pending []*agent.Pending
		for i := range turns {
			turn := agent.Turn{Session: events.SessionID(fmt.Sprint("s", i%3)), ID: events.TurnID(fmt.Sprint("t", i))}
			for n := range calls {
				turn.Calls = append(turn.Calls, events.Call{ID: events.CallID(fmt.Sprint("c", n)), Name: "mail"})
			}
			pending = append(pending, f.submit(c, turn))
		}
		for range 6 {
			time.Sleep(250 * time.Millisecond)
			d.kill()
			d = f.dispatcher()
			time.Sleep(250 * time.Millisecond)
			w.kill()
			w = f.worker(16)
		}
		f.dispatcher()
		f.worker(16)
		for i, p := range pending {
			for n, r := range f.await(p) {
				if r.Reason != events.ReasonOK && r.Reason != events.ReasonOutcomeUnknown {
					t.Errorf("turn %d call %d: %s %s", i, n, r.Reason, r.Text())
				}
				if r.Reason == events.ReasonOK && r.Text() != strconv.Itoa(n+1) {
					t.Errorf("turn %d: call %d ran as number %s", i, n, r.Text())
				}
			}
		}
		for k, n := range ran {
			if n != 1 {
				t.Errorf("%s ran %d times", k, n)
			}
		}
	})
}

// pause waits, or says why it must not.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return errors.New("stopped")
	}
}
