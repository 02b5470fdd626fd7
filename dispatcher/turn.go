package dispatcher

import (
	"fmt"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/internal/jet"
)

// stagesOf splits the calls of a turn into stages, and returns how many calls each has: calls side by
// side that may run beside each other are one stage, any other call is a stage of its own
// (agentscope-spec §1.7). What is no tool runs nowhere, and so is in nobody's way.
func stagesOf(calls []events.Call, reg *snapshot) []int {
	var sizes []int
	together := false // the last stage takes more
	for _, c := range calls {
		t := reg.tool(c.Name)
		alone := control(c.Name) || t != nil && !t.def.ConcurrencySafe
		if together && !alone {
			sizes[len(sizes)-1]++
			continue
		}
		sizes = append(sizes, 1)
		together = !alone
	}
	return sizes
}

// stagedTurn is what is stored of a turn that runs in stages, or asks somebody: all that any dispatcher
// needs to take the next step. Its record is gone once every call has its result.
type stagedTurn struct {
	Agent       events.AgentID `json:"agent"`
	EventID     string         `json:"eventId"`
	ReplyID     string         `json:"replyId,omitempty"`
	Parent      string         `json:"parent,omitempty"`
	TraceParent string         `json:"traceParent,omitempty"`
	TraceState  string         `json:"traceState,omitempty"`
	StoredAt    time.Time      `json:"storedAt"`       // by CALLS
	Data        []byte         `json:"data,omitempty"` // of the event, as they are: JSON within JSON would be compacted
	DataRef     string         `json:"dataRef,omitempty"`

	Partial bool          `json:"partial,omitempty"` // only of the calls that were suspended
	Stages  []int         `json:"stages"`            // calls of each
	Stage   int           `json:"stage"`             // the one under way
	Began   time.Time     `json:"began"`             // when it was reached
	Looked  int           `json:"looked,omitempty"`  // calls of later stages before this place were looked at
	Waiting time.Duration `json:"waiting,omitempty"` // for people, by the stage under way
	Waited  time.Duration `json:"waited,omitempty"`  // for people, by those before it
	Calls   []callRecord  `json:"calls"`
}

// callRecord is how one call of the turn stands.
type callRecord struct {
	State   events.CallState `json:"state,omitempty"`   // "": pending
	Ask     *asked           `json:"ask,omitempty"`     // the latest question about it
	Allowed *allowance       `json:"allowed,omitempty"` // what was approved before its place came
}

func newStagedTurn(t *turn, sizes []int) *stagedTurn {
	s := &stagedTurn{
		Agent: t.agent, EventID: t.eventID, ReplyID: t.attrs.ReplyID, Parent: t.attrs.Parent,
		TraceParent: t.attrs.TraceParent, TraceState: t.attrs.TraceState,
		StoredAt: t.stored, Stages: sizes, Began: t.stored, Calls: make([]callRecord, len(t.body.Calls)),
	}
	if s.DataRef = t.ref; s.DataRef == "" {
		s.Data = t.data
	}
	return s
}

// turn is the turn that the record is of; data is that of its event.
func (s *stagedTurn) turn(session events.SessionID, id events.TurnID, data []byte) (*turn, error) {
	t := &turn{
		agent: s.Agent, session: session, id: id, eventID: s.EventID, data: data, ref: s.DataRef,
		attrs:  events.Attributes{ReplyID: s.ReplyID, Parent: s.Parent, TraceParent: s.TraceParent, TraceState: s.TraceState},
		stored: s.StoredAt, began: s.Began, waited: s.Waited, staged: true,
	}
	if err := events.Unmarshal(data, &t.body); err != nil {
		return nil, err
	}
	total := 0
	for _, n := range s.Stages {
		total += n
	}
	if total != len(t.body.Calls) || total != len(s.Calls) || s.Stage < 0 || s.Stage > len(s.Stages) {
		return nil, fmt.Errorf("record of turn %s: stages of %d calls, the turn has %d", id, total, len(t.body.Calls))
	}
	return t, nil
}

// open are the places of the calls of the present stage that have no result yet.
func (s *stagedTurn) open() []int {
	from := 0
	for _, n := range s.Stages[:s.Stage] {
		from += n
	}
	var out []int
	if s.Stage < len(s.Stages) {
		for i := from; i < from+s.Stages[s.Stage]; i++ {
			if s.Calls[i].State != events.CallFinished {
				out = append(out, i)
			}
		}
	}
	return out
}

// finished says whether every call has its result.
func (s *stagedTurn) finished() bool { return s.Stage == len(s.Stages) }

// advance takes note of results, and moves on to the first stage that has a call without one. changed
// says whether there was anything new; over are the questions about calls that have ended meanwhile.
func (s *stagedTurn) advance(result func(i int) bool, now time.Time) (changed bool, over []int) {
	for i := range s.Calls {
		c := &s.Calls[i]
		if c.State == events.CallFinished || !result(i) {
			continue
		}
		if c.State == events.CallAsking {
			over = append(over, i)
		}
		c.State, changed = events.CallFinished, true
	}
	for !s.finished() && len(s.open()) == 0 {
		s.Stage++
		s.Began, changed = now, true
		s.Waited, s.Waiting = s.Waited+s.Waiting, 0
	}
	return changed, over
}

// asking finds the open question with a request id; -1: there is none.
func (s *stagedTurn) asking(request string) int {
	for i := range s.Calls {
		if c := &s.Calls[i]; c.State == events.CallAsking && c.Ask != nil && c.Ask.Request == request {
			return i
		}
	}
	return -1
}

// asks says whether any call waits for an answer.
func (s *stagedTurn) asks() bool {
	for i := range s.Calls {
		if s.Calls[i].State == events.CallAsking {
			return true
		}
	}
	return false
}

// parked says whether nothing moves until somebody answers, or a deadline passes.
func (s *stagedTurn) parked() bool {
	for i := range s.Calls {
		if c := &s.Calls[i]; c.State == events.CallSubmitted || c.State == events.CallAsking && !c.Ask.Put {
			return false
		}
	}
	return s.asks()
}

// turnKey is the key of a turn's record.
func turnKey(session events.SessionID, id events.TurnID) string {
	return events.Token(session) + "." + events.Token(id)
}

// parseTurnKey is the inverse.
func parseTurnKey(names jet.Names, key string) (events.SessionID, events.TurnID, error) {
	return names.ParseStep(names.Prefix() + ".step." + key)
}
