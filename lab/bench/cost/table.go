package cost

import (
	"fmt"
	"math"
	"strings"
)

// table is a kind's budget for people, in Markdown: a stage a line, a number of threads a column.
func table(k kind, points []point) string {
	var t strings.Builder
	fmt.Fprintf(&t, "| %s, µs of the server's CPU a query |", k.name)
	for _, p := range points {
		fmt.Fprintf(&t, " %d threads |", p.threads)
	}
	t.WriteString("\n|---|" + strings.Repeat("---|", len(points)) + "\n")
	row := func(name, mark string, value func(*point) float64) {
		fmt.Fprintf(&t, "| %s%s%s |", mark, name, mark)
		for i := range points {
			fmt.Fprintf(&t, " %s%s%s |", mark, number(value(&points[i])), mark)
		}
		t.WriteString("\n")
	}
	for s := range stages {
		row(s.String(), "", func(p *point) float64 { return p.cpu() * p.share(p.budget.by[s]) })
	}
	row("sum: the process's CPU", "**", (*point).cpu)
	row("of it in allocation", "", func(p *point) float64 { return p.cpu() * p.share(p.budget.allocated) })
	row("samples beside the process's CPU, %", "", func(p *point) float64 { return 100 * p.covered() })
	for i, u := range usedBy(k, &point{}) {
		row(fmt.Sprintf("%s, %s", u.name, u.unit), "", func(p *point) float64 { return usedBy(k, p)[i].value })
	}
	row("throughput, queries/s", "", func(p *point) float64 { return p.rate })
	return t.String()
}

// number has three digits or so.
func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
