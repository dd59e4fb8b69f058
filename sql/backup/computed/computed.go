// Package computed computes the virtual columns of rows, which are stored nowhere, where no
// statement of the engine does so.
package computed

import (
	"fmt"
	"sync"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/transform"

	"github.com/godwitdb/godwit/sql/schema"
)

// Indexed reports whether an index of a table has virtual columns.
func Indexed(t *schema.Table) bool {
	for _, x := range t.Indexes {
		for _, c := range x.Cols {
			if x.Desc.Stored() && t.Cols[c.Pos].Desc.Virtual {
				return true
			}
		}
	}
	return false
}

// Of makes what computes the virtual columns of rows of a table. resolve is the table's schema with
// the expressions of these columns; nil: nobody can tell. The result may be called from any
// goroutine.
func Of(ctx *sql.Context, t *schema.Table, resolve func(*sql.Context, *schema.Table) sql.Schema) (func(sql.Row) error, error) {
	if resolve == nil {
		return nil, fmt.Errorf("table %s has virtual columns, which nobody here can compute", t.Desc.Name)
	}
	sch := resolve(ctx, t)
	if len(sch) != len(t.Cols) {
		return nil, fmt.Errorf("the generated columns of table %s are not understood", t.Desc.Name)
	}
	exprs := make([]sql.Expression, len(sch))
	for i, c := range sch {
		if !t.Cols[i].Desc.Virtual || c.Generated == nil {
			continue
		}
		var err error
		if exprs[i], err = placed(ctx, c.Generated, t.Desc); err != nil {
			return nil, err
		}
	}
	var turn sync.Mutex // the engine's context is for one goroutine
	return func(row sql.Row) error {
		turn.Lock()
		defer turn.Unlock()
		for i, e := range exprs {
			if e == nil {
				continue
			}
			v, err := e.Eval(ctx, row)
			if err != nil {
				return err
			}
			row[i] = v
		}
		return nil
	}, nil
}

// placed is an expression whose columns are found at their places in the table's rows.
func placed(ctx *sql.Context, e sql.Expression, d *schema.TableDesc) (sql.Expression, error) {
	out, _, err := transform.Expr(ctx, e, func(_ *sql.Context, e sql.Expression) (sql.Expression, transform.TreeIdentity, error) {
		f, ok := e.(*expression.GetField)
		if !ok {
			return e, transform.SameTree, nil
		}
		at := d.ColByName(f.Name())
		if at < 0 {
			return nil, transform.SameTree, sql.ErrTableColumnNotFound.New(d.Name, f.Name())
		}
		return f.WithIndex(at), transform.NewTree, nil
	})
	return out, err
}
