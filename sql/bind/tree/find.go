package tree

import "github.com/pingcap/tidb/pkg/parser/ast"

// Mentions reports whether a query names a table.
func Mentions(n ast.Node, name string) bool {
	f := &finder{name: name}
	n.Accept(f)
	return f.found
}

type finder struct {
	name  string
	found bool
}

// Enter implements ast.Visitor.
func (f *finder) Enter(n ast.Node) (ast.Node, bool) {
	if t, ok := n.(*ast.TableName); ok && t.Schema.L == "" && t.Name.L == f.name {
		f.found = true
	}
	return n, f.found
}

// Leave implements ast.Visitor.
func (f *finder) Leave(n ast.Node) (ast.Node, bool) { return n, true }

// FirstOf is the first SELECT of a statement, and the LIMIT of all of it.
func FirstOf(n ast.Node) (*ast.SelectStmt, *ast.Limit) {
	switch n := n.(type) {
	case *ast.SelectStmt:
		return n, n.Limit
	case *ast.SetOprStmt:
		if len(n.SelectList.Selects) > 0 {
			first, _ := FirstOf(n.SelectList.Selects[0])
			return first, n.Limit
		}
	case *ast.SetOprSelectList:
		if len(n.Selects) > 0 {
			first, _ := FirstOf(n.Selects[0])
			return first, n.Limit
		}
	}
	return nil, nil
}

// FirstTable is the name of the first table of FROM, for messages.
func FirstTable(n *ast.Join) string {
	for {
		switch l := n.Left.(type) {
		case *ast.Join:
			n = l
			continue
		case *ast.TableSource:
			if t, ok := l.Source.(*ast.TableName); ok && l.AsName.O == "" {
				return t.Name.O
			}
			return l.AsName.O
		}
		return ""
	}
}

// BareNames reports whether columns are named without their table, but for those of VALUES().
func BareNames(n ast.Node) bool {
	f := &bareNames{}
	n.Accept(f)
	return f.found
}

type bareNames struct{ found bool }

// Enter implements ast.Visitor.
func (f *bareNames) Enter(n ast.Node) (ast.Node, bool) {
	switch n := n.(type) {
	case *ast.ValuesExpr:
		return n, true
	case *ast.ColumnNameExpr:
		f.found = f.found || n.Name.Table.O == ""
	}
	return n, f.found
}

// Leave implements ast.Visitor.
func (f *bareNames) Leave(n ast.Node) (ast.Node, bool) { return n, true }
