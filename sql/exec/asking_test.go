package exec

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/sql/expr"
)

// series is a table of n rows: a number that repeats after a while, a text, the number of the row,
// and 7. It is made as it is read.
type series struct {
	n, period int
	prefix    string // of the texts
	nulls     bool   // the repeating number is NULL in every row
}

var seriesTypes = []expr.Type{expr.TypeInt, tableTypes[1], expr.TypeInt, expr.TypeInt}

// Start implements Source.
func (s series) Start(*Ctx, Read) (Rows, error) { return &seriesRows{s: s}, nil }

type seriesRows struct {
	s  series
	at int
}

// Next implements Rows.
func (r *seriesRows) Next(b *expr.Batch) (bool, error) {
	n := min(expr.BatchSize, r.s.n-r.at, max(1, blockBytes/(len(r.s.prefix)+1)))
	for len(b.Cols) < len(seriesTypes) {
		b.Cols = append(b.Cols, &expr.Vec{})
	}
	for k, t := range seriesTypes {
		b.Cols[k].Reset(t, n)
	}
	for i := range n {
		x := r.at + i
		b.Cols[0].I[i], b.Cols[2].I[i], b.Cols[3].I[i] = int64(x%r.s.period), int64(x), 7
		if r.s.nulls {
			b.Cols[0].SetNull(i)
		}
		b.Cols[1].S[i] = r.s.prefix + strconv.Itoa(x*7919%r.s.n)
	}
	r.at += n
	b.N, b.Sel = n, expr.All(n)
	return n > 0, nil
}

// Close implements Rows.
func (r *seriesRows) Close() error { return nil }

// scan reads the table, whose columns get numbers from first on.
func (s series) scan(first expr.ColID) Op {
	cols := ScanSpec{Source: s, Read: Read{Index: -1, Cols: []int{0, 1, 2, 3}}, Types: seriesTypes}
	for i := range seriesTypes {
		cols.Cols = append(cols.Cols, first+expr.ColID(i))
	}
	return NewScan(cols)
}

func seriesCol(first expr.ColID, i int) expr.Node {
	return &expr.Col{ID: first + expr.ColID(i), T: seriesTypes[i]}
}

// TestLoopsAsk: whatever goes through many rows, or long ones, without reading a batch of its input
// asks meanwhile whether it may go on, and ends when it is told to.
func TestLoopsAsk(t *testing.T) {
	const n = 100_000
	rows, few := series{n: n, period: n}, series{n: 20, period: 20}
	long := series{n: 60, period: 60, prefix: strings.Repeat("x", 100_000)}
	many := series{n: 3000, period: 3000, prefix: strings.Repeat("x", 10_000)}
	seven := []SortKey{{Expr: seriesCol(1, 3)}}
	byText := []SortKey{{Expr: seriesCol(1, 1)}}
	window := func(order []SortKey, f WindowFunc) Op {
		f.ID, f.Type = 50, expr.TypeInt
		return NewWindow(WindowSpec{In: rows.scan(1), Order: order, Funcs: []WindowFunc{f}})
	}
	most := agg(t, 20, "max", false, nil, seriesCol(1, 0))
	all := WindowFrame{Rows: true, Lo: WindowBound{Kind: UnboundedPreceding}, Hi: WindowBound{Kind: UnboundedFollowing}}
	near := WindowFrame{Lo: WindowBound{Kind: UnboundedPreceding}, Hi: WindowBound{Kind: Following, N: 0, Key: seriesCol(1, 3),
		Edge: seriesCol(1, 3)}}
	first := AggColumn{ID: 20, Agg: agg(t, 20, "first", false, nil, seriesCol(1, 2)).Agg}
	join := func(s JoinSpec, keys ...int) Op {
		for _, k := range keys {
			s.LeftKeys, s.RightKeys = append(s.LeftKeys, seriesCol(1, k)), append(s.RightKeys, seriesCol(11, k))
		}
		op, err := NewHashJoin(s)
		if err != nil {
			t.Fatal(err)
		}
		return op
	}
	nulls := rows
	nulls.nulls = true
	except := func() Op {
		op, err := NewExcept([]expr.ColID{31, 32, 33, 34}, rows.scan(1), rows.scan(11), false)
		if err != nil {
			t.Fatal(err)
		}
		return op
	}
	group := func(s series, key int, a AggColumn) Op {
		return NewHashAgg(AggSpec{In: s.scan(1), Keys: []Column{{30, seriesCol(1, key)}}, Aggs: []AggColumn{a}})
	}
	for _, k := range []struct {
		name  string
		plan  func() Op
		limit int64
		in    []series // what it reads
		least int      // how often it asks beside that
	}{
		{"rows that are equal in the order", func() Op { return window(seven, WindowFunc{Name: "rank"}) }, 0, []series{rows}, n/mostSteps + n/expr.BatchSize},
		{"a frame of all rows", func() Op { return window(nil, WindowFunc{Agg: most.Agg, Frame: all}) }, 0, []series{rows}, n/mostSteps + n/expr.BatchSize},
		{"the end of a range", func() Op { return window(seven, WindowFunc{Agg: first.Agg, Frame: near}) }, 0, []series{rows}, 2*(n/mostSteps) + n/expr.BatchSize},
		{"a hash table", func() Op { return group(rows, 2, first) }, 0, []series{rows}, n/10_000 + n/expr.BatchSize},
		{"a hash table of texts", func() Op { return group(rows, 1, first) }, 0, []series{rows}, n/5_000 + n/expr.BatchSize},
		{"long keys", func() Op { return group(long, 1, first) }, 0, []series{long}, long.n},
		{"the rows of a join", func() Op { return join(JoinSpec{Kind: Semi, Left: few.scan(1), Right: rows.scan(11)}, 2) }, 0,
			[]series{few, rows}, 2*(n/mostSteps) + n/10_000},
		{"pairs of which none pass", func() Op {
			on := []expr.Node{mustCall(t, "=", seriesCol(1, 2), expr.IntConst(-5))}
			return join(JoinSpec{Kind: Inner, Left: few.scan(1), Right: rows.scan(11), On: on}, 3)
		}, 0, []series{few, rows}, few.n * n / expr.BatchSize},
		{"a list with NULLs", func() Op {
			return join(JoinSpec{Kind: NullAnti, Left: few.scan(1), Right: nulls.scan(11)}, 0, 2)
		}, 0, []series{few, rows}, n / mostSteps},
		{"rows that are left out", except, 0, []series{rows, rows}, n / expr.BatchSize},
		{"an offset", func() Op {
			return NewLimit(NewSort(rows.scan(1), []SortKey{{Expr: seriesCol(1, 2)}}), expr.IntConst(n-5), nil)
		}, 0, []series{rows}, n/512 + n/expr.BatchSize},
		{"long texts in order", func() Op { return NewSort(long.scan(1), byText) }, 0, []series{long}, 100},
		{"long texts of a group in order", func() Op {
			return group(long, 3, agg(t, 20, "group_concat", false, byText, seriesCol(1, 2)))
		}, 0, []series{long}, 100},
		{"long rows in a file", func() Op { return NewSort(many.scan(1), seven) }, 4 << 20, []series{many}, 3 * 30},
		{"different long texts", func() Op {
			return NewHashAgg(AggSpec{In: long.scan(1), Aggs: []AggColumn{agg(t, 20, "count", true, nil, seriesCol(1, 1))}})
		}, 0, []series{long}, 20},
		{"a document", func() Op {
			return NewHashAgg(AggSpec{In: rows.scan(1), Aggs: []AggColumn{agg(t, 20, "json_objectagg", false, nil, seriesCol(1, 1), seriesCol(1, 0))}})
		}, 0, []series{rows}, n/10_000 + n/256},
	} {
		whole := &asked{Context: context.Background(), most: 1 << 40}
		if err := drain(t, k.plan(), whole, k.limit); err != nil {
			t.Fatalf("%s: %v", k.name, err)
		}
		reading := &asked{Context: context.Background(), most: 1 << 40}
		for _, in := range k.in {
			if err := drain(t, in.scan(1), reading, 0); err != nil {
				t.Fatal(err)
			}
		}
		if got := whole.n - reading.n; got < k.least {
			t.Errorf("%s: asked %d times more than who only reads, want %d at least", k.name, got, k.least)
		}
		for _, part := range []int{1, 4, 7} {
			stop := &asked{Context: context.Background(), most: whole.n * part / 8}
			if err := drain(t, k.plan(), stop, k.limit); err == nil || stop.n > stop.most+1 {
				t.Errorf("%s, stopped after %d of %d: %v, asked %d times", k.name, stop.most, whole.n, err, stop.n)
			}
		}
	}
}
