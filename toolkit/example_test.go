package toolkit_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/toolwire/toolwire/toolkit"
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
