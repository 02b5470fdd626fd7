package dispatcher

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/toolkit/permission"
)

// answer is what somebody said to a question.
type answer struct {
	actor    string
	at       time.Time // when INBOX stored it
	seq      uint64    // under which it did
	confirm  *events.UserConfirmResult
	external *events.ExternalExecutionResult
}

// standing is what an answer is judged by, read at the moment.
type standing struct {
	ask       *asked          // nil: no such question is open
	decided   *events.Decided // nil: nothing has decided it
	requester events.AgentID
	forged    bool     // the record holds another call than was asked about
	roles     []string // of whoever answers
	operator  bool

	tool     *tool               // nil: it is gone
	permit   permission.Decision // of what would run
	digest   string              // of what would run
	invalid  string              // why changed arguments do not fit
	badness  string              // why a result does not fit
	demanded bool                // the same people are still to be asked
	enough   func(votes []events.Vote) bool
}

// verdict is what becomes of an answer.
type verdict struct {
	judgement string
	code      string // of a refused one
	text      string
	missing   int
	winner    string
	decided   *events.Decided // to be stored; nil: nothing is
	votes     []events.Vote   // to be noted in the record
}

func refuse(code, format string, args ...any) verdict {
	return verdict{judgement: events.JudgedRefused, code: code, text: fmt.Sprintf(format, args...)}
}

// judgeAnswer decides what becomes of an answer (design §7). It is pure.
func judgeAnswer(a answer, s standing) verdict {
	switch {
	case s.decided != nil:
		return late(a, s.decided)
	case s.ask == nil:
		return refuse(events.RefusedNotPending, "No such question is open. List the open questions; this one was never asked, or was dealt with long ago.")
	case s.forged:
		return refuse(events.RefusedDigest, "What is stored is not what was asked about. Nothing runs; tell an operator.")
	case s.requester == "":
		return refuse(events.RefusedNoRequester, "Who asked for the call is not known any more, so nobody can approve it.")
	case string(s.requester) == a.actor:
		return refuse(events.RefusedSelf, "%q asked for this call, and may not answer for it. Somebody else has to.", a.actor)
	case a.confirm == nil && s.ask.Kind == events.KindConfirm:
		return refuse(events.RefusedMalformed, "The question is whether the call may run: answer with a UserConfirmResult.")
	case a.external == nil && s.ask.Kind == events.KindExternal:
		return refuse(events.RefusedMalformed, "The question is what the result of the call is: answer with an ExternalExecutionResult.")
	}
	if v := unfit(a, s); v.judgement != "" {
		return v
	}
	if a.external != nil {
		return result(a, s)
	}
	return confirmed(a, s)
}

// unfit refuses an answer that comes too late, to something else, or from the wrong person.
func unfit(a answer, s standing) verdict {
	denies := a.confirm != nil && a.confirm.Decision == events.Refuse
	var digest string
	if a.external != nil {
		digest = a.external.Digest
	} else {
		digest = a.confirm.Digest
	}
	switch {
	case s.ask.ExpiresAt != nil && !a.at.Before(*s.ask.ExpiresAt) && !denies:
		return refuse(events.RefusedExpired, "The question expired at %s, and the answer came at %s.",
			s.ask.ExpiresAt.UTC().Format(time.RFC3339), a.at.UTC().Format(time.RFC3339))
	case digest != s.ask.Digest:
		return refuse(events.RefusedDigest, "The digest is not that of the question: the answer is to something else than was asked. Read the question again.")
	case len(s.ask.Roles) > 0 && !slices.ContainsFunc(s.ask.Roles, func(r string) bool { return slices.Contains(s.roles, r) }):
		return refuse(events.RefusedRole, "Only people of the roles %s may answer; %q is none of them.", strings.Join(s.ask.Roles, ", "), a.actor)
	}
	return verdict{}
}

// result takes the result of a call.
func result(a answer, s standing) verdict {
	switch a.external.State {
	case "", events.StateSuccess, events.StateError, events.StateDenied, events.StateInterrupted:
	default:
		return refuse(events.RefusedMalformed, "State %q is none of success, error, denied, interrupted.", a.external.State)
	}
	if s.badness != "" {
		return refuse(events.RefusedResult, "%s", s.badness)
	}
	return verdict{
		judgement: events.JudgedAccepted, text: "The call has its result.",
		decided: &events.Decided{Outcome: events.OutcomeAnswered, At: a.at, Seq: a.seq, Actor: a.actor, Result: a.external},
	}
}

// confirmed takes an approval or a denial.
func confirmed(a answer, s standing) verdict {
	switch a.confirm.Decision {
	case events.Refuse:
		return verdict{
			judgement: events.JudgedAccepted, text: "The call is denied.",
			decided: &events.Decided{Outcome: events.OutcomeDenied, At: a.at, Seq: a.seq, Actor: a.actor, Reason: a.confirm.Reason},
		}
	case events.Approve:
	default:
		return refuse(events.RefusedMalformed, "Decision %q is neither approve nor deny.", a.confirm.Decision)
	}
	if v := attached(a, s); v.judgement != "" {
		return v
	}
	switch {
	case s.invalid != "":
		return refuse(events.RefusedInput, "The changed arguments do not fit the tool: %s", s.invalid)
	case s.tool == nil:
		return superseded(a, "The tool is gone.")
	case s.tool.hash != s.ask.Definition:
		return superseded(a, "The tool is defined otherwise than when it was asked about.")
	case s.permit.Behavior == permission.Deny:
		v := refuse(events.RefusedByRule, "The policy denies the call by now (%s). It does not run.", s.permit.Rule)
		v.decided = &events.Decided{Outcome: events.OutcomeDenied, At: a.at, Seq: a.seq, Reason: s.permit.Message + " (" + s.permit.Rule + ")"}
		return v
	case len(a.confirm.Input) == 0 && s.ask.stricter(s.permit):
		return superseded(a, "Another rule asks about the call by now: "+s.permit.Rule+".")
	}
	return counted(a, s)
}

// superseded ends the question, for the call is to be decided about anew.
func superseded(a answer, why string) verdict {
	v := refuse(events.RefusedNewRound, "%s The call is decided about again; answer the new question, if there is one.", why)
	v.decided = &events.Decided{Outcome: events.OutcomeSuperseded, At: a.at, Seq: a.seq, Reason: why}
	return v
}

// attached refuses rules that an approval may not bring along.
func attached(a answer, s standing) verdict {
	if len(a.confirm.Rules) == 0 {
		return verdict{}
	}
	switch a.confirm.Scope {
	case "", events.ScopeSession:
	case events.ScopeInstallation:
		if !s.operator {
			return refuse(events.RefusedRules, "Only operators may add rules to the installation; %q is none. Leave out the scope to add them to the session.", a.actor)
		}
	default:
		return refuse(events.RefusedMalformed, "Scope %q is neither session nor installation.", a.confirm.Scope)
	}
	for _, r := range a.confirm.Rules {
		if err := asRule(r).Check(); err != nil {
			return refuse(events.RefusedRules, "%v", err)
		}
		if s.tool == nil || r.Tool != string(s.tool.def.Name) {
			return refuse(events.RefusedRules, "Rule %s is not about the tool that was asked about.", r)
		}
	}
	if len(a.confirm.Rules) > maxAttached {
		return refuse(events.RefusedRules, "%d rules, at most %d are allowed.", len(a.confirm.Rules), maxAttached)
	}
	return verdict{}
}

// maxAttached is the most rules that one approval may bring along.
const maxAttached = 20

// counted adds an approval to those there are; with enough of the same arguments, the call is approved.
func counted(a answer, s standing) verdict {
	vote := events.Vote{Actor: a.actor, At: a.at, Seq: a.seq}
	if len(a.confirm.Input) > 0 {
		vote.Input = toolkit.HashOf(bytes.TrimSpace(a.confirm.Input))
	}
	var same, all []events.Vote
	for _, v := range s.ask.Votes {
		if v.Actor == a.actor {
			if v.Input == vote.Input {
				vote = v
			}
			continue // one person, one vote: the last one counts
		}
		if all = append(all, v); v.Input == vote.Input {
			same = append(same, v)
		}
	}
	all, same = append(all, vote), append(same, vote)
	missing := s.ask.Quorum - len(same)
	switch {
	case missing > 0 && vote.Seq != a.seq:
		return verdict{judgement: events.JudgedDuplicate, missing: missing, text: fmt.Sprintf("%q has approved before; %d more people are needed.", a.actor, missing)}
	case missing > 0:
		return verdict{judgement: events.JudgedCounted, missing: missing, votes: all, text: fmt.Sprintf("Counted; %d more people are needed.", missing)}
	case !s.demanded && !s.enough(same):
		return superseded(a, "Other people are to be asked by now.")
	}
	d := &events.Decided{
		Outcome: events.OutcomeApproved, At: a.at, Seq: a.seq, Actor: a.actor, Votes: same, InputDigest: s.digest,
		Input: a.confirm.Input, Rules: a.confirm.Rules, Scope: a.confirm.Scope, Reason: a.confirm.Reason,
	}
	return verdict{judgement: events.JudgedAccepted, text: "The call is approved.", decided: d}
}

// late says what an answer comes to whose question is decided. The answer that decided it may come
// again, and so may another one that says the same.
func late(a answer, d *events.Decided) verdict {
	own := d.Actor == a.actor && d.Seq == a.seq
	switch {
	case own:
		return verdict{judgement: events.JudgedAccepted, text: "The answer decided the question."}
	case d.Actor == a.actor && saysTheSame(a, d):
		return verdict{judgement: events.JudgedDuplicate, text: "The same answer decided the question before."}
	case d.Outcome == events.OutcomeSuperseded && d.Seq == a.seq:
		return refuse(events.RefusedNewRound, "%s The call is decided about again; answer the new question, if there is one.", d.Reason)
	case d.Outcome == events.OutcomeDenied && d.Actor == "" && d.Seq == a.seq:
		return refuse(events.RefusedByRule, "The policy denies the call by now. It does not run.")
	case d.Outcome == events.OutcomeExpired, d.Outcome == events.OutcomeEscalated:
		v := refuse(events.RefusedExpired, "The question expired at %s.", d.At.UTC().Format(time.RFC3339))
		if d.Outcome == events.OutcomeEscalated {
			v.text += " Others are asked now."
		}
		return v
	}
	v := refuse(events.RefusedDecided, "The question is decided already: %s%s at %s.", d.Outcome, byWhom(d), d.At.UTC().Format(time.RFC3339))
	v.winner = d.Actor
	return v
}

func saysTheSame(a answer, d *events.Decided) bool {
	switch {
	case a.confirm != nil && a.confirm.Decision == events.Refuse:
		return d.Outcome == events.OutcomeDenied
	case a.confirm != nil:
		return d.Outcome == events.OutcomeApproved && bytes.Equal(bytes.TrimSpace(a.confirm.Input), bytes.TrimSpace(d.Input))
	case a.external != nil && d.Result != nil:
		x, errX := events.Marshal(*a.external)
		y, errY := events.Marshal(*d.Result)
		return errX == nil && errY == nil && bytes.Equal(x, y)
	}
	return false
}

// checkResult says why a result does not fit its call; "": it does.
func checkResult(r *events.ExternalExecutionResult, a *asked, t *tool) string {
	if answerReason(r) != events.ReasonOK {
		return ""
	}
	var schema *toolkit.Schema
	var err error
	switch {
	case a.Suspended && len(a.Schema) > 0:
		def := toolkit.Definition{Name: "suspended", InputSchema: json.RawMessage(`{"type":"object"}`), OutputSchema: a.Schema}
		schema, err = new(toolkit.Schemas).Of(def.Hash(), def)
	case !a.Suspended && t != nil:
		schema, err = t.schema()
	}
	if err != nil || schema == nil {
		return ""
	}
	if err := schema.Output(r.StructuredContent); err != nil {
		return "The structured content does not fit the schema of the question: " + inputText(err)
	}
	return ""
}
