package tree

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/opcode"
)

// Access is what a statement does with tables, as far as its text tells. It says nothing of views
// and triggers.
type Access struct {
	// Verb is select, insert, update or delete. REPLACE is an insert that Looks.
	Verb string
	// Looks: it locks or changes rows that are there. A plain INSERT does not.
	Looks bool
	// Past: it reads rows as they were.
	Past   bool
	Tables []TableAccess
}

// TableAccess is one table of a statement.
type TableAccess struct {
	DB, Name string // as they are written; DB may be empty
	Changed  bool
	// Equal are columns of which the conditions of the whole statement demand a value or one of
	// several. Only statements on one table have them.
	Equal []string
}

// fillers make a statement of a digest text: what stands for lists becomes a list of one.
var fillers = strings.NewReplacer("(...)", "(?)", "?, ...", "?")

// AccessOf is what a statement does, by its text or that of its digest; false if it is none on
// tables, or not one that the parser knows.
func AccessOf(text string) (Access, bool) {
	stmt, err := Parse(fillers.Replace(text), Mode{IgnoreSpace: true})
	if err != nil {
		return Access{}, false
	}
	f := &accessFinder{changed: map[*ast.TableName]bool{}, seen: map[[2]string]int{}}
	if !f.begin(stmt) {
		return Access{}, false
	}
	stmt.Accept(f)
	if len(f.out.Tables) == 1 {
		f.out.Tables[0].Equal = equalities(f.where)
	}
	return f.out, len(f.out.Tables) > 0
}

// accessFinder gathers the tables of a statement.
type accessFinder struct {
	out     Access
	where   ast.ExprNode
	changed map[*ast.TableName]bool
	seen    map[[2]string]int
	ctes    map[string]bool
}

// begin notes the kind of the statement, and which tables it changes.
func (f *accessFinder) begin(stmt ast.StmtNode) bool {
	if r, ok := stmt.(*Returning); ok {
		stmt = r.StmtNode
	}
	if a, ok := stmt.(*Aliased); ok {
		stmt = a.InsertStmt
	}
	switch n := stmt.(type) {
	case *ast.SelectStmt:
		f.out.Verb, f.where = "select", n.Where
		f.out.Looks = n.LockInfo != nil && n.LockInfo.LockType != ast.SelectLockNone
		f.names(n.With)
	case *ast.SetOprStmt:
		f.out.Verb = "select"
		f.names(n.With)
	case *ast.InsertStmt:
		f.out.Verb, f.out.Looks = "insert", n.IsReplace || len(n.OnDuplicate) > 0
		f.change(n.Table)
	case *ast.UpdateStmt:
		f.out.Verb, f.out.Looks, f.where = "update", true, n.Where
		f.change(n.TableRefs)
		f.names(n.With)
	case *ast.DeleteStmt:
		f.out.Verb, f.out.Looks, f.where = "delete", true, n.Where
		f.change(n.TableRefs)
		f.names(n.With)
	default:
		return false
	}
	return true
}

// names are those of common table expressions, which are no tables.
func (f *accessFinder) names(with *ast.WithClause) {
	f.ctes = map[string]bool{}
	if with != nil {
		for _, c := range with.CTEs {
			f.ctes[c.Name.L] = true
		}
	}
}

// change notes that a statement changes what it names first.
func (f *accessFinder) change(refs *ast.TableRefsClause) {
	if refs == nil || refs.TableRefs == nil {
		return
	}
	var left ast.ResultSetNode = refs.TableRefs
	for {
		j, ok := left.(*ast.Join)
		if !ok {
			break
		}
		left = j.Left
	}
	if s, ok := left.(*ast.TableSource); ok {
		if t, ok := s.Source.(*ast.TableName); ok {
			f.changed[t] = true
		}
	}
}

// Enter implements ast.Visitor.
func (f *accessFinder) Enter(n ast.Node) (ast.Node, bool) {
	t, ok := n.(*ast.TableName)
	if !ok || t.Schema.L == "" && f.ctes[t.Name.L] {
		return n, false
	}
	f.out.Past = f.out.Past || t.AsOf != nil
	key := [2]string{t.Schema.L, t.Name.L}
	at, again := f.seen[key]
	if !again {
		at = len(f.out.Tables)
		f.seen[key] = at
		f.out.Tables = append(f.out.Tables, TableAccess{DB: t.Schema.O, Name: t.Name.O})
	}
	f.out.Tables[at].Changed = f.out.Tables[at].Changed || f.changed[t]
	return n, false
}

// Leave implements ast.Visitor.
func (f *accessFinder) Leave(n ast.Node) (ast.Node, bool) { return n, true }

// equalities are the columns of which a condition demands constants.
func equalities(e ast.ExprNode) (out []string) {
	switch n := e.(type) {
	case *ast.ParenthesesExpr:
		return equalities(n.Expr)
	case *ast.BinaryOperationExpr:
		switch n.Op {
		case opcode.LogicAnd:
			return append(equalities(n.L), equalities(n.R)...)
		case opcode.EQ:
			if c, ok := n.L.(*ast.ColumnNameExpr); ok && given(n.R) {
				return []string{c.Name.Name.L}
			}
			if c, ok := n.R.(*ast.ColumnNameExpr); ok && given(n.L) {
				return []string{c.Name.Name.L}
			}
		}
	case *ast.PatternInExpr:
		if c, ok := n.Expr.(*ast.ColumnNameExpr); ok && !n.Not && n.Sel == nil {
			for _, v := range n.List {
				if !given(v) {
					return nil
				}
			}
			return []string{c.Name.Name.L}
		}
	}
	return nil
}

// given reports whether an expression is a literal or a parameter.
func given(e ast.ExprNode) bool {
	_, ok := e.(ast.ValueExpr)
	return ok
}
