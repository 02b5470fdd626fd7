package builtin_test

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/workers/builtin"
)

func call(ctx context.Context, t *testing.T, input string) events.ToolResult {
	t.Helper()
	tools, err := builtin.Toolkit()
	if err != nil {
		t.Fatal(err)
	}
	tool, ok := tools.Lookup("get_current_time")
	if !ok {
		t.Fatal("get_current_time is not in the toolkit")
	}
	return tool.Execute(ctx, toolkit.Execution{Input: json.RawMessage(input)})
}

func TestCurrentTime(t *testing.T) {
	for name, c := range map[string]struct{ input, text, structured string }{
		"UTC by default": {
			`{}`, "2000-01-01T00:00:00Z",
			`{"time":"2000-01-01T00:00:00Z","timezone":"UTC","weekday":"Saturday","unix":946684800}`,
		},
		"null counts as absent": {
			`{"timezone":null}`, "2000-01-01T00:00:00Z",
			`{"time":"2000-01-01T00:00:00Z","timezone":"UTC","weekday":"Saturday","unix":946684800}`,
		},
		"another day": {
			`{"timezone":"America/New_York"}`, "1999-12-31T19:00:00-05:00",
			`{"time":"1999-12-31T19:00:00-05:00","timezone":"America/New_York","weekday":"Friday","unix":946684800}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // whose clock begins with the year 2000
				r := call(t.Context(), t, c.input)
				if r.Reason != events.ReasonOK || r.Text() != c.text {
					t.Errorf("got %s %q, want ok %q", r.Reason, r.Text(), c.text)
				}
				if diff := cmp.Diff(c.structured, string(r.StructuredContent)); diff != "" {
					t.Errorf("structured content (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestCurrentTimeRefusesWhatIsNoZone(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"Mars/Olympus", "Local", "../../etc/passwd", "utc+1 "} {
		r := call(t.Context(), t, `{"timezone":`+strconv.Quote(zone)+`}`)
		if r.Reason != events.ReasonInvalidInput {
			t.Errorf("%q: got %s %q, want invalid_input", zone, r.Reason, r.Text())
		}
	}
}
