package tree

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/token"
)

// Returning is an INSERT, REPLACE or DELETE with RETURNING, which the parser does not know.
type Returning struct {
	ast.StmtNode // the statement without it
	// List has what follows it, as the list of a SELECT over the table.
	List *ast.SelectStmt
}

// Accept implements ast.Node. No visitor replaces the two statements.
func (r *Returning) Accept(v ast.Visitor) (ast.Node, bool) {
	if _, ok := r.StmtNode.Accept(v); !ok {
		return r, false
	}
	_, ok := r.List.Accept(v)
	return r, ok
}

// parseReturning parses a statement with RETURNING: what stands before it, and a SELECT of its list
// behind that, so that parameters and names are found where they are in the text. nil: it is none.
func parseReturning(text string, m Mode) ast.StmtNode {
	if !base.ContainsFold(text, "RETURNING") {
		return nil
	}
	depth := 0
	for _, t := range token.Scan(text, token.Mode{ANSIQuotes: m.ANSIQuotes, NoBackslashEscapes: m.NoBackslashEscapes}) {
		switch {
		case t.Is("("):
			depth++
		case t.Is(")"):
			depth--
		case depth == 0 && t.Is("returning"):
			n, err := parse(text[:t.From]+";SELECT "+text[t.To:], m, returning)
			if err == nil {
				return n
			}
		}
	}
	return nil
}

// returning makes one statement of two.
func returning(stmts []ast.StmtNode) (ast.StmtNode, error) {
	if len(stmts) != 2 {
		return nil, ErrSyntax
	}
	list, ok := stmts[1].(*ast.SelectStmt)
	if !ok || !onlyList(list) {
		return nil, ErrSyntax
	}
	var of *ast.TableRefsClause
	switch n := stmts[0].(type) {
	case *Aliased:
		of = n.Table
	case *ast.InsertStmt:
		of = n.Table
	case *ast.DeleteStmt:
		if !n.IsMultiTable {
			of = n.TableRefs
		}
	}
	if of == nil || of.TableRefs == nil || of.TableRefs.Right != nil {
		return nil, ErrSyntax
	}
	src, ok := of.TableRefs.Left.(*ast.TableSource)
	if !ok {
		return nil, ErrSyntax
	}
	name, ok := src.Source.(*ast.TableName)
	if !ok {
		return nil, ErrSyntax
	}
	list.From = &ast.TableRefsClause{TableRefs: &ast.Join{Left: &ast.TableSource{
		Source: &ast.TableName{Schema: name.Schema, Name: name.Name}, AsName: src.AsName,
	}}}
	return &Returning{stmts[0], list}, nil
}

// onlyList reports whether a SELECT has nothing but its list, with * in the first place only.
func onlyList(n *ast.SelectStmt) bool {
	if n.Kind != ast.SelectStmtKindSelect || n.Fields == nil || n.Distinct || n.From != nil || n.Where != nil ||
		n.GroupBy != nil || n.Having != nil || n.WindowSpecs != nil || n.OrderBy != nil || n.Limit != nil ||
		n.LockInfo != nil || n.SelectIntoOpt != nil || n.With != nil || len(n.TableHints) > 0 {
		return false
	}
	if o := n.SelectStmtOpts; o != nil && (o.CalcFoundRows || o.SQLBigResult || o.SQLBufferResult || o.SQLSmallResult ||
		o.StraightJoin || o.ExplicitAll || o.Priority != 0) {
		return false
	}
	for i, f := range n.Fields.Fields {
		if i > 0 && f.WildCard != nil && f.WildCard.Table.O == "" {
			return false
		}
	}
	return true
}

// Grouped reports whether a list has aggregates, or names a window function that it has. Those of
// subqueries do not count.
func Grouped(list ast.StmtNode) (aggregate bool, window string) {
	f := &grouping{}
	list.Accept(f)
	return f.aggregate, f.window
}

type grouping struct {
	aggregate bool
	window    string
}

// Enter implements ast.Visitor.
func (f *grouping) Enter(n ast.Node) (ast.Node, bool) {
	switch n := n.(type) {
	case *ast.SubqueryExpr:
		return n, true
	case *ast.AggregateFuncExpr:
		f.aggregate = true
	case *ast.WindowFuncExpr:
		f.window = strings.ToLower(n.Name)
		return n, true
	}
	return n, false
}

// Leave implements ast.Visitor.
func (f *grouping) Leave(n ast.Node) (ast.Node, bool) { return n, true }
