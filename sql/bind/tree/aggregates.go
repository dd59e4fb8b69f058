package tree

import "github.com/pingcap/tidb/pkg/parser/ast"

// Aggregates reports whether a SELECT list has aggregates or window functions, outside of
// subqueries.
func Aggregates(list *ast.FieldList) bool {
	a := &aggregates{}
	for _, f := range list.Fields {
		if f.Expr != nil {
			f.Expr.Accept(a)
		}
	}
	return a.found
}

type aggregates struct{ found bool }

// Enter implements ast.Visitor.
func (a *aggregates) Enter(n ast.Node) (ast.Node, bool) {
	switch n.(type) {
	case *ast.SubqueryExpr:
		return n, true
	case *ast.AggregateFuncExpr, *ast.WindowFuncExpr:
		a.found = true
	}
	return n, a.found
}

// Leave implements ast.Visitor.
func (a *aggregates) Leave(n ast.Node) (ast.Node, bool) { return n, true }
