// Package toolkit is how a tool is written and run.
//
//	type In struct {
//		City string `json:"city" description:"where" minLength:"1"`
//	}
//	weather, err := toolkit.Define("weather", "Tells the weather.",
//		func(ctx context.Context, in In) (string, error) {
//			toolkit.Progress(ctx, 1, 2, "asking")
//			return forecast(ctx, in.City)
//		}, &toolkit.Options{ReadOnly: true, Timeout: time.Minute})
//
// # Delivery
//
// A tool that is neither ReadOnly nor Idempotent runs at most once, whoever dies; the others may
// run again after a crash. [Retryable] errors, which say that nothing happened, are tried again
// within one run, up to Attempts; a time-out leaves that open, so only a tool that may run again
// is tried again after one. What was judged is what runs: no middleware can change the arguments.
//
// # Context and state
//
// What the agent sends along with its turn, and the model never sees, is [ContextFrom]; a typed value
// of it is [Value], an error if there is none, or [ValueOr], which says what to take instead:
//
//	user, err := toolkit.ValueOr(ctx, UserContext{Locale: "en"})
//
// A StateInjected tool keeps documents for each session, whichever worker it runs on: [ReadState] and
// [UpdateState]. A change is made on the newest document and never overwrites another one.
//
// # Tuning
//
// An installation may preset parameters of a tool, and add some. The model sees [Definition.Shown];
// the tool runs with all of them, and [Input] has those that its Go type does not know.
//
// # Errors
//
// The text of a tool's own error is for the model, so write it for one: what was wrong, what to do
// next. A panic, what is marked [Unavailable], and the failures of the machinery cross as a neutral
// sentence.
//
// # Concurrency
//
// A tool's function is called from many goroutines at once. It should return soon after its
// context ends; one that does not is left behind, its call settled as timed out.
package toolkit
