package events_test

import (
	"encoding/json"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// questionVectors are the examples of what is asked and answered.
func questionVectors() []vector {
	s := events.Subjects{}
	key := events.CallKey{Session: "s-42", Turn: "t-8", Call: "call_3"}
	const (
		request  = "7d1f6a0b2c9e4f5883aa41c06be2d917"
		previous = "0c4be1f29a7d4e6fb1d35f8802a6c3e4"
		second   = "e19b5b6c0d7741d2a4f06a3c95d8127f"
		third    = "a2c8e0d41b6f4937958c3f1e7ab0d264"
		hash     = "91c2f0a64d3b4e0f8a7756b1ce20d3f8"
	)
	deploy := events.Call{ID: key.Call, Name: "deploy", Input: json.RawMessage(`{"service":"shop","build":9007199254740993}`)}
	changed := json.RawMessage(`{"service":"shop","build":9007199254740993,"canary":true}`)
	refund := events.Call{ID: "call_4", Name: "HumanApproval", Input: json.RawMessage(`{"action":"refund","amount":120.50}`)}
	refundKey := events.CallKey{Session: key.Session, Turn: key.Turn, Call: refund.ID}
	of := func(k events.CallKey, tool events.ToolName, typ events.Type, id, source string) events.Attributes {
		return events.Attributes{
			ID: id, Source: source, Type: typ, Session: k.Session, Turn: k.Turn, Call: k.Call, Tool: tool, ReplyID: "r-3", Time: at(0),
		}
	}
	by := func(a events.Attributes, request, actor string) events.Attributes {
		a.Request, a.Actor = request, actor
		return a
	}
	judged := func(request, actor, id string) events.Attributes { // it is about the answer, and carries nothing of the turn through
		a := by(of(key, "", events.TypeAnswerJudged, id, "/dispatchers/dispatcher"), request, actor)
		a.ReplyID = ""
		return a
	}
	const dispatcher, alice = "/dispatchers/dispatcher", "/approvers/alice"

	confirm := events.Question{
		RequestID: request, Round: 2, Previous: previous, Kind: events.KindConfirm, Call: deploy,
		Title: "Deploy", Description: "Deploys a build of a service.", Requester: "local", Definition: hash,
		Digest: events.Digest(deploy.Name, hash, deploy.Input, key, request),
		Why:    "Rule deploy asks.", Rule: "rule deploy", Suggestions: []events.Rule{{Tool: "deploy", Behavior: "allow", Source: "suggested"}},
		Roles: []string{"ops"}, Quorum: 2, AskedAt: at(0), ExpiresAt: new(at(time.Hour)), OnExpiry: "escalate",
		ConfigRevision: 12, SessionRevision: 3,
	}
	external := events.Question{
		RequestID: second, Round: 1, Kind: events.KindExternal, Call: refund,
		Description: "Have a person approve an action.", Requester: "local", Definition: "d0a7c61e5b934f2fa8e2037c14b9f56d",
		Digest: events.Digest(refund.Name, "d0a7c61e5b934f2fa8e2037c14b9f56d", refund.Input, refundKey, second),
		Why:    "The tool is answered by a person or another system.", Rule: "external", Quorum: 1, AskedAt: at(0),
		ExpiresAt: new(at(7 * 24 * time.Hour)), OnExpiry: "error", ConfigRevision: 12, SessionRevision: 3,
		ResultSchema: json.RawMessage(`{"type":"object","properties":{"approved":{"type":"boolean"}}}`),
	}
	suspended := external
	suspended.RequestID, suspended.Suspended, suspended.Why, suspended.Rule = third, true, "The bank calls back.", "suspended"
	suspended.Digest = events.Digest(refund.Name, suspended.Definition, refund.Input, refundKey, third)
	suspended.ExpiresAt, suspended.OnExpiry = nil, ""
	result := events.ExternalExecutionResult{
		Digest: external.Digest, Content: []events.Content{events.Text("Approved by the shift lead.")},
		StructuredContent: json.RawMessage(`{"approved":true,"ticket":12345678901234567890}`),
	}

	return []vector{
		{
			name: "requireuserconfirm", doc: "May this call run? Two people of a role have to approve, within an hour.",
			subject: s.Require(events.KindConfirm, deploy.Name, key, request),
			attrs:   by(of(key, deploy.Name, events.TypeRequireUserConfirm, "require/"+request+"/s-42/t-8/call_3", dispatcher), request, ""),
			data:    confirm,
		},
		{
			name: "requireexternalexecution", doc: "What is the result of this call? No worker runs it.",
			subject: s.Require(events.KindExternal, refund.Name, refundKey, second),
			attrs:   by(of(refundKey, refund.Name, events.TypeRequireExternalExecution, "require/"+second+"/s-42/t-8/call_4", dispatcher), second, ""),
			data:    external,
		},
		{
			name: "requireexternalexecution-suspended", doc: "A tool has run, and asks for its result; the question stays open for as long as it takes.",
			subject: s.Require(events.KindExternal, refund.Name, refundKey, third),
			attrs:   by(of(refundKey, refund.Name, events.TypeRequireExternalExecution, "require/"+third+"/s-42/t-8/call_4", dispatcher), third, ""),
			data:    suspended,
		},
		{
			name: "userconfirmresult", doc: "An approval: the call as it was asked about.",
			subject: s.Answer("alice", key, request),
			attrs:   by(of(key, deploy.Name, events.TypeUserConfirmResult, "answer/0a6c8f52-5a4e-4b0e-9d25-1f1b8f0c7a11", alice), request, "alice"),
			data:    events.UserConfirmResult{Digest: confirm.Digest, Decision: events.Approve},
		},
		{
			name: "userconfirmresult-changed", doc: "An approval with other arguments, and a rule for the rest of the session.",
			subject: s.Answer("bob", key, request),
			attrs:   by(of(key, deploy.Name, events.TypeUserConfirmResult, "answer/6f4a2e30-7c0f-4f6b-8f0e-52f6a3f0d902", "/approvers/bob"), request, "bob"),
			data: events.UserConfirmResult{
				Digest: confirm.Digest, Decision: events.Approve, Input: changed,
				Rules: []events.Rule{{Tool: "deploy", Content: "shop", Behavior: "allow"}}, Scope: events.ScopeSession,
			},
		},
		{
			name: "userconfirmresult-deny", doc: "A denial; the model reads the reason.",
			subject: s.Answer("alice", key, request),
			attrs:   by(of(key, deploy.Name, events.TypeUserConfirmResult, "answer/1c0d9a44-9be0-4f4e-a0b5-9a0e6f1d2b33", alice), request, "alice"),
			data:    events.UserConfirmResult{Digest: confirm.Digest, Decision: events.Refuse, Reason: "Not on a Friday. Ask again on Monday."},
		},
		{
			name: "externalexecutionresult", doc: "The result of a call, from another system.",
			subject: s.Answer("billing", refundKey, second),
			attrs:   by(of(refundKey, refund.Name, events.TypeExternalExecutionResult, "answer/refund-9981", "/approvers/billing"), second, "billing"),
			data:    result,
		},
		{
			name: "answerjudged", doc: "The answer decided the question.",
			subject: s.Judged(key, request, "alice", 118),
			attrs:   judged(request, "alice", "judged/118/s-42/t-8/call_3"),
			data:    events.AnswerJudged{RequestID: request, Judgement: events.JudgedAccepted, Text: "The call is approved.", Actor: "alice", At: at(time.Minute)},
		},
		{
			name: "answerjudged-counted", doc: "An approval of two that are needed.",
			subject: s.Judged(key, request, "bob", 117),
			attrs:   judged(request, "bob", "judged/117/s-42/t-8/call_3"),
			data: events.AnswerJudged{
				RequestID: request, Judgement: events.JudgedCounted, Text: "Counted; 1 more people are needed.", Missing: 1, Actor: "bob", At: at(30 * time.Second),
			},
		},
		{
			name: "answerjudged-refused", doc: "An answer that came second.",
			subject: s.Judged(key, request, "carol", 121),
			attrs:   judged(request, "carol", "judged/121/s-42/t-8/call_3"),
			data: events.AnswerJudged{
				RequestID: request, Judgement: events.JudgedRefused, Code: events.RefusedDecided,
				Text: "The question is decided already: approved by alice.", Actor: "carol", At: at(2 * time.Minute), Winner: "alice",
			},
		},
		{
			name: "userconfirmresult-decided", message: "ConfirmDecided", doc: "The fact that a call was approved, with other arguments than were asked about.",
			subject: s.Decided(key, request),
			attrs:   by(of(key, deploy.Name, events.TypeUserConfirmResult, "decided/"+request+"/s-42/t-8/call_3", dispatcher), request, "alice"),
			data: events.Decided{
				Outcome: events.OutcomeApproved, At: at(time.Minute), Seq: 118, Actor: "alice",
				Votes: []events.Vote{
					{Actor: "bob", At: at(30 * time.Second), Seq: 117, Input: toolkit.HashOf(changed)},
					{Actor: "alice", At: at(time.Minute), Seq: 118, Input: toolkit.HashOf(changed)},
				},
				Input: changed, InputDigest: events.Digest(deploy.Name, hash, changed, key, request),
				Rules: []events.Rule{{Tool: "deploy", Content: "shop", Behavior: "allow"}}, Scope: events.ScopeSession, Question: confirm,
			},
		},
		{
			name: "externalexecutionresult-decided", message: "ExternalDecided", doc: "The fact that a call has its result from outside.",
			subject: s.Decided(refundKey, second),
			attrs:   by(of(refundKey, refund.Name, events.TypeExternalExecutionResult, "decided/"+second+"/s-42/t-8/call_4", dispatcher), second, "billing"),
			data:    events.Decided{Outcome: events.OutcomeAnswered, At: at(time.Minute), Seq: 119, Actor: "billing", Result: &result, Question: external},
		},
		{
			name: "questionexpired", doc: "Nobody answered in time; others are asked.",
			subject: s.Decided(key, request),
			attrs:   by(of(key, deploy.Name, events.TypeQuestionExpired, "decided/"+request+"/s-42/t-8/call_3", dispatcher), request, ""),
			data: events.Decided{
				Outcome: events.OutcomeEscalated, At: at(time.Hour), Reason: "nobody answered in time; others are asked", Question: confirm,
			},
		},
		{
			name: "suspendcall", doc: "A tool that runs asks for its result from outside.",
			subject: s.Suspend(refundKey),
			attrs:   of(refundKey, refund.Name, events.TypeSuspendCall, "suspend/s-42/t-8/call_4", "/workers/billing"),
			data: events.SuspendCall{
				Call: refund, Agent: "local", Definition: suspended.Definition, Decision: "allow: mode bypass", Message: "The bank calls back.",
				Schema: json.RawMessage(`{"type":"object","properties":{"approved":{"type":"boolean"}}}`), Nonce: "n-3",
			},
		},
		{
			name: "toolwork-approved", doc: "A call that people approved: a worker runs it only if the digest is that of what it is about to run.",
			subject: s.Work("ops", deploy.Name, key),
			attrs:   of(key, deploy.Name, events.TypeToolWork, "work/s-42/t-8/call_3", dispatcher),
			data: events.ToolWork{
				Call: events.Call{ID: key.Call, Name: deploy.Name, Input: changed}, Agent: "local", Definition: hash, SessionRevision: 4,
				Decision: "ask: rule deploy; approved by alice", AcceptedAt: at(0), QueueUntil: at(11 * time.Minute), Staged: true,
				Request: request, Digest: events.Digest(deploy.Name, hash, changed, key, request),
			},
		},
	}
}
