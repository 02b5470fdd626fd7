package dispatcher

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/permission"
)

// asked is a question about a call, as the record of its turn knows it: all that an answer is judged by.
type asked struct {
	Request    string      `json:"request"`
	Round      int         `json:"round"`
	Previous   string      `json:"previous,omitempty"` // request of the round before
	Kind       events.Kind `json:"kind"`
	Digest     string      `json:"digest"`
	Definition string      `json:"definition"`
	Rule       string      `json:"rule,omitempty"` // what asks
	Why        string      `json:"why"`
	Safety     bool        `json:"safety,omitempty"`
	AskedAt    time.Time   `json:"askedAt"`
	Put        bool        `json:"put,omitempty"`     // it is out
	Renewed    bool        `json:"renewed,omitempty"` // what is out may say an earlier time

	QuestionSeq uint64 `json:"questionSeq,omitempty"` // of what is out, probably; 0: not known
	TimerSeq    uint64 `json:"timerSeq,omitempty"`    // of its timer, likewise

	Suggestions []events.Rule `json:"suggestions,omitempty"` // allow rules that would let it run the next time
	Config      uint64        `json:"config,omitempty"`      // revision of the policy by which it is asked
	Session     uint64        `json:"session,omitempty"`     // revision of the session's record by which it is asked

	Roles     []string         `json:"roles,omitempty"`
	Quorum    int              `json:"quorum"`
	Rung      int              `json:"rung,omitempty"` // of an escalation
	ExpiresAt *time.Time       `json:"expiresAt,omitempty"`
	OnExpiry  toolkit.OnExpiry `json:"onExpiry,omitempty"`
	Votes     []events.Vote    `json:"votes,omitempty"` // approvals so far

	// Of an external question that follows an approval.
	Input []byte `json:"input,omitempty"` // byte for byte, in the place of the call's own
	By    string `json:"by,omitempty"`    // who approved

	// Of a tool that ran, and asks for its result.
	Suspended bool   `json:"suspended,omitempty"`
	Schema    []byte `json:"schema,omitempty"`
}

// requestID names a round of questions about a call. It is the same whichever dispatcher asks, and
// cannot be told without the secret of the installation.
func requestID(secret []byte, t *turn, call events.CallID, round int) string {
	mac := hmac.New(sha256.New, secret)
	for _, field := range []string{string(t.session), string(t.id), string(call), strconv.Itoa(round), t.stored.UTC().Format(time.RFC3339Nano)} {
		mac.Write([]byte(strconv.Itoa(len(field))))
		mac.Write([]byte{':'})
		mac.Write([]byte(field))
	}
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// newAsk is the question that a decision leads to. before is the round before, nil in the first.
func newAsk(secret []byte, t *turn, d *decision, reg *snapshot, before *asked, now time.Time) *asked {
	a := &asked{
		Round: 1, Kind: d.ask, Definition: d.tool.hash, AskedAt: now.UTC(),
		Rule: d.permit.Rule, Why: d.permit.Message, Safety: d.permit.Immune,
		Config: reg.revision, Session: d.session,
	}
	if before != nil {
		a.Round, a.Previous = before.Round+1, before.Request
		if before.Kind == a.Kind { // escalated, or asked again
			a.Rung = before.Rung
		}
	}
	if a.Kind == events.KindConfirm {
		a.Suggestions = asRules(helpful(d.permit))
	} else {
		a.Rule, a.Why, a.Safety = "external", "The tool is answered by a person or another system.", false
		if g := t.granted[d.call.ID]; g != nil {
			a.Input, a.By = g.input, g.by
		}
	}
	a.Request = requestID(secret, t, d.call.ID, a.Round)
	a.Digest = events.Digest(d.call.Name, d.tool.hash, d.input, t.key(d.call.ID), a.Request)
	a.demand(reg.ApprovalFor(d.call.Name))
	return a
}

// demand sets who may answer until when, by what the installation says and the rung that was reached.
func (a *asked) demand(by toolkit.Approval) {
	a.Roles, a.Quorum, a.OnExpiry = by.Roles, by.Quorum, by.OnExpiry
	wait := time.Duration(by.Expires)
	if wait == 0 {
		wait = toolkit.DefaultConfirmExpiry
		if a.Kind == events.KindExternal {
			wait = toolkit.DefaultExternalExpiry
		}
	}
	a.Rung = min(a.Rung, len(by.Rungs))
	if a.Rung > 0 {
		r := by.Rungs[a.Rung-1]
		a.Roles, a.Quorum = r.Roles, r.Quorum
		if r.Expires > 0 {
			wait = time.Duration(r.Expires)
		}
	}
	if a.OnExpiry == toolkit.ExpiryEscalate && a.Rung == len(by.Rungs) {
		a.OnExpiry = by.Last
	}
	if a.OnExpiry == "" {
		a.OnExpiry = toolkit.ExpiryDeny
	}
	if a.Quorum == 0 || a.Kind == events.KindExternal { // a result is given by one
		a.Quorum = 1
	}
	a.ExpiresAt = nil
	if a.OnExpiry != toolkit.ExpiryPark {
		a.ExpiresAt = new(a.AskedAt.Add(wait))
	}
}

// escalated is the question to those who are asked next.
func (a *asked) escalated(secret []byte, t *turn, c events.Call, input []byte, reg *snapshot, now time.Time) *asked {
	next := *a
	next.Round, next.Previous, next.Rung = a.Round+1, a.Request, a.Rung+1
	next.QuestionSeq, next.TimerSeq = 0, 0
	next.AskedAt, next.Put, next.Renewed, next.Votes, next.Config = now.UTC(), false, false, nil, reg.revision
	next.Request = requestID(secret, t, c.ID, next.Round)
	next.Digest = events.Digest(c.Name, a.Definition, input, t.key(c.ID), next.Request)
	next.demand(reg.ApprovalFor(c.Name))
	return &next
}

// stricter says whether a policy now demands more for a call than the question asked for: another
// rule asks, or it asks for safety now. Whether those who answered are enough is asked apart.
func (a *asked) stricter(now permission.Decision) bool {
	if now.Behavior != permission.Ask || a.Kind != events.KindConfirm {
		return false
	}
	return now.Immune && !a.Safety || now.Rule != a.Rule && len(now.Rules) > 0
}

// sameDemand says whether those who were asked are still those who are to be asked.
func (a *asked) sameDemand(set *settings, tool events.ToolName) bool {
	now := *a
	now.demand(set.ApprovalFor(tool))
	return slices.Equal(now.Roles, a.Roles) && now.Quorum == a.Quorum
}

// question is what goes out. It is made of the record, so that whoever puts it again puts the same.
func (a *asked) question(t *turn, c events.Call, def toolkit.Definition) events.Question {
	q := events.Question{
		RequestID: a.Request, Round: a.Round, Previous: a.Previous, Kind: a.Kind, Call: c,
		Title: def.Title, Description: def.Description, Requester: t.agent, Definition: a.Definition, Digest: a.Digest,
		Why: a.Why, Rule: a.Rule, Safety: a.Safety, Roles: a.Roles, Quorum: a.Quorum, AskedAt: a.AskedAt,
		ExpiresAt: a.ExpiresAt, ConfigRevision: a.Config, SessionRevision: a.Session, Suspended: a.Suspended,
		Suggestions: a.Suggestions,
	}
	switch {
	case a.Suspended:
		q.ResultSchema = a.Schema
	case a.Kind == events.KindExternal:
		q.ResultSchema = def.OutputSchema
	}
	switch {
	case a.ExpiresAt == nil:
	case a.OnExpiry == toolkit.ExpiryDeny && a.Kind == events.KindExternal:
		q.OnExpiry = "error"
	default:
		q.OnExpiry = string(a.OnExpiry)
	}
	return q
}
