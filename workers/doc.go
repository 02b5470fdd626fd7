// Package workers runs tools: it takes work from JetStream and stores exactly one result
// per call.
//
//	w, err := workers.New(nc, tools, workers.Config{Name: "billing"})
//	if err != nil {
//		return err
//	}
//	return w.Run(ctx) // until ctx ends and all that runs has settled
//
// # Pools and lanes
//
// Workers of one program share a pool: one durable consumer, whoever is free takes the next
// call. A tool with a limit of its own (MaxInFlight) has a lane: a consumer of its own, whose
// limit holds over the whole fleet. A worker asks only for what it has a free slot for.
//
// # Delivery
//
// A call is delivered at least once and settled exactly once. A tool that is neither read-only
// nor idempotent runs at most once: whoever wants to run such a call, or to settle it without
// running it, first stores its start (the fence). Whoever finds a start of somebody else asks
// that process whether it still runs the call, and never runs it a second time blindly.
// The order is always start, result, then the acknowledgement.
//
// # Stopping
//
// When the context of [Worker.Run] ends, the worker asks for no more work and lets what runs
// finish for [Config.Drain]. Then it cancels the rest: a call with side effects is settled as
// interrupted, any other is given back for another worker.
package workers
