package dispatcher

import "github.com/toolwire/toolwire/events"

// presenceOf is what is known of the process that won a start.
type presenceOf int

const (
	presenceUnknown presenceOf = iota // not asked
	presenceRunning                   // it says that it runs the call
	presenceMissed                    // it denied, or nobody was there
	presenceGone                      // the same again, a while later
)

// facts are what is known of a call that somebody wants to end without running it.
type facts struct {
	self    string        // nonce of this settlement
	want    events.Reason // how to end it
	fenced  bool          // the tool has side effects
	patient bool          // a started call is its worker's to end; nobody asks after it
	manned  bool          // workers of its pool live: they will take the work over from a dead one
	control bool          // the tool is one that dispatchers run
	runs    bool          // and this settlement can run it
	yielded bool          // its worker has let go of it, to be answered outside

	result   bool                    // a result is stored
	start    *events.ToolResultStart // as the leader stores it; nil: none
	presence presenceOf              // of start's process
}

// move is what to do next about such a call.
type move int

const (
	moveClaim  move = iota // store a start with the reason wanted
	moveFinish             // store a result with the reason given, then remove the work
	moveRemove             // it has its result: remove what is left of the work
	moveStop               // it runs: tell its worker to stop
	moveAsk                // ask the process of the start whether it runs the call
	movePause              // ask again a while later
	moveLeave              // it is its worker's to end
)

// judge decides about ending a call without running it (design §5). It has no memory and no clock.
// What all rests on: once a worker has started a call, only two silences of that worker let
// anybody else end it, and then nobody says that it did not run.
func judge(f facts) (move, events.Reason) {
	switch {
	case f.result:
		return moveRemove, ""
	case f.start == nil:
		return moveClaim, ""
	case f.start.Nonce == f.self:
		return moveFinish, f.want
	case f.start.Settle == events.ReasonOK && f.control && !f.runs: // who runs it, or its turn is delivered to, finishes it
		return moveLeave, ""
	case f.start.Settle != "": // its author may have died before the result
		return moveFinish, f.start.Settle
	case f.yielded:
		return moveFinish, f.want
	case f.want == events.ReasonCancelled:
		return moveStop, ""
	case f.patient:
		return moveLeave, ""
	}
	switch f.presence {
	case presenceUnknown:
		return moveAsk, ""
	case presenceMissed:
		return movePause, ""
	case presenceRunning:
		return moveLeave, ""
	case presenceGone:
	}
	switch {
	case f.fenced:
		return moveFinish, events.ReasonOutcomeUnknown
	case f.manned:
		return moveLeave, "" // redelivered to one of them, it may run again
	}
	return moveFinish, events.ReasonWorkerLost
}
