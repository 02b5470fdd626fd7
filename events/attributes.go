package events

import (
	"fmt"
	"maps"
	"time"
	"unicode/utf8"
)

// MaxEventID is the greatest length of an event id in bytes. It may name a call, whose
// three identifiers take up to [MaxToken] bytes each, and what happened to it.
const MaxEventID = 512

// attributeReader gathers the attributes of one event, from headers or from a structured body.
type attributeReader struct {
	where   string // what an attribute is called in errors: "header ce-" or "attribute "
	e       Event
	spec    string
	time    string
	content string
	typ     string
	ids     struct{ session, turn, call, tool string }
	seen    uint32
	err     error
}

func (r *attributeReader) fail(name, format string, args ...any) {
	if r.err == nil { // what came from outside is cut: the error may be told to every call of a turn
		r.err = fmt.Errorf("%w: %s%.60s: %s", ErrMalformed, r.where, name, fmt.Sprintf(format, args...))
	}
}

// header takes one header; name is in lower case, without its prefix.
func (r *attributeReader) header(name string, values []string) {
	if len(values) != 1 {
		r.fail(name, "appears %d times", len(values))
		return
	}
	v, ok := percentDecode(values[0])
	if !ok {
		r.fail(name, "%.60q is not percent-encoded as it should be (write %% as %%25)", values[0])
		return
	}
	r.set(name, v)
}

// set takes one attribute. Empty ones count as absent.
func (r *attributeReader) set(name, v string) {
	if !utf8.ValidString(v) {
		r.fail(name, "the value is not UTF-8")
		return
	}
	slot, bit := r.slot(name)
	if slot == nil {
		r.extension(name, v)
		return
	}
	if r.seen&(1<<bit) != 0 {
		r.fail(name, "appears twice")
	}
	r.seen |= 1 << bit
	*slot = v
}

func (r *attributeReader) extension(name, v string) {
	if !attributeName(name) {
		r.fail(name, "an attribute name is lower-case letters and digits")
		return
	}
	if reserved(name) {
		r.fail(name, "not a name for an attribute here")
		return
	}
	if _, dup := r.e.Extensions[name]; dup {
		r.fail(name, "appears twice")
		return
	}
	if r.e.Extensions == nil {
		r.e.Extensions = make(map[string]string)
	}
	r.e.Extensions[name] = v
}

// slot returns where the value of a named attribute goes, and its bit in seen; nil for an extension.
func (r *attributeReader) slot(name string) (value *string, bit uint) {
	switch name {
	case "specversion":
		return &r.spec, 0
	case "id":
		return &r.e.ID, 1
	case "source":
		return &r.e.Source, 2
	case "type":
		return &r.typ, 3
	case "subject":
		return &r.e.Subject, 4
	case "time":
		return &r.time, 5
	case "datacontenttype":
		return &r.content, 6
	case "session":
		return &r.ids.session, 7
	case "turn":
		return &r.ids.turn, 8
	case "callid":
		return &r.ids.call, 9
	case "replyid":
		return &r.e.ReplyID, 10
	case "tool":
		return &r.ids.tool, 11
	case "requestid":
		return &r.e.Request, 12
	case "actor":
		return &r.e.Actor, 13
	case "parent":
		return &r.e.Parent, 14
	case "traceparent":
		return &r.e.TraceParent, 15
	case "tracestate":
		return &r.e.TraceState, 16
	case "dataref":
		return &r.e.DataRef, 17
	}
	return nil, 0
}

// event checks what was gathered and returns it, with its data.
func (r *attributeReader) event(data []byte) (Event, error) {
	e := &r.e
	e.Type = Type(r.typ)
	e.Session, e.Turn = SessionID(r.ids.session), TurnID(r.ids.turn)
	e.Call, e.Tool = CallID(r.ids.call), ToolName(r.ids.tool)
	e.Data = data
	switch {
	case r.spec != specVersion:
		r.fail("specversion", "%.60q, only %q is read", r.spec, specVersion)
	case e.ID == "":
		r.fail("id", "missing")
	case len(e.ID) > MaxEventID:
		r.fail("id", "%d bytes, at most %d are allowed", len(e.ID), MaxEventID)
	case e.Source == "":
		r.fail("source", "missing")
	case e.Type == "":
		r.fail("type", "missing")
	case len(e.Type) > MaxEventID:
		r.fail("type", "%d bytes, at most %d are allowed", len(e.Type), MaxEventID)
	case !isJSON(r.content):
		r.fail("datacontenttype", "%.60q, only JSON is read", r.content)
	}
	r.id("session", r.ids.session)
	r.id("turn", r.ids.turn)
	r.id("callid", r.ids.call)
	r.id("tool", r.ids.tool)
	r.id("requestid", e.Request)
	r.id("actor", e.Actor)
	if r.time != "" {
		t, err := time.Parse(time.RFC3339, r.time)
		if err != nil {
			r.fail("time", "%.60q is no RFC 3339 time", r.time)
		}
		e.Time = t
	}
	if r.err != nil {
		return Event{}, r.err
	}
	if maps.DeleteFunc(e.Extensions, func(_, v string) bool { return v == "" }); len(e.Extensions) == 0 {
		e.Extensions = nil
	}
	return *e, nil
}

// id checks an identifier that also stands in a subject.
func (r *attributeReader) id(name, v string) {
	if v == "" {
		return
	}
	if err := CheckID(name, v); err != nil && r.err == nil {
		r.err = fmt.Errorf("%w: %s%s: %w", ErrMalformed, r.where, name, err)
	}
}

// attributeName says whether CloudEvents allows name.
func attributeName(name string) bool {
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// reserved says whether name means something else in CloudEvents than an attribute of ours.
func reserved(name string) bool { return name == "data" }

// percentEncode writes a header value as the NATS binding wants it: space, '"', '%' and
// whatever is not visible ASCII as %XX of its UTF-8.
func percentEncode(s string) string {
	n := 0
	for i := range len(s) {
		if percentByte(s[i]) {
			n++
		}
	}
	if n == 0 {
		return s
	}
	const hex = "0123456789ABCDEF"
	b := make([]byte, 0, len(s)+2*n)
	for i := range len(s) {
		if c := s[i]; percentByte(c) {
			b = append(b, '%', hex[c>>4], hex[c&15])
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}

func percentByte(c byte) bool { return c <= ' ' || c > '~' || c == '"' || c == '%' }

// percentDecode is the inverse; it also takes bytes that should have been encoded.
// False: a '%' without two hex digits.
func percentDecode(s string) (string, bool) {
	from := -1
	for i := range len(s) {
		if s[i] == '%' {
			from = i
			break
		}
	}
	if from < 0 {
		return s, true
	}
	b := append(make([]byte, 0, len(s)), s[:from]...)
	for i := from; i < len(s); i++ {
		if s[i] != '%' {
			b = append(b, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		hi, lo := unhex(upper(s[i+1])), unhex(upper(s[i+2]))
		if hi < 0 || lo < 0 {
			return "", false
		}
		b = append(b, byte(hi<<4|lo))
		i += 2
	}
	return string(b), true
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'f' {
		return c - 'a' + 'A'
	}
	return c
}
