package builtin

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
	_ "time/tzdata" // an image FROM scratch has no time zones

	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
)

type timeInput struct {
	Timezone string `json:"timezone,omitempty" description:"IANA time zone name such as Europe/Berlin; UTC if left out" default:"UTC"`
}

type timeOutput struct {
	Time     string `json:"time"`
	Timezone string `json:"timezone"`
	Weekday  string `json:"weekday"`
	Unix     int64  `json:"unix"`
}

const timeSchema = `{"type":"object","properties":{` +
	`"time":{"type":"string","format":"date-time"},"timezone":{"type":"string"},` +
	`"weekday":{"type":"string"},"unix":{"type":"integer"}},"required":["time","timezone","weekday","unix"]}`

func currentTime() (*toolkit.Tool, error) {
	return toolkit.Define("get_current_time", "Tells the current date and time in a time zone.",
		func(_ context.Context, in timeInput) (toolkit.Result, error) {
			return tellTime(time.Now(), in.Timezone)
		},
		&toolkit.Options{
			Title: "Current time", ReadOnly: true, ConcurrencySafe: true,
			Timeout: 10 * time.Second, OutputSchema: json.RawMessage(timeSchema),
		})
}

func tellTime(now time.Time, zone string) (toolkit.Result, error) {
	if zone == "" {
		zone = "UTC"
	}
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" { // whose?
		return toolkit.Result{}, &toolkit.InputError{
			Text: fmt.Sprintf("timezone: %q is no IANA time zone; give a name such as Europe/Berlin, Asia/Tokyo or UTC", zone),
		}
	}
	now = now.In(location)
	text := now.Format(time.RFC3339)
	b, err := json.Marshal(timeOutput{Time: text, Timezone: zone, Weekday: now.Weekday().String(), Unix: now.Unix()})
	return toolkit.Result{Content: []events.Content{events.Text(text)}, Structured: b}, err
}
