package bench

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"
)

// Summary is one system's figures over all its runs.
type Summary struct {
	System     string  `json:"system"`
	PerSecond  float64 `json:"perSecond"` // median
	P50        string  `json:"p50"`       // unloaded, median of the runs
	P99        string  `json:"p99"`
	PacedP50   string  `json:"pacedP50"`
	PacedP99   string  `json:"pacedP99"`
	CPU        string  `json:"cpuPerCall"`
	HeapMiB    float64 `json:"heapMiB"`
	Lost       int     `json:"lost"`       // over all runs
	Duplicates int     `json:"duplicates"` // over all runs
}

// Report is what a comparison found. Ratio is Toolwire's throughput over the reference's, the
// median of the pairs that ran one after the other.
type Report struct {
	Reference Summary `json:"reference"`
	Toolwire  Summary `json:"toolwire"`
	Ratio     float64 `json:"ratio"`
	RatioMin  float64 `json:"ratioMin"`
	RatioMax  float64 `json:"ratioMax"`
}

// Summarize makes the report of the runs of [Compare].
func Summarize(runs []Run) Report {
	by := map[string][]Run{}
	for _, r := range runs {
		by[r.System] = append(by[r.System], r)
	}
	rep := Report{Reference: summary(by["reference"]), Toolwire: summary(by["toolwire"])}
	var ratios []float64
	for i := range min(len(by["reference"]), len(by["toolwire"])) {
		ratios = append(ratios, by["toolwire"][i].PerSecond/by["reference"][i].PerSecond)
	}
	if len(ratios) > 0 {
		slices.Sort(ratios)
		rep.Ratio, rep.RatioMin, rep.RatioMax = ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1]
	}
	return rep
}

func summary(runs []Run) Summary {
	if len(runs) == 0 {
		return Summary{}
	}
	s := Summary{System: runs[0].System}
	for _, r := range runs {
		s.Lost += r.Lost
		s.Duplicates += r.Duplicates
	}
	s.PerSecond = median(runs, func(r Run) float64 { return r.PerSecond })
	s.HeapMiB = median(runs, func(r Run) float64 { return r.HeapMiB })
	d := func(f func(Run) time.Duration) string {
		return time.Duration(median(runs, func(r Run) float64 { return float64(f(r)) })).Round(time.Microsecond).String()
	}
	s.P50, s.P99 = d(func(r Run) time.Duration { return r.P50 }), d(func(r Run) time.Duration { return r.P99 })
	s.PacedP50, s.PacedP99 = d(func(r Run) time.Duration { return r.PacedP50 }), d(func(r Run) time.Duration { return r.PacedP99 })
	s.CPU = d(func(r Run) time.Duration { return r.CPU })
	return s
}

func median(runs []Run, f func(Run) float64) float64 {
	v := make([]float64, len(runs))
	for i, r := range runs {
		v[i] = f(r)
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// Write renders the report for a person.
func (r Report) Write(w io.Writer, o Options) error {
	o = o.withDefaults()
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintf(t, "system\tcalls/s\tp50\tp99\tp50 at %[1]d/s\tp99 at %[1]d/s\tcpu/call\theap MiB\tlost\tdoubled\t\n", o.Rate)
	for _, s := range []Summary{r.Reference, r.Toolwire} {
		_, _ = fmt.Fprintf(t, "%s\t%.0f\t%s\t%s\t%s\t%s\t%s\t%.1f\t%d\t%d\t\n",
			s.System, s.PerSecond, s.P50, s.P99, s.PacedP50, s.PacedP99, s.CPU, s.HeapMiB, s.Lost, s.Duplicates)
	}
	if err := t.Flush(); err != nil { // keeps the first error of the writes above
		return err
	}
	_, err := fmt.Fprintf(w, "throughput: %.2f of the reference (%.2f to %.2f over the pairs)\n", r.Ratio, r.RatioMin, r.RatioMax)
	return err
}

// cpuTime is the user and system time of this process so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// heapMiB is the live heap after a collection: of everything in this process, the embedded
// server included.
func heapMiB() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}
