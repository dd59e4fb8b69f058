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
// columns of the table, for a statement that lists no fields. as is the type to which a field is
// cast where SET names the column that it goes to, as CAST has it, empty for none; ok is false
// where there is no such type. left is why it is no INSERT.
func (l *Load) Insert(file string, field func(int) string, all []string,
	as func(column string) (typ string, ok bool)) (stmt ast.StmtNode, left string) {
	n := l.stmt
	out := &ast.InsertStmt{IsReplace: l.Replace, IgnoreErr: !l.Replace && !l.Exact, Table: fromTable(l.DB, l.Table)}
	if out.Columns = append(out.Columns, n.Columns...); l.Vars == nil {
		for _, name := range all {
			out.Columns = append(out.Columns, &ast.ColumnName{Name: ast.NewCIStr(name)})
		}
	}
	v := &loaded{vars: l.Vars, table: ast.NewCIStr(l.Table), as: as, given: map[string]ast.ExprNode{}, column: func(i int) ast.ExprNode {
		return &ast.ColumnNameExpr{Name: &ast.ColumnName{Table: ast.NewCIStr(file), Name: ast.NewCIStr(field(i))}}
	}}
	sel := &ast.SelectStmt{SelectStmtOpts: &ast.SelectStmtOpts{SQLCache: true}, Fields: &ast.FieldList{}, From: fromTable(file, file)}
	add := func(e ast.ExprNode) { sel.Fields.Fields = append(sel.Fields.Fields, &ast.SelectField{Expr: e}) }
	for i := range max(len(l.Vars), len(all)) {
		if l.Vars == nil || l.Vars[i] == "" {
			v.given[out.Columns[len(sel.Fields.Fields)].Name.L] = v.column(i)
			add(v.column(i))
		}
	}
	for _, a := range n.ColumnAssignments {
		if d, ok := a.Expr.(*ast.DefaultExpr); ok && d.Name == nil {
			continue // as if it were not given
		}
		e, ok := a.Expr.Accept(v)
		if !ok {
			return nil, v.left
		}
		v.given[a.Column.Name.L] = e.(ast.ExprNode)
		add(e.(ast.ExprNode))
		out.Columns = append(out.Columns, a.Column)
	}
	if l.Vars == nil && len(sel.Fields.Fields) == len(all) {
		out.Columns = nil // it names none
	}
	out.Select = sel
	return out, ""
}

// fromTable is a table as FROM has it.
func fromTable(db, name string) *ast.TableRefsClause {
	t := &ast.TableName{Schema: ast.NewCIStr(db), Name: ast.NewCIStr(name)}
	return &ast.TableRefsClause{TableRefs: &ast.Join{Left: &ast.TableSource{Source: t}}}
}

// loaded puts fields in the place of the variables and columns that they go to. The last of several
// fields of a variable counts.
type loaded struct {
	vars   []string
	table  ast.CIStr
	as     func(column string) (typ string, ok bool)
	given  map[string]ast.ExprNode // by column: what it gets
	column func(int) ast.ExprNode
	depth  int // of subqueries, whose columns are their own unless they name the table
	left   string
}

// Enter implements ast.Visitor.
func (v *loaded) Enter(n ast.Node) (ast.Node, bool) {
	if _, ok := n.(*ast.SubqueryExpr); ok {
		v.depth++
	}
	return n, false
}

// Leave implements ast.Visitor.
func (v *loaded) Leave(n ast.Node) (ast.Node, bool) {
	switch x := n.(type) {
	case *ast.SubqueryExpr:
		v.depth--
	case *ast.ColumnNameExpr:
		if v.depth > 0 && x.Name.Table.L != v.table.L {
			return n, true
		}
		return v.columnOf(x)
	case *ast.VariableExpr:
		return v.variable(x)
	}
	return n, true
}

// columnOf is what a column that SET names has got before.
func (v *loaded) columnOf(n *ast.ColumnNameExpr) (ast.Node, bool) {
	e, ok := v.given[n.Name.Name.L]
	if !ok || n.Name.Table.L != "" && n.Name.Table.L != v.table.L {
		v.left = "column without a field in LOAD DATA"
		return n, false
	}
	typ, ok := v.as(n.Name.Name.O)
	if !ok {
		v.left = "type of a column in LOAD DATA"
		return n, false
	}
	if typ == "" {
		return e, true
	}
	sel, err := Parse("SELECT CAST(NULL AS "+typ+")", Mode{})
	if err != nil {
		v.left = "type of a column in LOAD DATA"
		return n, false
	}
	cast := sel.(*ast.SelectStmt).Fields.Fields[0].Expr.(*ast.FuncCastExpr)
	cast.Expr = e
	return cast, true
}

func (v *loaded) variable(x *ast.VariableExpr) (ast.Node, bool) {
	if x.IsSystem {
		return x, true
	}
	for i := len(v.vars) - 1; i >= 0; i-- {
		if v.vars[i] != strings.ToLower(x.Name) {
			continue
		}
		if x.Value != nil {
			v.left = "assignment to a variable of a field in LOAD DATA"
			return x, false
		}
		return v.column(i), true
	}
	return x, true
}
