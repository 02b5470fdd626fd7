package spine_test

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

// Arguments and results arrive as they were sent (T-80, T-81): integers beyond 2^53, white
// space, escapes, key order, NUL; over the inline cap by reference (T-72, T-73).
func TestBytesArriveAsTheyWereSent(t *testing.T) {
	t.Parallel()
	f := newFleet(t, echo("echo"))
	c := f.up(1)
	for _, in := range []string{
		`{"id":9223372036854775807,"big":12345678901234567890,"neg":-9007199254740993}`,
		`{ "b" : 1 , "a":[ 1.10, 1e2 ,-0 ] }`,
		`{"html":"<b>&amp;</b>","esc":"\u003c\u2028","nul":"a\u0000b","emoji":"\ud83d\ude42 🙂"}`,
		`{"text":"` + strings.Repeat("ä", 1<<20) + `"}`,
	} {
		r := f.one(c, "s", "echo", in)
		if r.Reason != events.ReasonOK || r.Text() != in || string(r.StructuredContent) != in {
			t.Errorf("%.60s: got %s %.60s (structured %.60s)", in, r.Reason, r.Text(), r.StructuredContent)
		}
	}
}

// No arguments, in every spelling, are {} (A-38, T-86); an object that came as a string is
// unwrapped and flagged (T-83); other kinds are refused with a text to correct them (T-85, T-87).
func TestSpellingsOfArguments(t *testing.T) {
	t.Parallel()
	f := newFleet(t, echo("echo"))
	c := f.up(1)
	for in, want := range map[string]string{"": "{}", "null": "{}", `""`: "{}", "{}": "{}", " {} ": "{}", `"{\"a\":1}"`: `{"a":1}`} {
		r := f.one(c, "s", "echo", in)
		if r.Reason != events.ReasonOK || r.Text() != want || r.Meta.ArgsRepaired != (want == `{"a":1}`) {
			t.Errorf("%q: got %s %q, repaired %v", in, r.Reason, r.Text(), r.Meta.ArgsRepaired)
		}
	}
	for _, in := range []string{"[]", "1", "true", `"text"`, `"[1]"`} {
		if r := f.one(c, "s", "echo", in); r.Reason != events.ReasonInvalidInput || !strings.Contains(r.Text(), "echo") {
			t.Errorf("%q: got %s %q", in, r.Reason, r.Text())
		}
	}
	if r := f.one(c, "s", "ecco", "{}"); r.Reason != events.ReasonNotFound || !strings.Contains(r.Text(), "echo") {
		t.Errorf("unknown tool: got %s %q", r.Reason, r.Text())
	}
}

// Results of every kind of value are defined, and one beyond the cap is an error, not silence (T-78).
func TestKindsOfResults(t *testing.T) {
	t.Parallel()
	values := map[string]any{
		"nothing": nil, "text": "sunny", "number": json.RawMessage("12345678901234567890"), "list": []int{1, 2},
		"no": false, "object": map[string]int{"a": 1}, "huge": strings.Repeat("x", 9<<20), "large": strings.Repeat("x", 1<<20),
	}
	f := newFleet(t)
	for name, v := range values {
		if err := f.tools.Add(tool(name, &toolkit.Options{ReadOnly: true}, func(context.Context) (any, error) { return v, nil })); err != nil {
			t.Fatal(err)
		}
	}
	c := f.up(1)
	for name, want := range map[string]string{
		"nothing": "null", "text": "sunny", "number": "12345678901234567890", "list": "[1,2]", "no": "false", "object": `{"a":1}`, "large": strings.Repeat("x", 1<<20),
	} {
		if r := f.one(c, "s", events.ToolName(name), ""); r.Reason != events.ReasonOK || r.Text() != want {
			t.Errorf("%s: got %s %.40q", name, r.Reason, r.Text())
		}
	}
	if r := f.one(c, "s", "huge", ""); r.Reason != events.ReasonResultTooLarge {
		t.Errorf("huge: got %s", r.Reason)
	}
}

// A turn that cannot be read is kept as a dead letter, and every call in it that can be told is
// answered: no agent waits for ever.
func TestMalformedTurns(t *testing.T) {
	t.Parallel()
	f := newFleet(t, echo("echo"))
	c := f.up(1)
	nc := f.srv.Conn()
	good := map[string]string{"ce-specversion": "1.0", "ce-id": "x", "ce-source": "/test", "ce-type": string(events.TypeToolCalls)}
	cases := map[string]struct {
		header map[string]string
		body   string
		calls  []events.CallID
	}{
		"truncated":     {good, `{"calls":[{"id":"c1","name":"echo","input":{"a":1`, []events.CallID{"c1"}},
		"duplicate-key": {good, `{"calls":[{"id":"c1","id":"c1","name":"echo"}]}`, []events.CallID{"c1"}},
		"wrong-case":    {good, `{"Calls":[],"calls":[{"id":"c1","name":"echo"}]}`, []events.CallID{"c1"}},
		"trailing":      {good, `{"calls":[{"id":"c1","name":"echo"}]} {}`, []events.CallID{"c1"}},
		"bad-utf8":      {good, "{\"calls\":[{\"id\":\"c1\",\"name\":\"ec\xffho\"}]}", nil},
		"no-calls":      {good, `{"calls":[]}`, nil},
		"same-id-twice": {good, `{"calls":[{"id":"c1","name":"echo"},{"id":"c1","name":"echo"}]}`, []events.CallID{"c1"}},
		"no-json":       {good, "\x00\x01\x02", nil},
		"wrong-type":    {map[string]string{"ce-specversion": "1.0", "ce-id": "x", "ce-source": "/test", "ce-type": "other"}, `{"calls":[{"id":"c1","name":"echo"}]}`, []events.CallID{"c1"}},
		"other-session": {with(good, "ce-session", "another"), `{"calls":[{"id":"c1","name":"echo"}]}`, []events.CallID{"c1"}},
		"no-headers":    {nil, `{"calls":[{"id":"c1","name":"echo"}]}`, []events.CallID{"c1"}},
		"lost-body":     {with(good, "ce-dataref", "toolwire-body:nope?chunks=1&size=5&sha256=00"), "", nil},
	}
	for name, cs := range cases {
		m := nats.NewMsg(events.Subjects{}.Calls("local", "s", events.TurnID(name)))
		m.Data = []byte(cs.body)
		for k, v := range cs.header {
			m.Header[k] = []string{v}
		}
		if err := nc.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name, cs := range cases {
		for _, id := range cs.calls {
			var r events.ToolResult
			for { // until it is answered
				var err error
				if r, err = c.Result(ctx, events.CallKey{Session: "s", Turn: events.TurnID(name), Call: id}); err == nil || ctx.Err() != nil {
					break
				}
				<-time.After(20 * time.Millisecond)
			}
			if r.Reason != events.ReasonMalformed && r.Reason != events.ReasonDeadLetter {
				t.Errorf("%s: got %q", name, r.Reason)
			}
		}
	}
	for {
		letters := map[string]bool{}
		for l, err := range c.Dead(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			letters[l.Subject[strings.LastIndexByte(l.Subject, '.')+1:]] = l.Reason != ""
		}
		if len(letters) == len(cases) {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("dead letters %v, want one of each of %d", letters, len(cases))
		case <-time.After(50 * time.Millisecond):
		}
	}
	if r := f.one(c, "s", "echo", `{"still":"fine"}`); r.Reason != events.ReasonOK {
		t.Errorf("afterwards: got %s", r.Reason)
	}
}

func with(h map[string]string, k, v string) map[string]string {
	out := maps.Clone(h)
	out[k] = v
	return out
}
