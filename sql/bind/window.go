package bind

import (
	"cmp"
	"slices"

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

// in reports whether an item of the SELECT list has the value of the function.
func (w *window) in(it item) (found bool) {
	expr.Cols(it.node, func(id expr.ColID) { found = found || id == w.f.ID })
	return found
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
	if err != nil || w.f.Agg == nil {
		return err
	}
	in := w.f.Agg.Children()
	for i := range in {
		one(&in[i])
	}
	if err != nil {
		return err
	}
	a, err := w.f.Agg.With(in)
	if err == nil {
		w.f.Agg = a.(*expr.Agg)
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

// numbers are the functions whose value is a whole number, and those whose value is a share.
var numbers = map[string]expr.Type{
	"row_number": expr.TypeUint, "rank": expr.TypeUint, "dense_rank": expr.TypeUint, "ntile": expr.TypeUint,
	"percent_rank": expr.TypeFloat, "cume_dist": expr.TypeFloat,
}

// window binds a call of a window function.
func (x *exprs) window(n *ast.WindowFuncExpr) (expr.Node, error) {
	name := fold(n.Name)
	switch {
	case x.spec != "":
		return nil, refuse(3595, "HY000", "You cannot nest a window function in the specification of window '%s'.", x.spec)
	case !x.win:
		return nil, refuse(3593, "HY000", "You cannot use the window function '%s' in this context.'", name)
	case n.Distinct:
		return nil, refuse(1235, "42000", noYet, "<window function>(DISTINCT ..)")
	case n.IgnoreNull:
		return nil, refuse(1235, "42000", noYet, "IGNORE NULLS")
	case n.FromLast:
		return nil, refuse(1235, "42000", noYet, "FROM LAST")
	case name == "group_concat":
		return nil, refuse(1235, "42000", noYet, "group_concat as window function")
	}
	s, err := x.q.resolve(&n.Spec, nil)
	if err != nil {
		return nil, err
	}
	w := &window{f: algebra.WinFunc{Name: name, Func: name}}
	if err := x.windowOver(w, s); err != nil {
		return nil, err
	}
	in := &exprs{q: x.q, s: x.s, clause: x.clause, agg: x.agg}
	if err := in.windowCall(w, n); err != nil {
		return nil, err
	}
	if err := x.q.b.interrupted(); err != nil {
		return nil, err
	}
	for _, o := range x.q.wins {
		if sameCall(o, w) {
			w = o
		}
	}
	if w.f.ID == 0 {
		w.f.ID = x.q.b.newID()
		x.q.wins = append(x.q.wins, w)
	}
	return w.f.Agg.Shown(&expr.Col{ID: w.f.ID, Name: name, T: w.f.Type}), nil
}

const noYet = "This version of MySQL doesn't yet support '%s'"

// windowCall binds the function itself.
func (x *exprs) windowCall(w *window, n *ast.WindowFuncExpr) (err error) {
	f := &w.f
	if t, ok := numbers[f.Func]; ok {
		f.Type = t
		f.Type.NotNull = true
		if f.Func != "ntile" {
			return nil
		}
		k, err := x.number(f.Func, n.Args[0], 1)
		f.Args = []expr.Node{k}
		return err
	}
	switch f.Func {
	case "lag", "lead":
		return x.neighbour(f, n.Args)
	case "first_value", "last_value", "nth_value":
		v, err := x.scalar(n.Args[0])
		if err != nil {
			return err
		}
		f.Args, f.Type = []expr.Node{v}, v.Type().AsNull()
		if len(n.Args) == 1 {
			return nil
		}
		k, err := x.number(f.Func, n.Args[1], 1)
		f.Args = append(f.Args, k)
		return err
	}
	return x.windowAggregate(f, n)
}

// number binds a whole number of at least min that is an argument of a window function.
func (x *exprs) number(name string, n ast.ExprNode, least int64) (expr.Node, error) {
	e, err := x.scalar(n)
	if err != nil {
		return nil, err
	}
	k, ok := e.(*expr.Const)
	if !ok || k.V.Kind != expr.Int || k.V.I < least {
		return nil, refuse(1210, "HY000", "Incorrect arguments to %s", name)
	}
	return k, nil
}

// neighbour binds the arguments of LAG and LEAD: a value, how many rows away, a default.
func (x *exprs) neighbour(f *algebra.WinFunc, args []ast.ExprNode) error {
	v, err := x.scalar(args[0])
	if err != nil {
		return err
	}
	var k expr.Node = expr.IntConst(1)
	if len(args) > 1 {
		if k, err = x.number(f.Func, args[1], 0); err != nil {
			return err
		}
	}
	f.Args, f.Type = []expr.Node{v, k}, v.Type().AsNull()
	if len(args) < 3 {
		return nil
	}
	d, err := x.scalar(args[2])
	if err != nil {
		return err
	}
	if f.Type, err = expr.Merge(f.Func, v, d); err != nil {
		return err
	}
	f.Type.NotNull = false
	f.Args = []expr.Node{expr.CastTo(v, f.Type), k, expr.CastTo(d, f.Type)}
	return nil
}

// windowAggregate binds an aggregate over a window.
func (x *exprs) windowAggregate(f *algebra.WinFunc, n *ast.WindowFuncExpr) error {
	fn := x.aggFunc(f.Func)
	if fn == nil {
		return unsupported("window function %s", f.Func)
	}
	args, sep, err := x.aggArgs(&ast.AggregateFuncExpr{F: n.Name, Args: n.Args})
	if err != nil {
		return err
	}
	for i, arg := range args {
		args[i] = algebra.Shown(arg)
	}
	a, err := expr.NewAgg(fn, args, false, nil, sep)
	if err != nil {
		return err
	}
	f.Agg, f.Type = a.(*expr.Agg), a.Type()
	return nil
}

// sameCall reports whether two calls yield the same.
func sameCall(a, b *window) bool {
	if a.f.Func != b.f.Func || !algebra.SameNodes(a.f.Args, b.f.Args) ||
		!algebra.SameNodes(a.partition, b.partition) || !algebra.SameOrders(a.order, b.order) {
		return false
	}
	if a.f.Agg != nil && !expr.Equal(a.f.Agg, b.f.Agg) {
		return false
	}
	x, y := &a.f.Frame, &b.f.Frame
	return x.Rows == y.Rows && algebra.SameBounds(x.Lo, y.Lo) && algebra.SameBounds(x.Hi, y.Hi)
}

// windows adds the operators of window functions, one for each partition and order. Those whose
// order begins like that of another one come behind it, and need no order of their own.
func (q *query) windows(rel algebra.Rel) (algebra.Rel, error) {
	var groups []*algebra.Window
	for _, w := range q.wins {
		if err := q.b.interrupted(); err != nil {
			return nil, err
		}
		i := slices.IndexFunc(groups, func(g *algebra.Window) bool {
			return algebra.SameNodes(g.Partition, w.partition) && algebra.SameOrders(g.Order, w.order)
		})
		if i < 0 {
			i = len(groups)
			groups = append(groups, &algebra.Window{Partition: w.partition, Order: w.order})
		}
		groups[i].Funcs = append(groups[i].Funcs, w.f)
	}
	slices.SortStableFunc(groups, func(a, b *algebra.Window) int {
		return cmp.Compare(len(b.Sorted()), len(a.Sorted()))
	})
	for len(groups) > 0 {
		if err := q.b.interrupted(); err != nil {
			return nil, err
		}
		first := groups[0].Sorted()
		var rest []*algebra.Window
		for _, g := range groups {
			if k := g.Sorted(); !algebra.SameOrders(k, first[:len(k)]) {
				rest = append(rest, g)
				continue
			}
			g.In = rel
			rel = g
		}
		groups = rest
	}
	return rel, nil
}
