package system

import (
	"errors"
	"io"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/expr"
)

// Table is a table that is not stored, as one statement reads it.
type Table struct {
	ctx      *sql.Context
	cat      sql.Catalog
	of       sql.Table
	db, name string
	cols     []algebra.Column
	types    []sql.Type
	idx      []algebra.Index
	// part is how the statement may ask for a part of the table; nil: it is read as a whole.
	part *names

	mem  *exec.Mem // of the rows that are kept
	size int64
	all  *rowset            // all rows; nil: they were not read
	some map[string]*rowset // parts that were read, by what was asked for
}

var (
	_ algebra.Table = (*Table)(nil)
	_ exec.Source   = (*Table)(nil)
	_ exec.Skipper  = (*rows)(nil)
)

// rowset are rows that were read.
type rowset struct{ rows []sql.Row }

// New is a table of the catalog in a statement. ok is false if it has a column of a type that our
// own engine does not know, or is one that go-mysql-server gives its own routines when it plans.
// Close ends it.
func New(ctx *sql.Context, cat sql.Catalog, db string, of sql.Table) (t *Table, ok bool) {
	if _, planned := of.(analyzer.RoutineTable); planned {
		return nil, false
	}
	t = &Table{ctx: ctx, cat: cat, of: of, db: db, name: of.Name(), some: map[string]*rowset{}}
	// The engine's tables say that columns are NOT NULL which are NULL in their rows.
	loose := strings.EqualFold(db, sql.InformationSchemaDatabaseName) || strings.EqualFold(db, "mysql")
	for _, c := range of.Schema(ctx) {
		typ := compared(db, c)
		ty := expr.FromSQL(typ)
		if ty.Kind == expr.Opaque {
			return nil, false
		}
		ty.NotNull = !c.Nullable && !loose
		t.cols = append(t.cols, algebra.Column{Name: c.Name, Type: ty, Invisible: c.Hidden || c.HiddenSystem})
		t.types = append(t.types, typ)
	}
	t.narrows()
	return t, true
}

// compared is the type of a column with the collation that it has in MySQL: in performance_schema
// and sys, texts but for names of users are compared without regard to case.
func compared(db string, c *sql.Column) sql.Type {
	st, ok := c.Type.(sql.StringType)
	if !ok || !strings.EqualFold(db, "performance_schema") && !strings.EqualFold(db, "sys") || strings.EqualFold(c.Name, "user") ||
		st.Collation() != sql.Collation_Default {
		return c.Type
	}
	if x, ok := c.Type.(sql.TypeWithCollation); ok {
		if typ, err := x.WithNewCollation(sql.Collation_utf8mb4_0900_ai_ci); err == nil {
			return typ
		}
	}
	return c.Type
}

// DB implements algebra.Table.
func (t *Table) DB() string { return t.db }

// Name implements algebra.Table.
func (t *Table) Name() string { return t.name }

// Columns implements algebra.Table.
func (t *Table) Columns() []algebra.Column { return t.cols }

// Indexes implements algebra.Table.
func (t *Table) Indexes() []algebra.Index { return t.idx }

// usualRows is the estimate of rows.
const usualRows = 1000

// Rows implements algebra.Table.
func (t *Table) Rows() float64 { return usualRows }

// Distinct implements algebra.Table.
func (t *Table) Distinct(int) float64 { return 0 }

// Fraction implements algebra.Table.
func (t *Table) Fraction(int, any, any) (float64, bool) { return 0, false }

// RowBytes implements algebra.Table.
func (t *Table) RowBytes() float64 { return 32 * float64(len(t.cols)) }

// Shares implements algebra.Table.
func (t *Table) Shares() []algebra.Share { return nil }

// Start implements exec.Source.
func (t *Table) Start(ctx *exec.Ctx, r exec.Read) (exec.Rows, error) {
	return &rows{t: t, ctx: ctx, wants: t.asked(r), cols: r.Cols}, nil
}

// Close forgets the rows.
func (t *Table) Close() {
	t.mem.Shrink(t.size)
	t.size, t.all, t.some = 0, nil, map[string]*rowset{}
}

// rows are those of one scan.
type rows struct {
	t     *Table
	ctx   *exec.Ctx
	wants *wanted // nil: all
	cols  []int
	set   *rowset // nil: no row was wanted yet
	at    int
	put   []putter
}

// Next implements exec.Rows.
func (r *rows) Next(b *expr.Batch) (bool, error) {
	if r.set == nil {
		var err error
		if r.set, err = r.t.read(r.ctx, r.wants); err != nil {
			return false, err
		}
		for _, c := range r.cols {
			r.put = append(r.put, putter{ctx: r.t.ctx, from: r.t.types[c], to: r.t.cols[c].Type})
		}
	}
	n := min(expr.BatchSize, len(r.set.rows)-r.at)
	if n <= 0 {
		return false, nil
	}
	for len(b.Cols) < len(r.cols) {
		b.Cols = append(b.Cols, &expr.Vec{})
	}
	for k, c := range r.cols {
		v := b.Cols[k]
		v.Reset(r.t.cols[c].Type, n)
		for i, row := range r.set.rows[r.at : r.at+n] {
			if c >= len(row) { // some tables of the engine leave the last columns out
				v.SetNull(i)
				continue
			}
			if err := r.put[k].put(v, i, row[c]); err != nil {
				return false, err
			}
		}
	}
	r.at += n
	b.N = n
	b.Sel = b.Sel[:0]
	for i := range n {
		b.Sel = append(b.Sel, int32(i))
	}
	return true, nil
}

// Lock implements exec.Skipper: nobody locks rows that are not stored.
func (r *rows) Lock(sel []int32, want int) ([]int32, error) {
	if want > 0 {
		sel = sel[:min(want, len(sel))]
	}
	return sel, nil
}

// Close implements exec.Rows. The statement may read the rows again: see [Table.Close].
func (r *rows) Close() error { return nil }

// read reads the rows that are wanted, unless they are kept.
func (t *Table) read(ctx *exec.Ctx, w *wanted) (*rowset, error) {
	if t.all != nil {
		return t.all, nil
	}
	if kept := t.some[w.key()]; kept != nil {
		return kept, nil
	}
	set := &rowset{}
	err := t.each(w, func(it sql.RowIter) error { return t.keep(ctx, set, it) })
	if err != nil {
		return nil, err
	}
	if w == nil {
		t.all = set
	} else {
		t.some[w.key()] = set
	}
	return set, nil
}

// paces is after how many rows a read asks whether the statement goes on.
const paces = 256

// keep reads rows to their end.
func (t *Table) keep(ctx *exec.Ctx, set *rowset, it sql.RowIter) (err error) {
	defer func() {
		if e := it.Close(t.ctx); err == nil {
			err = e
		}
	}()
	t.mem = ctx.Mem
	for {
		row, err := it.Next(t.ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(row) == 0 {
			continue // the engine's help tables have such a row in place of none
		}
		n := bytesOf(row)
		if err := t.mem.Grow(n); err != nil {
			return err
		}
		t.size += n
		if set.rows = append(set.rows, row); len(set.rows)%paces == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
	}
}

// bytesOf is about what a row takes.
func bytesOf(row sql.Row) int64 {
	n := 24 + 24*int64(len(row))
	for _, v := range row {
		switch v := v.(type) {
		case string:
			n += int64(len(v))
		case []byte:
			n += int64(len(v))
		}
	}
	return n
}

// whole reads a table as the engine does.
func whole(ctx *sql.Context, t sql.Table, do func(sql.RowIter) error) error {
	parts, err := t.Partitions(ctx)
	if err != nil {
		return err
	}
	defer parts.Close(ctx)
	for {
		p, err := parts.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		it, err := t.PartitionRows(ctx, p)
		if err == nil {
			err = do(it)
		}
		if err != nil {
			return err
		}
	}
}
