package bind

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/bind/tree"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/fn"
)

func last(ns []ast.ExprNode) ast.ExprNode {
	if len(ns) == 0 {
		return nil
	}
	return ns[len(ns)-1]
}

func (x *exprs) function(n *ast.FuncCallExpr) (expr.Node, error) {
	n = tree.Plain(n)
	name := n.FnName.L
	switch name {
	case ast.DateLiteral, ast.TimeLiteral, ast.TimestampLiteral:
		return x.temporal(name, n.Args[0])
	case "convert":
		return x.convertUsing(n)
	}
	if name == "grouping" {
		return x.isGrouping(n.Args)
	}
	if f, err := x.stored(n); f != nil || err != nil {
		return x.storedCall(f, n.Args, err)
	}
	if n.Schema.O != "" || tree.LeftAlone[name] || strings.HasPrefix(name, "st_") {
		return nil, unsupported("function %s", name)
	}
	args, err := x.list(n.Args)
	if err != nil {
		return nil, err
	}
	if value := tree.JSONValues[name]; value != nil {
		for i := range args {
			if !value(i) {
				continue
			}
			if args[i], err = x.truthToJSON(n.Args[i], args[i]); err != nil {
				return nil, err
			}
		}
	}
	if name == "last_insert_id" && len(args) == 0 {
		name = "$last_insert_id"
	}
	if d, ok := last(n.Args).(*ast.TrimDirectionExpr); ok {
		name, args = tree.Trims[d.Direction], args[:len(args)-1]
	}
	f := expr.Lookup(name)
	if f == nil {
		f = expr.Lookup(tree.Renamed[name])
	}
	if f == nil {
		return nil, unsupported("function %s", name)
	}
	return fn.Connected(f, x.q.b.s.Collation, args...)
}

// stored is the stored function that is called; nil: there is none, or a native one.
func (x *exprs) stored(n *ast.FuncCallExpr) (*expr.Func, error) {
	r, ok := x.q.b.s.Catalog.(algebra.Routines)
	name := n.FnName.L
	if !ok || n.Schema.O == "" && (tree.LeftAlone[name] || tree.Renamed[name] != "" || expr.Lookup(name) != nil) {
		return nil, nil
	}
	f, err := r.Function(n.Schema.O, x.q.b.db, n.FnName.O)
	if views := x.q.b.views; err != nil && len(views) > 0 {
		err = refuse(1356, "HY000", "View '%s' references invalid table(s) or column(s) or function(s) or definer/invoker of "+
			"view lack rights to use them", views[0])
	}
	return f, err
}

func (x *exprs) storedCall(f *expr.Func, ns []ast.ExprNode, err error) (expr.Node, error) {
	if err != nil {
		return nil, err
	}
	args, err := x.list(ns)
	if err != nil {
		return nil, err
	}
	return expr.NewCall(f, args...)
}

// temporal binds DATE '...', TIME '...' and TIMESTAMP '...'.
func (x *exprs) temporal(name string, arg ast.ExprNode) (expr.Node, error) {
	l, ok := arg.(*tree.Literal)
	s, text := "", false
	if ok {
		s, text = l.V.(string)
	}
	if !text {
		return nil, unsupported("temporal literal")
	}
	kind := expr.Date
	switch name {
	case ast.TimeLiteral:
		kind = expr.Duration
	case ast.TimestampLiteral:
		kind = expr.Datetime
	}
	return fn.TemporalLiteral(kind, s, x.q.b.s.Collation)
}

func (x *exprs) convertUsing(n *ast.FuncCallExpr) (expr.Node, error) {
	a, err := x.scalar(n.Args[0])
	if err != nil {
		return nil, err
	}
	l, ok := n.Args[1].(*tree.Literal)
	if !ok {
		return nil, unsupported("CONVERT USING")
	}
	coll, ok := x.q.b.s.DefaultCollation(l.GetString())
	if !ok {
		return nil, fail(1115, "42000", "Unknown character set: '%s'", l.GetString())
	}
	t := expr.TextType(0, coll, expr.CoerceImplicit)
	if c := fold(l.GetString()); c != "utf8mb4" && c != "binary" {
		// What the character set does not have becomes a question mark.
		if a, err = call("$in_charset", a, expr.TextConst(c, x.q.b.s.Collation)); err != nil {
			return nil, err
		}
	}
	return expr.NewCast(a, t), nil
}

// aggFunc is the aggregate of a name in this session; nil: there is none.
func (x *exprs) aggFunc(name string) *expr.AggFunc {
	f, p := expr.LookupAgg(name), x.q.b.s.Places
	if f == nil || f.Places == nil || p == nil {
		return f
	}
	return f.Places(*p)
}

// aggregate binds an aggregate. It belongs to the innermost query that has a column of its
// arguments, or to this one if there is none.
func (x *exprs) aggregate(n *ast.AggregateFuncExpr) (expr.Node, error) {
	f := x.aggFunc(aggName(n))
	if f == nil {
		return nil, unsupported("aggregate %s", fold(n.F))
	}
	in := &exprs{q: x.q, s: x.s, clause: x.clause}
	used := x.s.outerUses()
	inAgg := x.q.inAgg
	x.q.inAgg = true
	args, sep, err := in.aggArgs(n)
	x.q.inAgg = inAgg
	if err != nil {
		return nil, err
	}
	var order []expr.SortKey
	if n.Order != nil {
		for _, o := range n.Order.Items {
			k, err := in.aggKey(o.Expr, args)
			if err != nil {
				return nil, err
			}
			order = append(order, expr.SortKey{Expr: k, Desc: o.Desc})
		}
	}
	a, err := expr.NewAgg(f, algebra.Counted(f, args, n.Distinct), n.Distinct, order, sep)
	if err != nil {
		return nil, err
	}
	owner, err := x.ownerOf(a)
	if err != nil {
		return nil, err
	}
	if owner.q != x.q && owner.q.inAgg {
		return nil, fail(1111, "HY000", "Invalid use of group function")
	}
	if owner != x.s && !owner.q.takesAggs {
		owner = x.s // as in MySQL: over the rows here, of which each has the same value
	}
	if owner != x.s {
		x.s.restoreUses(used) // the queries between use the aggregate, not what it is made of
	}
	return x.addAgg(owner, a.(*expr.Agg), n)
}

// aggKey binds a key of the order inside of an aggregate. A position is that of an argument.
func (x *exprs) aggKey(n ast.ExprNode, args []expr.Node) (expr.Node, error) {
	p, ok := n.(*ast.PositionExpr)
	if !ok {
		return x.scalar(n)
	}
	if p.N < 1 || p.N > len(args) {
		return nil, unknownColumn(positionText(p), "order clause")
	}
	return args[p.N-1], nil
}

func aggName(n *ast.AggregateFuncExpr) string { return fold(n.F) }

// aggArgs binds the arguments; COUNT(*) has none, and the separator is none.
func (x *exprs) aggArgs(n *ast.AggregateFuncExpr) (args []expr.Node, sep string, err error) {
	in := n.Args
	sep = ","
	switch fold(n.F) {
	case "count":
		if l, ok := in[0].(*tree.Literal); ok && len(in) == 1 && l.V != nil && !n.Distinct {
			return nil, sep, nil
		}
	case "group_concat":
		if l, ok := in[len(in)-1].(*tree.Literal); ok {
			sep, in = l.GetString(), in[:len(in)-1]
		}
	}
	args, err = x.list(in)
	return args, sep, err
}

// ownerOf is the scope of the query that an aggregate belongs to.
func (x *exprs) ownerOf(a expr.Node) (*scope, error) {
	used := map[expr.ColID]bool{}
	expr.Cols(a, func(id expr.ColID) { used[id] = true })
	if len(used) == 0 {
		return x.s, nil
	}
	for s := x.s; s != nil; s = s.outer {
		for i := range s.cols {
			if used[s.cols[i].id] {
				return s, nil
			}
		}
	}
	return x.s, nil
}

// addAgg gives an aggregate to its query, and is the column that has its value.
func (x *exprs) addAgg(s *scope, a *expr.Agg, n *ast.AggregateFuncExpr) (expr.Node, error) {
	q := s.q
	if s == x.s && !x.agg {
		return nil, fail(1111, "HY000", "Invalid use of group function")
	}
	if q.sealed {
		return nil, unsupported("aggregate behind the grouping")
	}
	if err := q.b.interrupted(); err != nil {
		return nil, err
	}
	for _, o := range q.aggs {
		if expr.Equal(o.Call, a) {
			x.s.uses(o.ID, s)
			return a.Shown(&expr.Col{ID: o.ID, Name: o.Name, T: a.T}), nil
		}
	}
	id := q.b.newID()
	q.aggs = append(q.aggs, algebra.Agg{ID: id, Name: fold(n.F), Call: a})
	x.s.uses(id, s)
	return a.Shown(&expr.Col{ID: id, Name: fold(n.F), T: a.T}), nil
}
