package exec_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/opt"
)

// plainRow is a row of the table that TestFrames makes; k and v may be NULL.
type plainRow struct {
	id, p int
	k, v  *int
}

// plainEnd is an end of a frame: kind is "unbounded", "current" or "n"; by is below 0 for
// PRECEDING.
type plainEnd struct {
	kind string
	by   int
}

func (e plainEnd) text(first bool) string {
	switch {
	case e.kind == "current":
		return "CURRENT ROW"
	case e.kind == "unbounded" && first:
		return "UNBOUNDED PRECEDING"
	case e.kind == "unbounded":
		return "UNBOUNDED FOLLOWING"
	case e.by < 0:
		return fmt.Sprint(-e.by, " PRECEDING")
	}
	return fmt.Sprint(e.by, " FOLLOWING")
}

// plainFrame finds the rows of a frame by looking at all rows of the partition.
type plainFrame struct {
	rows, desc bool
	lo, hi     plainEnd
}

func (f plainFrame) has(part []plainRow, at, x int) bool {
	if f.rows {
		return (f.lo.kind == "unbounded" || x-at >= f.lo.by) && (f.hi.kind == "unbounded" || x-at <= f.hi.by)
	}
	return f.after(part[at], part[x]) && f.before(part[at], part[x])
}

// after reports whether row x is not before the beginning of the frame of row r.
func (f plainFrame) after(r, x plainRow) bool {
	switch {
	case f.lo.kind == "unbounded":
		return true
	case r.k == nil || x.k == nil:
		return r.k == nil && x.k == nil || (x.k == nil) == f.desc
	case f.desc:
		return *x.k <= *r.k-f.lo.by
	}
	return *x.k >= *r.k+f.lo.by
}

func (f plainFrame) before(r, x plainRow) bool {
	switch {
	case f.hi.kind == "unbounded":
		return true
	case r.k == nil || x.k == nil:
		return r.k == nil && x.k == nil || (x.k == nil) != f.desc
	case f.desc:
		return *x.k >= *r.k-f.hi.by
	}
	return *x.k <= *r.k+f.hi.by
}

// answers are those of the functions that TestFrames asks for.
func (f plainFrame) answers(part []plainRow, at int) string {
	var frame []plainRow
	for x := range part {
		if f.has(part, at, x) {
			frame = append(frame, part[x])
		}
	}
	sum, n, bits := 0, 0, 0
	var least, most *int
	for _, r := range frame {
		if r.v == nil {
			continue
		}
		sum, n, bits = sum+*r.v, n+1, bits|*r.v
		if least == nil || *r.v < *least {
			least = r.v
		}
		if most == nil || *r.v > *most {
			most = r.v
		}
	}
	total := "NULL"
	if n > 0 {
		total = fmt.Sprint(sum)
	}
	nth := func(i int) string {
		if i < 0 || i >= len(frame) {
			return "NULL"
		}
		return shownInt(frame[i].v)
	}
	return strings.Join([]string{
		fmt.Sprint(part[at].id), total, fmt.Sprint(n), fmt.Sprint(len(frame)), shownInt(least), shownInt(most), fmt.Sprint(bits),
		nth(0), nth(2), nth(len(frame) - 1),
	}, "|")
}

func shownInt(x *int) string {
	if x == nil {
		return "NULL"
	}
	return fmt.Sprint(*x)
}

// order puts rows in the order of the window. NULLs are first, or last in a descending order.
func (f plainFrame) order(a, b plainRow) int {
	c := 0
	switch {
	case a.k == nil || b.k == nil:
		c = one(a.k != nil) - one(b.k != nil)
	default:
		c = cmp.Compare(*a.k, *b.k)
	}
	if f.desc {
		c = -c
	}
	return cmp.Or(cmp.Compare(a.p, b.p), c, cmp.Compare(a.id, b.id))
}

// TestFrames compares functions over random frames with those that a plain search finds.
func TestFrames(t *testing.T) {
	defer func(n int) { expr.BatchSize = n }(expr.BatchSize)
	rnd := rand.New(rand.NewPCG(7, 11))
	maybe := func(n int) *int {
		if rnd.IntN(5) == 0 {
			return nil
		}
		x := rnd.IntN(n)
		return &x
	}
	end := func(least int) plainEnd {
		switch rnd.IntN(4) {
		case 0:
			return plainEnd{kind: "unbounded"}
		case 1:
			if least <= 0 {
				return plainEnd{kind: "current"}
			}
		}
		return plainEnd{kind: "n", by: least + rnd.IntN(4)}
	}
	for round := range 40 {
		w := newWorld()
		if err := w.exec("CREATE TABLE f (id INT NOT NULL, p INT, k INT, v INT, PRIMARY KEY (id))"); err != nil {
			t.Fatal(err)
		}
		var rows []plainRow
		for id := range 1 + rnd.IntN(60) {
			r := plainRow{id, rnd.IntN(3), maybe(8), maybe(30)}
			rows = append(rows, r)
			insert := fmt.Sprintf("INSERT INTO f VALUES (%d, %d, %s, %s)", r.id, r.p, shownInt(r.k), shownInt(r.v))
			if err := w.exec(insert); err != nil {
				t.Fatal(err)
			}
		}
		f := plainFrame{rows: rnd.IntN(2) == 0, desc: rnd.IntN(2) == 0, lo: end(-4 + 3*rnd.IntN(2))}
		least := -2
		switch { // MySQL refuses frames that go back from CURRENT ROW or from FOLLOWING
		case f.lo.kind == "current":
			least = 0
		case f.lo.kind == "n" && f.lo.by >= 0:
			least = max(1, f.lo.by)
		}
		f.hi = end(least)
		slices.SortFunc(rows, f.order)
		var want []string
		for from := 0; from < len(rows); {
			to := from + 1
			for to < len(rows) && rows[to].p == rows[from].p {
				to++
			}
			for at := range to - from {
				want = append(want, f.answers(rows[from:to], at))
			}
			from = to
		}
		slices.Sort(want)
		text := frameQuery(f)
		for _, way := range ways {
			expr.BatchSize = way.batch
			got := w.answer(t, text, way)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Fatalf("round %d, %s\n%s\ngot\n%s\nwant\n%s", round, way.name, text, shown(got), shown(want))
			}
		}
	}
}

func frameQuery(f plainFrame) string {
	desc, tie, unit := "", "", "RANGE"
	if f.desc {
		desc = " DESC"
	}
	if f.rows {
		tie, unit = ", id", "ROWS"
	}
	return fmt.Sprintf("SELECT id, SUM(v) OVER w, COUNT(v) OVER w, COUNT(*) OVER w, MIN(v) OVER w, MAX(v) OVER w, "+
		"BIT_OR(v) OVER w, FIRST_VALUE(v) OVER w, NTH_VALUE(v, 3) OVER w, LAST_VALUE(v) OVER w "+
		"FROM f WINDOW w AS (PARTITION BY p ORDER BY k%s%s %s BETWEEN %s AND %s)",
		desc, tie, unit, f.lo.text(true), f.hi.text(false))
}

// TestOneSort: functions whose orders begin alike share a sort.
func TestOneSort(t *testing.T) {
	w := newWorld()
	if err := w.exec("CREATE TABLE f (id INT NOT NULL, p INT, k INT, PRIMARY KEY (id))"); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]int{
		"SELECT SUM(k) OVER (PARTITION BY p ORDER BY id), RANK() OVER (PARTITION BY p), COUNT(*) OVER () FROM f":              1,
		"SELECT SUM(k) OVER (PARTITION BY p), RANK() OVER (PARTITION BY k), LAG(k) OVER (PARTITION BY p ORDER BY id) FROM f":  2,
		"SELECT SUM(k) OVER (ORDER BY id), SUM(p) OVER (ORDER BY id DESC), SUM(p) OVER (ORDER BY id ROWS 1 PRECEDING) FROM f": 2,
		"SELECT COUNT(*) OVER () FROM f": 0,
	} {
		p, err := w.plan(text, opt.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(p.Tree(false), "Sort: "); got != want {
			t.Errorf("%s\n%d sorts, not %d\n%s", text, got, want, p.Tree(false))
		}
	}
}
