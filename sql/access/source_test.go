package access

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/collate"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

// world is a store with one table, written below SQL.
type world struct {
	t    *testing.T
	env  *table.Env
	def  *schema.Table
	rows []sql.Row // in no order
}

// columnsOf are types of the table of a world, and values.
var columnsOf = []struct {
	typ  string
	coll sql.CollationID
	vals []any
}{
	{"int", 0, nil}, // id
	{"int", 0, []any{nil, int32(-1), int32(0), int32(1), int32(2), int32(3)}},
	{"varchar(20)", sql.Collation_utf8mb4_general_ci, []any{nil, "", "a", "A", "b", "Bc", "é"}},
	{"date", 0, []any{nil, day(2024, 1, 1), day(2024, 1, 31), day(1999, 12, 31)}},
	{"int unsigned", 0, nil}, // unique
	{"decimal(10,2)", 0, []any{nil, dec("0"), dec("1.5"), dec("-3.25"), dec("7")}},
}

// texts is the column of texts.
const texts = 2

// newWorld makes the table, with a primary key of one or two columns.
func newWorld(t *testing.T, r *rand.Rand, wide bool, rows int) *world {
	t.Helper()
	ctx := context.Background()
	db := memkv.New(4, "eu", "us")
	w := &world{t: t, env: table.NewEnv(&session.Env{DB: db, Log: slog.New(slog.DiscardHandler), Catalog: schema.NewCatalog(db)})}
	d := &schema.TableDesc{ID: base.MakeTableID(schema.FirstTableSeq+1, 1), DB: "test", Name: "t", Shards: 4, PK: []uint32{1}}
	if wide {
		d.PK = []uint32{4, 1}
	}
	for i, c := range columnsOf {
		d.Cols = append(d.Cols, schema.ColumnDesc{ID: uint32(i + 1), Name: fmt.Sprintf("c%d", i), Type: c.typ,
			Collation: c.coll, Nullable: true})
	}
	index := func(id base.IndexID, class int, unique bool, cols ...uint32) {
		x := schema.IndexDesc{ID: id, Name: fmt.Sprint("k", id), Class: schema.ClassByHome}
		if unique {
			x.Constraint, x.Class = sql.IndexConstraint_Unique, schema.ClassUnique
		}
		for _, c := range cols {
			x.Cols = append(x.Cols, schema.IndexedColumn{Col: c})
		}
		d.Indexes = append(d.Indexes, x)
	}
	index(1, 0, false, 2, 3)
	index(2, 0, true, 5)
	index(3, 0, false, 6, 4)
	d.Indexes[0].Cols[1].Length = 1
	var err error
	if w.def, err = schema.NewTable(d); err != nil {
		t.Fatal(err)
	}
	k := db.Gateway(1).Begin(kv.Options{})
	for id := range rows {
		row := sql.Row{int32(id), nil, nil, nil, uint32(id * 3 % 80), nil}
		if r.IntN(9) == 0 {
			row[4] = nil
		}
		for i, c := range columnsOf {
			if c.vals != nil {
				row[i] = c.vals[r.IntN(len(c.vals))]
			}
		}
		if wide && row[3] == nil {
			row[3] = day(2000, 1, 1)
		}
		w.put(ctx, k, row, base.RegionID(1+r.IntN(2)))
	}
	if _, err := k.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	return w
}

// put writes a row and its entries.
func (w *world) put(ctx context.Context, k kv.Writer, row sql.Row, home base.RegionID) {
	ref, err := w.def.RefOf(ctx, row)
	if err != nil {
		w.t.Fatal(err)
	}
	enc, err := w.def.AppendRow(ctx, nil, row)
	if err != nil {
		w.t.Fatal(err)
	}
	k.Put(w.def.RowKey(ref), enc, home)
	for _, x := range w.def.Indexes {
		key, value, err := w.def.IndexEntry(ctx, x, row, ref, home)
		if err != nil {
			w.t.Fatal(err)
		}
		k.Put(key, value, home)
	}
	w.rows = append(w.rows, row)
}

// statement begins one in a session of its own.
func (w *world) statement() *Statement {
	s := session.New(sql.NewBaseSession(), w.env.Env)
	s.Stmt.Planned = true
	return New(sql.NewContext(context.Background(), sql.WithSession(s)))
}

func (w *world) table(s *Statement) *Table { return s.Table(table.New(w.env, w.def)) }

// values reads everything of a read as rows of values.
func values(t *testing.T, rows exec.Rows, cols int) (out [][]expr.Value) {
	t.Helper()
	var b expr.Batch
	for {
		more, err := rows.Next(&b)
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			return out
		}
		for _, i := range b.Sel {
			row := make([]expr.Value, cols)
			for c := range cols {
				row[c] = b.Cols[c].At(i)
			}
			out = append(out, row)
		}
	}
}

func text(rows [][]expr.Value) (out []string) {
	for _, r := range rows {
		var b strings.Builder
		for _, v := range r {
			if v.D != nil {
				fmt.Fprintf(&b, "%s|", v.D.Text('f'))
				continue
			}
			fmt.Fprintf(&b, "%v|", v)
		}
		out = append(out, b.String())
	}
	return out
}

// plainRows are rows of the engine as a read gives them.
func (w *world) plainRows(rows []sql.Row, cols []int) (out [][]expr.Value) {
	for _, r := range rows {
		var row []expr.Value
		for _, c := range cols {
			row = append(row, plain(w.t, w.def.Cols[c], r[c]))
		}
		out = append(out, row)
	}
	return out
}

// compare orders rows by columns as MySQL does, NULL first.
func (w *world) compare(a, b sql.Row, cols []int, n int) int {
	for _, c := range cols[:n] {
		switch {
		case a[c] == nil && b[c] == nil:
			continue
		case a[c] == nil:
			return -1
		case b[c] == nil:
			return 1
		}
		cmp, err := w.def.Cols[c].Type.Compare(context.Background(), a[c], b[c])
		if err != nil {
			w.t.Fatal(err)
		}
		if cmp != 0 {
			return cmp
		}
	}
	return 0
}

// query is a random read, and what it has to give.
type query struct {
	read exec.Read
	cols []int // of the index
	in   []sql.Row
}

func (w *world) query(r *rand.Rand, t *Table) query {
	q := query{read: exec.Read{Index: r.IntN(len(t.idx)+1) - 1, Ordered: r.IntN(2) == 0, Reverse: r.IntN(4) == 0}}
	for c := range columnsOf {
		if r.IntN(3) > 0 {
			q.read.Cols = append(q.read.Cols, c)
		}
	}
	q.cols = w.def.PK
	if q.read.Index >= 0 {
		q.cols = t.byIdx[q.read.Index].Positions
	}
	q.in = w.rows
	if q.read.Index < 0 || r.IntN(4) == 0 {
		return q
	}
	// A bound on a column of which the index has a prefix would yield more.
	most := len(q.cols)
	for j, c := range t.idx[q.read.Index].Cols {
		if c.Prefix > 0 {
			most = j
		}
	}
	q.in = nil
	var tests []func(sql.Row) bool
	for range 1 + r.IntN(3) {
		lo, hi := w.rows[r.IntN(len(w.rows))], w.rows[r.IntN(len(w.rows))]
		nl, nh := r.IntN(most+1), r.IntN(most+1)
		if r.IntN(3) == 0 {
			hi, nh = lo, nl
		}
		if n := slices.Index(q.cols, texts); n >= 0 && lo[texts] != nil && lo[texts] != "" && r.IntN(2) == 0 {
			begin, _ := utf8.DecodeRuneInString(lo[texts].(string))
			s := exec.Span{Begins: true}
			for _, c := range q.cols[:n] {
				s.Lo = append(s.Lo, plain(w.t, w.def.Cols[c], lo[c]))
			}
			s.Lo = append(s.Lo, expr.Value{Kind: expr.Text, S: string(begin)})
			s.Hi = s.Lo
			q.read.Spans = append(q.read.Spans, s)
			like := collate.Of(w.def.Cols[texts].Collation).NewLike(string(begin)+"%", 0)
			tests = append(tests, func(row sql.Row) bool {
				text, ok := row[texts].(string)
				fits, err := like.Match(text, nil)
				return w.compare(row, lo, q.cols, n) == 0 && ok && fits && err == nil
			})
			continue
		}
		s := exec.Span{LoOpen: r.IntN(3) == 0 && nl > 0, HiOpen: r.IntN(3) == 0 && nh > 0}
		for _, c := range q.cols[:nl] {
			s.Lo = append(s.Lo, plain(w.t, w.def.Cols[c], lo[c]))
		}
		for _, c := range q.cols[:nh] {
			s.Hi = append(s.Hi, plain(w.t, w.def.Cols[c], hi[c]))
		}
		q.read.Spans = append(q.read.Spans, s)
		tests = append(tests, func(row sql.Row) bool {
			a, b := w.compare(row, lo, q.cols, nl), w.compare(row, hi, q.cols, nh)
			return (a > 0 || a == 0 && !s.LoOpen) && (b < 0 || b == 0 && !s.HiOpen)
		})
	}
	for _, row := range w.rows {
		if slices.ContainsFunc(tests, func(in func(sql.Row) bool) bool { return in(row) }) {
			q.in = append(q.in, row)
		}
	}
	return q
}

// TestReadsGiveTheRowsOfTheirSpans: random spans of random indexes, in any order, direction and
// number, under any lock, give the rows that a look at all rows finds.
func TestReadsGiveTheRowsOfTheirSpans(t *testing.T) {
	for seed := range uint64(2) {
		r := rand.New(rand.NewPCG(seed, 5))
		w := newWorld(t, r, seed%2 == 1, 80)
		found := 0
		for range 100 {
			s := w.statement()
			tab := w.table(s)
			q := w.query(r, tab)
			q.read.Lock = exec.Lock(r.IntN(2))
			rows, err := tab.Start(&exec.Ctx{Context: context.Background()}, q.read)
			if err != nil {
				t.Fatal(err)
			}
			got := values(t, rows, len(q.read.Cols))
			want := w.plainRows(q.in, q.read.Cols)
			a, b := text(got), text(want)
			slices.Sort(a)
			slices.Sort(b)
			if !slices.Equal(a, b) {
				t.Fatalf("seed %d: %+v\ngives %d rows %q\nnot %d %q", seed, q.read, len(a), a, len(b), b)
			}
			found += len(a)
			s.Close()
			w.checkOrder(r, q)
		}
		if found < 500 {
			t.Errorf("seed %d: %d rows were read", seed, found)
		}
	}
}

// checkOrder runs a query again, in order and with a limit.
func (w *world) checkOrder(r *rand.Rand, q query) {
	w.t.Helper()
	n := len(q.cols)
	for _, i := range w.table(w.statement()).idx {
		for j, c := range i.Cols {
			if i.Number > 0 && c.Prefix > 0 && slices.Equal(q.cols, []int{1, 2}) {
				n = j
			}
		}
	}
	q.read.Ordered, q.read.Limit = true, int64(1+r.IntN(20))
	q.read.Cols = []int{0, 1, 2, 3, 4, 5}
	s := w.statement()
	defer s.Close()
	rows, err := w.table(s).Start(&exec.Ctx{Context: context.Background()}, q.read)
	if err != nil {
		w.t.Fatal(err)
	}
	got := text(values(w.t, rows, len(q.read.Cols)))
	want := slices.Clone(q.in)
	slices.SortStableFunc(want, func(a, b sql.Row) int {
		c := w.compare(a, b, q.cols, n)
		if q.read.Reverse {
			c = -c
		}
		return c
	})
	want = want[:min(int64(len(want)), q.read.Limit)]
	if len(got) != len(want) {
		w.t.Fatalf("%+v gives %d rows, not %d", q.read, len(got), len(want))
	}
	// Rows that are equal in the index come in any order.
	byText := map[string]sql.Row{}
	for i, x := range text(w.plainRows(q.in, q.read.Cols)) {
		byText[x] = q.in[i]
	}
	for i, x := range got {
		if row, ok := byText[x]; !ok || w.compare(row, want[i], q.cols, n) != 0 {
			w.t.Fatalf("%+v: row %d is %s", q.read, i, x)
		}
	}
}

// TestLookups: keys of an index find their rows, also several rows a key, and none where there is
// none.
func TestLookups(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 5))
	w := newWorld(t, r, false, 80)
	for x, cols := range map[int][]int{0: {0}, 2: {4}, 3: {5, 3}, 1: {1}} {
		s := w.statement()
		tab := w.table(s)
		keys := &expr.Batch{}
		var want []sql.Row
		var rows []sql.Row
		for _, row := range w.rows {
			if r.IntN(3) == 0 && !slices.ContainsFunc(cols, func(c int) bool { return row[c] == nil }) &&
				!slices.ContainsFunc(rows, func(o sql.Row) bool { return w.compare(o, row, cols, len(cols)) == 0 }) {
				rows = append(rows, row)
			}
		}
		for j, c := range cols {
			v := &expr.Vec{}
			v.Reset(tab.cols[c].Type, len(rows))
			for i, row := range rows {
				v.Put(i, plain(t, w.def.Cols[c], row[c]))
			}
			keys.Cols = append(keys.Cols, v)
			_ = j
		}
		keys.N, keys.Sel = len(rows), expr.All(len(rows))
		for _, row := range w.rows {
			if slices.ContainsFunc(rows, func(o sql.Row) bool { return w.compare(o, row, cols, len(cols)) == 0 }) {
				want = append(want, row)
			}
		}
		all := []int{0, 1, 2, 3, 4, 5}
		got, err := tab.Start(&exec.Ctx{Context: context.Background()}, exec.Read{Index: x, Keys: keys, Cols: all})
		if err != nil {
			t.Fatal(err)
		}
		a, b := text(values(t, got, len(all))), text(w.plainRows(want, all))
		slices.Sort(a)
		slices.Sort(b)
		if !slices.Equal(a, b) || len(a) == 0 {
			t.Errorf("index %d: %d keys give %d rows, not %d", x, len(rows), len(a), len(b))
		}
		s.Close()
	}
}

// TestLeavesTogether: reads that are started before the first of them is asked for rows give what
// they give alone, whatever their order and lock.
func TestLeavesTogether(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 6))
		w := newWorld(t, r, seed%2 == 0, []int{80, 1, 2, 5}[seed%4])
		s := w.statement()
		var qs []query
		var rows []exec.Rows
		lock := exec.Lock(r.IntN(2))
		for range 2 + r.IntN(3) {
			tab := w.table(s)
			q := w.query(r, tab)
			if len(qs) > 0 && r.IntN(2) == 0 {
				q = qs[0] // a table joined with itself
			}
			q.read.Lock = lock
			got, err := tab.Start(&exec.Ctx{Context: context.Background()}, q.read)
			if err != nil {
				t.Fatal(err)
			}
			qs, rows = append(qs, q), append(rows, got)
		}
		for _, i := range r.Perm(len(qs)) {
			a, b := text(values(t, rows[i], len(qs[i].read.Cols))), text(w.plainRows(qs[i].in, qs[i].read.Cols))
			slices.Sort(a)
			slices.Sort(b)
			if !slices.Equal(a, b) {
				t.Fatalf("seed %d: %+v gives %d rows, not %d", seed, qs[i].read, len(a), len(b))
			}
		}
		s.Close()
		if len(s.waiting) > 0 {
			t.Fatal("reads are left")
		}
	}
}

// TestIndependentLeavesCostOneTrip: what all leaves of a plan are sure to need is one request of
// the store, at a snapshot and under locks. Rows that entries of an index name are one more for
// each such leaf, unless they are at hand, or the entries have all that is wanted and nothing is
// locked.
func TestIndependentLeavesCostOneTrip(t *testing.T) {
	synctest.Test(t, independentLeaves)
}

func independentLeaves(t *testing.T) {
	w := newWorld(t, rand.New(rand.NewPCG(4, 6)), false, 40)
	store := w.env.DB.(*memkv.DB)
	for _, c := range []struct {
		name    string
		lock    exec.Lock
		indexes []int // of the leaves
		cols    [2]int
		want    int64
	}{
		{"one leaf", exec.LockNone, []int{-1}, [2]int{0, 2}, 1},
		{"a table, joined with itself", exec.LockNone, []int{-1, -1, -1}, [2]int{0, 2}, 1},
		{"an index", exec.LockNone, []int{1}, [2]int{0, 2}, 2},
		{"a table and two indexes", exec.LockNone, []int{-1, 1, 2}, [2]int{0, 2}, 3},
		{"under locks, one leaf", exec.LockShare, []int{-1}, [2]int{0, 2}, 1},
		{"under locks, a table and itself", exec.LockShare, []int{-1, -1}, [2]int{0, 2}, 1},
		{"under locks, two indexes", exec.LockShare, []int{1, 2}, [2]int{0, 2}, 3},
		{"under locks, a table and two indexes", exec.LockShare, []int{1, -1, 2}, [2]int{0, 2}, 1},
		{"entries of an index", exec.LockNone, []int{1}, [2]int{0, 1}, 1},
		{"under locks, entries of an index", exec.LockShare, []int{1}, [2]int{0, 1}, 2},
	} {
		sess := session.New(sql.NewBaseSession(), w.env.Env)
		sess.Stmt.Planned, sess.Stmt.Writes = true, c.lock != exec.LockNone
		s := New(sql.NewContext(context.Background(), sql.WithSession(sess)))
		var rows []exec.Rows
		for _, i := range c.indexes {
			got, err := w.table(s).Start(&exec.Ctx{Context: context.Background()},
				exec.Read{Index: i, Cols: c.cols[:], Lock: c.lock})
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, got)
		}
		w.table(s).Rows() // has the statistics taken
		synctest.Wait()
		before := store.Calls()
		for i, r := range rows {
			if n := len(values(t, r, 2)); n != 40 {
				t.Errorf("%s: leaf %d has %d rows", c.name, i, n)
			}
		}
		if n := store.Calls() - before; n != c.want {
			t.Errorf("%s: %d requests, not %d", c.name, n, c.want)
		}
		s.Close()
	}
}

// TestFitting: long rows make small batches.
func TestFitting(t *testing.T) {
	rows := func(n, each int) (out []kv.Row) {
		for range n {
			out = append(out, kv.Row{Value: make([]byte, each)})
		}
		return out
	}
	for _, k := range []struct{ rows, each, want int }{{1000, 100, 1000}, {1000, batchBytes / 10, 10}, {3, 5 * batchBytes, 1}, {1, 5 * batchBytes, 1}} {
		if got := fitting(rows(k.rows, k.each)); got != k.want {
			t.Errorf("%d rows of %d bytes: a batch of %d, want %d", k.rows, k.each, got, k.want)
		}
	}
}
