package access

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/stats"
	"github.com/godwitdb/godwit/sql/table"
	"github.com/godwitdb/godwit/sql/zone"
)

// Table is a table as a statement reads it.
type Table struct {
	s      *Statement
	engine sql.Table
	st     *table.Table // nil: the table is not stored, and cannot be read here
	cols   []algebra.Column
	idx    []algebra.Index
	byIdx  []*schema.EngineIndex
	// target: the last column of cols is no column of the definition, but the row as it is stored.
	target bool
	// searched are the full-text indexes.
	searched []algebra.Fulltext
	// computed are the virtual columns, by position.
	computed map[int]expr.Node
	// asked: it is known how the statement reads the table.
	asked bool
}

var (
	_ algebra.Target   = (*Table)(nil)
	_ algebra.Searched = (*Table)(nil)
	_ exec.Source      = (*Table)(nil)
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
	for i, c := range sch {
		ty := expr.FromSQL(c.Type)
		ty.NotNull = !c.Nullable
		if ty.Kind == expr.Duration && t.st != nil {
			ty.Scale = t.st.Def.Cols[i].Digits
		}
		t.cols = append(t.cols, algebra.Column{Name: c.Name, Type: ty, Invisible: c.Hidden || c.HiddenSystem})
	}
}

// Fulltext implements algebra.Searched.
func (t *Table) Fulltext() []algebra.Fulltext { return t.searched }

// Search tells of a full-text index of the table.
func (t *Table) Search(f algebra.Fulltext) { t.searched = append(t.searched, f) }

// DB implements algebra.Table.
func (t *Table) DB() string {
	if d, ok := t.engine.(sql.Databaseable); ok {
		return d.Database()
	}
	return ""
}

// Name implements algebra.Table.
func (t *Table) Name() string { return t.engine.Name() }

// rowColumn is the name of the column that has the row as it is stored. No statement can name it.
const rowColumn = "\x00row"

// RowColumn implements algebra.Target.
func (t *Table) RowColumn() int { return len(t.st.Def.Cols) }

// Rule implements algebra.Target.
func (t *Table) Rule(col int) algebra.Rule {
	d := t.st.Def.Cols[col].Desc
	text := func(e *schema.ExprDesc) string {
		if e == nil {
			return ""
		}
		return e.Text
	}
	byDefault := text(d.Default)
	if t.cols[col].Type.Kind == expr.Timestamp {
		byDefault = zone.Fixed(byDefault)
	}
	return algebra.Rule{Default: byDefault, Generated: text(d.Generated), OnUpdate: text(d.OnUpdate), AutoInc: d.AutoInc}
}

// Checks implements algebra.Target.
func (t *Table) Checks() (out []algebra.Check) {
	for _, c := range t.st.Def.Desc.Checks {
		if c.Enforced {
			out = append(out, algebra.Check{Name: c.Name, Text: c.CheckExpression})
		}
	}
	return out
}

// Columns implements algebra.Table.
func (t *Table) Columns() []algebra.Column { return t.cols }

// Indexes implements algebra.Table.
func (t *Table) Indexes() []algebra.Index { return t.idx }

// Virtual reports whether some columns are not stored but computed: they are NULL in what is read.
func (t *Table) Virtual() bool { return t.st != nil && t.st.Def.Virtual }

// Reading is the table for those who only read it: none of its rows is changed.
func (t *Table) Reading() algebra.Table { return reading{t, t} }

type reading struct {
	algebra.Table
	exec.Source
}

// Stored is the table below; nil if the table is not stored.
func (t *Table) Stored() *table.Table { return t.st }

// boxedRows is the estimate of rows for a table that is not stored.
const boxedRows = 100

// Rows implements algebra.Table.
func (t *Table) Rows() float64 {
	if t.st == nil {
		return boxedRows
	}
	st := t.st
	if of := st.Def.HomesOf; of != nil {
		st = table.New(st.Env, of)
	}
	n, _, _ := st.RowCount(t.s.ctx)
	return float64(n)
}

// sample are the estimates of the table's columns; nil: not known.
func (t *Table) sample() *stats.Table {
	if t.st == nil || t.st.Def.HomesOf != nil {
		return nil
	}
	st, _ := t.st.Env.Stats.Sample(t.st.Def)
	if st == nil || len(st.Columns) != len(t.st.Def.Cols) {
		return nil // columns have come or gone since
	}
	return st
}

// Distinct implements algebra.Table.
func (t *Table) Distinct(col int) float64 {
	if t.target && col == t.RowColumn() {
		return t.Rows()
	}
	for _, i := range t.idx {
		if i.Unique && len(i.Cols) == 1 && i.Cols[0].Col == col && i.Cols[0].Prefix == 0 {
			return t.Rows()
		}
	}
	if st := t.sample(); st != nil {
		return st.Columns[col].Distinct
	}
	return 0
}

// Fraction implements algebra.Table. The bounds are values of package expr.
func (t *Table) Fraction(col int, lo, hi any) (share float64, ok bool) {
	st := t.sample()
	if st == nil || st.Rows == 0 || col >= len(st.Columns) {
		return 0, false
	}
	a, okA := t.key(col, lo)
	b, okB := t.key(col, hi)
	if !okA || !okB {
		return 0, false
	}
	return st.Columns[col].Between(a, b), true
}

// key is a bound as the estimates have values; nil is none.
func (t *Table) key(col int, x any) (key []byte, ok bool) {
	if x == nil {
		return nil, true
	}
	v, ok := x.(expr.Value)
	if !ok || v.IsNull() {
		return nil, false
	}
	c := t.st.Def.Cols[col]
	conv, _, in := c.Fit(t.s.ctx, keyer{}.engineValue(c, v))
	if in != sql.InRange || conv == nil {
		return nil, false
	}
	key, err := c.AppendKey(t.s.ctx, nil, conv, 0)
	return key, err == nil
}

// RowBytes implements algebra.Table.
func (t *Table) RowBytes() float64 {
	if st := t.sample(); st != nil && st.RowBytes > 0 {
		return st.RowBytes
	}
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
func (t *Table) Shares() (out []algebra.Share) {
	st := t.sample()
	if st == nil {
		return nil
	}
	_, keys := t.st.Env.Stats.Sample(t.st.Def)
	topo, here := t.st.Env.DB.Topology(), t.st.Env.DB.Region()
	for home, part := range st.Homes {
		s := algebra.Share{Region: topo.RegionName(home), Part: part}
		if reads := t.st.Env.Reads; reads != nil && home != here && home != 0 && keys[home] != nil {
			_, _, rtt := reads.Plan(keys[home])
			s.RTT = float64(rtt.Microseconds())
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b algebra.Share) int { return strings.Compare(a.Region, b.Region) })
	return out
}
