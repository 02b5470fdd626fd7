package events

import (
	"encoding/base64"
	"fmt"

	"github.com/cloudevents/sdk-go/v2/event"
)

// ToSDK converts e for code that uses the CloudEvents SDK. An event that the SDK
// finds invalid is [ErrMalformed].
func ToSDK(e Event) (event.Event, error) {
	out := event.New()
	out.SetID(e.ID)
	out.SetSource(e.Source)
	out.SetType(string(e.Type))
	if e.Subject != "" {
		out.SetSubject(e.Subject)
	}
	if !e.Time.IsZero() {
		out.SetTime(e.Time)
	}
	e.attributes(func(header, value string) {
		switch name := header[len(prefixHeader):]; name {
		case "specversion", "id", "source", "type", "subject", "time", "datacontenttype":
		default:
			out.SetExtension(name, value)
		}
	})
	out.SetDataContentType(jsonType)
	out.DataEncoded = e.Data
	if err := out.Validate(); err != nil {
		return event.Event{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return out, nil
}

// FromSDK converts an event of the CloudEvents SDK, as strictly as [Decode]; an event
// that is none of the contract is [ErrMalformed].
func FromSDK(in event.Event) (Event, error) {
	if err := in.Validate(); err != nil {
		return Event{}, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	r := attributeReader{where: "attribute "}
	r.set("specversion", in.SpecVersion())
	r.set("id", in.ID())
	r.set("source", in.Source())
	r.set("type", in.Type())
	r.set("subject", in.Subject())
	r.set("datacontenttype", in.DataContentType())
	for name, v := range in.Extensions() {
		r.set(lower(name), extensionText(v))
	}
	r.e.Time = in.Time()
	return r.event(in.Data())
}

// extensionText is the canonical form of an extension's value.
func extensionText(v any) string {
	if b, binary := v.([]byte); binary {
		return base64.StdEncoding.EncodeToString(b)
	}
	return fmt.Sprint(v)
}
