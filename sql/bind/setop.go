package bind

import (
	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/expr"
)

var errWidth = fail(1222, "21000", "The used SELECT statements have a different number of columns")

// operatorOf is the operator in front of a part of a set operation.
func operatorOf(n ast.Node) *ast.SetOprType {
	switch n := n.(type) {
	case *ast.SelectStmt:
		return n.AfterSetOperator
	case *ast.SetOprSelectList:
		return n.AfterSetOperator
	}
	return nil
}

// setOperation binds SELECTs that are combined, with INTERSECT before the others.
func (b *binder) setOperation(w *ast.WithClause, list *ast.SetOprSelectList, order *ast.OrderByClause,
	limit *ast.Limit, outer *scope) (*bound, error) {
	ctes := b.ctes
	defer func() { b.ctes = ctes }()
	if err := b.with(w, outer); err != nil {
		return nil, err
	}
	if list.With != w {
		if err := b.with(list.With, outer); err != nil {
			return nil, err
		}
	}
	var parts []*bound
	var ops []ast.SetOprType
	for i, n := range list.Selects {
		r, err := b.query(n, outer)
		if err != nil {
			return nil, err
		}
		op := operatorOf(n)
		if i > 0 && op == nil {
			return nil, unsupported("set operation without operator")
		}
		if i > 0 && (*op == ast.Intersect || *op == ast.IntersectAll) {
			last := len(parts) - 1
			if parts[last], err = b.combine(*op, parts[last], r); err != nil {
				return nil, err
			}
			continue
		}
		if i > 0 {
			ops = append(ops, *op)
		}
		parts = append(parts, r)
	}
	r := parts[0]
	for i, p := range parts[1:] {
		var err error
		if r, err = b.combine(ops[i], r, p); err != nil {
			return nil, err
		}
	}
	return b.ordered(r, order, limit, outer)
}

// combine makes one set operation; its columns have the names of the left side.
func (b *binder) combine(op ast.SetOprType, l, r *bound) (*bound, error) {
	if len(l.cols) != len(r.cols) {
		return nil, errWidth
	}
	s := &algebra.SetOp{}
	switch op {
	case ast.Union, ast.UnionAll:
		s.Kind = algebra.Union
	case ast.Except, ast.ExceptAll:
		s.Kind = algebra.Except
	default:
		s.Kind = algebra.Intersect
	}
	s.All = op == ast.UnionAll || op == ast.ExceptAll || op == ast.IntersectAll
	out := &bound{rel: s, outer: map[expr.ColID]bool{}}
	for id := range l.outer {
		out.outer[id] = true
	}
	for id := range r.outer {
		out.outer[id] = true
	}
	for i := range l.cols {
		t, err := algebra.CommonType(l.cols[i].typ, r.cols[i].typ)
		if err != nil {
			return nil, err
		}
		id := b.newID()
		s.IDs, s.Names, s.Types = append(s.IDs, id), append(s.Names, l.cols[i].name), append(s.Types, t)
		out.cols = append(out.cols, column{id: id, name: l.cols[i].name, typ: t})
	}
	var err error
	if s.L, s.LeftCols, err = b.castTo(l, s.Types); err != nil {
		return nil, err
	}
	if s.R, s.RightCols, err = b.castTo(r, s.Types); err != nil {
		return nil, err
	}
	return out, nil
}

// ordered adds ORDER BY and LIMIT to a set operation; they name its columns only.
func (b *binder) ordered(r *bound, order *ast.OrderByClause, limit *ast.Limit, outer *scope) (*bound, error) {
	q := &query{b: b, outer: r.outer, aliases: map[expr.ColID]bool{}}
	q.scope = &scope{outer: outer, q: q, cols: r.cols}
	if order != nil {
		s := &algebra.Sort{In: r.rel}
		for _, o := range order.Items {
			n, err := q.setOrder(o.Expr, r.cols)
			if err != nil {
				return nil, err
			}
			s.Keys = append(s.Keys, algebra.Order{Expr: n, Desc: o.Desc})
		}
		r.rel = s
	}
	var err error
	r.rel, err = q.limit(r.rel, limit)
	return r, err
}

// setOrder binds a key of ORDER BY after a set operation.
func (q *query) setOrder(n ast.ExprNode, cols []column) (expr.Node, error) {
	if p, ok := n.(*ast.PositionExpr); ok {
		if p.N < 1 || p.N > len(cols) {
			return nil, unknownColumn(positionText(p), "order clause")
		}
		return cols[p.N-1].node(), nil
	}
	x := &exprs{q: q, s: q.scope, clause: "order clause"}
	return x.node(n)
}
