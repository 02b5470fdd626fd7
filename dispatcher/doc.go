// Package dispatcher turns the calls of an agent into work for workers, and sees to it that
// every call of an accepted turn gets exactly one result, whoever dies on the way.
//
//	d, err := dispatcher.New(nc, dispatcher.Config{Logger: log})
//	if err != nil {
//		return err
//	}
//	return d.Run(ctx) // until ctx ends and all it began is finished
//
// Any number of dispatchers run side by side. They share their consumers and hold no state that
// matters: each may be killed between any two publishes, and another goes on.
//
// # The order of checks
//
// Each call of a turn is decided on by a pure function (decide.go), in this order: the tool
// exists; its group is active (place for tool groups); the arguments are valid; permission (place
// for permission rules); control tools (place); external tools (place: refused as unavailable
// until questions to other systems exist); not too late; work. A call that fails is settled at
// once, its siblings go on.
//
// # Ending a call without running it
//
// Refusal, cancel, deadlines, the sweep and dead letters all go through one function (settle.go):
// win the call's start, store the result, remove the work. Between a call's acceptance and its
// result either its turn is not acknowledged in CALLS, or its work lies in WORK, because both are let
// go of only after the result is stored. So a settlement whose author died half way is
// found again by whoever takes the turn or the work next: the intake, a worker, or the sweep.
//
// # Concurrency
//
// All methods of a [Dispatcher] may be called from any goroutine. Run blocks, owns every goroutine
// it starts, and may be called again after it has returned.
package dispatcher
