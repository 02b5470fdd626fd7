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
// exists; its group is active; the arguments are valid; permission (policy.go): deny, ask or allow; not
// too late; control tools, which the dispatcher runs itself; external tools, which others answer; work.
// A call that fails is settled at once, its siblings go on.
//
// # Parked calls
//
// A call that a person or another system must answer waits in the record of its turn (turn.go), for as
// long as it takes: no goroutine and no memory of any dispatcher is part of it. The record is stored first,
// then the timer, then the question (question.go). One fact, decided, ends each question, whoever was
// faster: an answer (answer.go judges, answers.go carries out), its deadline (expire.go), a cancel. From
// that fact the next step of the turn follows (stage.go), again and again if need be: the call runs, ends,
// or is asked about in another round. Messages that tell of something are let go of only after
// what follows is stored, so whoever dies is made up for by who gets the message next.
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
