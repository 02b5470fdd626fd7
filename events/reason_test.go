package events_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolwire/toolwire/events"
)

// The set is closed: what is declared, listed and in the table is the same.
func TestReasons(t *testing.T) {
	t.Parallel()
	var listed []string
	for _, r := range events.Reasons() {
		listed = append(listed, string(r))
	}
	if diff := cmp.Diff(constants(t, "reason.go", "Reason"), listed); diff != "" {
		t.Errorf("Reasons() is not what is declared: %s", diff)
	}
	for _, r := range events.Reasons() {
		if !r.Valid() {
			t.Errorf("%s is not in the table", r)
		}
	}
	for _, r := range []events.Reason{"", "OK", "other"} {
		if r.Valid() || r.Outcome().State != events.StateError {
			t.Errorf("%q counts as valid, or as no error", r)
		}
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	want := map[events.State]string{
		events.StateSuccess:     "ok",
		events.StateDenied:      "denied_by_rule denied_by_user approval_expired",
		events.StateInterrupted: "cancelled shutdown",
		events.StateError: "not_found inactive invalid_input malformed tool_error tool_panic timeout queue_expired external_expired " +
			"worker_lost outcome_unknown result_too_large unavailable dead_letter",
	}
	got := map[events.State]string{}
	for _, r := range events.Reasons() {
		o := r.Outcome()
		if got[o.State] != "" {
			got[o.State] += " "
		}
		got[o.State] += string(r)
		if ok := r == events.ReasonOK; (o.Exit == 0) != ok || (o.HTTP == 200) != ok || o.Exit < 0 || o.Exit > 125 || !ok && o.HTTP < 400 {
			t.Errorf("%s: %+v", r, o)
		}
		if o.Exit == 2 {
			t.Errorf("%s: exit status 2 is for wrong usage", r)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
