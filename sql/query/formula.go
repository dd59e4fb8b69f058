package query

import (
	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/access"
	"github.com/godwitdb/godwit/sql/assign"
	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/lookup"
)

// rowset is rows of a table as formulas see them: of each row as it is stored, and of the row that
// it meets (ON DUPLICATE KEY UPDATE).
type rowset struct {
	vals  *access.Values
	need  []int // columns that formulas look at, in the batch
	batch expr.Batch
	width int // of the table
}

// formula is a compiled expression of a definition or of ON DUPLICATE KEY UPDATE.
type formula struct {
	bind.Formula
	expr expr.Expr
	to   *setter // nil: a condition
}

// newRowset is for the columns ids that formulas use. Those of several rows follow each other.
func newRowset(t *access.Table, ids []expr.ColID, formulas ...[]bind.Formula) *rowset {
	r := &rowset{vals: t.NewValues(), width: t.RowColumn()}
	used := map[expr.ColID]bool{}
	for _, fs := range formulas {
		for _, f := range fs {
			if f.Node == nil {
				continue
			}
			expr.Cols(f.Node, func(id expr.ColID) { used[id] = true })
		}
	}
	for i, id := range ids {
		v := &expr.Vec{}
		r.batch.Cols = append(r.batch.Cols, v)
		if used[id] {
			r.need = append(r.need, i)
		}
	}
	return r
}

// compile makes formulas over the columns ids executable.
func (c *change) compile(env *expr.Env, t *target, fs []bind.Formula, ids []expr.ColID,
	strict bool) (out []*formula, err error) {
	session := env
	for _, f := range fs {
		k := &formula{Formula: f}
		if env = session; f.Col >= 0 && t.Table.Rule(f.Col).Generated != "" {
			env = assign.InUTC(env)
		}
		if f.Node == nil {
			if k.to, err = c.setter(env, t, f.Col, expr.TypeNull, strict); err != nil {
				return nil, err
			}
			out = append(out, k)
			continue
		}
		if k.expr, err = lookup.Compile(f.Node, ids, env, c.lookups()); err != nil {
			return nil, left("expression of a definition")
		}
		if f.Col < 0 {
			if kind := k.expr.Type().Kind; kind != expr.Int && kind != expr.Null {
				return nil, left("CHECK of another type")
			}
		} else if k.to, err = c.setter(env, t, f.Col, k.expr.Type(), strict); err != nil {
			return nil, err
		}
		out = append(out, k)
	}
	return out, nil
}

// load takes rows; a row may be several that follow each other.
func (r *rowset) load(rows [][]sql.Row) error {
	n := len(rows)
	r.batch.N, r.batch.Sel = n, expr.All(n)
	for _, at := range r.need {
		r.batch.Cols[at].Reset(r.vals.Type(at%r.width), n)
		for i, row := range rows {
			if err := r.put(at, i, row[at/r.width][at%r.width]); err != nil {
				return err
			}
		}
	}
	return nil
}

// put sets a value of the row i.
func (r *rowset) put(at, i int, v any) error {
	return r.vals.Put(r.batch.Cols[at], i, at%r.width, v)
}

// set computes the values of a column, and stores them in the rows.
func (r *rowset) set(f *formula, rows [][]sql.Row, first int) error {
	var v *expr.Vec
	if f.expr != nil {
		var err error
		if v, err = f.expr.Eval(&r.batch, r.batch.Sel); err != nil {
			return err
		}
	}
	used := false
	for _, at := range r.need {
		used = used || at == f.Col
	}
	for i := range rows {
		var x any
		var err error
		if v == nil {
			x, err = f.to.ByDefault()
		} else {
			x, err = f.to.Value(v, int32(i), first+i)
		}
		if err != nil {
			return err
		}
		rows[i][0][f.Col] = x
		if used {
			if err := r.put(f.Col, i, x); err != nil {
				return err
			}
		}
	}
	return nil
}

// failed calls f with the rows for which a condition is FALSE, or that of a view not TRUE.
func (r *rowset) failed(k *formula, f func(i int)) error {
	v, err := k.expr.Eval(&r.batch, r.batch.Sel)
	if err != nil {
		return err
	}
	for _, i := range r.batch.Sel {
		if violated(v, i, k.View) {
			f(int(i))
		}
	}
	return nil
}

// violated reports whether a condition does not hold; that of a view must be TRUE.
func violated(v *expr.Vec, i int32, view bool) bool {
	if v.T.Kind == expr.Null || v.IsNull(i) {
		return view
	}
	if v.T.Kind == expr.Float {
		return v.F[i] == 0
	}
	return v.I[i] == 0
}
