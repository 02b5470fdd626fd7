package toolkit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/toolkittest"
)

func ExampleDefine() {
	type In struct {
		City string `json:"city" description:"where" minLength:"1"`
		Days int    `json:"days" default:"1" minimum:"1" maximum:"7"`
	}
	weather, err := toolkit.Define("weather", "Tells the weather.",
		func(_ context.Context, in In) (string, error) {
			return fmt.Sprintf("%s: sunny for %d day(s)", in.City, in.Days), nil
		}, &toolkit.Options{ReadOnly: true, ConcurrencySafe: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, input := range []string{`{"city":"Bonn"}`, `{"city":"","days":9}`} {
		r := weather.Execute(context.Background(), toolkit.Execution{Input: json.RawMessage(input)})
		fmt.Println(r.Reason, "-", r.Text())
	}
	// Output:
	// ok - Bonn: sunny for 1 day(s)
	// invalid_input - Input validation failed for tool 'weather':
	// /city: minLength: got 0, want 1
	// /days: maximum: got 9, want 7
	// Correct the arguments and call again.
}

func ExampleRetryAfter() {
	tries := 0
	flaky := toolkit.MustDefine("flaky", "Works at the second try.",
		func(context.Context, struct{}) (string, error) {
			if tries++; tries == 1 {
				return "", toolkit.RetryAfter(errors.New("busy"), time.Millisecond)
			}
			return "done", nil
		}, &toolkit.Options{Attempts: 3})
	r := flaky.Execute(context.Background(), toolkit.Execution{})
	fmt.Println(r.Text(), "at attempt", r.Meta.Attempt)
	// Output: done at attempt 2
}

func ExampleMiddleware() {
	timed := func(next toolkit.Handler) toolkit.Handler {
		return func(ctx context.Context, in json.RawMessage) (toolkit.Result, error) {
			call, _ := toolkit.CallFrom(ctx)
			fmt.Println("calling", call.Tool)
			return next(ctx, in)
		}
	}
	hello := toolkit.MustDefine("hello", "Greets.",
		func(context.Context, struct{}) (string, error) { return "hi", nil }, nil)
	r := hello.Execute(context.Background(), toolkit.Execution{
		Call: toolkit.Call{Tool: "hello"}, Middleware: []toolkit.Middleware{timed},
	})
	fmt.Println(r.Text())
	// Output:
	// calling hello
	// hi
}

func ExampleProgress() {
	count := toolkit.MustDefine("count", "Counts to three.",
		func(ctx context.Context, _ struct{}) (string, error) {
			for i := range 3 {
				toolkit.Progress(ctx, float64(i+1), 3, "counting")
			}
			return "three", nil
		}, nil)
	r := count.Execute(context.Background(), toolkit.Execution{Emit: func(d events.ToolResultDelta) {
		fmt.Printf("%d: %v of %v, %s\n", d.Seq, *d.Progress, *d.Total, d.Message)
	}})
	fmt.Println(r.Text())
	// Output:
	// 1: 1 of 3, counting
	// 2: 2 of 3, counting
	// 3: 3 of 3, counting
	// three
}

func ExampleRetryable() {
	// A failure that may pass is marked; one that will not is returned as it is.
	lookup := toolkit.MustDefine("lookup", "Looks up.",
		func(context.Context, struct{}) (string, error) {
			return "", toolkit.Retryable(errors.New("the directory is busy, try later"))
		}, &toolkit.Options{Attempts: 2, Backoff: toolkit.Backoff{Initial: toolkit.Duration(time.Millisecond)}})
	r := lookup.Execute(context.Background(), toolkit.Execution{Failed: func(attempt int, err error) {
		fmt.Println("attempt", attempt, "-", err)
	}})
	fmt.Println(r.State, r.Reason, "-", r.Text())
	// Output:
	// attempt 1 - the directory is busy, try later
	// attempt 2 - the directory is busy, try later
	// error tool_error - the directory is busy, try later
}

func ExampleToolkit() {
	echo := func(_ context.Context, in map[string]any) (any, error) { return in["say"], nil }
	tk := toolkit.New()
	if err := tk.Add(toolkit.MustDefine("echo", "Says it again.", echo, nil), toolkit.MustDefine("repeat", "The same.", echo, nil)); err != nil {
		fmt.Println(err)
		return
	}
	for tool := range tk.All() {
		fmt.Println(tool.Definition().Name)
	}
	if tool, ok := tk.Lookup("echo"); ok {
		fmt.Println(tool.Execute(context.Background(), toolkit.Execution{Input: json.RawMessage(`{"say":"hi"}`)}).Text())
	}
	fmt.Println(tk.Add(toolkit.MustDefine("echo", "Another.", echo, nil)))
	// Output:
	// echo
	// repeat
	// hi
	// toolkit: tool already registered: echo
}

func ExampleUpdateState() {
	type Basket struct {
		Items []string `json:"items"`
	}
	put := toolkit.MustDefine("put", "Puts an item into the basket of this session.",
		func(ctx context.Context, in struct {
			Item string `json:"item"`
		},
		) (int, error) {
			n := 0
			err := toolkit.UpdateState(ctx, "basket", func(b *Basket) error {
				b.Items = append(b.Items, in.Item)
				n = len(b.Items)
				return nil
			})
			return n, err
		}, &toolkit.Options{StateInjected: true})
	state := toolkittest.NewState() // a worker's is on the bus
	for _, call := range []struct{ session, item string }{{"ann", "pear"}, {"bob", "plum"}, {"ann", "fig"}} {
		r := put.Execute(context.Background(), toolkit.Execution{
			State: state, Input: json.RawMessage(`{"item":"` + call.item + `"}`),
			Call: toolkit.Call{Key: events.CallKey{Session: events.SessionID(call.session)}},
		})
		fmt.Println(call.session, "has", r.Text())
	}
	// Output:
	// ann has 1
	// bob has 1
	// ann has 2
}

func ExampleDefinition_Shown() {
	search := toolkit.MustDefine("search", "Searches.", func(ctx context.Context, in struct {
		Query string `json:"query"`
		Key   string `json:"key"`
	},
	) (string, error) {
		return in.Query + " with " + in.Key + ", given " + string(toolkit.Input(ctx)), nil
	}, nil)
	tuning := toolkit.Tuning{
		Presets:  map[string]toolkit.Preset{"key": {Env: "SEARCH_KEY"}},
		Extended: json.RawMessage(`{"properties":{"why":{"type":"string"}}}`),
	}
	shown, err := search.Definition().Shown(tuning)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(shown.InputSchema))
	tuned, err := search.Tuned(tuning)
	if err != nil {
		fmt.Println(err)
		return
	}
	r := tuned.Execute(context.Background(), toolkit.Execution{
		Input: json.RawMessage(`{"query":"x","why":"curious"}`), Presets: map[string]json.RawMessage{"key": json.RawMessage(`"s3"`)},
	})
	fmt.Println(r.Text())
	// Output:
	// {"type":"object","properties":{"query":{"type":"string"},"why":{"type":"string"}},"required":["query"],"additionalProperties":false}
	// x with s3, given {"query":"x","why":"curious","key":"s3"}
}

func ExampleValueOr() {
	type UserContext struct {
		Locale string `json:"locale"`
	}
	hello := toolkit.MustDefine("hello", "Greets.", func(ctx context.Context, _ struct{}) (string, error) {
		user, err := toolkit.ValueOr(ctx, UserContext{Locale: "en"})
		return user.Locale, err
	}, nil)
	fmt.Println(hello.Execute(context.Background(), toolkit.Execution{}).Text())
	fmt.Println(hello.Execute(context.Background(), toolkit.Execution{
		Context: &events.Context{Values: map[string]json.RawMessage{"UserContext": json.RawMessage(`{"locale":"de"}`)}},
	}).Text())
	// Output:
	// en
	// de
}
