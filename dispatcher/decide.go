package dispatcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/permission"
)

// turn is one ToolCalls event as it was accepted. Agent, session and turn come from its
// subject, which is the authority.
type turn struct {
	agent   events.AgentID
	session events.SessionID
	id      events.TurnID
	attrs   events.Attributes // what is passed on: replyid, parent, trace
	body    events.ToolCalls
	data    []byte        // body as it came
	ref     string        // where data lies if it was too large for the event
	stored  time.Time     // by CALLS: server time
	began   time.Time     // when the calls now decided about could first run
	waited  time.Duration // for people, before that: the agent's deadline does not count it
	staged  bool          // in steps, by a record
	eventID string
	granted map[events.CallID]*grant // what people approved
}

func (t *turn) key(c events.CallID) events.CallKey {
	return events.CallKey{Session: t.session, Turn: t.id, Call: c}
}

// grant is the approval of a call by people.
type grant struct {
	request string
	digest  string          // of what was approved
	input   json.RawMessage // in the place of the call's own arguments; nil: those
	by      string          // who approved, for the record
	parked  time.Duration   // how long the call waited, which its agent's deadline does not count
}

// decision is what becomes of one call: work for a pool, a run by the dispatcher itself, a question,
// or a result at once.
type decision struct { //nolint:recvcheck // moves through the checks by value; queue fills it in
	call     events.Call
	tool     *tool  // nil: there is none of that name
	session  uint64 // revision of the session's record by which this was decided
	control  bool   // the dispatcher runs it
	repaired bool   // the arguments came as a string

	input  json.RawMessage // what would run
	permit permission.Decision
	ask    events.Kind // a question; "": none

	pool string           // of work
	work *events.ToolWork // nil: settled, or asked about

	reason  events.Reason                   // of a settled call
	text    string                          // for the model: what was wrong, what to do next
	answer  *events.ExternalExecutionResult // the result, where it came from outside
	asked   bool                            // it ends because the question about it was decided
	judged  string                          // how, for the record
	yielded bool                            // its worker has let go of it, to be answered outside
}

// settled says whether the call has an end now.
func (d *decision) settled() bool { return d.work == nil && d.ask == "" }

// decide says what becomes of calls of a turn, in their order. It is pure.
func decide(t *turn, calls []events.Call, b basis) []decision {
	out := make([]decision, len(calls))
	for i, c := range calls {
		out[i] = decideCall(t, c, b)
	}
	return out
}

// basis is what decisions rest on beside the calls themselves.
type basis struct {
	reg *snapshot
	rec *record
	own map[events.CallID]*permission.Check // what workers said of calls of tools with a check of their own
	now time.Time
}

// decideCall takes one call through the order of checks (see the package comment).
func decideCall(t *turn, c events.Call, b basis) decision {
	d := decision{call: c, tool: b.reg.tool(c.Name), session: b.rec.revision, control: b.reg.meta != nil && control(c.Name)}
	if d.control {
		d.tool = b.reg.meta
	}
	switch {
	case d.tool == nil:
		return d.settle(events.ReasonNotFound, notFound(c.Name, b.reg, b.rec))
	case d.tool.broken != nil:
		return d.settle(events.ReasonUnavailable, fmt.Sprintf("Tool %q is not set up rightly at present. Go on without it.", c.Name))
	case !d.control && !b.rec.callable(d.tool):
		return d.settle(events.ReasonInactive, inactiveText(d.tool, b.reg))
	}
	g := t.granted[c.ID]
	if g != nil && g.input != nil {
		c.Input = g.input
	}
	if d.control { // checks its own arguments
		d.input = c.Input
		return d.permitted(t, d.granted(t, g), b)
	}
	schema, err := d.tool.schema()
	if err != nil {
		return d.settle(events.ReasonUnavailable, fmt.Sprintf("The arguments of tool %q cannot be checked at present. Go on without it.", c.Name))
	}
	if d.input, d.repaired, err = schema.Prepare(c.Input); err != nil {
		return d.settle(events.ReasonInvalidInput, inputText(err))
	}
	return d.permitted(t, d.granted(t, g), b)
}

// granted is an approval if it is of just this: the tool as it is defined now, with these arguments.
func (d *decision) granted(t *turn, g *grant) *grant {
	if g == nil || g.digest != events.Digest(d.call.Name, d.tool.hash, d.input, t.key(d.call.ID), g.request) {
		return nil
	}
	return g
}

// settle ends the call.
func (d decision) settle(r events.Reason, text string) decision {
	d.reason, d.text, d.control = r, text, false
	return d
}

// permitted takes a call with valid arguments on: permission, then where it is to run.
func (d decision) permitted(t *turn, g *grant, b basis) decision {
	own := b.own[d.call.ID]
	d.permit = b.reg.permit(b.rec, d.tool, d.input, own)
	unchecked := own == nil && permission.NeedsCheck(d.tool.def.Permission())
	switch {
	case unchecked && b.reg.policy(b.rec, d.tool).Mode == permission.DontAsk:
		return d.settle(events.ReasonUnavailable, fmt.Sprintf("Whether tool %q may be called cannot be told at present. Try again later, or go on without it.", d.call.Name))
	case d.permit.Behavior == permission.Deny:
		return d.settle(events.ReasonDeniedByRule, deniedText(d.permit))
	}
	parked := t.waited
	if g != nil {
		parked += g.parked
	}
	asks := d.permit.Behavior == permission.Ask && g == nil
	switch {
	case t.body.Deadline != nil && !b.now.Before(t.body.Deadline.Add(parked)):
		return d.settle(events.ReasonTimeout, "The deadline of the turn had passed before the call could start. It did not run.")
	case asks:
		d.ask, d.control = events.KindConfirm, false
		return d
	case d.control:
		return d
	case d.tool.def.External:
		d.ask = events.KindExternal
		return d
	}
	until := t.began.Add(d.tool.def.QueueLimit())
	if g == nil && !b.now.Before(until) {
		return d.settle(events.ReasonQueueExpired, sentence(events.ReasonQueueExpired))
	}
	accepted := t.began
	if g != nil { // it could not queue before
		accepted, until = b.now, b.now.Add(d.tool.def.QueueLimit())
	}
	d.queue(t, g, accepted, until, parked)
	return d
}

// queue makes work of the call.
func (d *decision) queue(t *turn, g *grant, accepted, until time.Time, parked time.Duration) {
	d.pool = d.tool.pool
	d.work = &events.ToolWork{
		Call: events.Call{ID: d.call.ID, Name: d.call.Name, Input: d.input}, Agent: t.agent, Context: t.body.Context,
		Definition: d.tool.hash, SessionRevision: d.session, ArgsRepaired: d.repaired, Decision: d.permit.String(),
		AcceptedAt: accepted, QueueUntil: until, Deadline: t.body.Deadline,
		Staged: t.staged, Tuning: d.tool.tuning,
	}
	if g != nil {
		d.work.Decision += "; approved by " + g.by
		d.work.Request, d.work.Digest = g.request, g.digest
	}
	if parked > 0 && t.body.Deadline != nil {
		d.work.Deadline = new(t.body.Deadline.Add(parked))
	}
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
