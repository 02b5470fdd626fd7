package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// todoDocument is the name of the list among the documents of a session.
const todoDocument = "todo"

// todos is the list as it is kept.
type todos struct {
	Tasks []task `json:"tasks"`
}

type task struct {
	ID          string          `json:"id"`
	Subject     string          `json:"subject"`
	Description string          `json:"description"`
	Status      string          `json:"status"`
	Priority    string          `json:"priority,omitempty"`
	CreatedAt   time.Time       `json:"createdAt"`
	Metadata    json.RawMessage `json:"metadata,omitempty"` // of applications; kept as it is
}

// The states of a task.
const (
	pending    = "pending"
	inProgress = "in_progress"
	completed  = "completed"
)

// todoItem is a task as a model writes it.
type todoItem struct {
	Content  string `json:"content"`
	Status   string `json:"status"`
	Priority string `json:"priority"`
}

// todoSchema says what is wanted and takes more: an item that is wrong is answered by a text that tells
// the model how to write it.
const todoSchema = `{"type":"object","properties":{"todos":{"type":["array","null"],` +
	`"description":"The whole list as it shall be from now on. It takes the place of the old one; an empty list clears it.",` +
	`"items":{"type":"object","properties":{` +
	`"content":{"type":"string","description":"What is to be done, short and specific. Required."},` +
	`"status":{"type":"string","description":"pending, in_progress or completed; pending if left out."},` +
	`"priority":{"type":"string","description":"high, medium or low; may be left out."}}}}},"required":["todos"]}`

const todoDescription = "Writes the todo list of this session. Use it to plan work of several steps and to show where it stands. " +
	"Send the whole list each time, with the items that have not changed. Have at most one item in_progress, " +
	"and mark an item completed as soon as it is done. An item keeps its identity as long as its content stays the same."

func todoWrite() (*toolkit.Tool, error) {
	return toolkit.Raw(toolkit.Definition{
		Name: "todo_write", Title: "Todo list", Description: todoDescription, InputSchema: json.RawMessage(todoSchema),
		StateInjected: true, Timeout: toolkit.Duration(time.Minute),
	}, func(ctx context.Context, input json.RawMessage) (toolkit.Result, error) {
		var in struct {
			Todos []todoItem `json:"todos"`
		}
		if err := json.Unmarshal(input, &in); err != nil {
			return toolkit.Result{}, &toolkit.InputError{Text: "The arguments do not fit the tool: " + err.Error()}
		}
		text, err := writeTodos(ctx, in.Todos)
		return toolkit.Result{Content: []events.Content{events.Text(text)}}, err
	})
}

// writeTodos puts items in the place of the list, and returns what the model reads. What the model can
// mend is a text and no error, and leaves the list as it was.
func writeTodos(ctx context.Context, items []todoItem) (string, error) {
	wanted, refusal := checkTodos(items)
	if refusal != "" {
		return "Error: " + refusal, nil
	}
	now := time.Now().UTC()
	var list todos
	err := toolkit.UpdateState(ctx, todoDocument, func(doc *todos) error {
		doc.Tasks = replaceTasks(doc.Tasks, wanted, now)
		list = *doc
		return nil
	})
	switch {
	case errors.Is(err, toolkit.ErrNoState):
		return "Error: there is no session state here, so the todo list cannot be kept.", nil
	case errors.Is(err, toolkit.ErrState):
		return "Error: the todo list cannot be kept: " + strings.TrimPrefix(err.Error(), toolkit.ErrState.Error()+": "), nil
	case err != nil:
		return "", err
	}
	return renderTodos(list.Tasks), nil
}

// checkTodos brings status and priority of the items into their one form, and says what is wrong
// with the first that is.
func checkTodos(items []todoItem) (wanted []todoItem, refusal string) {
	active := 0
	for _, item := range items {
		given := item.Status
		switch item.Status = strings.ToLower(strings.TrimSpace(given)); item.Status {
		case "":
			item.Status = pending
		case inProgress:
			active++
		case pending, completed:
		default:
			return nil, fmt.Sprintf("the status %q of todo %q is none of pending, in_progress, completed.", given, item.Content)
		}
		if strings.TrimSpace(item.Content) == "" {
			return nil, "every todo needs a content that is not blank."
		}
		switch item.Priority = strings.ToLower(strings.TrimSpace(item.Priority)); item.Priority {
		case "high", "medium", "low":
		default:
			item.Priority = ""
		}
		wanted = append(wanted, item)
	}
	if active > 1 {
		return nil, fmt.Sprintf("at most one todo may be in_progress, and there are %d. Leave one in_progress.", active)
	}
	return wanted, ""
}

// replaceTasks makes tasks of the items. An item with the content of an old task goes on with its id,
// time and metadata, and with its priority unless it has one; of several equal ones, each with its own.
func replaceTasks(old []task, items []todoItem, now time.Time) []task {
	old = slices.Clone(old)
	tasks := make([]task, 0, len(items))
	for _, item := range items {
		t := task{ID: uuid.NewString(), CreatedAt: now}
		if i := slices.IndexFunc(old, func(o task) bool { return o.Subject == item.Content }); i >= 0 {
			t = old[i]
			old = slices.Delete(old, i, i+1)
		}
		t.Subject, t.Description, t.Status = item.Content, item.Content, item.Status
		if item.Priority != "" {
			t.Priority = item.Priority
		}
		tasks = append(tasks, t)
	}
	return tasks
}

func renderTodos(tasks []task) string {
	if len(tasks) == 0 {
		return "Todo list cleared (0 items)."
	}
	open := 0
	var lines strings.Builder
	for _, t := range tasks {
		mark := " "
		switch t.Status {
		case inProgress:
			mark = "~"
		case completed:
			mark = "x"
		}
		if t.Status != completed {
			open++
		}
		fmt.Fprintf(&lines, "\n- [%s] %s", mark, t.Subject)
		if t.Priority != "" {
			fmt.Fprintf(&lines, " (priority: %s)", t.Priority)
		}
	}
	return strings.TrimRightFunc(fmt.Sprintf("%d open todo(s):%s", open, lines.String()), unicode.IsSpace)
}
