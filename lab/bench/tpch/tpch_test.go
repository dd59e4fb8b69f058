package tpch

import (
	"strconv"
	"strings"
	"testing"
)

// TestRows: the rows keep the rules of clause 4.2 that the queries rest on.
func TestRows(t *testing.T) {
	g := newGen(0.01)
	supplied := map[string]bool{}
	if err := g.partsupp(func(row string) error {
		f := strings.Split(row, "\t")
		supplied[f[0]+" "+f[1]] = true
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(supplied) != 4*g.parts() {
		t.Errorf("%d pairs of part and supplier of %d parts", len(supplied), g.parts())
	}
	n := 0
	err := g.ordersAndLines(func(o order) error {
		n++
		f := strings.Split(o.row, "\t")
		if cust, err := strconv.Atoi(f[1]); err != nil || cust%3 == 0 || cust > g.customers() {
			t.Errorf("order %s is of customer %s", f[0], f[1])
		}
		if len(o.lines) < 1 || len(o.lines) > 7 {
			t.Errorf("order %s has %d lines", f[0], len(o.lines))
		}
		for _, line := range o.lines {
			l := strings.Split(line, "\t")
			if len(l) != 16 || l[0] != f[0] || !supplied[l[1]+" "+l[2]] || l[10] <= f[4] || l[12] <= l[10] {
				t.Errorf("line %q of order %q", line, o.row)
			}
		}
		return nil
	})
	if err != nil || n != g.orders() {
		t.Errorf("%d orders, %v", n, err)
	}
}

// TestDiffer: answers are compared by value, numbers exactly, and without the order of ties.
func TestDiffer(t *testing.T) {
	a := [][]string{{"x", "1.50"}, {"y", null}}
	for _, c := range []struct {
		got   [][]string
		wrong bool
	}{
		{[][]string{{"y", null}, {"x", "1.5"}}, false},
		{[][]string{{"x", "1.5000001"}, {"y", null}}, true},
		{[][]string{{"x", "1.50"}, {"y", "0"}}, true},
		{[][]string{{"x", "1.50"}}, true},
	} {
		if says := differ(c.got, a); (says != "") != c.wrong {
			t.Errorf("%q: %q", c.got, says)
		}
	}
}
