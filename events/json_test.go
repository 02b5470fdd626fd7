package events_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
)

func TestUnmarshalRefuses(t *testing.T) {
	t.Parallel()
	calls := func() any { return new(events.ToolCalls) }
	result := func() any { return new(events.ToolResult) }
	deep := strings.Repeat("[", events.MaxDepth+1)
	for name, tc := range map[string]struct {
		in   string
		into func() any
		want string // part of the error
	}{
		"empty":                      {``, calls, "the text ends where an object is due at byte 0, in $"},
		"null":                       {`null`, calls, "'n' where an object is due"},
		"array":                      {`[]`, calls, "'[' where an object is due"},
		"trailing data":              {`{} x`, calls, "trailing data after the JSON value at byte 3"},
		"second value":               {`{}{}`, calls, "trailing data"},
		"NUL after":                  {"{}\x00", calls, "trailing data"},
		"byte order mark":            {"\xEF\xBB\xBF{}", calls, `'\ufeff' where an object is due`},
		"duplicate key":              {`{"calls":[],"calls":[]}`, calls, `key "calls" appears twice at byte 12, in $`},
		"duplicate unknown key":      {`{"x":1,"x":2}`, calls, `key "x" appears twice`},
		"duplicate escaped key":      {`{"x":1,"\u0078":2}`, calls, `key "x" appears twice`},
		"duplicate key of a call":    {`{"calls":[{"id":"a","name":"t"},{"id":"b","id":"c"}]}`, calls, `in $.calls[1]`},
		"duplicate key in arguments": {`{"calls":[{"input":{"a":{"b":1,"b":2}}}]}`, calls, `key "b" appears twice at byte 31, in $.calls[0].input.a`},
		"wrong case":                 {`{"Calls":[]}`, calls, `key "Calls" is in the wrong case, write "calls"`},
		"wrong case in a call":       {`{"calls":[{"ID":"a"}]}`, calls, `key "ID" is in the wrong case, write "id" at byte 11, in $.calls[0]`},
		"wrong case in context":      {`{"context":{"USER":"a"}}`, calls, `write "user"`},
		"long s for s":               {`{"call` + "\u017F" + `":[]}`, calls, `write "calls"`},
		"wrong case in meta":         {`{"meta":{"startedat":null}}`, result, `write "startedAt"`},
		"bad UTF-8":                  {"{\"calls\":[{\"id\":\"\xff\"}]}", calls, "invalid UTF-8 in a string at byte 17, in $.calls[0].id"},
		"bad UTF-8 in arguments":     {"{\"calls\":[{\"input\":\"\xc0\x80\"}]}", calls, "invalid UTF-8"},
		"surrogate bytes":            {"{\"calls\":[{\"input\":\"\xed\xa0\x80\"}]}", calls, "invalid UTF-8"},
		"lone surrogate in an id":    {`{"calls":[{"id":"\ud800"}]}`, calls, "surrogate without its other half"},
		"lone surrogate in a key":    {`{"context":{"attributes":{"\udc00":""}}}`, calls, "surrogate without its other half in a key"},
		"raw NUL in a string":        {"{\"calls\":[{\"id\":\"\x00\"}]}", calls, "control character U+0000"},
		"line feed in a string":      {"{\"calls\":[{\"input\":\"\n\"}]}", calls, "control character U+000A"},
		"NaN":                        {`{"calls":[{"input":NaN}]}`, calls, "'N' where a value is due at byte 19, in $.calls[0].input"},
		"Infinity":                   {`{"calls":[{"input":-Infinity}]}`, calls, "malformed number"},
		"leading zero":               {`{"calls":[{"input":01}]}`, calls, "malformed number"},
		"plus":                       {`{"calls":[{"input":+1}]}`, calls, "'+' where a value is due"},
		"hex":                        {`{"calls":[{"input":0x1}]}`, calls, "'x' where ',' or '}' is due"},
		"single quotes":              {`{'calls':[]}`, calls, `'\'' where a key is due`},
		"comment":                    {`{/**/}`, calls, "'/' where a key is due"},
		"comma at the end":           {`{"calls":[],}`, calls, "'}' where a key is due"},
		"too deep":                   {`{"calls":[{"input":` + deep + `}]}`, calls, "nested deeper than 128 levels"},
		"too deep, unknown":          {`{"x":` + deep + `}`, calls, "nested deeper than 128 levels"},
		"cut off":                    {`{"calls":[{"id":"a"`, calls, "the text ends where ',' or '}' is due"},
		"cut off in a string":        {`{"calls":[{"id":"a`, calls, "the text ends within a string"},
		"id no string":               {`{"calls":[{"id":5}]}`, calls, "'5' where a string is due"},
		"calls no array":             {`{"calls":{}}`, calls, "'{' where an array is due"},
		"call no object":             {`{"calls":["x"]}`, calls, "'\"' where an object is due"},
		"call null":                  {`{"calls":[null]}`, calls, "'n' where an object is due"},
		"bad time":                   {`{"deadline":"yesterday"}`, calls, `"yesterday" is no RFC 3339 time at byte 12, in $.deadline`},
		"empty time":                 {`{"deadline":""}`, calls, `"" is no RFC 3339 time`},
		"attempt a fraction":         {`{"meta":{"attempt":1.5}}`, result, `"1.5" is no whole number`},
		"attempt too big":            {`{"meta":{"attempt":9223372036854775808}}`, result, `no whole number of 64 bits`},
		"revision negative":          {`{"meta":{"sessionRevision":-1}}`, result, `"-1" is no whole number`},
		"isError a string":           {`{"isError":"true"}`, result, "true or false is due"},
		"content a string":           {`{"content":["hello"]}`, result, "a content block (an object) is due"},
		"progress beyond a float":    {`{"progress":1e999}`, func() any { return new(events.ToolResultDelta) }, "beyond a 64-bit float"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := events.Unmarshal([]byte(tc.in), tc.into())
			if !errors.Is(err, events.ErrMalformed) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want ErrMalformed with %q", err, tc.want)
			}
		})
	}
}

func TestUnmarshalSize(t *testing.T) {
	t.Parallel()
	big := append(bytes.Repeat([]byte(" "), events.MaxSize-1), "{}"...)
	if err := events.Unmarshal(big[1:], new(events.ToolCalls)); err != nil {
		t.Errorf("MaxSize bytes: %v", err)
	}
	if err := events.Unmarshal(big, new(events.ToolCalls)); !errors.Is(err, events.ErrMalformed) {
		t.Errorf("one byte more: got %v, want ErrMalformed", err)
	}
}

func TestUnmarshalManyKeys(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("{")
	for i := range 5000 {
		fmt.Fprintf(&b, `"k%d":%d,`, i, i)
	}
	if err := events.CheckJSON([]byte(b.String() + `"last":0}`)); err != nil {
		t.Errorf("distinct keys: %v", err)
	}
	for _, dup := range []string{"k0", "k17", "k4999"} {
		if err := events.CheckJSON([]byte(b.String() + `"` + dup + `":0}`)); !errors.Is(err, events.ErrMalformed) {
			t.Errorf("%s twice: got %v, want ErrMalformed", dup, err)
		}
	}
}

func TestUnmarshalAccepts(t *testing.T) {
	t.Parallel()
	in := ` { "later" : {"calls":1,"Calls":2,"":[ ]} , "deadline":null, "context":null,
		"calls" : [ {"id":"a\u0000\ud83d\ude00","name":"t","input": {"x" : 9007199254740993 , "y":"\ud800"} } ,
		{"name":"u","id":"b","input":null}, {"id":"c","name":"v","input":""} ] } `
	var got events.ToolCalls
	if err := events.Unmarshal([]byte(in), &got); err != nil {
		t.Fatal(err)
	}
	want := events.ToolCalls{Calls: []events.Call{
		{ID: "a\x00😀", Name: "t", Input: json.RawMessage(`{"x" : 9007199254740993 , "y":"\ud800"}`)},
		{ID: "b", Name: "u", Input: json.RawMessage("null")},
		{ID: "c", Name: "v", Input: json.RawMessage(`""`)},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What is read replaces what was there, so that a value may be used again.
func TestUnmarshalReplaces(t *testing.T) {
	t.Parallel()
	got := events.ToolCalls{Calls: []events.Call{{ID: "old"}}, Context: &events.Context{User: "old"}}
	if err := events.Unmarshal([]byte(`{"calls":[{"id":"new"}]}`), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(events.ToolCalls{Calls: []events.Call{{ID: "new"}}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestUnmarshalOtherTypes(t *testing.T) {
	t.Parallel()
	type inner struct {
		MaxItems int `json:"maxItems"`
	}
	type base struct {
		Name string `json:"name"`
	}
	type other struct {
		base
		List   []*inner         `json:"list"`
		Map    map[string]inner `json:"map"`
		Schema json.RawMessage  `json:"schema"`
		Free   any              `json:"free"`
		When   time.Time        `json:"when"`
		Plain  string
		hidden int
	}
	var v other
	in := `{"name":"n","list":[{"maxItems":1},null],"map":{"MAXITEMS":{"maxItems":2}},"schema":{ "Name":1},"free":{"NAME":1},"when":"2026-01-02T03:04:05Z","Plain":"p"}`
	if err := events.Unmarshal([]byte(in), &v); err != nil {
		t.Fatal(err)
	}
	if v.Name != "n" || v.List[0].MaxItems != 1 || v.Map["MAXITEMS"].MaxItems != 2 || string(v.Schema) != `{ "Name":1}` || v.hidden != 0 {
		t.Errorf("got %+v", v)
	}
	for in, want := range map[string]string{
		`{"Name":""}`:                      `write "name"`,
		`{"plain":""}`:                     `write "Plain"`,
		`{"list":[{"MaxItems":1}]}`:        `write "maxItems" at byte 10, in $.list[0]`,
		`{"map":{"a":{"maxitems":1}}}`:     `write "maxItems"`,
		`{"schema":{"a":1,"a":2}}`:         `appears twice`,
		`{"name":5}`:                       `cannot unmarshal number`,
		`{"name":"a"} {}`:                  `trailing data`,
		`{"free":` + "\"\xff\"" + `}`:      `invalid UTF-8`,
		`{"list":[{"maxItems":1},{"x":}]}`: `'}' where a value is due`,
	} {
		if err := events.Unmarshal([]byte(in), new(other)); !errors.Is(err, events.ErrMalformed) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want ErrMalformed with %q", in, err, want)
		}
	}
	var cancel events.CancelRequest // embeds a type that reads itself
	want := events.CancelRequest{Session: "s", Turn: "t", CancelCalls: events.CancelCalls{Calls: []events.CallID{"c"}}}
	if err := events.Unmarshal([]byte(marshal(t, want)), &cancel); err != nil || !cmp.Equal(want, cancel) {
		t.Errorf("got %+v, %v, want %+v", cancel, err, want)
	}
	if err := events.Unmarshal([]byte(`{"Calls":[]}`), &cancel); !errors.Is(err, events.ErrMalformed) {
		t.Errorf("wrong case in an embedded struct: got %v", err)
	}
	for _, v := range []any{nil, other{}, (*other)(nil), (*events.ToolCalls)(nil), events.ToolCalls{}} {
		if events.Unmarshal([]byte(`{}`), v) == nil {
			t.Errorf("unmarshal into %T did not fail", v)
		}
	}
}

// Arguments reach the tool as the model wrote them (T-80, T-81, T-83, T-86, A-38).
func TestRawJSONIsByteIdentical(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`9223372036854775807`, `-9223372036854775808`, `12345678901234567890`, `0.1000000000000000055511151231257827`, `1E400`, `-0`, `1.0`,
		`{"id":9007199254740993,"deep":[{"n":123456789012345678901234567890}]}`,
		"{ \"a\" :\t1 ,\r\n \"b\":[ ] }", `""`, `" "`, `null`, `"{\"a\":1}"`, `"[1,2]"`, `[]`, `{}`, `true`, `"bare"`,
		`"<b>&amp;</b>"`, "\"\u2028\u2029\"", `"\u2028\/\u0041\u0000"`, `"\ud800"`, `"\ud83d\ude00"`, "\"日本語 😀\"", "\"\x7f\"", `{"\u0061":1}`, `{"":0}`,
		strings.Repeat("[", 100) + strings.Repeat("]", 100),
	} {
		calls := events.ToolCalls{
			Calls:   []events.Call{{ID: "c", Name: "t", Input: json.RawMessage(raw)}},
			Context: &events.Context{Values: map[string]json.RawMessage{"V": json.RawMessage(raw)}},
		}
		var gotCalls events.ToolCalls
		roundTrip(t, calls, &gotCalls)
		if got := string(gotCalls.Calls[0].Input); got != raw {
			t.Errorf("input: got %s, want %s", got, raw)
		}
		if got := string(gotCalls.Context.Values["V"]); got != raw {
			t.Errorf("context value: got %s, want %s", got, raw)
		}
		block := `{"type":"later", "data" : ` + raw + `}`
		result := events.ToolResult{Content: []events.Content{events.Content(block)}, StructuredContent: json.RawMessage(raw)}
		var gotResult events.ToolResult
		roundTrip(t, result, &gotResult)
		if got := string(gotResult.StructuredContent); got != raw {
			t.Errorf("structured content: got %s, want %s", got, raw)
		}
		if got := string(gotResult.Content[0]); got != block {
			t.Errorf("content: got %s, want %s", got, block)
		}
	}
}

func roundTrip(t *testing.T, v, into any) {
	t.Helper()
	b, err := events.Marshal(v)
	if err != nil {
		t.Fatalf("marshal %+v: %v", v, err)
	}
	if err := events.Unmarshal(b, into); err != nil {
		t.Fatalf("unmarshal %s: %v", b, err)
	}
}

func TestMarshalEmptyRaw(t *testing.T) {
	t.Parallel()
	for _, empty := range []json.RawMessage{nil, {}, json.RawMessage(" \n")} {
		got := marshal(t, events.ToolCalls{Calls: []events.Call{{ID: "a", Name: "t", Input: empty}}})
		if want := `{"calls":[{"id":"a","name":"t"}]}`; got != want {
			t.Errorf("input %q: got %s, want %s", empty, got, want)
		}
	}
	got := marshal(t, events.ToolCalls{Context: &events.Context{Values: map[string]json.RawMessage{"b": nil, "a": {}}}})
	if want := `{"calls":[],"context":{"values":{"a":null,"b":null}}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	got = marshal(t, &events.ToolResult{})
	if want := `"content":[],"isError":false`; !strings.Contains(got, want) {
		t.Errorf("got %s, want it to hold %s", got, want)
	}
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	b, err := events.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestMarshalRefuses(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for name, v := range map[string]any{
		"input cut off":         events.ToolCalls{Calls: []events.Call{{Input: json.RawMessage(`{"a":`)}}},
		"input smuggles a key":  events.ToolCalls{Calls: []events.Call{{Input: json.RawMessage(`1,"id":"x"`)}}},
		"input duplicate key":   events.ToolWork{Call: events.Call{Input: json.RawMessage(`{"a":1,"a":2}`)}},
		"input bad UTF-8":       events.ToolCalls{Calls: []events.Call{{Input: json.RawMessage("\"\xff\"")}}},
		"input NaN":             events.ToolCalls{Calls: []events.Call{{Input: json.RawMessage("NaN")}}},
		"input too deep":        events.ToolCalls{Calls: []events.Call{{Input: json.RawMessage(strings.Repeat("[", 126) + strings.Repeat("]", 126))}}},
		"input no-break space":  events.ToolCalls{Calls: []events.Call{{Input: json.RawMessage("\u00a01")}}},
		"too big":               events.ToolCalls{Calls: []events.Call{{Input: json.RawMessage(strings.Repeat(" ", 9) + `"` + strings.Repeat("x", events.MaxSize-10) + `"`)}}},
		"id bad UTF-8":          events.ToolCalls{Calls: []events.Call{{ID: "\xff"}}},
		"cancel bad UTF-8":      events.CancelCalls{Calls: []events.CallID{"\xff"}},
		"empty block":           events.ToolResult{Content: []events.Content{nil}},
		"block a string":        events.ToolResult{Content: []events.Content{events.Content(`"x"`)}},
		"structured content":    &events.ToolResult{StructuredContent: json.RawMessage(`{}}`)},
		"context value":         events.ToolWork{Context: &events.Context{Values: map[string]json.RawMessage{"v": json.RawMessage(`x`)}}},
		"progress not a number": events.ToolResultDelta{Progress: &nan},
		"year 10000":            events.ToolResultStart{At: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"other type":            map[string]any{"f": math.Inf(1)},
	} {
		if b, err := events.Marshal(v); !errors.Is(err, events.ErrMalformed) || b != nil {
			t.Errorf("%s: got %.100s, %v, want ErrMalformed", name, b, err)
		}
	}
}

// Where no raw JSON is at stake, our writer and encoding/json agree.
func TestMarshalAgreesWithEncodingJSON(t *testing.T) {
	t.Parallel()
	for _, v := range append(fixtures(), odd()...) {
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(v); err != nil {
			t.Fatal(err)
		}
		wantText := strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029").Replace(strings.TrimSpace(want.String()))
		if diff := cmp.Diff(wantText, marshal(t, v)); diff != "" {
			t.Errorf("%T: %s", v, diff)
		}
	}
}

// odd returns values with odd text in every place.
func odd() []any {
	const text = "\x00\x01\b\f\n\r\t\x1f \"\\/<>&\u007f\u0080\u2028\u2029日本語😀"
	half := 0.5
	tiny := 1e-9
	return []any{
		events.ToolCalls{Calls: []events.Call{{ID: text, Name: text, Input: json.RawMessage(`{}`)}}, Context: &events.Context{
			User: text, Attributes: map[string]string{"b": text, text: "a", "a": ""}, Values: map[string]json.RawMessage{text: json.RawMessage("1")},
		}},
		events.ToolResult{CallID: text, Name: text, Content: []events.Content{events.Text(text)}, Meta: events.ResultMeta{Worker: text}},
		events.ToolResultDelta{CallID: text, Seq: math.MaxUint64, Attempt: -1, Progress: &half, Total: &tiny, Message: text},
		events.ToolResultStart{CallID: text, At: time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600))},
		events.CancelCalls{},
		&events.CancelCalls{Calls: []events.CallID{"", text}, Reason: text},
		events.ToolWork{Context: &events.Context{}, SessionRevision: math.MaxUint64},
		events.Announce{Tool: text, Slots: -1, Gone: true},
		map[string]any{"<": "<>&"},
	}
}
