package workers

import "github.com/toolwire/toolwire/events"

// presence is what is known of the process whose start is stored.
type presence int

const (
	presenceUnknown  presence = iota // not asked yet
	presenceRunning                  // it says that it runs the call
	presenceGoneOnce                 // it denied, or nobody was there
	presenceGone                     // the same again, a lease renewal later
)

// facts are what a worker knows of a call that it holds a delivery of, once the call has a
// start, be it its own or somebody else's.
type facts struct {
	nonce    string                 // of this worker's try
	want     events.Reason          // what it wants to settle without running; empty: to run
	fenced   bool                   // the tool has side effects
	start    events.ToolResultStart // as the stream's leader stores it
	result   bool                   // a result is stored
	presence presence               // of start.Instance
}

// move is what to do next.
type move int

const (
	moveRun    move = iota // run the handler
	moveSettle             // store a result with the reason given, without running
	moveAck                // all is done; let go of the work
	moveAsk                // ask start.Instance whether it runs the call
	movePause              // wait for its next lease renewal, look and ask again
	moveWait               // give the work back for a while: it runs elsewhere
)

// decide is the fence (design §5). It has no memory and no clock; the property that all rests
// on is that a fenced call is run only under its own nonce, so at most once.
func decide(f facts) (move, events.Reason) {
	switch {
	case f.result:
		return moveAck, ""
	case f.start.Settle != "": // its author may have died before the result
		return moveSettle, f.start.Settle
	case f.start.Nonce == f.nonce: // an earlier try of this very Store, whose answer was lost
		return moveRun, ""
	case !f.fenced:
		return decideOpen(f)
	}
	switch f.presence {
	case presenceRunning:
		return moveWait, ""
	case presenceGoneOnce:
		return movePause, ""
	case presenceGone:
		return moveSettle, events.ReasonOutcomeUnknown
	case presenceUnknown:
	}
	return moveAsk, ""
}

// decideOpen decides about a call that may run as often as need be, and that some worker has
// started. Since it has started, nobody says that it waited too long.
func decideOpen(f facts) (move, events.Reason) {
	if f.want == "" || f.want == events.ReasonQueueExpired {
		return moveRun, ""
	}
	return moveSettle, f.want
}
