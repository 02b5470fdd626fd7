package dispatcher

import (
	"time"

	"github.com/toolwire/toolwire/events"
)

// allowance is what people have approved of a call whose place in the turn has not come yet.
type allowance struct {
	Digest string `json:"digest"`          // of what was approved
	Input  []byte `json:"input,omitempty"` // byte for byte, in the place of the call's own; nil: those
	By     string `json:"by"`
}

// ahead are the places of calls of later stages that nobody looked at yet. Whether people are asked about
// them is found out now, so that they see all that a turn wants of them at once (T-08), and not one question
// after the other. Behind a control tool nothing can be told: it changes what the calls after it are.
func (s *stagedTurn) ahead(calls []events.Call) []int {
	from := 0
	for _, n := range s.Stages[:min(s.Stage+1, len(s.Stages))] {
		from += n
	}
	for _, i := range s.open() {
		if control(calls[i].Name) {
			return nil
		}
	}
	var out []int
	for i := max(from, s.Looked); i < len(calls) && !control(calls[i].Name); i++ {
		if s.Calls[i].State == "" {
			out = append(out, i)
		}
		s.Looked = i + 1
	}
	return out
}

// allow keeps an approval until the place of the call comes.
func (c *callRecord) allow(g *grant) {
	c.State, c.Allowed = events.CallAllowed, &allowance{Digest: g.digest, Input: g.input, By: g.by}
}

// grant is the approval of a call whose place has come.
func (c *callRecord) grant() *grant {
	a := c.Allowed
	return &grant{request: c.Ask.Request, digest: a.Digest, input: a.Input, by: a.By}
}

// parked is how long a call has been waiting for people and for nothing else.
func (a *asked) parked(began, now time.Time) time.Duration {
	if a.AskedAt.After(began) {
		began = a.AskedAt
	}
	return max(0, now.Sub(began))
}
