package events_test

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/toolwire/toolwire/events"
)

// at is a moment in the examples of the contract.
func at(offset time.Duration) time.Time {
	return time.Date(2026, 3, 14, 15, 9, 26, 535_000_000, time.UTC).Add(offset)
}

// fixtures returns the data of one event of each type, and some more. The raw JSON is compact.
func fixtures() []any {
	var data []any
	for _, v := range vectors() {
		if v.data != nil {
			data = append(data, v.data)
		}
	}
	return data
}

// vector is an example of the contract; each is kept in testdata/wire.
type vector struct {
	name    string
	doc     string // what it shows
	message string // its name in docs/asyncapi.yaml, if that is not the one of its type
	subject string
	attrs   events.Attributes
	ext     map[string]string
	data    any
}

func (v vector) messageName() string {
	if v.message != "" {
		return v.message
	}
	typ := string(v.attrs.Type)
	return typ[strings.LastIndexByte(typ, '.')+1:]
}

// vectors returns all examples. Never edit one of a released version: add one.
func vectors() []vector {
	s := events.Subjects{}
	key := events.CallKey{Session: "s-42", Turn: "t-7", Call: "call_1"}
	with := func(a events.Attributes, change func(*events.Attributes)) events.Attributes {
		change(&a)
		return a
	}
	ofTurn := events.Attributes{Source: "/agents/local", Session: key.Session, Turn: key.Turn, ReplyID: "r-3", Time: at(0)}
	ofCall := with(ofTurn, func(a *events.Attributes) { a.Call, a.Tool = key.Call, "get_weather" })
	calls := events.Call{ID: key.Call, Name: "get_weather", Input: json.RawMessage(`{"city":"Zürich","stationId":9007199254740993}`)}
	agent := &events.Context{User: "ada", Attributes: map[string]string{"locale": "de-CH"}, Values: map[string]json.RawMessage{"Tenant": json.RawMessage(`{"id":12345678901234567890}`)}}

	return append(questionVectors(), []vector{
		{
			name: "toolcalls", doc: "A turn of two calls, with context and the agent's own deadline.",
			subject: s.Calls("local", key.Session, key.Turn),
			attrs: with(ofTurn, func(a *events.Attributes) {
				a.ID, a.Type = "s-42/t-7", events.TypeToolCalls
				a.TraceParent, a.TraceState = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "vendor=a b"
			}),
			data: events.ToolCalls{
				Calls:    []events.Call{calls, {ID: "call_2", Name: "get_current_time"}},
				Context:  agent,
				Deadline: new(at(2 * time.Minute)),
			},
		},
		{
			name: "toolcalls-odd-ids", doc: "Identifiers with dots, wildcards, spaces and CJK: raw in headers (percent-encoded) and JSON, escaped in the subject.",
			subject: s.Calls("local", "chat 1.*", "回合>"),
			attrs: events.Attributes{
				ID: "chat 1.*/回合>", Source: "/agents/local", Type: events.TypeToolCalls, Session: "chat 1.*", Turn: "回合>",
				ReplyID: `"100%"`, Subject: "turn of \u00e4", Parent: "s-1/t-1/call_9",
			},
			ext:  map[string]string{"customer": "Ünal & Co"},
			data: events.ToolCalls{Calls: []events.Call{{ID: "a.b c", Name: "mcp__files__read", Input: json.RawMessage(`{"path":"a\u0000b"}`)}}},
		},
		{
			name: "toolwork", doc: "One call on its way to the workers of a pool.",
			subject: s.Work("weather", "get_weather", key),
			attrs: with(ofCall, func(a *events.Attributes) {
				a.ID, a.Source, a.Type = "work/s-42/t-7/call_1", "/dispatcher", events.TypeToolWork
			}),
			data: events.ToolWork{
				Call: calls, Agent: "local", Context: agent, Definition: "5f1d0c3b9a7e4d2c8b6f0e1a2d3c4b5a",
				SessionRevision: 3, Decision: "allow: rule weather-read", AcceptedAt: at(0), QueueUntil: at(10 * time.Minute), Deadline: new(at(2 * time.Minute)),
			},
		},
		{
			name: "toolresultstart", doc: "The fence: this process runs the call.",
			subject: s.Start(key),
			attrs: with(ofCall, func(a *events.Attributes) {
				a.ID, a.Source, a.Type = "start/s-42/t-7/call_1", "/workers/weather", events.TypeToolResultStart
			}),
			data: events.ToolResultStart{CallID: key.Call, Instance: "weather-8f3a", Nonce: "n-1", Worker: "weather", At: at(3 * time.Millisecond)},
		},
		{
			name: "toolresultstart-settle", doc: "The fence, won by a dispatcher that settles the call without running it.",
			subject: s.Start(key),
			attrs: with(ofCall, func(a *events.Attributes) {
				a.ID, a.Source, a.Type = "start/s-42/t-7/call_1", "/dispatcher", events.TypeToolResultStart
			}),
			data: events.ToolResultStart{CallID: key.Call, Instance: "dispatcher-1c", Nonce: "n-2", Settle: events.ReasonQueueExpired, At: at(10 * time.Minute)},
		},
		{
			name: "toolresult", doc: "A success with a text block and structured content.",
			subject: s.Result(key),
			attrs: with(ofCall, func(a *events.Attributes) {
				a.ID, a.Source, a.Type = "result/s-42/t-7/call_1", "/workers/weather", events.TypeToolResult
			}),
			data: events.ToolResult{
				CallID: key.Call, Name: "get_weather", State: events.StateSuccess, Reason: events.ReasonOK,
				Content:           []events.Content{events.Text("21 °C, sunny")},
				StructuredContent: json.RawMessage(`{"celsius":21.0}`),
				Meta: events.ResultMeta{
					Attempt: 1, Worker: "weather", StartedAt: new(at(3 * time.Millisecond)), FinishedAt: at(80 * time.Millisecond),
					Definition: "5f1d0c3b9a7e4d2c8b6f0e1a2d3c4b5a", SessionRevision: 3, Decision: "allow: rule weather-read",
				},
			},
		},
		{
			name: "toolresult-error", doc: "A call that no worker took in time; the tool never ran.",
			subject: s.Result(key),
			attrs: with(ofCall, func(a *events.Attributes) {
				a.ID, a.Source, a.Type = "result/s-42/t-7/call_1", "/dispatcher", events.TypeToolResult
			}),
			data: events.ToolResult{
				CallID: key.Call, Name: "get_weather", State: events.StateError, Reason: events.ReasonQueueExpired, IsError: true,
				Content: []events.Content{events.Text("No worker took this call in time. Try again later, or do without this tool.")},
				Meta:    events.ResultMeta{FinishedAt: at(10 * time.Minute)},
			},
		},
		{
			name: "toolresult-dataref", doc: "A result too large for an event: the data lies in chunks, the event says where.",
			subject: s.Result(key),
			attrs: with(ofCall, func(a *events.Attributes) {
				a.ID, a.Source, a.Type = "result/s-42/t-7/call_1", "/workers/weather", events.TypeToolResult
				a.DataRef = "toolwire-body:b-77?chunks=3&size=600000&sha256=9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
			}),
		},
		{
			name: "toolresultdelta", doc: "Progress and a piece of output of a running call.",
			subject: s.Delta(key),
			attrs: with(ofCall, func(a *events.Attributes) {
				a.ID, a.Source, a.Type = "delta/s-42/t-7/call_1/1/2", "/workers/weather", events.TypeToolResultDelta
			}),
			data: events.ToolResultDelta{
				CallID: key.Call, Seq: 2, Attempt: 1, Content: events.Text("asking the station"), Progress: new(0.5), Total: new(1.0), Message: "half way",
			},
		},
		{
			name: "cancelcalls", doc: "Cancel one call of a turn.",
			subject: s.Cancel("local", key.Session, key.Turn),
			attrs: with(ofTurn, func(a *events.Attributes) {
				a.ID, a.Type = "cancel/s-42/t-7/1", events.TypeCancelCalls
			}),
			data: events.CancelCalls{Calls: []events.CallID{key.Call}, Reason: "the user changed their mind"},
		},
		{
			name: "turnstep", doc: "A call of a staged turn has its result.",
			subject: s.Step(key.Session, key.Turn),
			attrs: with(ofTurn, func(a *events.Attributes) {
				a.ID, a.Type, a.Source = "step/s-42/t-7/call_1", events.TypeTurnStep, "/workers/weather"
			}),
		},
		{
			name: "toolschanged", doc: "The tools that a session may call have changed.",
			subject: s.Changed("session"),
			attrs: events.Attributes{
				ID: "changed/session/s-42/7", Source: "/dispatchers/dispatcher", Type: events.TypeToolsChanged, Session: "s-42", Time: at(0),
			},
		},
		{
			name: "announce", doc: "A worker process says that it runs a tool.",
			subject: s.Announce("weather", "get_weather"),
			attrs: events.Attributes{
				ID: "announce/weather-8f3a/get_weather/1", Source: "/workers/weather", Type: events.TypeAnnounce, Tool: "get_weather", Time: at(0),
			},
			data: events.Announce{
				Worker: "weather", Instance: "weather-8f3a", Pool: "weather", Tool: "get_weather",
				Definition: "5f1d0c3b9a7e4d2c8b6f0e1a2d3c4b5a", StartedAt: at(-time.Hour), Slots: 8,
			},
		},
	}...)
}
