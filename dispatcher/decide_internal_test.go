package dispatcher

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

func toolOf(def toolkit.Definition, pool string) *tool {
	var schemas toolkit.Schemas
	t := &tool{def: def, hash: def.Hash(), pool: pool, source: "shop"}
	t.schema = sync.OnceValues(func() (*toolkit.Schema, error) { return schemas.Of(t.hash, def) })
	return t
}

func snapshotOf(defs ...toolkit.Definition) *snapshot {
	tools := make(map[events.ToolName]*tool)
	for _, d := range defs {
		if len(d.InputSchema) == 0 {
			d.InputSchema = json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"additionalProperties":false}`)
		}
		tools[d.Name] = toolOf(d, "pool")
	}
	return newSnapshot(tools, settings{})
}

func TestDecide(t *testing.T) {
	t.Parallel()
	stored := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	reg := snapshotOf(
		toolkit.Definition{Name: "get_weather"},
		toolkit.Definition{Name: "get_whether", QueueTimeout: toolkit.Duration(time.Minute)},
		toolkit.Definition{Name: "ask_boss", External: true},
		toolkit.Definition{Name: "broken", InputSchema: json.RawMessage(`{"$ref":"http://169.254.169.254/"}`)}, // T-89
	)
	at := func(d time.Duration) *time.Time { v := stored.Add(d); return &v }
	for name, c := range map[string]struct {
		call     events.Call
		after    time.Duration // since the turn was stored
		deadline *time.Time
		reason   events.Reason // "": work
		text     string        // part of it
		input    string
		repaired bool
		ask      events.Kind
	}{
		"valid":                           {call: events.Call{Name: "get_weather", Input: []byte(`{"n":1}`)}, input: `{"n":1}`},
		"bytes kept (T-80)":               {call: events.Call{Name: "get_weather", Input: []byte(`{ "n" : 9007199254740993}`)}, input: `{ "n" : 9007199254740993}`},
		"no arguments (T-86)":             {call: events.Call{Name: "get_weather"}, input: `{}`},
		"empty arguments (T-86)":          {call: events.Call{Name: "get_weather", Input: []byte(`""`)}, input: `{}`},
		"null arguments (T-86)":           {call: events.Call{Name: "get_weather", Input: []byte(`null`)}, input: `{}`},
		"null of an optional field":       {call: events.Call{Name: "get_weather", Input: []byte(`{"n":null}`)}, input: `{"n":null}`},
		"a string unwrapped (T-83)":       {call: events.Call{Name: "get_weather", Input: []byte(`"{\"n\":2}"`)}, input: `{"n":2}`, repaired: true},
		"number as a string (T-85)":       {call: events.Call{Name: "get_weather", Input: []byte(`{"n":"2"}`)}, reason: events.ReasonInvalidInput, text: "Correct the arguments"},
		"a list (T-87)":                   {call: events.Call{Name: "get_weather", Input: []byte(`[1]`)}, reason: events.ReasonInvalidInput, text: "must be a JSON object"},
		"unknown, close":                  {call: events.Call{Name: "get_wether"}, reason: events.ReasonNotFound, text: "similar name: get_weather, get_whether"},
		"unknown, in other letters":       {call: events.Call{Name: "GET_WEATHER"}, reason: events.ReasonNotFound, text: "get_weather"},
		"unknown, far":                    {call: events.Call{Name: "zzzzzzzz"}, reason: events.ReasonNotFound, text: "one of the tools you were given"},
		"external":                        {call: events.Call{Name: "ask_boss"}, ask: events.KindExternal},
		"external, deadline passed":       {call: events.Call{Name: "ask_boss"}, deadline: at(0), reason: events.ReasonTimeout},
		"external, invalid first (T-24)":  {call: events.Call{Name: "ask_boss", Input: []byte(`{"x":1}`)}, reason: events.ReasonInvalidInput},
		"schema out of reach":             {call: events.Call{Name: "broken"}, reason: events.ReasonUnavailable, text: "cannot be checked"},
		"deadline to come":                {call: events.Call{Name: "get_weather"}, deadline: at(time.Second), input: `{}`},
		"deadline passed":                 {call: events.Call{Name: "get_weather"}, deadline: at(time.Second), after: time.Second, reason: events.ReasonTimeout},
		"queue time passed":               {call: events.Call{Name: "get_whether"}, after: time.Minute, reason: events.ReasonQueueExpired},
		"unknown before deadline":         {call: events.Call{Name: "nope"}, deadline: at(0), after: time.Second, reason: events.ReasonNotFound},
		"invalid before deadline":         {call: events.Call{Name: "get_weather", Input: []byte(`7`)}, deadline: at(0), reason: events.ReasonInvalidInput},
		"queue time of another tool":      {call: events.Call{Name: "get_weather"}, after: time.Minute, input: `{}`},
		"malformed inside (never a hang)": {call: events.Call{Name: "get_weather", Input: []byte(`"{\"n\":"`)}, reason: events.ReasonInvalidInput},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.call.ID = "c1"
			tn := &turn{agent: "a", session: "s", id: "t", stored: stored, began: stored, body: events.ToolCalls{Calls: []events.Call{c.call}, Deadline: c.deadline}}
			got := decide(tn, tn.body.Calls, basis{reg: reg, rec: newRecord("a", nil), now: stored.Add(c.after)})
			if len(got) != 1 || got[0].reason != c.reason || (got[0].work == nil) != (c.reason != "" || c.ask != "") || got[0].ask != c.ask {
				t.Fatalf("got %+v, want reason %q", got, c.reason)
			}
			if !strings.Contains(got[0].text, c.text) {
				t.Errorf("text: got %q, want %q in it", got[0].text, c.text)
			}
			if w := got[0].work; w != nil && (string(w.Call.Input) != c.input || w.ArgsRepaired != c.repaired || !w.AcceptedAt.Equal(stored)) {
				t.Errorf("work: got %+v", w)
			}
		})
	}
}

// Siblings of a bad call go on (T-01, T-35).
func TestDecideKeepsTheOrderOfTheTurn(t *testing.T) {
	t.Parallel()
	reg := snapshotOf(toolkit.Definition{Name: "a"})
	tn := &turn{began: time.Now(), body: events.ToolCalls{Calls: []events.Call{{ID: "1", Name: "a"}, {ID: "2", Name: "b"}, {ID: "3", Name: "a"}}}}
	got := decide(tn, tn.body.Calls, basis{reg: reg, rec: newRecord("a", nil), now: time.Now()})
	for i, want := range []bool{true, false, true} {
		if got[i].call.ID != tn.body.Calls[i].ID || (got[i].work != nil) != want {
			t.Errorf("%d: got %+v", i, got[i])
		}
	}
}

func FuzzDecide(f *testing.F) {
	f.Add([]byte(`{"calls":[{"id":"1","name":"a","input":{"n":1}},{"id":"2","name":"x"}],"deadline":"2026-01-01T00:00:00Z"}`), int64(0))
	f.Add([]byte(`{"calls":[{"id":"1","name":"ext","input":"{}"}]}`), int64(1<<40))
	reg := snapshotOf(toolkit.Definition{Name: "a"}, toolkit.Definition{Name: "ext", External: true})
	stored := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.Fuzz(func(t *testing.T, data []byte, after int64) {
		tn := &turn{agent: "a", session: "s", id: "t", began: stored}
		e := events.Event{Attributes: events.Attributes{Type: events.TypeToolCalls}, Data: data}
		if tn.read(e) != nil {
			return
		}
		got := decide(tn, tn.body.Calls, basis{reg: reg, rec: newRecord("a", nil), now: stored.Add(time.Duration(after))})
		if len(got) != len(tn.body.Calls) {
			t.Fatalf("got %d decisions for %d calls", len(got), len(tn.body.Calls))
		}
		for i, d := range got {
			switch {
			case d.call.ID != tn.body.Calls[i].ID:
				t.Errorf("%d: got call %q, want %q", i, d.call.ID, tn.body.Calls[i].ID)
			case (d.work == nil && d.ask == "") == (d.reason == ""):
				t.Errorf("%d: neither or both of work and result: %+v", i, d)
			case d.reason != "" && d.text == "":
				t.Errorf("%d: %s without a word to the model", i, d.reason)
			}
			if d.work != nil {
				if _, err := events.Marshal(*d.work); err != nil {
					t.Errorf("%d: work cannot be written: %v", i, err)
				}
			}
		}
	})
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "abc", 3}, {"kitten", "sitting", 3}, {"same", "same", 0}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q %q: got %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestAdmit(t *testing.T) {
	t.Parallel()
	t0 := time.Now()
	def := toolkit.Definition{Name: "a"}
	old := toolOf(def, "p")
	old.startedAt = t0
	ann := func(worker, hash, pool string, after time.Duration) events.Announce {
		return events.Announce{Worker: worker, Definition: hash, Pool: pool, StartedAt: t0.Add(after)}
	}
	for name, c := range map[string]struct {
		old   *tool
		ann   events.Announce
		alive bool
		want  admission
	}{
		"new":                                  {nil, ann("shop", "h", "p", 0), false, adoptEntry},
		"the same again":                       {old, ann("shop", old.hash, "p", time.Hour), true, keepEntry},
		"changed by a later process":           {old, ann("shop", "h2", "p", time.Second), true, adoptEntry},
		"changed by an earlier process":        {old, ann("shop", "h2", "p", -time.Second), true, keepEntry},
		"moved to another pool":                {old, ann("shop", old.hash, "q", time.Second), true, adoptEntry},
		"another owner while the first lives":  {old, ann("mill", old.hash, "p", time.Hour), true, refuseOwner},
		"another owner after the first's end":  {old, ann("mill", "h2", "p", -time.Hour), false, adoptEntry},
		"changed by one that started together": {old, ann("shop", "h2", "p", 0), true, keepEntry},
	} {
		if got := admit(c.old, c.ann, c.alive); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
