package builtin_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/toolkittest"
	"github.com/toolwire/toolwire/workers/builtin"
)

type task struct {
	ID          string          `json:"id"`
	Subject     string          `json:"subject"`
	Description string          `json:"description"`
	Status      string          `json:"status"`
	Priority    string          `json:"priority"`
	CreatedAt   time.Time       `json:"createdAt"`
	Metadata    json.RawMessage `json:"metadata"`
}

func todoTool(tb testing.TB) *toolkit.Tool {
	tb.Helper()
	tools, err := builtin.Toolkit()
	if err != nil {
		tb.Fatal(err)
	}
	tool, ok := tools.Lookup("todo_write")
	if !ok {
		tb.Fatal("todo_write is not in the toolkit")
	}
	return tool
}

// list is the document as it is stored; nil if there is none.
func list(tb testing.TB, state *toolkittest.State) (raw string, tasks []task) {
	tb.Helper()
	doc, _, err := state.Load(tb.Context(), "session", "todo")
	if err != nil || doc == nil {
		return "", nil
	}
	var l struct {
		Tasks []task `json:"tasks"`
	}
	if err := json.Unmarshal(doc, &l); err != nil {
		tb.Fatal(err)
	}
	return string(doc), l.Tasks
}

const before = `{"tasks":[` +
	`{"id":"1","subject":"buy","description":"buy","status":"pending","priority":"high","createdAt":"2020-01-01T00:00:00Z","metadata":{ "by":"ann" }},` +
	`{"id":"2","subject":"eat","description":"eat","status":"in_progress","createdAt":"2020-01-02T00:00:00Z"},` +
	`{"id":"3","subject":"eat","description":"eat","status":"completed","createdAt":"2020-01-03T00:00:00Z"}]}`

func seeded(tb testing.TB) *toolkittest.State {
	tb.Helper()
	state := toolkittest.NewState()
	if err := state.Swap(tb.Context(), "session", "todo", []byte(before), 0); err != nil {
		tb.Fatal(err)
	}
	return state
}

func TestTodoWrite(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ input, text, ids string }{ // ids: of the old tasks, ? for a new one
		"states": {
			`{"todos":[{"content":"a","status":"pending"},{"content":"b","status":"in_progress"},{"content":"c","status":"completed"}]}`,
			"2 open todo(s):\n- [ ] a\n- [~] b\n- [x] c", "? ? ?",
		},
		"status is trimmed, in any case, and pending otherwise": {
			`{"todos":[{"content":"a","status":"  Completed\n"},{"content":"b","status":"IN_PROGRESS"},{"content":"c","status":" "},{"content":"d","status":null},{"content":"e"}]}`,
			"4 open todo(s):\n- [x] a\n- [~] b\n- [ ] c\n- [ ] d\n- [ ] e", "? ? ? ? ?",
		},
		"priorities": {
			`{"todos":[{"content":"a","priority":" HIGH "},{"content":"b","priority":"medium"},{"content":"c","priority":"low"},{"content":"d","priority":"urgent"},{"content":"e","priority":""},{"content":"f","priority":null}]}`,
			"6 open todo(s):\n- [ ] a (priority: high)\n- [ ] b (priority: medium)\n- [ ] c (priority: low)\n- [ ] d\n- [ ] e\n- [ ] f", "? ? ? ? ? ?",
		},
		"an old task keeps its priority if none or an unknown one is given": {
			`{"todos":[{"content":"buy","status":"completed"}]}`, "0 open todo(s):\n- [x] buy (priority: high)", "1",
		},
		"unknown priority of an old task": {
			`{"todos":[{"content":"buy","priority":"urgent"}]}`, "1 open todo(s):\n- [ ] buy (priority: high)", "1",
		},
		"new priority of an old task": {
			`{"todos":[{"content":"buy","priority":"low"}]}`, "1 open todo(s):\n- [ ] buy (priority: low)", "1",
		},
		"equal old tasks keep their own ids": {
			`{"todos":[{"content":"eat"},{"content":"eat"}]}`, "2 open todo(s):\n- [ ] eat\n- [ ] eat", "2 3",
		},
		"the second of an old task is new": {
			`{"todos":[{"content":"buy"},{"content":"buy"}]}`, "2 open todo(s):\n- [ ] buy (priority: high)\n- [ ] buy", "1 ?",
		},
		"two equal new ones":                 {`{"todos":[{"content":"a"},{"content":"a"}]}`, "2 open todo(s):\n- [ ] a\n- [ ] a", "? ?"},
		"equal to the letter":                {`{"todos":[{"content":"Buy"},{"content":"buy "}]}`, "2 open todo(s):\n- [ ] Buy\n- [ ] buy", "? ?"},
		"reordered, and what is absent goes": {`{"todos":[{"content":"eat"},{"content":"buy"}]}`, "2 open todo(s):\n- [ ] eat\n- [ ] buy (priority: high)", "2 1"},
		"empty":                              {`{"todos":[]}`, "Todo list cleared (0 items).", ""},
		"null":                               {`{"todos":null}`, "Todo list cleared (0 items).", ""},
		"further fields are left out":        {`{"todos":[{"content":"a","activeForm":"x","id":"1"}],"merge":true}`, "1 open todo(s):\n- [ ] a", "?"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := seeded(t)
			r := toolkittest.Run(t, todoTool(t), c.input, &toolkittest.Options{State: state}).Result
			if diff := cmp.Diff(c.text, r.Text()); r.Reason != events.ReasonOK || diff != "" {
				t.Errorf("%s (-want +got):\n%s", r.Reason, diff)
			}
			_, tasks := list(t, state)
			seen, ids := map[string]bool{}, []string{}
			for _, task := range tasks {
				if seen[task.ID] || task.ID == "" {
					t.Errorf("id %q twice, or empty", task.ID)
				}
				seen[task.ID] = true
				if len(task.ID) > 1 {
					task.ID = "?"
				}
				ids = append(ids, task.ID)
			}
			if got := strings.Join(ids, " "); got != c.ids {
				t.Errorf("ids: got %q, want %q", got, c.ids)
			}
		})
	}
}

// What the model can mend is a text, not an error; the list stays as it was, whatever else was right.
func TestTodoWriteRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ input, want string }{
		"status":                    {`{"todos":[{"content":"new"},{"content":"a","status":"done"}]}`, `the status "done" of todo "a"`},
		"content missing":           {`{"todos":[{"content":"new"},{"status":"pending"}]}`, "not blank"},
		"content null":              {`{"todos":[{"content":null}]}`, "not blank"},
		"content blank":             {`{"todos":[{"content":" \t\n"}]}`, "not blank"},
		"two in progress":           {`{"todos":[{"content":"a","status":"in_progress"},{"content":"b","status":"In_Progress"}]}`, "there are 2"},
		"status before the content": {`{"todos":[{"content":"","status":"done"}]}`, `the status "done"`},
		"in order":                  {`{"todos":[{"content":""},{"content":"a","status":"done"}]}`, "not blank"},
		"items before their number": {`{"todos":[{"content":"a","status":"in_progress"},{"content":"b","status":"in_progress"},{"content":""}]}`, "not blank"},
		"too large":                 {`{"todos":[{"content":"` + strings.Repeat("x", toolkit.MaxState/2) + `"}]}`, "at most 262144 are kept"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := seeded(t)
			r := toolkittest.Run(t, todoTool(t), c.input, &toolkittest.Options{State: state}).Result
			if r.Reason != events.ReasonOK || !strings.HasPrefix(r.Text(), "Error: ") || !strings.Contains(r.Text(), c.want) {
				t.Errorf("got %s %q, want ok and a text with %q", r.Reason, r.Text(), c.want)
			}
			if raw, _ := list(t, state); raw != before {
				t.Errorf("the list was changed: %s", raw)
			}
		})
	}
	for _, input := range []string{``, `{}`, `{"todos":{}}`, `{"todos":["a"]}`, `{"todos":[{"content":1}]}`, `{"todos":[{"content":"a","status":1}]}`} {
		state := seeded(t)
		r := toolkittest.Run(t, todoTool(t), input, &toolkittest.Options{State: state}).Result
		if raw, _ := list(t, state); r.Reason != events.ReasonInvalidInput || raw != before {
			t.Errorf("%s: got %s %q, list %s", input, r.Reason, r.Text(), raw)
		}
	}
	r := todoTool(t).Execute(t.Context(), toolkit.Execution{Input: json.RawMessage(`{"todos":[]}`)})
	if r.Reason != events.ReasonOK || !strings.HasPrefix(r.Text(), "Error: there is no session state") {
		t.Errorf("without state: got %s %q", r.Reason, r.Text())
	}
}

// The list as it is stored, and what of it stays.
func TestTodoDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // whose clock begins with the year 2000
		state, tool := seeded(t), todoTool(t)
		run := func(input string) {
			if r := toolkittest.Run(t, tool, input, &toolkittest.Options{State: state}).Result; r.Reason != events.ReasonOK {
				t.Fatalf("got %s %q", r.Reason, r.Text())
			}
		}
		run(`{"todos":[{"content":"buy","status":"completed"},{"content":"new","priority":"low"}]}`)
		raw, tasks := list(t, state)
		want := `{"tasks":[{"id":"1","subject":"buy","description":"buy","status":"completed","priority":"high","createdAt":"2020-01-01T00:00:00Z","metadata":{"by":"ann"}},` +
			`{"id":"` + tasks[1].ID + `","subject":"new","description":"new","status":"pending","priority":"low","createdAt":"2000-01-01T00:00:00Z"}]}`
		if diff := cmp.Diff(want, raw); diff != "" {
			t.Errorf("document (-want +got):\n%s", diff)
		}
		time.Sleep(time.Hour)
		run(`{"todos":[{"content":"new"}]}`)
		if _, again := list(t, state); again[0].ID != tasks[1].ID || !again[0].CreatedAt.Equal(tasks[1].CreatedAt) || again[0].Priority != "low" {
			t.Errorf("got %+v, want the task as it was", again[0])
		}
		run(`{"todos":[]}`)
		if raw, _ := list(t, state); raw != `{"tasks":[]}` {
			t.Errorf("cleared: %s", raw)
		}
	})
}

func TestTodoDefinition(t *testing.T) {
	t.Parallel()
	def := todoTool(t).Definition()
	if !def.StateInjected || def.ReadOnly || def.ConcurrencySafe {
		t.Errorf("stateInjected %t, readOnly %t, concurrencySafe %t", def.StateInjected, def.ReadOnly, def.ConcurrencySafe)
	}
}

// Whatever a model sends: the list is as it asked for, or as it was.
func FuzzTodoWrite(f *testing.F) {
	tool := todoTool(f)
	for _, seed := range []string{
		`{"todos":[{"content":"buy","status":"in_progress"},{"content":"eat"},{"content":"eat"}]}`, `{"todos":null}`,
		`{"todos":[{"content":"\ud800","status":"IN_PROGRESS "}]}`, `"{\"todos\":[]}"`, `{"todos":[{"CONTENT":"a"}]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input string) {
		state := seeded(t)
		r := toolkittest.Run(t, tool, input, &toolkittest.Options{State: state}).Result
		raw, tasks := list(t, state)
		if r.Reason != events.ReasonOK || strings.HasPrefix(r.Text(), "Error: ") {
			if raw != before {
				t.Fatalf("%s %q, and the list was changed: %s", r.Reason, r.Text(), raw)
			}
			return
		}
		ids, active, open := map[string]bool{}, 0, 0
		for _, task := range tasks {
			ids[task.ID] = true
			switch task.Status {
			case "in_progress":
				active++
				open++
			case "pending":
				open++
			case "completed":
			default:
				t.Fatalf("status %q", task.Status)
			}
			if !slices.Contains([]string{"", "low", "medium", "high"}, task.Priority) || strings.TrimSpace(task.Subject) == "" {
				t.Fatalf("priority %q, subject %q", task.Priority, task.Subject)
			}
		}
		if len(ids) != len(tasks) || active > 1 {
			t.Fatalf("%d ids of %d tasks, %d in progress", len(slices.Collect(maps.Keys(ids))), len(tasks), active)
		}
		if len(tasks) > 0 && !strings.HasPrefix(r.Text(), fmt.Sprintf("%d open todo(s):\n", open)) {
			t.Fatalf("%d open, and the text is %q", open, r.Text())
		}
	})
}
