package toolkit_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

type add struct {
	A int    `json:"a" description:"first" minimum:"0"`
	B int    `json:"b,omitempty" default:"2"`
	U string `json:"u" enum:"x,y" default:"x"`
}

func TestDefineAndExecute(t *testing.T) {
	t.Parallel()
	tool, err := toolkit.Define("add", "adds", func(_ context.Context, in add) (int, error) { return in.A + in.B, nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(string(tool.Definition().InputSchema))
	r := tool.Execute(t.Context(), toolkit.Execution{Call: toolkit.Call{Key: events.CallKey{Call: "c"}}, Input: json.RawMessage(`{"a":1,"b":null}`)})
	if r.State != events.StateSuccess || r.Text() != "3" {
		t.Errorf("got %s %q, want success 3", r.Reason, r.Text())
	}
	r = tool.Execute(t.Context(), toolkit.Execution{Input: json.RawMessage(`{"a":-1,"u":"z","q":1}`)})
	if r.Reason != events.ReasonInvalidInput {
		t.Errorf("got %s, want invalid_input", r.Reason)
	}
	t.Log(r.Text())
}
