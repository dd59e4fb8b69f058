package bind

import (
	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/expr"
)

// window is a window function of a query.
type window struct {
	partition []expr.Node
	order     []algebra.Order
	f         algebra.WinFunc
}

// mapNodes replaces all expressions of a window function.
func (w *window) mapNodes(f func(expr.Node) (expr.Node, error)) (err error) {
	one := func(n *expr.Node) {
		if err == nil && *n != nil {
			*n, err = f(*n)
		}
	}
	for i := range w.partition {
		one(&w.partition[i])
	}
	for i := range w.order {
		one(&w.order[i].Expr)
	}
	for i := range w.f.Args {
		one(&w.f.Args[i])
	}
	return err
}

// winsIn are the window functions that an expression uses.
func (q *query) winsIn(n expr.Node) (out []expr.ColID) {
	expr.Cols(n, func(id expr.ColID) {
		for _, w := range q.wins {
			if w.f.ID == id {
				out = append(out, id)
			}
		}
	})
	return out
}

// window binds a call of a window function.
func (x *exprs) window(n *ast.WindowFuncExpr) (expr.Node, error) {
	name := fold(n.Name)
	if !x.win {
		return nil, fail(3593, "HY000", "You cannot use the window function '%s' in this context.'", name)
	}
	return nil, unsupported("window function")
}

// windows adds the operators of window functions, one for each partition and order.
func (q *query) windows(rel algebra.Rel) (algebra.Rel, error) {
	var groups []*algebra.Window
	for _, w := range q.wins {
		var g *algebra.Window
		for _, o := range groups {
			if sameWindow(o, w) {
				g = o
			}
		}
		if g == nil {
			g = &algebra.Window{Partition: w.partition, Order: w.order}
			groups = append(groups, g)
		}
		g.Funcs = append(g.Funcs, w.f)
	}
	for _, g := range groups {
		g.In = rel
		rel = g
	}
	return rel, nil
}

func sameWindow(a *algebra.Window, b *window) bool {
	if len(a.Partition) != len(b.partition) || len(a.Order) != len(b.order) {
		return false
	}
	for i := range a.Partition {
		if !expr.Equal(a.Partition[i], b.partition[i]) {
			return false
		}
	}
	for i := range a.Order {
		if a.Order[i].Desc != b.order[i].Desc || !expr.Equal(a.Order[i].Expr, b.order[i].Expr) {
			return false
		}
	}
	return true
}
