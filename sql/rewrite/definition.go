package rewrite

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/session"
)

// Within keeps the body of a stored program inside of text, which is its definition. The parser
// counts the semicolon behind a definition as a part of it if another statement follows.
func Within(stmt sqlparser.Statement, text string) {
	if d, ok := stmt.(*sqlparser.DDL); ok {
		d.SubStatementPositionEnd = min(d.SubStatementPositionEnd, len(text))
	}
}

// Refused is the error for a statement that parses, and that the engine would panic over; nil for
// all others.
func Refused(stmt sqlparser.SQLNode, text string) (err error) {
	if stmt == nil || !base.ContainsFold(text, "DEFAULT") && !base.ContainsFold(text, "USING") && !strings.Contains(text, "@@") {
		return nil
	}
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		switch n := n.(type) {
		case *sqlparser.SetVarExpr:
			err = Refused(n.Expr, text) // who assigns says what is wrong in the target
			return false, nil
		case *sqlparser.ColName:
			if v, scope, named, bad := sqlparser.VarScopeForColName(n); bad == nil && named != "" &&
				(scope == sqlparser.SetScope_Global || scope == sqlparser.SetScope_Session) {
				err = session.WrongScope(v.Name.String(), scope == sqlparser.SetScope_Global)
			}
		case *sqlparser.AliasedExpr:
			if d, ok := n.Expr.(*sqlparser.Default); ok && d.ColName == "" {
				err = mysql.NewSQLError(1064, "42000", "syntax error near 'DEFAULT': it is no expression")
			}
		case *sqlparser.ConvertUsingExpr:
			set, bad := sql.ParseCharacterSet(n.Type)
			switch {
			case bad != nil:
				err = mysql.NewSQLError(1115, "42000", "Unknown character set: '%s'", n.Type)
			case set != sql.CharacterSet_Unspecified && set.Encoder() == nil:
				err = ddl.NotYet("CONVERT(... USING "+n.Type+")", "SET character_set_results has results in a character set")
			}
		}
		return err == nil, nil
	}, stmt) // it never fails
	return err
}

// unlink takes foreign keys out of the definition of a table with a storage engine that has none
// in MySQL, which reads them and keeps an index of their columns alone.
func unlink(stmt sqlparser.Statement, text string) {
	d, ok := stmt.(*sqlparser.DDL)
	if !ok || d.TableSpec == nil || !slices.ContainsFunc(d.TableSpec.Constraints, links) || !ddl.Linkless(text) {
		return
	}
	t := d.TableSpec
	for _, c := range t.Constraints {
		if f, ok := c.Details.(*sqlparser.ForeignKeyDefinition); ok && !indexed(t, f.Source) {
			t.Indexes = append(t.Indexes, indexOf(c.Name, f))
		}
	}
	t.Constraints = slices.DeleteFunc(t.Constraints, links)
}

func links(c *sqlparser.ConstraintDefinition) bool {
	_, ok := c.Details.(*sqlparser.ForeignKeyDefinition)
	return ok
}

// indexed reports whether a table has an index that begins with columns.
func indexed(t *sqlparser.TableSpec, columns sqlparser.Columns) bool {
	return slices.ContainsFunc(t.Indexes, func(x *sqlparser.IndexDefinition) bool {
		if len(x.Columns) < len(columns) || x.Info.Fulltext || x.Info.Spatial {
			return false
		}
		for i, c := range columns {
			if !x.Columns[i].Column.Equal(c) {
				return false
			}
		}
		return true
	})
}

// indexOf is the index that a foreign key has of its columns.
func indexOf(name string, f *sqlparser.ForeignKeyDefinition) *sqlparser.IndexDefinition {
	if f.Index != "" {
		name = f.Index
	}
	x := &sqlparser.IndexDefinition{Info: &sqlparser.IndexInfo{Type: "key", Name: sqlparser.NewColIdent(name)}}
	for _, c := range f.Source {
		x.Columns = append(x.Columns, &sqlparser.IndexColumn{Column: c, Order: sqlparser.AscScr})
	}
	return x
}

// singleSets makes a SET of several variables in a stored program as many SETs of one: the engine
// panics over others there.
func singleSets(stmt sqlparser.Statement) {
	d, ok := stmt.(*sqlparser.DDL)
	if !ok || d.ProcedureSpec == nil {
		return
	}
	d.ProcedureSpec.Body = singled(d.ProcedureSpec.Body)
}

// singled is a statement of a program without such SETs in it; one that is one becomes a block.
func singled(stmt sqlparser.Statement) sqlparser.Statement {
	switch s := stmt.(type) {
	case *sqlparser.Set:
		if len(s.Exprs) > 1 {
			return &sqlparser.BeginEndBlock{Statements: singledAll(sqlparser.Statements{s})}
		}
	case *sqlparser.BeginEndBlock:
		s.Statements = singledAll(s.Statements)
	case *sqlparser.IfStatement:
		for i := range s.Conditions {
			s.Conditions[i].Statements = singledAll(s.Conditions[i].Statements)
		}
		s.Else = singledAll(s.Else)
	case *sqlparser.CaseStatement:
		for i := range s.Cases {
			s.Cases[i].Statements = singledAll(s.Cases[i].Statements)
		}
		s.Else = singledAll(s.Else)
	case *sqlparser.Loop:
		s.Statements = singledAll(s.Statements)
	case *sqlparser.Repeat:
		s.Statements = singledAll(s.Statements)
	case *sqlparser.While:
		s.Statements = singledAll(s.Statements)
	case *sqlparser.Declare:
		if s.Handler != nil {
			s.Handler.Statement = singled(s.Handler.Statement)
		}
	}
	return stmt
}

func singledAll(all sqlparser.Statements) (out sqlparser.Statements) {
	for _, stmt := range all {
		set, ok := stmt.(*sqlparser.Set)
		if !ok || len(set.Exprs) < 2 {
			out = append(out, singled(stmt))
			continue
		}
		for _, x := range set.Exprs {
			one := *set
			one.Exprs = sqlparser.SetVarExprs{x}
			out = append(out, &one)
		}
	}
	return out
}
