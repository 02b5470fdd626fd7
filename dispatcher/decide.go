package dispatcher

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// turn is one ToolCalls event as it was accepted. Agent, session and turn come from its
// subject, which is the authority.
type turn struct {
	agent   events.AgentID
	session events.SessionID
	id      events.TurnID
	attrs   events.Attributes // what is passed on: replyid, parent, trace
	body    events.ToolCalls
	data    []byte    // body as it came
	ref     string    // where data lies if it was too large for the event
	stored  time.Time // by CALLS: server time
	began   time.Time // when the calls now decided about could first run
	staged  bool      // in steps, by a record
	eventID string
}

func (t *turn) key(c events.CallID) events.CallKey {
	return events.CallKey{Session: t.session, Turn: t.id, Call: c}
}

// decision is what becomes of one call: work for a pool, a run by the dispatcher itself, or a
// result at once.
type decision struct {
	call     events.Call
	tool     *tool  // nil: there is none of that name
	session  uint64 // revision of the session's record by which this was decided
	control  bool   // the dispatcher runs it
	repaired bool   // the arguments came as a string

	pool string           // of work
	work *events.ToolWork // nil: settled

	reason events.Reason // of a settled call
	text   string        // for the model: what was wrong, what to do next
}

// decide says what becomes of calls of a turn, in their order. It is pure.
func decide(t *turn, calls []events.Call, reg *snapshot, rec *record, now time.Time) []decision {
	out := make([]decision, len(calls))
	for i, c := range calls {
		out[i] = decideCall(t, c, reg, rec, now)
	}
	return out
}

// decideCall takes one call through the order of checks (see the package comment).
func decideCall(t *turn, c events.Call, reg *snapshot, rec *record, now time.Time) decision {
	d := decision{call: c, tool: reg.tool(c.Name), session: rec.revision, control: reg.meta != nil && control(c.Name)}
	settle := func(r events.Reason, text string) decision {
		d.reason, d.text, d.control = r, text, false
		return d
	}
	late := t.body.Deadline != nil && !now.Before(*t.body.Deadline)
	switch {
	case d.control && late:
		return settle(events.ReasonTimeout, "The deadline of the turn had passed before the call could start. It did not run.")
	case d.control:
		return d
	case d.tool == nil:
		return settle(events.ReasonNotFound, notFound(c.Name, reg, rec))
	case d.tool.broken != nil:
		return settle(events.ReasonUnavailable, fmt.Sprintf("Tool %q is not set up rightly at present. Go on without it.", c.Name))
	case !rec.callable(d.tool):
		return settle(events.ReasonInactive, inactiveText(d.tool, reg))
	}
	schema, err := d.tool.schema()
	if err != nil {
		return settle(events.ReasonUnavailable, fmt.Sprintf("The arguments of tool %q cannot be checked at present. Go on without it.", c.Name))
	}
	input, repaired, err := schema.Prepare(c.Input)
	if err != nil {
		return settle(events.ReasonInvalidInput, inputText(err))
	}
	// Here: permission.
	if d.tool.def.External {
		return settle(events.ReasonUnavailable, fmt.Sprintf(
			"Tool %q is answered by another system, which cannot be asked here yet. Go on without it.", c.Name))
	}
	until := t.began.Add(d.tool.def.QueueLimit())
	switch {
	case late:
		return settle(events.ReasonTimeout, "The deadline of the turn had passed before the call could start. It did not run.")
	case !now.Before(until):
		return settle(events.ReasonQueueExpired, sentence(events.ReasonQueueExpired))
	}
	d.pool, d.repaired = d.tool.pool, repaired
	d.work = &events.ToolWork{
		Call: events.Call{ID: c.ID, Name: c.Name, Input: input}, Agent: t.agent, Context: t.body.Context,
		Definition: d.tool.hash, SessionRevision: rec.revision, ArgsRepaired: repaired,
		AcceptedAt: t.began, QueueUntil: until, Deadline: t.body.Deadline,
		Staged: t.staged, Tuning: d.tool.tuning,
	}
	return d
}

func inputText(err error) string {
	if in, ok := errors.AsType[*toolkit.InputError](err); ok {
		return in.Text
	}
	return err.Error()
}

// sentence is what a model reads of a call that ended for a reason of the machinery's.
func sentence(r events.Reason) string {
	switch r {
	case events.ReasonQueueExpired:
		return "No worker took the call in time. It did not run. Try again later, or go on without it."
	case events.ReasonTimeout:
		return "The call did not start before its deadline. It did not run."
	case events.ReasonCancelled:
		return "The call was cancelled before it ran."
	case events.ReasonOutcomeUnknown:
		return "The worker was lost while it ran the call. Whether the call took effect is not known: check before you call again."
	case events.ReasonWorkerLost:
		return "The worker was lost while it ran the call. The call changes nothing, so it may be tried again."
	case events.ReasonDeadLetter, events.ReasonMalformed:
		return "The call could not be read. Send it again in a new turn."
	default: // refusals bring their own text
	}
	return "The call ended without running: " + string(r) + "."
}

// maxClose is the most names suggested for an unknown tool.
const maxClose = 5

func notFound(name events.ToolName, reg *snapshot, rec *record) string {
	near := reg.closest(string(name), rec.callable)
	switch {
	case len(reg.order) == 0:
		return fmt.Sprintf("There is no tool %q, and no other tool either. Go on without tools.", name)
	case len(near) == 0:
		return fmt.Sprintf("There is no tool %q. Call one of the tools you were given.", name)
	}
	return fmt.Sprintf("There is no tool %q. Tools with a similar name: %s. Call one of those, with its own arguments.",
		name, strings.Join(near, ", "))
}

// distance is the number of bytes to insert, remove or replace to make a of b (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
