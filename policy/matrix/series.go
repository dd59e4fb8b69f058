package matrix

import (
	"encoding/csv"
	"strings"

	"github.com/godwitdb/godwit/base"
)

// Seattle is ten hosts of the Seattle testbed at 688 times: how round trips
// between hosts on ordinary Internet paths change.
func Seattle() ([]*Matrix, error) {
	const name = "seattle10_series"
	f, err := open(name)
	if err != nil {
		return nil, err
	}
	recs, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	var out []*Matrix
	for _, rec := range recs[1:] {
		m, err := slice(recs[0], rec, name)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// slice is one line of a series: a column "a-b" holds the round trip from a to b.
func slice(header, rec []string, name string) (*Matrix, error) {
	var names []string
	seen := map[string]int{}
	index := func(n string) int {
		i, ok := seen[n]
		if !ok {
			i, seen[n] = len(names), len(names)
			names = append(names, n)
		}
		return i
	}
	cells := map[[2]int]string{}
	for c, h := range header[1:] {
		from, to, ok := strings.Cut(h, "-")
		if !ok {
			return nil, base.Errorf(base.CodeInvalid, "latency series %s: column %q is no pair of names", name, h)
		}
		cells[[2]int{index(from), index(to)}] = rec[c+1]
	}
	var b strings.Builder
	b.WriteString(strings.Join(names, ",") + "\n")
	for i := range names {
		row := make([]string, len(names))
		for j := range names {
			row[j] = cells[[2]int{i, j}]
		}
		b.WriteString(strings.Join(row, ",") + "\n")
	}
	return Parse(strings.NewReader(b.String()), name)
}
