package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/natstest"
)

// connect stands for nats.Connect to an installation with a tool "echo".
func connect() (nc *nats.Conn, done func()) {
	tb := new(exampleTB)
	srv := natstest.Start(tb)
	f := startFleet(tb, srv.Bus(), echo)
	f.listed = []events.ToolInfo{{Definition: json.RawMessage(`{"name":"echo","description":"Says it again.","inputSchema":{}}`)}}
	return srv.Conn(), tb.end
}

// exampleTB lends an example what test helpers ask of a test.
type exampleTB struct {
	testing.TB
	cleanups []func()
}

func (*exampleTB) Helper()                  {}
func (*exampleTB) Context() context.Context { return context.Background() }
func (tb *exampleTB) Cleanup(f func())      { tb.cleanups = append(tb.cleanups, f) }

func (tb *exampleTB) Fatal(args ...any) {
	panic(fmt.Sprint(args...)) //nolint:forbidigo // an example has no other way to fail
}

func (tb *exampleTB) TempDir() string {
	dir, err := os.MkdirTemp("", "toolwire-example")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (tb *exampleTB) end() {
	for _, f := range slices.Backward(tb.cleanups) {
		f()
	}
}

func Example() {
	nc, done := connect()
	defer done()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	c, err := agent.New(nc, agent.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	turn, err := c.Submit(ctx, agent.Turn{Session: "s-1", Calls: []events.Call{
		{ID: "call_1", Name: "echo", Input: json.RawMessage(`{"text":"hello"}`)},
		{ID: "call_2", Name: "echo", Input: json.RawMessage(`{"n":9007199254740993}`)},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	results, err := turn.Await(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range results {
		fmt.Println(r.CallID, r.State, r.Text())
	}
	// Output:
	// call_1 success {"text":"hello"}
	// call_2 success {"n":9007199254740993}
}

func ExampleClient_Call() {
	nc, done := connect()
	defer done()
	c, err := agent.New(nc, agent.Config{Agent: "planner"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	r, err := c.Call(context.Background(), "s-1", "echo", json.RawMessage(`"hello"`))
	fmt.Println(r.State, r.Text(), err)
	// Output: success "hello" <nil>
}

// A model is given the tools of its session as its API takes them; the names in its calls lead back.
func ExampleClient_List() {
	nc, done := connect()
	defer done()
	ctx := context.Background()
	c, err := agent.New(nc, agent.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	listing, err := c.List(ctx, "s-1")
	if err != nil {
		fmt.Println(err)
		return
	}
	tools := listing.Anthropic()
	fmt.Printf("%s\n", tools.JSON()) // "tools" of the request
	for _, r := range tools.Remarks {
		fmt.Println(r.Tool, r.Text)
	}
	r, err := c.Call(ctx, "s-1", tools.Resolve("echo"), json.RawMessage(`"hello"`)) // as the model said
	fmt.Println(r.Text(), err)
	// Output:
	// [{"name":"echo","description":"Says it again.","input_schema":{"type":"object","properties":{}}}]
	// "hello" <nil>
}

// A process that died after it had submitted a turn takes it up again: it submits the same, or
// attaches by the turn's id.
func ExampleClient_Attach() {
	nc, done := connect()
	defer done()
	ctx := context.Background()
	c, err := agent.New(nc, agent.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	turn := agent.Turn{Session: "s-1", ID: "turn-7", Calls: []events.Call{{Name: "echo", Input: json.RawMessage(`1`)}}}
	if _, err := c.Submit(ctx, turn); err != nil {
		fmt.Println(err)
		return
	}

	again, err := c.Attach(ctx, "s-1", "turn-7")
	if err != nil {
		fmt.Println(err)
		return
	}
	for r, err := range again.Results(ctx) {
		fmt.Println(r.CallID, r.Text(), err)
	}
	turn.Calls[0].Input = json.RawMessage(`2`)
	_, err = c.Submit(ctx, turn)
	fmt.Println(errors.Is(err, agent.ErrTurnReused))
	// Output:
	// c1 1 <nil>
	// true
}
