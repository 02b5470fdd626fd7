package events

// State is how a call ended, as AgentScope names it.
type State string

// The four terminal states.
const (
	StateSuccess     State = "success"
	StateError       State = "error"
	StateDenied      State = "denied"
	StateInterrupted State = "interrupted"
)

// Reason says why a call ended as it did. The set is closed; one table maps each to
// its state and to MCP, HTTP and exit codes.
type Reason string

// The reasons.
const (
	ReasonOK              Reason = "ok"
	ReasonNotFound        Reason = "not_found"
	ReasonInactive        Reason = "inactive"
	ReasonInvalidInput    Reason = "invalid_input"
	ReasonMalformed       Reason = "malformed"
	ReasonToolError       Reason = "tool_error"
	ReasonToolPanic       Reason = "tool_panic"
	ReasonTimeout         Reason = "timeout"
	ReasonQueueExpired    Reason = "queue_expired"
	ReasonExternalExpired Reason = "external_expired"
	ReasonWorkerLost      Reason = "worker_lost"
	ReasonOutcomeUnknown  Reason = "outcome_unknown"
	ReasonResultTooLarge  Reason = "result_too_large"
	ReasonUnavailable     Reason = "unavailable"
	ReasonDeadLetter      Reason = "dead_letter"
	ReasonDeniedByRule    Reason = "denied_by_rule"
	ReasonDeniedByUser    Reason = "denied_by_user"
	ReasonApprovalExpired Reason = "approval_expired"
	ReasonCancelled       Reason = "cancelled"
	ReasonShutdown        Reason = "shutdown"
)

// Reasons returns the closed set, in the order of the table in docs/wire.md.
func Reasons() []Reason {
	return []Reason{
		ReasonOK,
		ReasonNotFound, ReasonInactive, ReasonInvalidInput, ReasonMalformed,
		ReasonToolError, ReasonToolPanic,
		ReasonTimeout, ReasonQueueExpired, ReasonExternalExpired,
		ReasonWorkerLost, ReasonOutcomeUnknown, ReasonResultTooLarge, ReasonUnavailable, ReasonDeadLetter,
		ReasonDeniedByRule, ReasonDeniedByUser, ReasonApprovalExpired,
		ReasonCancelled, ReasonShutdown,
	}
}

// Valid says whether r is one of the closed set.
func (r Reason) Valid() bool {
	_, known := r.row()
	return known
}

// Outcome is one row of the table of reasons.
type Outcome struct {
	State State
	MCP   int // JSON-RPC error code, 0 where MCP reports it as a tool result
	HTTP  int
	Exit  int // exit status of the command line
}

// Outcome returns the row of r; an unknown reason is an error like tool_error.
func (r Reason) Outcome() Outcome {
	o, _ := r.row()
	return o
}

func (r Reason) row() (o Outcome, known bool) {
	switch r {
	case ReasonOK:
		return Outcome{StateSuccess, 0, 200, 0}, true
	case ReasonToolError, ReasonToolPanic:
		return Outcome{StateError, 0, 502, 1}, true
	case ReasonNotFound:
		return Outcome{StateError, -32602, 404, 3}, true
	case ReasonInactive:
		return Outcome{StateError, -32602, 409, 3}, true
	case ReasonInvalidInput, ReasonMalformed:
		return Outcome{StateError, -32602, 400, 4}, true
	case ReasonTimeout, ReasonQueueExpired, ReasonExternalExpired:
		return Outcome{StateError, 0, 504, 5}, true
	case ReasonWorkerLost, ReasonOutcomeUnknown, ReasonDeadLetter:
		return Outcome{StateError, 0, 500, 6}, true
	case ReasonResultTooLarge:
		return Outcome{StateError, 0, 413, 7}, true
	case ReasonUnavailable:
		return Outcome{StateError, 0, 503, 8}, true
	case ReasonDeniedByRule, ReasonDeniedByUser, ReasonApprovalExpired:
		return Outcome{StateDenied, 0, 403, 9}, true
	case ReasonCancelled, ReasonShutdown:
		return Outcome{StateInterrupted, 0, 499, 10}, true
	}
	return Outcome{StateError, 0, 500, 1}, false
}
