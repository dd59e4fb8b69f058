package bind

import (
	"slices"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/bind/tree"
	"github.com/godwitdb/godwit/sql/expr"
)

// A user variable that a statement only reads is a constant. One that it also assigns is read row
// by row. Its type is that of all values that the statement may find in it: the value of before,
// and those that it assigns, wherever they stand. So a statement that assigns variables is bound
// again with the types that were found, until they stay the same.

// userVar binds @x.
func (x *exprs) userVar(name string) (expr.Node, error) {
	b := x.q.b
	if b.vars == nil {
		return b.s.UserVar(name)
	}
	t, ok := b.vars.Known[fold(name)]
	if !ok {
		return b.s.UserVar(name)
	}
	return call("@", expr.TextConst(fold(name), b.s.Collation), &expr.Const{T: t})
}

// assign binds @x := value.
func (x *exprs) assign(n *ast.VariableExpr) (expr.Node, error) {
	b, name := x.q.b, fold(n.Name)
	v, err := x.scalar(n.Value)
	if err != nil {
		return nil, err
	}
	if n.IsSystem || b.vars == nil {
		return nil, unsupported("assignment to such a variable")
	}
	b.vars.Find(name, v.Type())
	return call("@:=", expr.TextConst(name, b.s.Collation), v)
}

// inPlace refuses assignments where it is not known in which order rows come to them.
func inPlace(r algebra.Rel) error {
	var err error
	algebra.Walk(r, func(r algebra.Rel) bool {
		if j, ok := r.(*algebra.Join); ok && slices.ContainsFunc(j.On, expr.Ordered) {
			err = unsupported("assignment in a join condition")
		}
		return err == nil
	})
	return err
}

// assigns reports whether an item of the SELECT list is to be computed row by row.
func (q *query) assigns() bool {
	return slices.ContainsFunc(q.items, func(it item) bool { return expr.Ordered(it.node) })
}

// inOrder sorts and cuts the rows before the SELECT list is computed, as MySQL does if nothing else
// stands in the way: variables then count the rows in the order in which the client sees them. ok
// is false if the order depends on the variables.
func (q *query) inOrder(rel algebra.Rel, c *clauses, l *ast.Limit) (_ algebra.Rel, ok bool, err error) {
	keys := slices.Clone(c.order)
	for i, k := range keys {
		n, err := expr.Rewrite(k.Expr, func(n expr.Node) (expr.Node, error) {
			if col, ok := n.(*expr.Col); ok && q.aliases[col.ID] {
				for _, it := range q.items {
					if it.id == col.ID {
						return it.node, nil
					}
				}
			}
			return n, nil
		})
		if err != nil {
			return nil, false, err
		}
		if expr.Ordered(n) {
			return rel, false, nil
		}
		keys[i].Expr = n
	}
	if len(keys) > 0 {
		rel = &algebra.Sort{In: rel, Keys: keys}
	}
	if rel, err = q.limit(rel, l); err != nil {
		return nil, false, err
	}
	return q.project(rel, &clauses{}), true, nil
}

// Assignments makes a SELECT of the values of SET @a = x, @b = y, and tells the names; there are
// none if it is another statement, or sets something else.
var Assignments = tree.Assignments

// CreatedBy is what a CREATE TABLE ... SELECT makes; nil of another statement.
var CreatedBy = tree.CreatedBy

// Created is that.
type Created = tree.Created

// Load is a LOAD DATA.
type Load = tree.Load

// LoadOf is a statement as a LOAD DATA; nil if it is another one.
var LoadOf = tree.LoadOf
