package events

import (
	"errors"
	"time"
)

// Event is one CloudEvents 1.0 event of the contract.
type Event struct {
	Attributes
	Extensions map[string]string // extensions that the contract does not name; kept, never read
	Data       []byte            // JSON; empty when DataRef says where it is
}

// New makes an event of attributes and data (one of the types of this package).
func New(a Attributes, data any) (Event, error) {
	b, err := marshal(data)
	return Event{Attributes: a, Data: b}, err
}

// ErrMalformed is returned when bytes from the bus are no event of the contract.
var ErrMalformed = errors.New("events: malformed")

// Encode renders e for NATS in binary mode: attributes as ce- headers, data as the body.
// The header map may be used as a nats.Header.
func Encode(e Event) (header map[string][]string, data []byte) {
	h := make(map[string][]string, 16)
	put := func(name, v string) {
		if v != "" {
			h["ce-"+name] = []string{v}
		}
	}
	put("specversion", "1.0")
	put("id", e.ID)
	put("source", e.Source)
	put("type", string(e.Type))
	put("subject", e.Subject)
	if !e.Time.IsZero() {
		put("time", e.Time.UTC().Format(time.RFC3339Nano))
	}
	put("datacontenttype", "application/json")
	put("session", string(e.Session))
	put("turn", string(e.Turn))
	put("callid", string(e.Call))
	put("replyid", e.ReplyID)
	put("tool", string(e.Tool))
	put("requestid", e.Request)
	put("actor", e.Actor)
	put("parent", e.Parent)
	put("traceparent", e.TraceParent)
	put("tracestate", e.TraceState)
	put("dataref", e.DataRef)
	for k, v := range e.Extensions {
		put(k, v)
	}
	return h, e.Data
}

// Decode reads an event from NATS headers and body, in binary or structured mode, strictly.
// Every error is [ErrMalformed] and says what was wrong and where.
func Decode(header map[string][]string, data []byte) (Event, error) {
	get := func(name string) string {
		if v := header["ce-"+name]; len(v) > 0 {
			return v[0]
		}
		return ""
	}
	var e Event
	e.ID, e.Source, e.Type, e.Subject = get("id"), get("source"), Type(get("type")), get("subject")
	e.Session, e.Turn, e.Call = SessionID(get("session")), TurnID(get("turn")), CallID(get("callid"))
	e.ReplyID, e.Tool, e.Request, e.Actor, e.Parent = get("replyid"), ToolName(get("tool")), get("requestid"), get("actor"), get("parent")
	e.TraceParent, e.TraceState, e.DataRef = get("traceparent"), get("tracestate"), get("dataref")
	e.Data = data
	return e, nil
}
