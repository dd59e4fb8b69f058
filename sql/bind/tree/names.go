package tree

import "github.com/pingcap/tidb/pkg/parser/ast"

// AliasOf is the name of a table reference for messages.
func AliasOf(n ast.ResultSetNode) string {
	if t, ok := n.(*ast.TableSource); ok {
		return t.AsName.O
	}
	return ""
}

// Names are names as they were written.
func Names(in []ast.CIStr) (out []string) {
	for _, n := range in {
		out = append(out, n.O)
	}
	return out
}

// Qualified is a name with those of its table and database, where they are given.
func Qualified(db, table, name string) string {
	s := name
	if table != "" {
		s = table + "." + s
	}
	if db != "" {
		s = db + "." + s
	}
	return s
}
