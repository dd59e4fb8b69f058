package tree

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
)

// Load is a LOAD DATA.
type Load struct {
	Path string
	// Client: the file is the client's. Other: it has options that only few know.
	Client, Other bool
	// Charset is that of the file; empty: the statement says none.
	Charset string
	// DB and Table are where the rows go; DB may be empty.
	DB, Table string
	// Replace: rows take the place of those in their way, which otherwise stay.
	Replace bool
	// Exact: what is wrong with a row ends the statement, and so does one in its way.
	Exact bool
	// Skip is how many lines are left out.
	Skip uint64
	// FieldEnd, Enclosed, Escape, LineEnd and LineStart are what the statement says of the file;
	// nil: nothing.
	FieldEnd, Enclosed, Escape, LineEnd, LineStart *string
	// Vars are user variables that fields go to, in lower case, by field; empty: the field goes to
	// a column. Nil: the statement lists no fields.
	Vars []string
	stmt *ast.LoadDataStmt
}

// LoadOf is a statement as a LOAD DATA; nil if it is another one.
func LoadOf(stmt ast.StmtNode) *Load {
	n, ok := stmt.(*ast.LoadDataStmt)
	if !ok {
		return nil
	}
	l := &Load{Path: n.Path, Client: n.FileLocRef == ast.FileLocClient, DB: n.Table.Schema.O, Table: n.Table.Name.O,
		Replace: n.OnDuplicate == ast.OnDuplicateKeyHandlingReplace, stmt: n}
	l.Other = n.Format != nil || len(n.Options) > 0 || len(n.Table.PartitionNames) > 0
	if n.Charset != nil {
		l.Charset = strings.ToLower(*n.Charset)
	}
	if n.IgnoreLines != nil {
		l.Skip = *n.IgnoreLines
	}
	if f := n.FieldsInfo; f != nil {
		l.Other = l.Other || f.DefinedNullBy != nil
		l.FieldEnd, l.Enclosed, l.Escape = f.Terminated, f.Enclosed, f.Escaped
	}
	if f := n.LinesInfo; f != nil {
		l.LineEnd, l.LineStart = f.Terminated, f.Starting
	}
	for _, x := range n.ColumnsAndUserVars {
		name := ""
		if x.UserVar != nil {
			name = strings.ToLower(x.UserVar.Name)
		}
		l.Vars = append(l.Vars, name)
	}
	return l
}

// Insert is the statement as an INSERT [IGNORE] or REPLACE ... SELECT from a table, file, in a
// database of the same name, whose columns are the fields: field has their names. all are the
// columns of the table, for a statement that lists no fields. ok is false if it assigns to
// variables.
func (l *Load) Insert(file string, field func(int) string, all []string) (stmt ast.StmtNode, ok bool) {
	n := l.stmt
	out := &ast.InsertStmt{IsReplace: l.Replace, IgnoreErr: !l.Replace && !l.Exact, Table: fromTable(l.DB, l.Table)}
	if out.Columns = append(out.Columns, n.Columns...); l.Vars == nil {
		for _, name := range all {
			out.Columns = append(out.Columns, &ast.ColumnName{Name: ast.NewCIStr(name)})
		}
	}
	v := &loaded{vars: l.Vars, column: func(i int) ast.ExprNode {
		return &ast.ColumnNameExpr{Name: &ast.ColumnName{Table: ast.NewCIStr(file), Name: ast.NewCIStr(field(i))}}
	}}
	sel := &ast.SelectStmt{SelectStmtOpts: &ast.SelectStmtOpts{SQLCache: true}, Fields: &ast.FieldList{}, From: fromTable(file, file)}
	add := func(e ast.ExprNode) { sel.Fields.Fields = append(sel.Fields.Fields, &ast.SelectField{Expr: e}) }
	for i := range max(len(l.Vars), len(all)) {
		if l.Vars == nil || l.Vars[i] == "" {
			add(v.column(i))
		}
	}
	for _, a := range n.ColumnAssignments {
		if d, ok := a.Expr.(*ast.DefaultExpr); ok && d.Name == nil {
			continue // as if it were not given
		}
		e, ok := a.Expr.Accept(v)
		if !ok || v.assigns {
			return nil, false
		}
		add(e.(ast.ExprNode))
		out.Columns = append(out.Columns, a.Column)
	}
	if l.Vars == nil && len(sel.Fields.Fields) == len(all) {
		out.Columns = nil // it names none
	}
	out.Select = sel
	return out, true
}

// fromTable is a table as FROM has it.
func fromTable(db, name string) *ast.TableRefsClause {
	t := &ast.TableName{Schema: ast.NewCIStr(db), Name: ast.NewCIStr(name)}
	return &ast.TableRefsClause{TableRefs: &ast.Join{Left: &ast.TableSource{Source: t}}}
}

// loaded puts fields in the place of the variables that they go to. The last of several fields of a
// variable counts.
type loaded struct {
	vars    []string
	column  func(int) ast.ExprNode
	assigns bool // the expression assigns to a variable
}

// Enter implements ast.Visitor.
func (v *loaded) Enter(n ast.Node) (ast.Node, bool) { return n, false }

// Leave implements ast.Visitor.
func (v *loaded) Leave(n ast.Node) (ast.Node, bool) {
	x, ok := n.(*ast.VariableExpr)
	if !ok || x.IsSystem {
		return n, true
	}
	v.assigns = v.assigns || x.Value != nil
	for i := len(v.vars) - 1; i >= 0; i-- {
		if v.vars[i] == strings.ToLower(x.Name) {
			return v.column(i), true
		}
	}
	return n, true
}
