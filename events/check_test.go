package events_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
)

func manyCalls(n int) events.ToolCalls {
	var c events.ToolCalls
	for i := range n {
		c.Calls = append(c.Calls, events.Call{ID: events.CallID("c" + strconv.Itoa(i)), Name: "t"})
	}
	return c
}

func TestToolCallsCheck(t *testing.T) {
	t.Parallel()
	twice := manyCalls(100)
	twice.Calls[99].ID = "c3"
	for name, tc := range map[string]struct {
		calls events.ToolCalls
		want  string
	}{
		"one":        {manyCalls(1), ""},
		"most":       {manyCalls(events.MaxCalls), ""},
		"odd":        {events.ToolCalls{Calls: []events.Call{{ID: "a.b *>", Name: "no such\ntool"}, {ID: "日本", Name: "t"}}}, ""},
		"none":       {events.ToolCalls{}, "no calls"},
		"too many":   {manyCalls(events.MaxCalls + 1), "1001 calls in one turn"},
		"no id":      {events.ToolCalls{Calls: []events.Call{{ID: "a", Name: "t"}, {Name: "t"}}}, "calls[1]: events: identifier unfit for a subject: id is empty"},
		"no name":    {events.ToolCalls{Calls: []events.Call{{ID: "a"}}}, "calls[0]: events: identifier unfit for a subject: name is empty"},
		"long id":    {events.ToolCalls{Calls: []events.Call{{ID: events.CallID(strings.Repeat("x", 300)), Name: "t"}}}, "id takes 300 bytes"},
		"long name":  {events.ToolCalls{Calls: []events.Call{{ID: "a", Name: events.ToolName(strings.Repeat("x", 300))}}}, "name takes 300 bytes"},
		"twice":      {events.ToolCalls{Calls: []events.Call{{ID: "a", Name: "t"}, {ID: "b", Name: "t"}, {ID: "a", Name: "u"}}}, `calls[0] and calls[2] have the same id "a"`},
		"twice/many": {twice, `calls[3] and calls[99] have the same id "c3"`},
	} {
		err := tc.calls.Check()
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tc.want != "" && (!errors.Is(err, events.ErrMalformed) || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: got %v, want ErrMalformed with %q", name, err, tc.want)
		}
	}
}

func TestReadableCalls(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in   string
		want string // id:name, by spaces
	}{
		"sound":                {`{"calls":[{"id":"a","name":"t","input":{"id":"x","name":"y"}},{"id":"b","name":"u"}]}`, "a:t b:u"},
		"other order":          {`{"context":{"calls":[{"id":"x"}]},"calls":[{"input":[{"id":"x"}],"name":"t","id":"a"}]}`, "a:t"},
		"duplicate key":        {`{"calls":[{"id":"a","name":"t","name":"u"}]}`, "a:t"},
		"two ids in one call":  {`{"calls":[{"id":"a","id":"b","name":"t"}]}`, "a:t b:t"},
		"one id in two calls":  {`{"calls":[{"id":"a","name":"t"},{"id":"a","name":"u"}]}`, "a:t"},
		"wrong case":           {`{"Calls":[{"ID":"a","Name":"t"}]}`, "a:t"},
		"cut off":              {`{"calls":[{"id":"a","name":"t","input":{"x":`, "a:t"},
		"cut off in a string":  {`{"calls":[{"id":"a","name":"t"},{"id":"b","name":"u`, "a:t b:"},
		"cut off in an id":     {`{"calls":[{"id":"a"},{"id":"b`, "a:"},
		"no name":              {`{"calls":[{"id":"a"}]}`, "a:"},
		"name no string":       {`{"calls":[{"id":"a","name":{"x":"y"}}]}`, "a:"},
		"number as id":         {`{"calls":[{"id":17,"name":"t"}]}`, "17:t"},
		"id escaped":           {`{"calls":[{"id":"\u0061.\"b","name":"t"}]}`, `a."b:t`},
		"id with half a pair":  {`{"calls":[{"id":"\ud800"},{"id":"b"}]}`, "b:"},
		"id with a bad escape": {`{"calls":[{"id":"\x"},{"id":"b"}]}`, "b:"},
		"id not UTF-8":         {"{\"calls\":[{\"id\":\"\xff\"},{\"id\":\"b\"}]}", "b:"},
		"id empty":             {`{"calls":[{"id":""},{"id":"b"}]}`, "b:"},
		"id too long":          {`{"calls":[{"id":"` + strings.Repeat("x", 300) + `"},{"id":"b"}]}`, "b:"},
		"comma missing":        {`{"calls":[{"id":"a" "name":"t"} {"id":"b"}]}`, "a: b:"},
		"NaN in arguments":     {`{"calls":[{"id":"a","input":{"x":NaN}},{"id":"b"}]}`, "a: b:"},
		"trailing data":        {`{"calls":[{"id":"a"}]} {"calls":[{"id":"x"}]}`, "a:"},
		"calls twice":          {`{"calls":[{"id":"a"}],"calls":[{"id":"b"}]}`, "a: b:"},
		"too deep":             {`{"calls":[{"id":"a","input":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `},{"id":"b"}]}`, "a: b:"},
		"control character":    {"{\"calls\":[{\"input\":\"\n\",\"id\":\"a\"}]}", "a:"},
		"byte order mark":      {"\uFEFF{\"calls\":[{\"id\":\"a\"}]}", "a:"},
		"ids elsewhere":        {`{"id":"x","calls":{"id":"y"},"other":[{"id":"z"}]}`, ""},
		"no object":            {`[{"id":"x"}]`, ""},
		"nothing":              {``, ""},
		"no JSON":              {`calls: - id: x`, ""},
	} {
		var got []string
		for _, c := range events.ReadableCalls([]byte(tc.in)) {
			got = append(got, string(c.ID)+":"+string(c.Name))
		}
		if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
