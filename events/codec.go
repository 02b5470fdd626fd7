package events

import (
	"fmt"
	"strings"
	"time"
)

const (
	prefixHeader     = "ce-"
	specVersion      = "1.0"
	jsonType         = "application/json"
	structuredType   = "application/cloudevents+json"
	contentTypeField = "Content-Type"
)

// Encode renders e for NATS in binary mode: attributes as ce- headers in lower case,
// percent-encoded as the NATS binding of CloudEvents wants, data as the body.
// The header map may be used as a nats.Header. Extensions whose name is not made of lower-case
// letters and digits, or is that of an attribute above, are not sent.
func Encode(e Event) (header map[string][]string, data []byte) {
	return new(Encoder).Encode(e)
}

// Encoder encodes one event after the other into the same memory: a header map costs more than
// all else about a small event. The zero value is ready.
type Encoder struct {
	header map[string][]string
	values []string
}

// Encode is [Encode], but the header is good only until the next event is encoded.
func (x *Encoder) Encode(e Event) (header map[string][]string, data []byte) {
	if x.header == nil {
		x.header = make(map[string][]string, 16+len(e.Extensions))
		x.values = make([]string, 0, 20+len(e.Extensions)) // one allocation for all values
	}
	clear(x.header)
	x.values = x.values[:0]
	e.attributes(func(name, v string) {
		n := len(x.values)
		x.values = append(x.values, percentEncode(v))
		x.header[name] = x.values[n : n+1 : n+1]
	})
	return x.header, e.Data
}

// attributes calls put for every attribute that is sent, named ones first.
// The names are those of headers.
func (e *Event) attributes(put func(header, value string)) {
	optional := func(header, value string) {
		if value != "" {
			put(header, value)
		}
	}
	put("ce-specversion", specVersion)
	put("ce-id", e.ID)
	put("ce-source", e.Source)
	put("ce-type", string(e.Type))
	optional("ce-subject", e.Subject)
	if !e.Time.IsZero() {
		put("ce-time", e.Time.UTC().Format(time.RFC3339Nano))
	}
	put("ce-datacontenttype", jsonType)
	optional("ce-session", string(e.Session))
	optional("ce-turn", string(e.Turn))
	optional("ce-callid", string(e.Call))
	optional("ce-replyid", e.ReplyID)
	optional("ce-tool", string(e.Tool))
	optional("ce-requestid", e.Request)
	optional("ce-actor", e.Actor)
	optional("ce-parent", e.Parent)
	optional("ce-traceparent", e.TraceParent)
	optional("ce-tracestate", e.TraceState)
	optional("ce-dataref", e.DataRef)
	if len(e.Extensions) == 0 {
		return
	}
	for _, name := range sorted(e.Extensions) {
		var r attributeReader
		if slot, _ := r.slot(name); slot == nil && attributeName(name) && !reserved(name) {
			optional(prefixHeader+name, e.Extensions[name])
		}
	}
}

// Decode reads an event from NATS headers and body, in binary or structured mode, strictly.
// Structured mode is told by the content type application/cloudevents+json, or by the lack of a
// ce-specversion header. Header names may be in any case. Data is not looked into (see
// [Unmarshal]), and shares the bytes of the body. Every error is [ErrMalformed] and says
// what was wrong and where.
func Decode(header map[string][]string, data []byte) (Event, error) {
	r := attributeReader{where: "header " + prefixHeader}
	var contentType string
	for name, values := range header {
		switch {
		case len(name) > len(prefixHeader) && strings.EqualFold(name[:len(prefixHeader)], prefixHeader):
			r.header(lower(name[len(prefixHeader):]), values)
		case len(name) == len(contentTypeField) && strings.EqualFold(name, contentTypeField) && len(values) > 0:
			contentType = values[0]
		}
	}
	switch media := mediaType(contentType); {
	case media == structuredType:
		return decodeStructured(data)
	case r.spec == "" && r.err == nil && opensObject(data):
		e, err := decodeStructured(data)
		if err != nil {
			err = fmt.Errorf("%w (there is no ce-specversion header, so the body was read as an event in structured mode)", err)
		}
		return e, err
	case strings.HasPrefix(media, "application/cloudevents"):
		return Event{}, fmt.Errorf("%w: content type %.60q, only %s and single events in binary mode are read", ErrMalformed, contentType, structuredType)
	}
	if r.spec == "" && r.err == nil {
		return Event{}, fmt.Errorf("%w: no ce-specversion header, and the body is no JSON object: neither binary nor structured mode", ErrMalformed)
	}
	if r.content == "" {
		r.content = contentType
	}
	return r.event(data)
}

func opensObject(data []byte) bool {
	s := scanner{data: data}
	return s.peek() == '{'
}

// mediaType returns the type of a content type in lower case, without parameters.
func mediaType(contentType string) string {
	if contentType == jsonType || contentType == structuredType {
		return contentType
	}
	media, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// isJSON says whether a datacontenttype is JSON; none is.
func isJSON(contentType string) bool {
	media := mediaType(contentType)
	return media == "" || media == jsonType || media == "text/json" || strings.HasSuffix(media, "+json")
}

// lower makes ASCII letters small. (strings.ToLower would make an ASCII letter of some others.)
func lower(name string) string {
	for i := range len(name) {
		if 'A' <= name[i] && name[i] <= 'Z' {
			b := []byte(name)
			for ; i < len(b); i++ {
				if 'A' <= b[i] && b[i] <= 'Z' {
					b[i] += 'a' - 'A'
				}
			}
			return string(b)
		}
	}
	return name
}
