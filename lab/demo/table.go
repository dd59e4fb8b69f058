package demo

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// number shows a rate or a latency with about three digits.
func number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 0.1:
		return fmt.Sprintf("%.3f", v)
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// align pads cells to columns: the first to the left, the others to the right.
func align(rows [][]string) []string {
	var widths []int
	for _, r := range rows {
		for i, c := range r {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	out := make([]string, len(rows))
	for n, r := range rows {
		var b strings.Builder
		for i, c := range r {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			if i == 0 {
				b.WriteString(c + pad)
			} else {
				b.WriteString("  " + pad + c)
			}
		}
		out[n] = strings.TrimRight(b.String(), " ")
	}
	return out
}

// Table shows figures as lines of text, a line a region; latencies are
// "p50/p99" in milliseconds. kinds fixes the columns, so that they do not
// jump from one interval to the next; nil takes those that occur.
func Table(rows []Figures, kinds []string) []string {
	if kinds == nil {
		kinds = occurring(nil, rows)
	}
	head := []string{"region", "stmt/s", "txn/s", "RTT/txn", "WAN KB/txn"}
	for _, k := range kinds {
		head = append(head, k+" ms")
	}
	cells := [][]string{head}
	for _, f := range rows {
		line := []string{f.Region, number(f.StatementRate), number(f.TxnRate), "-", "-"}
		if f.Transactions > 0 {
			line[3], line[4] = fmt.Sprintf("%.2f", f.RoundTrips), number(f.Bytes/1000)
		}
		for _, name := range kinds {
			cell := "-"
			for _, k := range f.Kinds {
				if k.Kind == name && k.Count > 0 {
					cell = number(k.P50) + "/" + number(k.P99)
				}
			}
			line = append(line, cell)
		}
		cells = append(cells, line)
	}
	return align(cells)
}

// occurring adds the kinds that occur in rows to those seen before.
func occurring(seen []string, rows []Figures) []string {
	for _, f := range rows {
		for _, k := range f.Kinds {
			if k.Count > 0 && !slices.Contains(seen, k.Kind) {
				seen = append(seen, k.Kind)
			}
		}
	}
	slices.SortFunc(seen, compareKinds)
	return seen
}
