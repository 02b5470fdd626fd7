package events_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
)

// carriers are the types about questions that carry raw JSON, each with raw wherever it may stand, and
// block as its content.
func carriers(raw json.RawMessage, block events.Content) []any {
	when := time.Date(2026, 3, 14, 15, 9, 26, 535_000_000, time.UTC)
	call := events.Call{ID: "c", Name: "t", Input: raw}
	question := events.Question{
		RequestID: "r", Round: 1, Kind: events.KindExternal, Call: call, Requester: "a", Definition: "d", Digest: "x", Why: "w", Quorum: 1,
		AskedAt: when, ResultSchema: raw,
	}
	result := events.ExternalExecutionResult{Digest: "x", Content: []events.Content{block, block}, StructuredContent: raw}
	decided := events.Decided{Outcome: events.OutcomeAnswered, At: when, Input: raw, Result: &result, Question: question}
	open := events.OpenQuestion{Session: "s", Turn: "t", Question: question, Missing: 1}
	return []any{
		question, result, decided,
		events.UserConfirmResult{Digest: "x", Decision: events.Approve, Input: raw},
		events.SuspendCall{Call: call, Agent: "a", Definition: "d", Schema: raw, Nonce: "n"},
		events.CheckRequest{Session: "s", Agent: "a", Call: call, Definition: "d"},
		events.QuestionsReply{Questions: []events.OpenQuestion{open, open}},
		events.QuestionReply{OpenQuestion: open, Decided: &decided},
		events.DecisionsReply{Decisions: []events.Decision{{Session: "s", Turn: "t", Decided: decided}}},
	}
}

// kept checks that a value reads back as it was written, its raw JSON byte for byte.
func kept(t *testing.T, v any) {
	t.Helper()
	b, err := events.Marshal(v)
	if err != nil {
		t.Fatalf("%T: %v", v, err)
	}
	back := reflect.New(reflect.TypeOf(v))
	if err := events.Unmarshal(b, back.Interface()); err != nil {
		t.Fatalf("%T: %s does not read back: %v", v, b, err)
	}
	if d := cmp.Diff(v, back.Elem().Interface()); d != "" {
		t.Errorf("%T: -written +read:\n%s", v, d)
	}
	if again, err := events.Marshal(back.Interface()); err != nil || !bytes.Equal(b, again) {
		t.Errorf("%T: %s became %s, %v", v, b, again, err)
	}
}

func TestQuestionsKeepRawJSON(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		`{}`, `[]`, `""`, `0`, `-0`, `1E400`, `123456789012345678901234567890.000`, `true`, `"\u003c\/\ud83d\ude00 <&>"`, "\"\u2028\"",
		"{ \"b\" : [ 1 ,\t2 ],\r\n \"a\":{\"z\":1,\"y\":null} }", "[ [ [ { } ] ] ]",
	} {
		for _, v := range carriers(json.RawMessage(raw), events.Content(`{ "type": "later", "n": `+raw+"\n}")) {
			kept(t, v)
		}
	}
}

// White space around raw JSON is no part of it.
func TestQuestionsTrimRawJSON(t *testing.T) {
	t.Parallel()
	b, err := events.Marshal(events.UserConfirmResult{Digest: "x", Decision: events.Approve, Input: json.RawMessage(" {} \n")})
	if want := `{"digest":"x","decision":"approve","input":{}}`; err != nil || string(b) != want {
		t.Errorf("got %s, %v", b, err)
	}
}

// What would not read back is not written.
func TestQuestionsRefuseBadJSON(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{`{`, `{"a":1,"a":2}`, `NaN`, `{} {}`, "\"\xff\""} {
		for _, v := range carriers(json.RawMessage(raw), events.Content(`{"type":"text"}`)) {
			if b, err := events.Marshal(v); err == nil {
				t.Errorf("%T: %s", v, b)
			}
		}
	}
}

// null where something may be left out counts as left out: to approve a call with "input": null is to
// approve it as it was asked about.
func TestAnswersTakeNullAsLeftOut(t *testing.T) {
	t.Parallel()
	var confirm events.UserConfirmResult
	var external events.ExternalExecutionResult
	var suspend events.SuspendCall
	for text, into := range map[string]any{
		`{"digest":"x","decision":"approve","reason":null,"input": null ,"rules":null,"scope":null}`: &confirm,
		`{"digest":"x","state":null,"content":null,"structuredContent":null,"isError":null}`:         &external,
		`{"call":{"id":"c","name":"t"},"agent":"a","definition":"d","schema":null,"nonce":"n"}`:      &suspend,
	} {
		if err := events.Unmarshal([]byte(text), into); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if confirm.Input != nil || external.StructuredContent != nil || suspend.Schema != nil {
		t.Errorf("got %s, %s, %s", confirm.Input, external.StructuredContent, suspend.Schema)
	}
}

// An answer with a key in another case, a key twice, or text behind it is refused: half of it would not count.
func TestAnswersAreReadStrictly(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"digest":"x","Decision":"approve"}`, `{"digest":"x","decision":"deny","decision":"approve"}`, `{"digest":"x","decision":"approve"} {}`,
		`{"digest":"x","decision":"approve","rules":[{"tool":"t","Behavior":"allow"}]}`, `{"digest":"x","decision":"approve","input":{"a":1,"a":2}}`,
		`{"digest":"x","decision":true}`, `[]`, ``,
		`{"digest":"x","decision":"approve","input":` + strings.Repeat("[", events.MaxDepth-2) + strings.Repeat("]", events.MaxDepth-2) + `}`,
	} {
		if err := events.Unmarshal([]byte(text), new(events.UserConfirmResult)); err == nil {
			t.Errorf("taken: %s", text)
		}
	}
}

// A block of content that is no object could not be passed on.
func TestAnswersTakeObjectsAsContent(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`[5]`, `[null]`, `[{"type":"text"},[]]`, `{}`, `"x"`} {
		var a events.ExternalExecutionResult
		if err := events.Unmarshal([]byte(`{"digest":"x","content":`+text+`}`), &a); !errors.Is(err, events.ErrMalformed) {
			t.Errorf("%s: %v, %s", text, err, a.Content)
		}
	}
}

// Whatever a turn or an answer may hold can be asked about, decided and listed.
func TestQuestionsNestAsDeepAsCalls(t *testing.T) {
	t.Parallel()
	nested := func(levels int) json.RawMessage {
		return json.RawMessage(strings.Repeat("[", levels) + strings.Repeat("]", levels))
	}
	deepest := func(holds func(raw json.RawMessage) any) json.RawMessage {
		for levels := events.MaxDepth; ; levels-- {
			if _, err := events.Marshal(holds(nested(levels))); err == nil {
				return nested(levels)
			}
		}
	}
	input := deepest(func(raw json.RawMessage) any {
		return events.ToolCalls{Calls: []events.Call{{ID: "c", Name: "t", Input: raw}}}
	})
	answer := deepest(func(raw json.RawMessage) any {
		return events.UserConfirmResult{Digest: "x", Decision: events.Approve, Input: raw}
	})
	if len(answer) != len(input) {
		t.Errorf("an answer may change arguments to %d levels, a turn has %d", len(answer)/2, len(input)/2)
	}
	result := deepest(func(raw json.RawMessage) any {
		return events.ExternalExecutionResult{Digest: "x", StructuredContent: raw}
	})
	schema := deepest(func(raw json.RawMessage) any { return events.SuspendCall{Agent: "a", Schema: raw} })
	when := time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)
	question := events.Question{Call: events.Call{ID: "c", Name: "t", Input: input}, AskedAt: when, ResultSchema: schema}
	decided := events.Decided{At: when, Input: answer, Result: &events.ExternalExecutionResult{StructuredContent: result}, Question: question}
	open := events.OpenQuestion{Question: question}
	for _, v := range []any{
		question, decided,
		events.QuestionsReply{Questions: []events.OpenQuestion{open}},
		events.QuestionReply{OpenQuestion: open, Decided: &decided},
		events.DecisionsReply{Decisions: []events.Decision{{Decided: decided}}},
		events.ToolWork{Call: events.Call{ID: "c", Name: "t", Input: answer}},
		events.ToolResult{Content: []events.Content{}, StructuredContent: result},
	} {
		kept(t, v)
	}
}

// FuzzQuestionsRaw: whatever is JSON goes through questions, answers and decisions byte for byte.
func FuzzQuestionsRaw(f *testing.F) {
	f.Add([]byte(`{ "a" : [1, 12345678901234567890.50, "\u00e9\ud800"] }`))
	f.Add([]byte("\"\u2028<\""))
	f.Fuzz(func(t *testing.T, data []byte) {
		raw := bytes.Trim(data, " \t\r\n")
		const around = 8 // levels that the types have around it
		if events.CheckJSON(raw) != nil || string(raw) == "null" || bytes.Count(raw, []byte("{"))+bytes.Count(raw, []byte("[")) > events.MaxDepth-around {
			return
		}
		for _, v := range carriers(raw, events.Content(`{"type":"later","n":`+string(raw)+`}`)) {
			kept(t, v)
		}
	})
}
