package toolkit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/toolkittest"
)

type notes struct {
	Lines []string `json:"lines"`
}

type line struct {
	Line string `json:"line"`
}

func note(name string) *toolkit.Tool {
	return toolkit.MustDefine("note", "keeps a line", func(ctx context.Context, in line) (int, error) {
		err := toolkit.UpdateState(ctx, name, func(doc *notes) error {
			doc.Lines = append(doc.Lines, in.Line)
			return nil
		})
		if err != nil {
			return 0, err
		}
		doc, err := toolkit.ReadState[notes](ctx, name)
		return len(doc.Lines), err
	}, &toolkit.Options{StateInjected: true})
}

func inSession(s string, state *toolkittest.State) *toolkittest.Options {
	return &toolkittest.Options{
		State: state, Call: toolkit.Call{Key: events.CallKey{Session: events.SessionID(s), Turn: "t", Call: "c"}},
	}
}

// Documents are kept from call to call, and those of two sessions never mix.
func TestStateIsOfItsSession(t *testing.T) {
	t.Parallel()
	state, tool := toolkittest.NewState(), note("notes")
	for _, step := range []struct{ session, line, want string }{{"a", "one", "1"}, {"b", "other", "1"}, {"a", "two", "2"}} {
		r := toolkittest.Run(t, tool, `{"line":"`+step.line+`"}`, inSession(step.session, state)).Result
		if r.Reason != events.ReasonOK || r.Text() != step.want {
			t.Errorf("%v: got %s %q", step, r.Reason, r.Text())
		}
	}
	for session, want := range map[events.SessionID]string{"a": `{"lines":["one","two"]}`, "b": `{"lines":["other"]}`, "c": ""} {
		doc, _, err := state.Load(t.Context(), session, "notes")
		if diff := cmp.Diff(want, string(doc)); err != nil || diff != "" {
			t.Errorf("session %s (-want +got): %v\n%s", session, err, diff)
		}
	}
}

// Calls that race are all in the document.
func TestStateOfRacingCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state, tool := toolkittest.NewState(), note("notes")
		const n = 20
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				r := toolkittest.Run(t, tool, fmt.Sprintf(`{"line":"%d"}`, i), inSession("s", state)).Result
				if r.Reason != events.ReasonOK {
					t.Errorf("call %d: %s %q", i, r.Reason, r.Text())
				}
			})
		}
		wg.Wait()
		doc, revision, _ := state.Load(t.Context(), "s", "notes")
		if got := strings.Count(string(doc), `"`) / 2; got != n+1 || revision != n {
			t.Errorf("%d lines at revision %d, want %d: %s", got-1, revision, n, doc)
		}
	})
}

// rival changes the document whenever somebody has read it.
type rival struct {
	*toolkittest.State

	most  int
	loads int
}

func (r *rival) Load(ctx context.Context, s events.SessionID, name string) ([]byte, uint64, error) {
	doc, revision, err := r.State.Load(ctx, s, name)
	if r.loads++; r.loads <= r.most {
		err = errors.Join(err, r.Swap(ctx, s, name, fmt.Appendf(nil, `{"lines":["rival %d"]}`, r.loads), revision))
	}
	return doc, revision, err
}

// A change is made again on what came in between, though not for ever.
func TestStateConflict(t *testing.T) {
	for most, want := range map[int]events.Reason{0: events.ReasonOK, 1: events.ReasonOK, 31: events.ReasonOK, 32: events.ReasonToolError} {
		synctest.Test(t, func(t *testing.T) {
			r := &rival{State: toolkittest.NewState(), most: most}
			tool := toolkit.MustDefine("note", "keeps a line", func(ctx context.Context, _ struct{}) (string, error) {
				err := toolkit.UpdateState(ctx, "notes", func(doc *notes) error {
					doc.Lines = append(doc.Lines, "mine")
					return nil
				})
				if err != nil && !errors.Is(err, toolkit.ErrStateConflict) {
					t.Errorf("got %v, want ErrStateConflict", err)
				}
				return "kept", err
			}, &toolkit.Options{StateInjected: true})
			out := tool.Execute(t.Context(), toolkit.Execution{State: r, Call: toolkit.Call{Key: events.CallKey{Session: "s"}}})
			if out.Reason != want {
				t.Errorf("%d rivals: got %s %q, want %s", most, out.Reason, out.Text(), want)
			}
			doc, _, _ := r.State.Load(t.Context(), "s", "notes")
			if want == events.ReasonOK && most > 0 && string(doc) != fmt.Sprintf(`{"lines":["rival %d","mine"]}`, most) {
				t.Errorf("%d rivals: document %s", most, doc)
			}
		})
	}
}

// within runs f in a call of a tool that is or is not StateInjected.
func within(t *testing.T, injected bool, store toolkit.StateStore, f func(ctx context.Context) error) (events.ToolResult, error) {
	t.Helper()
	var got error
	tool := toolkit.MustDefine("x", "asks", func(ctx context.Context, _ struct{}) (string, error) {
		got = f(ctx)
		return "done", got
	}, &toolkit.Options{StateInjected: injected})
	return tool.Execute(t.Context(), toolkit.Execution{State: store, Call: toolkit.Call{Tool: "x", Key: events.CallKey{Session: "s"}}}), got
}

type broken struct{}

func (broken) Load(context.Context, events.SessionID, string) ([]byte, uint64, error) {
	return nil, 0, errors.New("no leader at 10.0.0.1")
}

func (broken) Swap(context.Context, events.SessionID, string, []byte, uint64) error { return nil }

func TestStateRefusals(t *testing.T) {
	t.Parallel()
	read := func(ctx context.Context) error {
		_, err := toolkit.ReadState[notes](ctx, "notes")
		return err
	}
	write := func(name string, v any) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			return toolkit.UpdateState(ctx, name, func(doc *any) error {
				*doc = v
				return nil
			})
		}
	}
	state := toolkittest.NewState()
	if err := state.Swap(t.Context(), "s", "odd", []byte(`[1]`), 0); err != nil {
		t.Fatal(err)
	}
	sentinel := errors.New("stop")
	for name, c := range map[string]struct {
		injected bool
		store    toolkit.StateStore
		f        func(ctx context.Context) error
		want     error
		text     string
		reason   events.Reason
	}{
		"read, not injected":  {false, state, read, toolkit.ErrNoState, `tool "x" asked for state "notes" but is not StateInjected`, ""},
		"write, not injected": {false, state, write("notes", 1), toolkit.ErrNoState, "StateInjected", ""},
		"no store":            {true, nil, read, toolkit.ErrNoState, "gave it none", ""},
		"no name":             {true, state, write("", 1), toolkit.ErrState, "its name is empty", ""},
		"too large":           {true, state, write("notes", strings.Repeat("x", toolkit.MaxState)), toolkit.ErrState, "262146 bytes, at most 262144", ""},
		"no JSON":             {true, state, write("notes", func() {}), toolkit.ErrState, "unsupported type", ""},
		"another shape": {true, state, func(ctx context.Context) error {
			_, err := toolkit.ReadState[notes](ctx, "odd")
			return err
		}, toolkit.ErrState, "does not fit *toolkit_test.notes", ""},
		"the change fails": {true, state, func(ctx context.Context) error {
			return toolkit.UpdateState(ctx, "notes", func(*notes) error { return sentinel })
		}, sentinel, "stop", ""},
		"the store fails": {true, broken{}, read, nil, "no leader", events.ReasonUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := within(t, c.injected, c.store, c.f)
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %v with %q", err, c.want, c.text)
			}
			if c.reason != "" && (r.Reason != c.reason || strings.Contains(r.Text(), "leader")) {
				t.Errorf("result: got %s %q, want %s and nothing of the store", r.Reason, r.Text(), c.reason)
			}
		})
	}
	if _, err := toolkit.ReadState[notes](t.Context(), "notes"); !errors.Is(err, toolkit.ErrNoState) {
		t.Errorf("outside of a call: got %v", err)
	}
	if doc, _, _ := state.Load(t.Context(), "s", "notes"); doc != nil {
		t.Errorf("something was stored: %s", doc)
	}
}

// A change that changes nothing stores nothing; numbers in an interface keep all digits.
func TestStateStaysAsItIs(t *testing.T) {
	t.Parallel()
	state := toolkittest.NewState()
	const doc = `{"n":18446744073709551617}`
	if err := state.Swap(t.Context(), "s", "n", []byte(doc), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := within(t, true, state, func(ctx context.Context) error {
		return toolkit.UpdateState(ctx, "n", func(*map[string]any) error { return nil })
	}); err != nil {
		t.Fatal(err)
	}
	if got, revision, _ := state.Load(t.Context(), "s", "n"); string(got) != doc || revision != 1 {
		t.Errorf("got %s at revision %d", got, revision)
	}
}

func TestValueOr(t *testing.T) {
	t.Parallel()
	type UserContext struct{ Name string }
	for raw, want := range map[string]string{"": "nobody", `{"Name":"ann"}`: "ann", `[]`: "error"} {
		tool := toolkit.MustDefine("who", "tells", func(ctx context.Context, _ struct{}) (string, error) {
			v, err := toolkit.ValueOr(ctx, UserContext{Name: "nobody"})
			return v.Name, err
		}, nil)
		o := &toolkittest.Options{Context: &events.Context{}}
		if raw != "" {
			o.Context.Values = map[string]json.RawMessage{"UserContext": json.RawMessage(raw)}
		}
		if r := toolkittest.Run(t, tool, `{}`, o).Result; r.Text() != want && (want != "error" || r.Reason != events.ReasonToolError) {
			t.Errorf("%s: got %s %q, want %q", raw, r.Reason, r.Text(), want)
		}
	}
}
