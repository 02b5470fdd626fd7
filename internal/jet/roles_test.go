package jet_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/toolwire/toolwire/internal/jet"
)

// What the server fills in for a credential are the rights of its role and name.
func TestTemplatesAreTheRights(t *testing.T) {
	t.Parallel()
	n := jet.Names{}
	for _, role := range jet.Roles() {
		fill := func(subjects []string) []string {
			out := make([]string, len(subjects))
			for i, s := range subjects {
				out[i] = strings.NewReplacer("{{name()}}", "shop", "{{tag(pool)}}", "lane").Replace(s)
			}
			return out
		}
		got, want := n.RightsTemplate(role), n.Rights(role, "shop", "lane")
		if !slices.Equal(fill(got.Publish), want.Publish) || !slices.Equal(fill(got.Subscribe), want.Subscribe) || got.Replies != want.Replies {
			t.Errorf("%s: got %+v, want %+v", role, got, want)
		}
		if len(want.Publish) == 0 || len(want.Subscribe) == 0 {
			t.Errorf("%s has no rights", role)
		}
	}
	if r := n.Rights("boss", "x"); r.Publish != nil || r.Subscribe != nil {
		t.Errorf("no role has rights %+v", r)
	}
}

// Whoever may write one subject of a stream with rollups or schedules can empty it, or make the server
// write the others. So nobody but a dispatcher has a right on such a stream.
func TestOnlyDispatchersWriteWhatCanBeEmptied(t *testing.T) {
	t.Parallel()
	n := jet.Names{}
	for _, role := range jet.Roles() {
		if role == jet.RoleDispatcher {
			continue
		}
		for _, s := range append(n.Streams(jet.Config{}), n.Buckets(jet.Config{})...) {
			written := slices.ContainsFunc(n.Rights(role, "x", "x").Publish, func(right string) bool { return writes(right, s) })
			if written && (s.AllowRollup || s.AllowMsgSchedules || s.AllowMsgTTL || s.AllowMsgCounter) {
				t.Errorf("%s may write to %s", role, s.Name)
			}
		}
	}
}

func writes(right string, s jetstream.StreamConfig) bool {
	return slices.ContainsFunc(s.Subjects, func(subject string) bool { return overlap(right, subject) })
}

// overlap says whether a subject matches both patterns.
func overlap(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		switch {
		case x[i] == ">", y[i] == ">":
			return true
		case x[i] != "*" && y[i] != "*" && x[i] != y[i]:
			return false
		}
	}
	return len(x) == len(y)
}

func TestWhoseRight(t *testing.T) {
	t.Parallel()
	for subject, want := range map[string]string{
		"toolwire.call.ann.s.t":                        "the agent or operator ann",
		"other.cancel.ann.s.t":                         "the agent or operator ann",
		"toolwire.answer.ann.s.t.c.r":                  "the approver or operator ann",
		"toolwire.api.ann.tools":                       "the agent, approver or operator ann",
		"toolwire.announce.shop.look":                  "the worker shop",
		"toolwire.result.s.t.c":                        "a worker",
		"toolwire.timer.sweep":                         "a dispatcher",
		"$KV.toolwire_sessions.s":                      "a dispatcher",
		"$JS.API.STREAM.PURGE.TOOLWIRE_CALLS":          "a dispatcher",
		"$JS.API.STREAM.INFO.TOOLWIRE_CALLS":           "an operator",
		"$JS.API.CONSUMER.MSG.NEXT.TOOLWIRE_WORK.math": "a worker",
		"$JS.API.INFO":                                 "",
		"elsewhere":                                    "",
		"":                                             "",
	} {
		if got := jet.WhoPublishes(subject); got != want {
			t.Errorf("publish to %s: got %q, want %q", subject, got, want)
		}
	}
	for subject, want := range map[string]string{
		"toolwire.live.result.s.>": "an agent or operator",
		"toolwire.live.require.>":  "an approver or operator",
		"toolwire.check.shop.>":    "a worker",
		"toolwire.api.*.tools":     "a dispatcher",
		"toolwire.changed.>":       "",
		"_INBOX.abc.*":             "",
		"toolwire.live.>":          "an operator",
		"toolwire.live.judged.>":   "an operator",
	} {
		if got := jet.WhoSubscribes(subject); got != want {
			t.Errorf("subscribe to %s: got %q, want %q", subject, got, want)
		}
	}
}
