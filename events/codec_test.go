package events_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
)

// minimal returns the headers of the smallest event there is.
func minimal() map[string][]string {
	return map[string][]string{
		"ce-specversion": {"1.0"}, "ce-id": {"1"}, "ce-source": {"/a"}, "ce-type": {"t"},
	}
}

func withHeader(name string, values ...string) map[string][]string {
	h := minimal()
	h[name] = values
	return h
}

func TestEncodePercentEncodes(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"plain-_.~!#$&'()*+,/:;=?@[]<>\\^`{|}": "plain-_.~!#$&'()*+,/:;=?@[]<>\\^`{|}",
		`a b"c%d`:                              "a%20b%22c%25d",
		"Zürich 日本":                            "Z%C3%BCrich%20%E6%97%A5%E6%9C%AC",
		"😀":                                    "%F0%9F%98%80",
		"a\r\nce-type: x\x00\x7f":              "a%0D%0Ace-type:%20x%00%7F",
		"%20":                                  "%2520",
	} {
		h, _ := events.Encode(events.Event{Attributes: events.Attributes{ID: "1", Source: "/a", Type: "t", Subject: raw}})
		if got := h["ce-subject"]; len(got) != 1 || got[0] != want {
			t.Errorf("%q: got %q, want %q", raw, got, want)
		}
		e, err := events.Decode(h, nil)
		if err != nil || e.Subject != raw {
			t.Errorf("%q came back as %q, %v", raw, e.Subject, err)
		}
	}
}

func TestDecodeAccepts(t *testing.T) {
	t.Parallel()
	base := events.Attributes{ID: "1", Source: "/a", Type: "t"}
	for name, tc := range map[string]struct {
		header map[string][]string
		want   func(*events.Event)
	}{
		"minimal":              {minimal(), func(*events.Event) {}},
		"any case":             {map[string][]string{"CE-SpecVersion": {"1.0"}, "Ce-Id": {"1"}, "cE-source": {"/a"}, "Ce-Type": {"t"}, "Ce-Callid": {"c"}}, func(e *events.Event) { e.Call = "c" }},
		"lower-case hex":       {withHeader("ce-session", "%c3%bc"), func(e *events.Event) { e.Session = "ü" }},
		"raw UTF-8":            {withHeader("ce-session", "ü"), func(e *events.Event) { e.Session = "ü" }},
		"raw space":            {withHeader("ce-session", "a b"), func(e *events.Event) { e.Session = "a b" }},
		"NUL":                  {withHeader("ce-session", "%00"), func(e *events.Event) { e.Session = "\x00" }},
		"empty is absent":      {withHeader("ce-session", ""), func(*events.Event) {}},
		"extension":            {withHeader("ce-Customer", "x"), func(e *events.Event) { e.Extensions = map[string]string{"customer": "x"} }},
		"other headers":        {withHeader("Nats-Msg-Id", "x", "y"), func(*events.Event) {}},
		"time with an offset":  {withHeader("ce-time", "2026-03-14T16:09:26.535+01:00"), func(e *events.Event) { e.Time = at(0) }},
		"JSON suffix":          {withHeader("ce-datacontenttype", "application/vnd.x+JSON; charset=utf-8"), func(*events.Event) {}},
		"JSON by content type": {withHeader("content-TYPE", "application/json; charset=utf-8"), func(*events.Event) {}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const body = " {\"a\" :\t1.0 }\n"
			want := events.Event{Attributes: base, Data: []byte(body)}
			tc.want(&want)
			got, err := events.Decode(tc.header, []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	without := func(name string) map[string][]string {
		h := minimal()
		delete(h, name)
		return h
	}
	structured := map[string][]string{"Content-Type": {"application/cloudevents+json"}}
	const start = `{"specversion":"1.0","id":"1","source":"/a","type":"t"`
	for name, tc := range map[string]struct {
		header map[string][]string
		body   string
		want   string
	}{
		"nothing":                 {nil, ``, "neither binary nor structured mode"},
		"no event":                {nil, `[]`, "neither binary nor structured mode"},
		"no specversion anywhere": {nil, `{}`, "specversion: missing (neither"},
		"no specversion header":   {without("ce-specversion"), ``, "no ce-specversion header"},
		"specversion 0.3":         {withHeader("ce-specversion", "0.3"), ``, `header ce-specversion: "0.3", only "1.0" is read`},
		"no id":                   {without("ce-id"), ``, "header ce-id: missing"},
		"no source":               {without("ce-source"), ``, "header ce-source: missing"},
		"no type":                 {without("ce-type"), ``, "header ce-type: missing"},
		"empty type":              {withHeader("ce-type", ""), ``, "header ce-type: missing"},
		"two values":              {withHeader("ce-id", "1", "1"), ``, "header ce-id: appears 2 times"},
		"no value":                {withHeader("ce-id"), ``, "header ce-id: appears 0 times"},
		"two cases":               {withHeader("CE-ID", "1"), ``, "header ce-id: appears twice"},
		"extension in two cases":  {map[string][]string{"ce-x": {"1"}, "Ce-X": {""}, "ce-specversion": {"1.0"}}, ``, "header ce-x: "},
		"long id":                 {withHeader("ce-id", strings.Repeat("x", 513)), ``, "at most 512"},
		"name with a dash":        {withHeader("ce-call-id", "x"), ``, "header ce-call-id: an attribute name is lower-case letters and digits"},
		"name not ASCII":          {withHeader("ce-\u0130d", "x"), ``, "an attribute name is"},
		"data as a header":        {withHeader("ce-data", "x"), ``, "header ce-data: not a name"},
		"bad percent":             {withHeader("ce-turn", "100%"), ``, `"100%" is not percent-encoded`},
		"bad hex":                 {withHeader("ce-turn", "%zz"), ``, "is not percent-encoded"},
		"not UTF-8":               {withHeader("ce-turn", "%ff"), ``, "header ce-turn: the value is not UTF-8"},
		"long session":            {withHeader("ce-session", strings.Repeat("s", 300)), ``, "session takes 300 bytes"},
		"long CJK turn":           {withHeader("ce-turn", strings.Repeat("日", 15)), ``, "turn takes 135 bytes"},
		"long callid":             {withHeader("ce-callid", strings.Repeat(".", 43)), ``, "callid takes 129 bytes"},
		"bad time":                {withHeader("ce-time", "2026-03-14 15:09"), ``, "is no RFC 3339 time"},
		"text data":               {withHeader("ce-datacontenttype", "text/plain"), ``, `header ce-datacontenttype: "text/plain", only JSON is read`},
		"text by content type":    {withHeader("Content-Type", "text/plain"), ``, `"text/plain", only JSON is read`},
		"batch":                   {map[string][]string{"content-type": {"application/cloudevents-batch+json"}}, `[]`, "only application/cloudevents+json"},
		"structured no JSON":      {structured, `specversion`, "'s' where an object is due"},
		"structured twice":        {structured, start + `,"id":"1"}`, `key "id" appears twice`},
		"structured wrong case":   {structured, start + `,"callId":"c"}`, "attribute callId: an attribute name is lower-case"},
		"structured object":       {structured, start + `,"turn":{}}`, "'{' where a string, number or boolean is due"},
		"structured fraction":     {structured, start + `,"x":1.5}`, "no whole number"},
		"structured trailing":     {structured, start + `}1`, "trailing data"},
		"structured data twice":   {structured, start + `,"data":1,"data":2}`, `key "data" appears twice`},
		"structured both data":    {structured, start + `,"data":1,"data_base64":"MQ=="}`, "both data and data_base64"},
		"structured bad data":     {structured, start + `,"data":{"a":1,"a":2}}`, "in $.data"},
		"structured text data":    {structured, start + `,"datacontenttype":"text/plain","data":"x"}`, "only JSON is read"},
		"base64 no JSON":          {structured, start + `,"data_base64":"AAEC"}`, "data_base64 holds no JSON"},
		"base64 none":             {structured, start + `,"data_base64":"#"}`, "data_base64 holds no JSON"},
		"base64 empty":            {structured, start + `,"data_base64":""}`, "data_base64 holds no JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, err := events.Decode(tc.header, []byte(tc.body))
			if !errors.Is(err, events.ErrMalformed) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want ErrMalformed with %q", err, tc.want)
			}
			if diff := cmp.Diff(events.Event{}, e); diff != "" {
				t.Errorf("an event came with the error: %s", diff)
			}
		})
	}
}

func TestDecodeStructured(t *testing.T) {
	t.Parallel()
	const body = ` { "type":"t", "data" : { "n":9007199254740993 ,"s":"\ud800" } ,"session":"a.b *","count":-5,"flag":true,"gone":null,
		"id":"1","source":"/a","specversion":"1.0","time":"2026-03-14T15:09:26.535Z"} `
	want := events.Event{
		Attributes: events.Attributes{ID: "1", Source: "/a", Type: "t", Session: "a.b *", Time: at(0)},
		Extensions: map[string]string{"count": "-5", "flag": "true"},
		Data:       []byte(`{ "n":9007199254740993 ,"s":"\ud800" }`),
	}
	misleading := withHeader("Content-Type", "Application/CloudEvents+JSON; charset=UTF-8")
	misleading["ce-id"] = []string{"other", "and another"}
	for name, header := range map[string]map[string][]string{
		"no header":               nil,
		"content type":            {"content-type": {"application/cloudevents+json"}},
		"content type beats ce-":  misleading,
		"other headers only":      {"Nats-Msg-Id": {"x"}},
		"ce- without specversion": {"ce-subject": {"x"}},
	} {
		got, err := events.Decode(header, []byte(body))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}

	const encoded = `{"specversion":"1.0","id":"1","source":"/a","type":"t","data_base64":"eyJhIiA6IDF9","data":null}`
	if got, err := events.Decode(nil, []byte(encoded)); err != nil || string(got.Data) != `{"a" : 1}` {
		t.Errorf("data_base64 of JSON: got %s, %v", got.Data, err)
	}
}

func TestEncodeSkipsForeignNames(t *testing.T) {
	t.Parallel()
	e := events.Event{
		Attributes: events.Attributes{ID: "1", Source: "/a", Type: "t"},
		Extensions: map[string]string{"id": "2", "Upper": "x", "a-b": "x", "": "x", "data": "x", "session": "x", "good1": "x", "empty": ""},
	}
	want := minimal()
	want["ce-datacontenttype"] = []string{"application/json"}
	want["ce-good1"] = []string{"x"}
	got, _ := events.Encode(e)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A header map is the caller's: adding a value to one header must not change another.
func TestEncodeHeadersAreApart(t *testing.T) {
	t.Parallel()
	h, _ := events.Encode(events.Event{Attributes: events.Attributes{ID: "1", Source: "/a", Type: "t"}})
	before := maps.Clone(h)
	for k := range h {
		h[k] = append(h[k], "more")
	}
	for k, v := range before {
		if v[0] == "more" || len(h[k]) != 2 || h[k][0] != v[0] {
			t.Errorf("%s: %v became %v", k, v, h[k])
		}
	}
}

func TestEncodeTime(t *testing.T) {
	t.Parallel()
	zone := time.FixedZone("", 2*3600)
	h, _ := events.Encode(events.Event{Attributes: events.Attributes{Time: time.Date(2026, 1, 2, 3, 4, 5, 6, zone)}})
	if got, want := h["ce-time"][0], "2026-01-02T01:04:05.000000006Z"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestEncodeStructuredRefuses(t *testing.T) {
	t.Parallel()
	for _, e := range []events.Event{
		{Data: []byte(`{"a":`)},
		{Data: []byte(`1,"id":"2"`)},
		{Attributes: events.Attributes{ID: "\xff"}},
	} {
		if _, body, err := events.EncodeStructured(e); !errors.Is(err, events.ErrMalformed) || body != nil {
			t.Errorf("%+v: got %s, %v, want ErrMalformed", e, body, err)
		}
	}
}

func TestNewRefusesWhatIsNoJSON(t *testing.T) {
	t.Parallel()
	_, err := events.New(events.Attributes{}, events.ToolCalls{Calls: []events.Call{{Input: []byte("{")}}})
	if !errors.Is(err, events.ErrMalformed) {
		t.Errorf("got %v, want ErrMalformed", err)
	}
}
