package access

import (
	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/table"
)

// Table is a table as a statement reads it.
type Table struct {
	s      *Statement
	engine sql.Table
	st     *table.Table // nil: the engine's iterators answer
	cols   []algebra.Column
	idx    []algebra.Index
	byIdx  []*schema.EngineIndex
}

var (
	_ algebra.Table = (*Table)(nil)
	_ exec.Source   = (*Table)(nil)
)

// index lists the indexes that have entries.
func (t *Table) index() {
	for _, x := range t.st.Def.EngineIndexes() {
		i := x.(*schema.EngineIndex)
		if i.Index != nil && !i.Index.Desc.Stored() {
			continue
		}
		a := algebra.Index{Name: i.ID(), Number: len(t.idx), Primary: i.Index == nil, Unique: i.IsUnique()}
		if i.Index != nil {
			a.Number, a.Covers = int(i.Index.Desc.ID), []int{}
		}
		for j, p := range i.Positions {
			a.Cols = append(a.Cols, algebra.IndexCol{Col: p, Prefix: int(i.PrefixLength(j))})
		}
		t.idx, t.byIdx = append(t.idx, a), append(t.byIdx, i)
	}
}

func (t *Table) columns() {
	sch := t.engine.Schema(t.s.ctx)
	if t.st != nil {
		sch = t.st.Full
	}
	for _, c := range sch {
		ty := expr.FromSQL(c.Type)
		ty.NotNull = !c.Nullable
		t.cols = append(t.cols, algebra.Column{Name: c.Name, Type: ty, Invisible: c.Hidden || c.HiddenSystem})
	}
}

// DB implements algebra.Table.
func (t *Table) DB() string {
	if d, ok := t.engine.(sql.Databaseable); ok {
		return d.Database()
	}
	return ""
}

// Name implements algebra.Table.
func (t *Table) Name() string { return t.engine.Name() }

// Columns implements algebra.Table.
func (t *Table) Columns() []algebra.Column { return t.cols }

// Indexes implements algebra.Table.
func (t *Table) Indexes() []algebra.Index { return t.idx }

// Virtual reports whether some columns are not stored but computed: they are NULL in what is read.
func (t *Table) Virtual() bool { return t.st != nil && t.st.Def.Virtual }

// Stored is the table below, nil if the engine's iterators answer.
func (t *Table) Stored() *table.Table { return t.st }

// boxedRows is how many rows a table is taken to have that nobody counts.
const boxedRows = 100

// Rows implements algebra.Table.
func (t *Table) Rows() float64 {
	if t.st == nil {
		return boxedRows
	}
	return float64(t.st.Env.Stats.Rows(t.st.Def))
}

// Distinct implements algebra.Table.
func (t *Table) Distinct(col int) float64 {
	for _, i := range t.idx {
		if i.Unique && len(i.Cols) == 1 && i.Cols[0].Col == col && i.Cols[0].Prefix == 0 {
			return t.Rows()
		}
	}
	return 0
}

// Fraction implements algebra.Table.
func (t *Table) Fraction(int, any, any) (share float64, ok bool) { return 0, false }

// RowBytes implements algebra.Table.
func (t *Table) RowBytes() float64 {
	n := 8.0
	for _, c := range t.cols {
		switch {
		case c.Type.Kind == expr.Text || c.Type.Kind == expr.Bytes:
			n += float64(min(max(c.Type.Length, 8), 64)) / 2
		case c.Type.Kind == expr.JSON || c.Type.Kind == expr.Opaque:
			n += 64
		default:
			n += 5
		}
	}
	return n
}

// Shares implements algebra.Table.
func (t *Table) Shares() []algebra.Share { return nil }
