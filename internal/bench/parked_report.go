package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/toolwire/toolwire/events"
)

// ParkedReport is a [ParkedRun] as it is printed. Ratios are to the ordinary calls of the same run.
type ParkedReport struct {
	Kind     events.Kind `json:"kind"`
	Parked   int         `json:"parked"`
	Ordinary float64     `json:"ordinaryPerSecond"`

	ParkedPerSecond float64 `json:"parkedPerSecond"`
	ParkedRatio     float64 `json:"parkedRatio"`
	BurstPerSecond  float64 `json:"burstPerSecond"`
	BurstRatio      float64 `json:"burstRatio"`
	RestPerSecond   float64 `json:"restPerSecond"`
	RestRatio       float64 `json:"restRatio"`
	CallCPU         string  `json:"cpuPerOrdinaryCall"`
	ParkCPU         string  `json:"cpuPerParkedCall"`
	AnswerCPU       string  `json:"cpuPerAnswer"`

	DiskPerCall   float64 `json:"diskBytesPerCall"`
	ServerPerCall float64 `json:"serverBytesPerCall,omitempty"`
	HeapPerCall   float64 `json:"heapBytesPerCall"` // embedded: the server's as well
	Before        Load    `json:"before"`
	After         Load    `json:"after"`

	Listed    string `json:"listed"`
	FewP50    string `json:"fewP50"`
	FewP99    string `json:"fewP99"`
	DeepP50   string `json:"deepP50"`
	DeepP99   string `json:"deepP99"`
	BurstP50  string `json:"burstP50"`
	BurstP99  string `json:"burstP99"`
	AloneP50  string `json:"aloneP50"`
	AloneP99  string `json:"aloneP99"`
	BesideP50 string `json:"besideP50"`
	BesideP99 string `json:"besideP99"`
	CleanedIn string `json:"cleanedIn"`

	Lost    int `json:"lost"`
	Doubled int `json:"doubled"`
	Refused int `json:"refused"`
	Left    int `json:"left"`
}

// Report makes the report of a run.
func (r ParkedRun) Report() ParkedReport {
	d := func(d time.Duration) string { return d.Round(time.Microsecond).String() }
	per := func(before, after float64) float64 { return (after - before) / float64(r.Parked) }
	return ParkedReport{
		Kind: r.Kind, Parked: r.Parked, Ordinary: r.Ordinary,
		ParkedPerSecond: r.ParkedPerSecond, ParkedRatio: r.ParkedPerSecond / r.Ordinary,
		BurstPerSecond: r.BurstPerSecond, BurstRatio: r.BurstPerSecond / r.Ordinary,
		RestPerSecond: r.RestPerSecond, RestRatio: r.RestPerSecond / r.Ordinary,
		CallCPU: d(r.CallCPU), ParkCPU: d(r.ParkCPU), AnswerCPU: d(r.AnswerCPU),
		DiskPerCall:   per(float64(r.Before.Disk), float64(r.After.Disk)),
		ServerPerCall: per(float64(r.Before.Server), float64(r.After.Server)),
		HeapPerCall:   per(float64(r.Before.Heap), float64(r.After.Heap)),
		Before:        r.Before, After: r.After,
		Listed: d(r.Listed), FewP50: d(r.FewP50), FewP99: d(r.FewP99), DeepP50: d(r.DeepP50), DeepP99: d(r.DeepP99),
		BurstP50: d(r.BurstP50), BurstP99: d(r.BurstP99), AloneP50: d(r.AloneP50), AloneP99: d(r.AloneP99),
		BesideP50: d(r.BesideP50), BesideP99: d(r.BesideP99), CleanedIn: d(r.CleanedIn),
		Lost: r.Lost, Doubled: r.Doubled, Refused: r.Refused, Left: r.Left,
	}
}

// Broken says whether a promise was broken: no rate counts then.
func (r ParkedReport) Broken() bool { return r.Lost+r.Doubled+r.Refused+r.Left > 0 }

// Write renders the report for a person.
func (r ParkedReport) Write(w io.Writer, o ParkedOptions) error {
	o = o.withDefaults()
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	kept := fmt.Sprintf("lost %d, doubled %d, refused %d, left over %d", r.Lost, r.Doubled, r.Refused, r.Left)
	for _, row := range [][3]string{
		{"ordinary calls", fmt.Sprintf("%.0f/s", r.Ordinary), kept},
		{fmt.Sprintf("%d calls parked", r.Parked), fmt.Sprintf("%.0f/s (%.2f)", r.ParkedPerSecond, r.ParkedRatio), kept},
		{fmt.Sprintf("%d answers at once", o.Burst), fmt.Sprintf("%.0f/s (%.2f)", r.BurstPerSecond, r.BurstRatio), fmt.Sprintf("p50 %s, p99 %s; %s", r.BurstP50, r.BurstP99, kept)},
		{"the other answers at once", fmt.Sprintf("%.0f/s (%.2f)", r.RestPerSecond, r.RestRatio), kept},
		{"single answers, few parked", "", fmt.Sprintf("p50 %s, p99 %s", r.FewP50, r.FewP99)},
		{"single answers, all parked", "", fmt.Sprintf("p50 %s, p99 %s", r.DeepP50, r.DeepP99)},
		{fmt.Sprintf("%d ordinary calls/s, all parked", o.Beside), "", fmt.Sprintf("p50 %s, p99 %s", r.AloneP50, r.AloneP99)},
		{"the same beside the answers at once", "", fmt.Sprintf("p50 %s, p99 %s", r.BesideP50, r.BesideP99)},
		{"all pages of the list", r.Listed, ""},
		{"per parked call", "", fmt.Sprintf("%.0f bytes of disk, %s", r.DiskPerCall, r.memory())},
		{"CPU of this process", "", fmt.Sprintf("%s per ordinary call, %s per parked one, %s per answer", r.CallCPU, r.ParkCPU, r.AnswerCPU)},
		{"goroutines", fmt.Sprintf("%d → %d", r.Before.Goroutines, r.After.Goroutines), ""},
		{"clean-up after the last result", r.CleanedIn, ""},
	} {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\n", row[0], row[1], row[2])
	}
	return t.Flush() // keeps the first error of the writes above
}

func (r ParkedReport) memory() string {
	if r.After.Server == 0 {
		return fmt.Sprintf("%.0f bytes of live heap, the server's included", r.HeapPerCall)
	}
	return fmt.Sprintf("%.0f bytes resident in the server, %.1f bytes of live heap of the dispatcher", r.ServerPerCall, r.HeapPerCall)
}
