package events_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
)

// FuzzDecode: whatever is read in one mode can be written in both, and reads the same.
func FuzzDecode(f *testing.F) {
	for _, v := range vectors() {
		for _, mode := range modes() {
			g := readGolden(f, v.file(mode))
			f.Add(g.Header["ce-id"], g.Header["ce-session"], "Content-Type", g.Header["Content-Type"], []byte(g.Body))
		}
	}
	f.Add("1", "%41%zz", "CE-ID", "2", []byte(`{"specversion":"1.0","data_base64":"e30="}`))
	f.Fuzz(func(t *testing.T, id, session, name, value string, body []byte) {
		h := map[string][]string{
			"ce-specversion": {"1.0"}, "ce-type": {"t"}, "ce-source": {"/a"}, "ce-id": {id}, "ce-session": {session}, name: {value},
		}
		for _, h := range []map[string][]string{h, {name: {value}}, nil} {
			e, err := events.Decode(h, body)
			if err != nil {
				if !errors.Is(err, events.ErrMalformed) {
					t.Fatalf("error %v is not ErrMalformed", err)
				}
				continue
			}
			again(t, e)
		}
	})
}

func again(t *testing.T, e events.Event) {
	t.Helper()
	h, body := events.Encode(e)
	got, err := events.Decode(h, body)
	if err != nil {
		t.Fatalf("%+v does not read back: %v", e, err)
	}
	if diff := cmp.Diff(e, got, emptyIsNil()); diff != "" {
		t.Fatal(diff)
	}
	h, body, err = events.EncodeStructured(e)
	if err != nil {
		if events.CheckJSON(e.Data) == nil {
			t.Fatalf("%+v cannot be written: %v", e, err)
		}
		return
	}
	if got, err = events.Decode(h, body); err != nil {
		t.Fatalf("%s does not read back: %v", body, err)
	}
	e.Data = bytes.Trim(e.Data, " \t\r\n")
	if string(e.Data) == "null" { // the same as no data
		e.Data = nil
	}
	if diff := cmp.Diff(e, got, emptyIsNil()); diff != "" {
		t.Fatal(diff)
	}
}

// FuzzUnmarshal: for every type, what is read writes, and reads as the same; and
// nothing is taken that encoding/json does not take.
func FuzzUnmarshal(f *testing.F) {
	for _, v := range append(fixtures(), odd()...) {
		b, err := events.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"calls":[{"id":"\ud83d\ude00","ID":"","input":{"a":1,"a":2}}],"Calls":null}`))
	f.Add([]byte(`{"content":[{"type":"text"}, {}],"meta":{"attempt":1e3}}`))
	f.Add([]byte(`{"digest":"x","content":[{"type":"text"}, 5],"structuredContent":null,"input":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, into := range []any{
			new(events.ToolCalls), new(events.ToolWork), new(events.ToolResultStart), new(events.ToolResult), new(events.ToolResultDelta),
			new(events.CancelCalls), new(events.Announce), new(events.TurnReply), new(events.CancelRequest),
			new(events.Question), new(events.UserConfirmResult), new(events.ExternalExecutionResult), new(events.Decided), new(events.AnswerJudged),
			new(events.SuspendCall), new(events.CheckRequest), new(events.QuestionsReply), new(events.QuestionReply), new(events.DecisionsReply),
			new(events.SessionSet), new(events.SessionInfo),
		} {
			err := events.Unmarshal(data, into)
			if err != nil {
				if !errors.Is(err, events.ErrMalformed) {
					t.Fatalf("%T: error %v is not ErrMalformed", into, err)
				}
				continue
			}
			if std := reflect.New(reflect.TypeOf(into).Elem()).Interface(); json.Unmarshal(data, std) != nil {
				t.Fatalf("%T: encoding/json refuses %q", into, data)
			}
			b, err := events.Marshal(into)
			if err != nil {
				t.Fatalf("%T of %q does not marshal: %v", into, data, err)
			}
			back := reflect.New(reflect.TypeOf(into).Elem()).Interface()
			if err := events.Unmarshal(b, back); err != nil {
				t.Fatalf("%T: %s does not read back: %v", into, b, err)
			}
			if b2, err := events.Marshal(back); err != nil || !bytes.Equal(b, b2) {
				t.Fatalf("%T: %s became %s, %v", into, b, b2, err)
			}
		}
	})
}

// FuzzCheckJSON: we take no more than encoding/json, and less only for what we say we refuse.
func FuzzCheckJSON(f *testing.F) {
	for _, s := range []string{`{}`, `[1,-0.5e+3,"\u00e9\ud800",null,true,false]`, `{"a":{"b":1},"\u0061":2}`, "\"\xff\"", `01`, ` 1 `, `NaN`, "\"12345678\x01\"", `"1234567\\"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		err := events.CheckJSON(data)
		if valid := json.Valid(data); err == nil && !valid {
			t.Fatalf("%q is no JSON", data)
		} else if err != nil && valid && !refusedOnPurpose(err) {
			t.Fatalf("%q is JSON: %v", data, err)
		}
	})
}

func refusedOnPurpose(err error) bool {
	for _, s := range []string{"appears twice", "invalid UTF-8", "nested deeper", "at most"} {
		if strings.Contains(err.Error(), s) {
			return true
		}
	}
	return false
}

// FuzzReadableCalls: of a sound turn all calls are told, of any other whatever fits a subject.
func FuzzReadableCalls(f *testing.F) {
	f.Add([]byte(`{"calls":[{"id":"a","name":"t","input":{"id":"x"}},{"ID":"b"}]}`))
	f.Add([]byte(`{"calls":[{"id":"a","input":"\`))
	f.Add([]byte(`{"calls":[{"id":"a"}],"calls":[[{"id":"b"}]]`))
	for _, v := range vectors() {
		if calls, ok := v.data.(events.ToolCalls); ok {
			b, err := events.Marshal(calls)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got := events.ReadableCalls(data)
		found := map[events.CallID]bool{}
		for _, c := range got {
			if events.CheckID("id", c.ID) != nil || found[c.ID] || c.Input != nil {
				t.Fatalf("call %+v of %q", c, data)
			}
			found[c.ID] = true
		}
		var calls events.ToolCalls
		if events.Unmarshal(data, &calls) != nil {
			return
		}
		for _, c := range calls.Calls {
			if events.CheckID("id", c.ID) == nil && !found[c.ID] {
				t.Fatalf("%q was not found in %q", c.ID, data)
			}
		}
	})
}

// FuzzUntoken: an identifier has one token, and a token one identifier.
func FuzzUntoken(f *testing.F) {
	for _, s := range []string{"", "a", "a.b", "=2E", "=", "日本", "=FF", ">", "=41"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if id, err := events.Untoken[string](s); err == nil && events.Token(id) != s {
			t.Fatalf("%q is the token of %q, whose token is %q", s, id, events.Token(id))
		}
		token := events.Token(s)
		if strings.ContainsAny(token, ".*> \t\r\n") || token == "" {
			t.Fatalf("%q has the token %q", s, token)
		}
		if id, err := events.Untoken[string](token); (err == nil) != (events.CheckID("", s) == nil) || err == nil && id != s {
			t.Fatalf("%q came back as %q, %v", s, id, err)
		}
	})
}

// FuzzSubjects: a subject that parses is the one that is built of what was parsed.
func FuzzSubjects(f *testing.F) {
	for _, v := range vectors() {
		f.Add(v.subject)
		f.Add(events.Subjects{}.Live(v.subject))
	}
	f.Fuzz(func(t *testing.T, subject string) {
		s := events.Subjects{}
		if a, session, turn, err := s.ParseCalls(subject); err == nil && s.Calls(a, session, turn) != subject {
			t.Fatalf("%q is no calls subject", subject)
		}
		if a, session, turn, err := s.ParseCancel(subject); err == nil && s.Cancel(a, session, turn) != subject {
			t.Fatalf("%q is no cancel subject", subject)
		}
		if pool, tool, k, err := s.ParseWork(subject); err == nil && s.Work(pool, tool, k) != subject {
			t.Fatalf("%q is no work subject", subject)
		}
		for kind, build := range map[string]func(events.CallKey) string{"start": s.Start, "result": s.Result, "delta": s.Delta, "stop": s.Stop} {
			if k, err := s.ParseCall(kind, subject); err == nil && build(k) != subject && s.Live(build(k)) != subject {
				t.Fatalf("%q is no %s subject", subject, kind)
			}
		}
	})
}

// FuzzContent: looking into a block never fails, and what [events.Text] makes reads back.
func FuzzContent(f *testing.F) {
	f.Add([]byte(`{"type":"text","text":"a"}`))
	f.Add([]byte(`{"type":"text","text":"\ud800","text":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := events.Content(data)
		if text, ok := c.Text(); ok && (c.Kind() != "text" || !json.Valid(data)) {
			t.Fatalf("%q has the text %q", data, text)
		}
		want := strings.ToValidUTF8(string(data), "\uFFFD")
		if text, ok := events.Text(string(data)).Text(); !ok || text != want {
			t.Fatalf("the text %q came back as %q", data, text)
		}
	})
}
