package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/sql/server"
)

func writeLines(out io.Writer, lines []string) error {
	_, err := fmt.Fprintln(out, strings.Join(lines, "\n"))
	return err
}

// table aligns rows of cells; the first is the head.
func table(rows [][]string) []string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	w.Flush() // a strings.Builder never fails
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return lines
}

// span shows a duration with three digits at most.
func span(d time.Duration) string {
	if d < 0 {
		return "-" + span(-d)
	}
	switch {
	case d == 0:
		return "0"
	case d < time.Millisecond:
		return fmt.Sprintf("%.0fus", float64(d)/1e3)
	case d < 100*time.Millisecond:
		return fmt.Sprintf("%.1fms", float64(d)/1e6)
	case d < time.Second:
		return fmt.Sprintf("%.0fms", float64(d)/1e6)
	case d < 100*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

func size(n int64) string {
	for _, u := range []string{"B", "KiB", "MiB", "GiB"} {
		if n < 1<<10*10 || u == "GiB" {
			return fmt.Sprintf("%d %s", n, u)
		}
		n >>= 10
	}
	return ""
}

func ids(list []base.NodeID) string {
	var out []string
	for _, id := range list {
		out = append(out, fmt.Sprint(id))
	}
	return strings.Join(out, ",")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// nodeLines is the table of nodes.
func nodeLines(s *cluster.Status) []string {
	rows := [][]string{{"node", "region", "state", "address", "sql", "heard", "rtt", "leads", "replicas", "sessions",
		"statements", "memory", "disk", "up", "version"}}
	for _, n := range s.Nodes {
		state := "live"
		if !n.Live {
			state = "DOWN"
		}
		if t := s.Topology.Node(n.ID); t != nil && t.Gone {
			state = "gone"
		}
		rows = append(rows, []string{fmt.Sprint(n.ID), n.Region, state, n.Addr, n.SQL, span(n.LastHeard), span(n.RTT),
			fmt.Sprint(n.Leads),
			fmt.Sprint(n.Replicas), fmt.Sprint(n.Sessions), fmt.Sprint(n.Statements), size(n.MemBytes),
			size(n.DiskBytes), span(n.Uptime), orDash(n.Version)})
	}
	return table(rows)
}

func groupLines(s *cluster.Status) []string {
	rows := [][]string{{"group", "home", "leader", "state", "term", "voters", "learners", "committed", "lag",
		"closed lag", "lease", "log", "locks", "prepared"}}
	for _, g := range s.Groups {
		leader := "NONE"
		if g.Leader != 0 {
			leader = fmt.Sprint(g.Leader)
		}
		rows = append(rows, []string{g.Name, orDash(g.Home), leader, g.State(), fmt.Sprint(g.Term), ids(g.Voters),
			orDash(ids(g.Learners)),
			fmt.Sprint(g.Committed), orDash(g.LagText()), span(g.ClosedLag), span(g.Lease),
			fmt.Sprintf("%d (%s)", g.LogEntries, size(g.LogBytes)), fmt.Sprint(g.Locks), fmt.Sprint(g.Prepared)})
	}
	return table(rows)
}

// jobLines shows the long statements that run. SHOW JOBS also has those that have ended.
func jobLines(s *cluster.Status) []string {
	rows := [][]string{{"job", "table", "node", "rows", "of", "percent", "rows/s", "eta", "elapsed"}}
	for _, n := range s.Nodes {
		var jobs []server.Job
		if len(n.Jobs) == 0 || json.Unmarshal(n.Jobs, &jobs) != nil {
			continue
		}
		for _, j := range jobs {
			if !j.Running() {
				continue
			}
			r := j.Row(n.ID)
			cell := func(i int) string {
				if r[i] == nil {
					return "-"
				}
				return fmt.Sprint(r[i])
			}
			eta := "-"
			if left, ok := r[9].(float64); ok {
				eta = (time.Duration(left) * time.Second).String()
			}
			rows = append(rows, []string{cell(1), cell(2), cell(3), cell(5), cell(6), cell(7), cell(8), eta, span(j.Elapsed)})
		}
	}
	if len(rows) == 1 {
		return nil
	}
	return table(rows)
}

// rttLines is the matrix of round trips. A pair that was not measured is blank.
func rttLines(s *cluster.Status) []string {
	var names []string
	at := map[[2]string]time.Duration{}
	for _, r := range s.RTT {
		for _, n := range []string{r.From, r.To} {
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
		at[[2]string{r.From, r.To}] = r.RTT
	}
	if len(names) < 2 {
		return nil
	}
	slices.Sort(names)
	rows := [][]string{append([]string{"rtt from \\ to"}, names...)}
	for _, from := range names {
		row := []string{from}
		for _, to := range names {
			cell := ""
			if d, ok := at[[2]string{from, to}]; ok {
				cell = span(d)
			}
			row = append(row, cell)
		}
		rows = append(rows, row)
	}
	return table(rows)
}

// statusLines shows a whole status. Problems come first.
func statusLines(s *cluster.Status) []string {
	live := 0
	for _, n := range s.Nodes {
		if n.Live {
			live++
		}
	}
	t := &s.Topology
	lines := []string{fmt.Sprintf("cluster %s: %d regions, %d of %d nodes live, %d shards, concurrency control %s, "+
		"cluster version %d, topology version %d, asked node %d (took %s)",
		s.ClusterID, len(t.Present()), live, len(s.Nodes), t.Shards, t.Concurrency, t.Acts(), t.Version, s.Asked, span(s.Took)), ""}
	if len(s.Problems) == 0 {
		lines = append(lines, "no problems")
	}
	for _, p := range s.Problems {
		lines = append(lines, "PROBLEM  "+p)
	}
	lines = append(lines, clockLine(s))
	lines = append(append(append(lines, ""), nodeLines(s)...), "")
	lines = append(lines, groupLines(s)...)
	if jobs := jobLines(s); jobs != nil {
		lines = append(append(lines, ""), jobs...)
	}
	if rtt := rttLines(s); rtt != nil {
		lines = append(append(lines, ""), rtt...)
	}
	return lines
}
