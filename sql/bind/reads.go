package bind

import "github.com/pingcap/tidb/pkg/parser/ast"

// ReadColumn is a column that an expression of the statement reads, or ""; what it assigns to does
// not count. It may be one of a table in a subquery.
func ReadColumn(stmt Stmt) string {
	r := &reads{}
	stmt.Accept(r)
	return r.column
}

type reads struct{ column string }

// Enter implements ast.Visitor.
func (r *reads) Enter(n ast.Node) (ast.Node, bool) {
	if c, ok := n.(*ast.ColumnNameExpr); ok && r.column == "" {
		r.column = c.Name.Name.O
	}
	return n, r.column != ""
}

// Leave implements ast.Visitor.
func (r *reads) Leave(n ast.Node) (ast.Node, bool) { return n, true }
