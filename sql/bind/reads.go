package bind

import "github.com/pingcap/tidb/pkg/parser/ast"

// ReadColumn is a column that an expression of the statement reads, or ""; what it assigns to does
// not count. It may be one of a table in a subquery.
func ReadColumn(stmt Stmt) string {
	r := &reads{}
	stmt.Accept(r)
	return r.column
}

// OnDuplicate is the table that an INSERT updates where a row is in the way (ON DUPLICATE KEY
// UPDATE); ok is false for other statements. db is "" if the statement names none.
func OnDuplicate(stmt Stmt) (db, table string, ok bool) {
	n, ok := stmt.(*ast.InsertStmt)
	if !ok || len(n.OnDuplicate) == 0 || n.Table == nil {
		return "", "", false
	}
	join := n.Table.TableRefs
	if join == nil {
		return "", "", false
	}
	source, ok := join.Left.(*ast.TableSource)
	if !ok {
		return "", "", false
	}
	t, ok := source.Source.(*ast.TableName)
	if !ok {
		return "", "", false
	}
	return t.Schema.O, t.Name.O, true
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
