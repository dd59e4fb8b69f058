package exec

import (
	"context"
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/expr"
)

// memTable is a table in memory: an int, a string without case, a decimal, and the row's number.
type memTable struct {
	ids  []expr.ColID
	rows [][]expr.Value
}

var tableTypes = []expr.Type{
	expr.TypeInt,
	expr.TextType(10, sql.Collation_utf8mb4_0900_ai_ci, expr.CoerceImplicit),
	expr.DecimalType(40, 2),
	expr.TypeInt,
}

func randomTable(r *rand.Rand, first expr.ColID, n, keys int) *memTable {
	t := &memTable{}
	for i := range tableTypes {
		t.ids = append(t.ids, first+expr.ColID(i))
	}
	words := []string{"a", "A", "b", "B", "á", "", "long word that takes some memory", "c"}
	for i := range n {
		row := []expr.Value{
			{Kind: expr.Int, I: int64(r.Intn(keys))},
			{Kind: expr.Text, S: words[r.Intn(len(words))]},
			number(fmt.Sprintf("%d.%02d", r.Intn(keys), r.Intn(2)*50)),
			{Kind: expr.Int, I: int64(i)},
		}
		if r.Intn(20) == 0 {
			row[2] = number("12345678901234567890123456.25")
		}
		for k := range 3 {
			if r.Intn(9) == 0 {
				row[k] = expr.Value{}
			}
		}
		t.rows = append(t.rows, row)
	}
	return t
}

func number(s string) expr.Value {
	c, err := expr.NumberConst(s)
	if err != nil {
		panic(err)
	}
	return c.V
}

// Start implements Source.
func (t *memTable) Start(_ *Ctx, r Read) (Rows, error) {
	m := &memRows{t: t, cols: r.Cols}
	for i, row := range t.rows {
		if r.Keys == nil || t.wanted(row, r.Keys) {
			m.rows = append(m.rows, i)
		}
	}
	return m, nil
}

func (t *memTable) wanted(row []expr.Value, keys *expr.Batch) bool {
	for _, i := range keys.Sel {
		all := true
		for k, v := range keys.Cols {
			var one expr.Vec
			one.Reset(v.T, 1)
			one.Put(0, row[k])
			all = all && !one.IsNull(0) && expr.NewComparer(v.T)(v, i, &one, 0) == 0
		}
		if all {
			return true
		}
	}
	return false
}

type memRows struct {
	t    *memTable
	rows []int
	cols []int
}

// Next implements Rows.
func (m *memRows) Next(b *expr.Batch) (bool, error) {
	n := min(expr.BatchSize, len(m.rows))
	if n == 0 {
		return false, nil
	}
	for len(b.Cols) < len(m.cols) {
		b.Cols = append(b.Cols, &expr.Vec{})
	}
	for k, c := range m.cols {
		b.Cols[k].Reset(tableTypes[c], n)
		for i := range n {
			b.Cols[k].Put(i, m.t.rows[m.rows[i]][c])
		}
	}
	m.rows = m.rows[n:]
	b.N, b.Sel = n, expr.All(n)
	return true, nil
}

// Close implements Rows.
func (m *memRows) Close() error { return nil }

func (t *memTable) scan() Op {
	return NewScan(ScanSpec{Source: t, Read: Read{Index: -1, Cols: []int{0, 1, 2, 3}}, Cols: t.ids, Types: tableTypes})
}

func (t *memTable) col(i int) expr.Node { return &expr.Col{ID: t.ids[i], T: tableTypes[i]} }

func mustCall(t testing.TB, name string, args ...expr.Node) expr.Node {
	t.Helper()
	n, err := expr.NewCall(expr.Lookup(name), args...)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func agg(t testing.TB, id expr.ColID, name string, distinct bool, order []SortKey, args ...expr.Node) AggColumn {
	t.Helper()
	n, err := expr.NewAgg(expr.LookupAgg(name), args, distinct, order, ",")
	if err != nil {
		t.Fatal(err)
	}
	return AggColumn{id, n.(*expr.Agg)}
}

// rows runs a plan and gives its rows as text. The plan must leave no memory taken.
func rows(t *testing.T, op Op, limit int64) []string {
	t.Helper()
	mem := NewMem(nil, limit)
	ctx := &Ctx{Context: context.Background(), Mem: mem, Env: &expr.Env{GroupConcatMax: 1 << 20}, TempDir: t.TempDir()}
	var out []string
	for range 2 { // a plan can be opened again
		out = nil
		if err := op.Open(ctx); err != nil {
			t.Fatal(err)
		}
		for {
			b, err := op.Next()
			if err != nil {
				t.Fatalf("%T: %v", op, err)
			}
			if b == nil {
				break
			}
			if len(b.Cols) != len(op.Cols()) || len(op.Cols()) != len(op.Types()) {
				t.Fatalf("%d columns, %d names, %d types", len(b.Cols), len(op.Cols()), len(op.Types()))
			}
			for _, i := range b.Sel {
				var line []string
				for k, c := range b.Cols {
					if c.T.Kind != op.Types()[k].Kind {
						t.Fatalf("column %d is %s, not %s", k, c.T, op.Types()[k])
					}
					line = append(line, c.At(i).Text(c.T))
				}
				out = append(out, strings.Join(line, "|"))
			}
		}
		if err := op.Close(); err != nil {
			t.Fatal(err)
		}
		if mem.Used() != 0 {
			t.Fatalf("%d bytes are still taken after Close", mem.Used())
		}
	}
	return out
}

type variant struct {
	name  string
	batch int
	limit int64
}

var variants = []variant{
	{"plain", 1024, 0}, {"batch of 1", 1, 0}, {"batch of 7", 7, 0},
	{"spilling", 64, 40000}, {"spilling, batch of 1", 1, 30000},
}

// check runs a plan in all variants, and compares with want, or with the first variant if it is
// nil.
func check(t *testing.T, name string, plan func() Op, want []string, ordered, spills bool) []string {
	t.Helper()
	was := expr.BatchSize
	defer func() { expr.BatchSize = was }()
	for _, v := range variants {
		if v.limit > 0 && !spills {
			continue
		}
		expr.BatchSize = v.batch
		got := rows(t, plan(), v.limit)
		if !ordered {
			slices.Sort(got)
		}
		if want == nil {
			want = got
			continue
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s, %s: %d rows, want %d\n%s", name, v.name, len(got), len(want), firstDifference(got, want))
		}
	}
	return want
}

func firstDifference(got, want []string) string {
	for i := range max(len(got), len(want)) {
		g, w := "-", "-"
		if i < len(got) {
			g = got[i]
		}
		if i < len(want) {
			w = want[i]
		}
		if g != w {
			return fmt.Sprintf("row %d: %s\n want: %s", i, g, w)
		}
	}
	return ""
}

// TestJoins compares hash joins, nested loops, look-up joins and apply with a loop over all
// pairs.
func TestJoins(t *testing.T) {
	kinds := map[JoinKind]string{
		Inner: "inner", Left: "left", Semi: "semi", Anti: "anti", NullAnti: "null-aware anti", Mark: "mark",
	}
	for seed := range int64(2) {
		r := rand.New(rand.NewSource(seed))
		l, rt := randomTable(r, 1, 30+r.Intn(40), 6+r.Intn(60)), randomTable(r, 11, 20+r.Intn(100)+int(seed%2)*200, 20+r.Intn(60))
		if seed == 2 {
			rt.rows = nil
		}
		for _, keys := range [][]int{{0}, {1}, {2}, {0, 1}} {
			for _, more := range []bool{false, true} {
				for kind, name := range kinds {
					name := fmt.Sprintf("seed %d, %s join by %v, more %v", seed, name, keys, more)
					s := JoinSpec{Kind: kind, Mark: 99}
					for _, k := range keys {
						s.LeftKeys, s.RightKeys = append(s.LeftKeys, l.col(k)), append(s.RightKeys, rt.col(k))
					}
					if more {
						s.On = []expr.Node{mustCall(t, "<", l.col(3), rt.col(3))}
					}
					want := reference(l, rt, keys, more, kind)
					plan := func() Op {
						s := s
						s.Left, s.Right = l.scan(), rt.scan()
						op, err := NewHashJoin(s)
						if err != nil {
							t.Fatal(err)
						}
						return op
					}
					// Several keys that IN compares need all right rows at hand.
					in := kind == NullAnti || kind == Mark
					check(t, "hash "+name, plan, want, false, !(in && (len(keys) > 1 || more)) && !slices.Equal(keys, []int{1}))
					check(t, "nested "+name, func() Op { return nestedOf(t, s, l, rt) }, want, false, false)
					if kind == Inner {
						s.BuildLeft = true
						check(t, "hash, left side built, "+name, plan, want, false, false)
						s.BuildLeft = false
					}
					if !in && slices.Contains(keys, 0) && keys[0] == 0 {
						look := func(ordered bool) func() Op {
							return func() Op {
								return NewLookupJoin(LookupSpec{
									Kind: kind, Left: l.scan(), Source: rt, Read: Read{Cols: []int{0, 1, 2, 3}}, Cols: rt.ids,
									Types: tableTypes, LeftKeys: s.LeftKeys, RightKeys: s.RightKeys, On: s.On,
									First: 3, Most: 20, Flight: 2, Ordered: ordered,
								})
							}
						}
						check(t, "look-up "+name, look(false), want, false, false)
						check(t, "ordered look-up "+name, look(true), want, false, false)
					}
					check(t, "apply "+name, func() Op { return applyOf(t, s, l, rt) }, want, false, false)
				}
			}
		}
	}
}

func nestedOf(t *testing.T, s JoinSpec, l, rt *memTable) Op {
	s.Left, s.Right = l.scan(), rt.scan()
	if s.Kind == NullAnti || s.Kind == Mark {
		return NewNestedJoin(s)
	}
	for k := range s.LeftKeys {
		s.On = append(slices.Clone(s.On), mustCall(t, "=", s.LeftKeys[k], s.RightKeys[k]))
	}
	s.LeftKeys, s.RightKeys = nil, nil
	return NewNestedJoin(s)
}

// applyOf filters the right side by the columns of the left row.
func applyOf(t *testing.T, s JoinSpec, l, rt *memTable) Op {
	a := ApplySpec{Kind: s.Kind, Left: l.scan(), Outer: l.ids, Mark: s.Mark}
	on := slices.Clone(s.On)
	if s.Kind == NullAnti || s.Kind == Mark {
		a.LeftKeys, a.RightKeys = s.LeftKeys, s.RightKeys
	} else {
		for k := range s.LeftKeys {
			on = append(on, mustCall(t, "=", s.LeftKeys[k], s.RightKeys[k]))
		}
	}
	a.Right = NewFilter(rt.scan(), on)
	return NewApply(a)
}

// reference joins by looking at all pairs.
func reference(l, rt *memTable, keys []int, more bool, kind JoinKind) []string {
	out := []string{}
	for _, x := range l.rows {
		hit, null := false, false
		for _, y := range rt.rows {
			if more && x[3].I >= y[3].I {
				continue
			}
			switch compareKeys(x, y, keys) {
			case 1:
				hit = true
				if kind == Inner || kind == Left {
					out = append(out, show(x)+"|"+show(y))
				}
			case -1:
				null = true
			}
		}
		switch {
		case kind == Left && !hit:
			out = append(out, show(x)+"|NULL|NULL|NULL|NULL")
		case kind == Semi && hit, kind == Anti && !hit, kind == NullAnti && !hit && !null:
			out = append(out, show(x))
		case kind == Mark && hit:
			out = append(out, show(x)+"|1")
		case kind == Mark && null:
			out = append(out, show(x)+"|NULL")
		case kind == Mark:
			out = append(out, show(x)+"|0")
		}
	}
	slices.Sort(out)
	return out
}

func compareKeys(x, y []expr.Value, keys []int) int {
	res := 1
	for _, k := range keys {
		var a, b expr.Vec
		a.Reset(tableTypes[k], 1)
		b.Reset(tableTypes[k], 1)
		a.Put(0, x[k])
		b.Put(0, y[k])
		if a.IsNull(0) || b.IsNull(0) {
			res = -1
		} else if expr.NewComparer(tableTypes[k])(&a, 0, &b, 0) != 0 {
			return 0
		}
	}
	return res
}

func show(row []expr.Value) string {
	var s []string
	for k, v := range row {
		var one expr.Vec
		one.Reset(tableTypes[k], 1)
		one.Put(0, v)
		s = append(s, one.At(0).Text(tableTypes[k]))
	}
	return strings.Join(s, "|")
}

// TestVariants runs aggregation, sorting, DISTINCT and set operations with small batches and with
// little memory.
func TestVariants(t *testing.T) {
	for seed := range int64(2) {
		r := rand.New(rand.NewSource(seed))
		a, b := randomTable(r, 1, 1500, 100+r.Intn(400)), randomTable(r, 11, 800, 60)
		for _, keys := range [][]int{{0}, {1}, {2, 1}, {0, 2}, {}} {
			var ks []Column
			for i, k := range keys {
				ks = append(ks, Column{expr.ColID(50 + i), a.col(k)})
			}
			order := []SortKey{{Expr: a.col(3)}}
			for name, aggs := range map[string][]AggColumn{
				"sums": {
					agg(t, 60, "count", false, nil),
					agg(t, 61, "sum", false, nil, a.col(2)),
					agg(t, 62, "avg", false, nil, a.col(0)),
					agg(t, 63, "min", false, nil, a.col(3)),
					agg(t, 64, "max", false, nil, a.col(2)),
					agg(t, 65, "std", false, nil, mustCall(t, "*", a.col(3), expr.IntConst(1))),
				},
				"lists": {
					agg(t, 60, "group_concat", false, order, a.col(3)),
					agg(t, 61, "count", true, nil, a.col(1)),
					agg(t, 62, "sum", true, nil, a.col(2)),
				},
			} {
				check(t, fmt.Sprintf("seed %d, %s by %v", seed, name, keys), func() Op {
					return NewHashAgg(AggSpec{In: a.scan(), Keys: oneForm(ks), Aggs: aggs})
				}, nil, false, len(keys) > 0 && name == "sums")
			}
		}
		sortKeys := []SortKey{{Expr: a.col(1), Desc: true}, {Expr: a.col(2)}, {Expr: a.col(3)}}
		all := check(t, "sort", func() Op { return NewSort(a.scan(), sortKeys) }, nil, true, true)
		byInt := []SortKey{{Expr: a.col(0), Desc: true}, {Expr: a.col(3)}}
		check(t, "sort by a number", func() Op { return NewSort(a.scan(), byInt) }, nil, true, true)
		check(t, "top", func() Op { return NewTopN(a.scan(), sortKeys, expr.IntConst(17)) }, all[:17], true, false)
		check(t, "limit", func() Op {
			return NewLimit(NewSort(a.scan(), sortKeys), expr.IntConst(5), expr.IntConst(100))
		}, all[5:105], true, true)
		two := func(m *memTable) Op {
			return NewProject(m.scan(), []Column{{70, m.col(0)}, {71, m.col(2)}})
		}
		check(t, "distinct", func() Op { return NewDistinct(two(a)) }, nil, false, true)
		for _, every := range []bool{false, true} {
			check(t, "intersect", func() Op {
				op, err := NewIntersect([]expr.ColID{80, 81}, two(a), two(b), every)
				if err != nil {
					t.Fatal(err)
				}
				return op
			}, nil, false, true)
			check(t, "except", func() Op {
				op, err := NewExcept([]expr.ColID{80, 81}, two(a), two(b), every)
				if err != nil {
					t.Fatal(err)
				}
				return op
			}, nil, false, true)
		}
	}
}

// oneForm keeps strings of a group apart from the one that happens to come first: equal ones by
// collation are shown in one form.
func oneForm(ks []Column) []Column {
	out := slices.Clone(ks)
	for i, k := range out {
		if k.Expr.Type().Kind == expr.Text {
			n, err := expr.NewCall(expr.Lookup("upper"), k.Expr)
			if err != nil {
				panic(err)
			}
			out[i].Expr = mustReplace(n)
		}
	}
	return out
}

func mustReplace(n expr.Node) expr.Node {
	c := n
	for _, p := range [][2]string{{"Á", "A"}} {
		var err error
		from := expr.TextConst(p[0], sql.Collation_utf8mb4_0900_ai_ci)
		to := expr.TextConst(p[1], sql.Collation_utf8mb4_0900_ai_ci)
		if c, err = expr.NewCall(expr.Lookup("replace"), c, from, to); err != nil {
			panic(err)
		}
	}
	return c
}
