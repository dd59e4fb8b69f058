package workload

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// latency is a duration in milliseconds with three significant digits or so.
func latency(d time.Duration) string {
	ms := float64(d.Microseconds()) / 1000
	switch {
	case ms < 10:
		return fmt.Sprintf("%.2f", ms)
	case ms < 100:
		return fmt.Sprintf("%.1f", ms)
	}
	return fmt.Sprintf("%.0f", ms)
}

// Line is the progress line of an interval: totals, then the rate and latencies of each kind that
// happened.
func (s Snapshot) Line() string {
	var b strings.Builder
	phase := ""
	if s.Warmup {
		phase = " warm-up"
	}
	fmt.Fprintf(&b, "%5.0fs%s  %.0f txn/s  p50 %s  p99 %s ms  retries %d  errors %d", s.Elapsed.Seconds(), phase, s.Total.Rate,
		latency(s.Total.P50), latency(s.Total.P99), s.Total.Retries, s.Total.Errors)
	for _, k := range s.Kinds {
		if k.Count+k.Rollbacks > 0 {
			fmt.Fprintf(&b, "  | %s %.0f/s %s/%s", k.Kind, k.Rate, latency(k.P50), latency(k.P99))
		}
	}
	return b.String()
}

// WriteTable writes the report for a person to read.
func (r *Report) WriteTable(out io.Writer) error {
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	trips := func(k KindStats) string { return "" }
	head := ""
	if r.Total.Measured > 0 {
		head = "WAN trips\t"
		trips = func(k KindStats) string { return fmt.Sprintf("%.2f\t", k.RoundTrips) }
	}
	fmt.Fprintf(tw, "region\tkind\tcount\tper s\tp50 ms\tp90 ms\tp99 ms\tmax ms\tretries\trollbacks\terrors\t%s\n", head)
	row := func(region string, k KindStats) {
		if k.Count+k.Retries+k.Errors+k.Rollbacks == 0 {
			return
		}
		fmt.Fprintf(tw, "%s\t%s\t%d\t%.1f\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\n", region, k.Kind, k.Count, k.Rate,
			latency(k.P50), latency(k.P90), latency(k.P99), latency(k.Max), k.Retries, k.Rollbacks, k.Errors, trips(k))
	}
	for _, reg := range r.Regions {
		for _, k := range reg.Kinds {
			row(reg.Region, k)
		}
		row(reg.Region, reg.Total)
	}
	if len(r.Regions) > 1 {
		for _, k := range r.Kinds {
			row("all", k)
		}
		row("all", r.Total)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s on %s, %d clients, %.1f s, %d transactions\n", r.Workload, r.Server, r.Clients,
		r.Elapsed.Seconds(), r.Total.Count)
	if err == nil && r.TpmC > 0 {
		_, err = fmt.Fprintf(out, "tpmC %.0f (committed New-Orders a minute)\n", r.TpmC)
	}
	if err == nil && r.Moved != nil {
		_, err = fmt.Fprintf(out, "rows moved to another region: %d\n", *r.Moved)
	}
	for _, e := range r.Errors {
		if err == nil {
			_, err = fmt.Fprintf(out, "error (%d times): %s\n", e.Count, e.Text)
		}
	}
	return err
}

// WriteChecks writes a line a check.
func WriteChecks(out io.Writer, results []CheckResult) error {
	for _, c := range results {
		verdict := "ok  "
		if !c.OK {
			verdict = "FAIL"
		}
		if _, err := fmt.Fprintf(out, "%s  %-9s  %s (%s)\n", verdict, c.Name, c.Description, c.Detail); err != nil {
			return err
		}
	}
	return nil
}

// Failed counts the violated checks.
func Failed(results []CheckResult) int {
	n := 0
	for _, c := range results {
		if !c.OK {
			n++
		}
	}
	return n
}
