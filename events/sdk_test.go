package events_test

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/binding/format"
	"github.com/cloudevents/sdk-go/v2/binding/spec"
	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
)

// sdkMessage is a message as the SDK's bindings see it: headers and a body. The SDK's own NATS
// bindings do not percent-encode (cloudevents/sdk-go#1334), so values pass through raw.
type sdkMessage struct {
	header map[string]string
	body   []byte
}

func (m *sdkMessage) specs() *spec.Versions { return spec.WithPrefix("ce-") }

func (m *sdkMessage) version() spec.Version { return m.specs().Version(m.header["ce-specversion"]) }

func (m *sdkMessage) ReadEncoding() binding.Encoding { return binding.EncodingBinary }

func (m *sdkMessage) ReadStructured(context.Context, binding.StructuredWriter) error {
	return binding.ErrNotStructured
}

func (m *sdkMessage) ReadBinary(_ context.Context, w binding.BinaryWriter) error {
	for name, v := range m.header {
		var err error
		if a := m.version().Attribute(name); a != nil {
			err = w.SetAttribute(a, v)
		} else {
			err = w.SetExtension(strings.TrimPrefix(name, "ce-"), v)
		}
		if err != nil {
			return err
		}
	}
	return w.SetData(bytes.NewReader(m.body))
}

func (m *sdkMessage) GetAttribute(k spec.Kind) (spec.Attribute, any) {
	a := m.version().AttributeFromKind(k)
	return a, m.header[a.PrefixedName()]
}

func (m *sdkMessage) GetExtension(name string) any { return m.header["ce-"+name] }

func (m *sdkMessage) Finish(error) error { return nil }

func (m *sdkMessage) Start(context.Context) error { m.header = map[string]string{}; return nil }

func (m *sdkMessage) End(context.Context) error { return nil }

func (m *sdkMessage) SetAttribute(a spec.Attribute, v any) error {
	if v == nil {
		return nil
	}
	s, err := types.Format(v)
	m.header["ce-"+a.Name()] = s
	return err
}

func (m *sdkMessage) SetExtension(name string, v any) error {
	s, err := types.Format(v)
	m.header["ce-"+name] = s
	return err
}

func (m *sdkMessage) SetData(r io.Reader) (err error) {
	m.body, err = io.ReadAll(r)
	return err
}

func TestSDKReadsBinary(t *testing.T) {
	t.Parallel()
	for _, v := range vectors() {
		e := v.event(t)
		h, body := events.Encode(e)
		m := &sdkMessage{header: map[string]string{}, body: body}
		for k, v := range h {
			m.header[k] = v[0]
			if strings.Contains(v[0], "%") { // what the NATS binding wants and the SDK does not do
				m.header[k] = unpercent(t, v[0])
			}
		}
		got, err := binding.ToEvent(t.Context(), m)
		if err != nil {
			t.Fatalf("%s: %v", v.name, err)
		}
		sameAsSDK(t, v.name, e, *got)
	}
}

func TestSDKWritesBinary(t *testing.T) {
	t.Parallel()
	for _, v := range vectors() {
		e := v.event(t)
		in, err := events.ToSDK(e)
		if err != nil {
			t.Fatalf("%s: %v", v.name, err)
		}
		m := new(sdkMessage)
		if _, err := binding.Write(t.Context(), binding.ToMessage(&in), nil, m); err != nil {
			t.Fatalf("%s: %v", v.name, err)
		}
		h := map[string][]string{}
		for k, v := range m.header {
			h[k] = []string{strings.ReplaceAll(v, "%", "%25")}
		}
		got, err := events.Decode(h, m.body)
		if err != nil {
			t.Fatalf("%s: %v", v.name, err)
		}
		if diff := cmp.Diff(e, got, emptyIsNil()); diff != "" {
			t.Errorf("%s: %s", v.name, diff)
		}
	}
}

func TestSDKReadsStructured(t *testing.T) {
	t.Parallel()
	for _, v := range vectors() {
		e := v.event(t)
		_, body, err := events.EncodeStructured(e)
		if err != nil {
			t.Fatalf("%s: %v", v.name, err)
		}
		var got event.Event
		if err := format.JSON.Unmarshal(body, &got); err != nil {
			t.Fatalf("%s: %v\n%s", v.name, err, body)
		}
		sameAsSDK(t, v.name, e, got)
	}
}

func TestSDKWritesStructured(t *testing.T) {
	t.Parallel()
	for _, v := range vectors() {
		e := v.event(t)
		in, err := events.ToSDK(e)
		if err != nil {
			t.Fatalf("%s: %v", v.name, err)
		}
		body, err := format.JSON.Marshal(&in)
		if err != nil {
			t.Fatalf("%s: %v", v.name, err)
		}
		got, err := events.Decode(map[string][]string{"Content-Type": {format.JSON.MediaType()}}, body)
		if err != nil {
			t.Fatalf("%s: %v\n%s", v.name, err, body)
		}
		if diff := cmp.Diff(e, got, emptyIsNil()); diff != "" {
			t.Errorf("%s: %s", v.name, diff)
		}
	}
}

// sameAsSDK compares an event with what the SDK made of it, attribute by attribute.
func sameAsSDK(t *testing.T, name string, want events.Event, got event.Event) {
	t.Helper()
	if err := got.Validate(); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	sdk, err := events.ToSDK(want)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if diff := cmp.Diff(sdk, got, emptyIsNil()); diff != "" {
		t.Errorf("%s: the SDK reads another event: %s", name, diff)
	}
	back, err := events.FromSDK(got)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if diff := cmp.Diff(want, back, emptyIsNil()); diff != "" {
		t.Errorf("%s: %s", name, diff)
	}
}

func emptyIsNil() cmp.Option {
	return cmp.Transformer("nil", func(b []byte) string { return string(b) })
}

// unpercent is a second percent decoder, to check ours against.
func unpercent(t *testing.T, s string) string {
	t.Helper()
	var out []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			out = append(out, s[i])
			continue
		}
		var c byte
		for _, d := range strings.ToLower(s[i+1 : i+3]) {
			c = c<<4 | byte(strings.IndexRune("0123456789abcdef", d))
		}
		out = append(out, c)
		i += 2
	}
	return string(out)
}

func TestFromSDKExtensions(t *testing.T) {
	t.Parallel()
	in := event.New()
	in.SetID("1")
	in.SetSource("/a")
	in.SetType("t")
	in.SetExtension("count", 5)
	in.SetExtension("flag", true)
	in.SetExtension("when", at(0))
	in.SetExtension("bin", []byte("xyz"))
	in.SetExtension("callid", "c")
	if err := in.SetData("application/json", []byte(`{ "a":1 }`)); err != nil {
		t.Fatal(err)
	}
	got, err := events.FromSDK(in)
	if err != nil {
		t.Fatal(err)
	}
	want := events.Event{
		Attributes: events.Attributes{ID: "1", Source: "/a", Type: "t", Call: "c"},
		Extensions: map[string]string{"count": "5", "flag": "true", "when": "2026-03-14T15:09:26.535Z", "bin": "eHl6"},
		Data:       []byte(`{ "a":1 }`),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFromSDKRefuses(t *testing.T) {
	t.Parallel()
	good := func() event.Event {
		e := event.New()
		e.SetID("1")
		e.SetSource("/a")
		e.SetType("t")
		return e
	}
	old := good()
	old.SetSpecVersion(event.CloudEventsVersionV03)
	text := good()
	if err := text.SetData("text/plain", "x"); err != nil {
		t.Fatal(err)
	}
	long := good()
	long.SetExtension("session", strings.Repeat("x", 300))
	for name, e := range map[string]event.Event{"empty": event.New(), "old": old, "text": text, "long": long} {
		if _, err := events.FromSDK(e); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if _, err := events.ToSDK(events.Event{}); err == nil {
		t.Error("an event without attributes became one of the SDK")
	}
}
