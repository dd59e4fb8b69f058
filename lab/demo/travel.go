package demo

import (
	"fmt"
	"strings"

	"github.com/godwitdb/godwit/lab/workload"
)

// TravelTable shows the users' latencies and round trips by region and by group: at home, just
// arrived, settled abroad. Both jump when users arrive, and fall back when their rows have moved to
// them. moved counts these rows.
func TravelTable(regions []workload.RegionStats, moved map[string]int64) []string {
	head := []string{"region", "users who are", "stmt/s", "read p50/p99 ms", "RTT/read", "update p50/p99 ms",
		"RTT/update", "rows moved here"}
	cells := [][]string{head}
	for _, r := range regions {
		name, came := r.Region, fmt.Sprint(moved[r.Region])
		for _, g := range []struct{ kind, words string }{{"home", "at home"}, {"arrived", "just arrived"},
			{"settled", "settled"}} {
			line := []string{name, g.words, "", "-", "-", "-", "-", came}
			rate := 0.0
			for _, k := range r.Kinds {
				group, what, _ := strings.Cut(k.Kind, "-")
				if group != g.kind || k.Count == 0 {
					continue
				}
				rate += k.Rate
				at := 3
				if what == "update" {
					at = 5
				}
				line[at] = number(milliseconds(k.P50)) + "/" + number(milliseconds(k.P99))
				if k.Measured > 0 {
					line[at+1] = fmt.Sprintf("%.2f", k.RoundTrips)
				}
			}
			line[2] = number(rate)
			cells = append(cells, line)
			name, came = "", ""
		}
	}
	return align(cells)
}

// movedIn extracts the counts of moved rows for TravelTable.
func movedIn(rows []Figures) map[string]int64 {
	out := map[string]int64{}
	for _, f := range rows {
		out[f.Region] = f.MovedIn
	}
	return out
}
