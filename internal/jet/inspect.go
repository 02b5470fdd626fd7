package jet

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"
)

// Finding is what [Bus.Inspect] found of one stream or bucket.
type Finding struct {
	Name  string
	Info  *jetstream.StreamInfo // nil: it is missing
	Wrong []string              // settings that break a promise, and how they ought to be
}

// Inspect compares the stored streams and buckets with what the promises rest on. How long and
// how much they keep, and on how many servers, is the operator's choice. Replicas and ages that
// differ are no finding; what would lose or duplicate calls is.
func (b *Bus) Inspect(ctx context.Context) ([]Finding, error) {
	c := Config{}.withDefaults()
	var out []Finding
	for _, want := range append(b.Streams(c), b.Buckets(c)...) {
		s, err := b.js.Stream(ctx, want.Name)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			if want.Name != b.HistoryStream() { // it may be switched off
				out = append(out, Finding{Name: want.Name})
			}
			continue
		case err != nil:
			return nil, explain("stream "+want.Name, err)
		}
		info := s.CachedInfo()
		out = append(out, Finding{Name: want.Name, Info: info, Wrong: differences(info.Config, want)})
	}
	return out, nil
}

func differences(got, want jetstream.StreamConfig) (out []string) {
	differ := func(what string, g, w any) {
		if g != w {
			out = append(out, fmt.Sprintf("%s is %v, must be %v", what, g, w))
		}
	}
	differ("retention", got.Retention, want.Retention)
	differ("discard", got.Discard, want.Discard)
	differ("discard new per subject", got.DiscardNewPerSubject, want.DiscardNewPerSubject)
	differ("max messages per subject", max(got.MaxMsgsPerSubject, 0), want.MaxMsgsPerSubject)
	differ("schedules", got.AllowMsgSchedules, want.AllowMsgSchedules)
	if !want.AllowRollup && !want.AllowMsgSchedules { // schedules switch rollups on
		differ("rollup", got.AllowRollup, false)
	}
	if !want.AllowDirect {
		differ("direct reads", got.AllowDirect, false)
	}
	if want.MaxAge == 0 {
		differ("max age", got.MaxAge, want.MaxAge)
	}
	g, w := slices.Sorted(slices.Values(got.Subjects)), slices.Sorted(slices.Values(want.Subjects))
	if !slices.Equal(g, w) {
		out = append(out, fmt.Sprintf("subjects are %v, must be %v", g, w))
	}
	if want.RePublish != nil && (got.RePublish == nil || got.RePublish.Destination != want.RePublish.Destination) {
		out = append(out, "the live copy (republish) is off or goes elsewhere")
	}
	return out
}
