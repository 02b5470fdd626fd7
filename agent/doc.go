// Package agent is what an agent imports to have its tool calls run: submit a turn, await the
// results, cancel, list tools; and what an operator imports to see how calls stand.
//
//	c, err := agent.New(nc, agent.Config{Agent: "planner"})
//	if err != nil {
//		return err
//	}
//	defer c.Close()
//	turn, err := c.Submit(ctx, agent.Turn{Session: "s-1", Calls: calls})
//	if err != nil {
//		return err
//	}
//	results, err := turn.Await(ctx)
//
// # Delivery
//
// A turn is stored once. Submitting the same turn again, from this process or another, attaches
// to the first: nothing runs twice. A different turn under the same id is [ErrTurnReused].
// Every call of a stored turn gets exactly one result, and a [Pending] hands it out once, whether
// the live copy or the stored fact came first. Results survive the loss of this process:
// [Client.Attach] takes a turn up again, [Client.Result] fetches one later.
//
// Waiting outlives a restart of the server, a lost connection (if the connection reconnects) and
// a time without any dispatcher. Questions to the dispatcher ([Client.Tools], [Client.Status],
// [Client.Result] …) do not wait: they are [ErrUnavailable] at once.
//
// # Concurrency
//
// All methods may be called at once. A pending turn costs memory and no goroutine; a client has
// two goroutines, and one more for each turn with a Progress function.
package agent
