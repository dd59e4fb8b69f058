package rewrite

import (
	"regexp"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/function"
	"github.com/godwitdb/godwit/sql/session"
)

// Tree mends the tree of a statement; query is its text, parsed says that all of it was parsed.
func Tree(stmt sqlparser.Statement, query string, parsed bool) {
	renameIsolation(stmt)
	splitRanges(stmt)
	setNames(stmt, query)
	qualify(stmt, query)
	filled(stmt)
	unlink(stmt, query)
	singleSets(stmt)
	indexParsers(stmt)
	booleanModes(stmt, query)
	if parsed {
		anyTime(stmt, query)
		caseOfJSON(stmt, query)
		longCasts(stmt, query)
	}
}

// booleanModes lets the engine make a plan of MATCH ... IN BOOLEAN MODE, which our own engine runs.
func booleanModes(stmt sqlparser.Statement, query string) {
	if stmt == nil || !base.ContainsFold(query, "MATCH") {
		return
	}
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		if m, ok := n.(*sqlparser.MatchExpr); ok && m.Option == sqlparser.BooleanModeStr {
			m.Option = sqlparser.NaturalLanguageModeStr
			m.Expr = &sqlparser.FuncExpr{Name: sqlparser.NewColIdent(function.BooleanMode),
				Exprs: sqlparser.SelectExprs{&sqlparser.AliasedExpr{Expr: m.Expr}}}
		}
		return true, nil
	}, stmt)
}

// filled makes integers with ZEROFILL unsigned, as MySQL does.
func filled(stmt sqlparser.Statement) {
	var specs []*sqlparser.TableSpec
	switch s := stmt.(type) {
	case *sqlparser.DDL:
		specs = append(specs, s.TableSpec)
	case *sqlparser.AlterTable:
		for _, d := range s.Statements {
			specs = append(specs, d.TableSpec)
		}
	}
	for _, t := range specs {
		if t == nil {
			continue
		}
		for _, c := range t.Columns {
			if bool(c.Type.Zerofill) && strings.Contains(strings.ToLower(c.Type.Type), "int") {
				c.Type.Unsigned = true
			}
		}
	}
}

var longCast = regexp.MustCompile(`(?i)\bbinary\s*\(\s*\d{8,}`)

// longCasts lets CAST(x AS BINARY(n)) know max_allowed_packet where n is long: RPAD does, and the
// engine would fill up what was asked for.
func longCasts(stmt sqlparser.Statement, query string) {
	if stmt == nil || !longCast.MatchString(query) {
		return
	}
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		if c, ok := n.(*sqlparser.ConvertExpr); ok && c.Type != nil && c.Type.Length != nil && strings.EqualFold(c.Type.Type, "binary") {
			plain := *c.Type
			plain.Length = nil
			c.Expr = &sqlparser.FuncExpr{Name: sqlparser.NewColIdent("rpad"), Exprs: sqlparser.SelectExprs{
				&sqlparser.AliasedExpr{Expr: &sqlparser.ConvertExpr{Name: c.Name, Expr: c.Expr, Type: &plain}},
				&sqlparser.AliasedExpr{Expr: c.Type.Length}, &sqlparser.AliasedExpr{Expr: sqlparser.NewStrVal([]byte{0})}}}
			c.Type = &plain
		}
		return true, nil
	}, stmt) // it never fails
}

var namesCollation = regexp.MustCompile(`(?i)\bnames\s+['"]?\w+['"]?\s+collate\s+['"]?(\w+)`)

// setNames lets SET NAMES set collation_connection, which the engine forgets: to the collation that
// the statement names, or to the default of the character set.
func setNames(stmt sqlparser.Statement, query string) {
	set, ok := stmt.(*sqlparser.Set)
	if !ok {
		return
	}
	for _, e := range set.Exprs {
		if !strings.EqualFold(e.Name.String(), "names") {
			continue
		}
		name := ""
		if m := namesCollation.FindStringSubmatch(query); m != nil {
			name = m[1]
		} else if v, ok := e.Expr.(*sqlparser.SQLVal); ok {
			c, err := sql.ParseCharacterSet(string(v.Val))
			if err != nil || c == sql.CharacterSet_Unspecified {
				return // the engine words the error
			}
			name = c.DefaultCollation().Name()
		}
		if name != "" {
			set.Exprs = append(set.Exprs, &sqlparser.SetVarExpr{Name: sqlparser.NewColName("collation_connection"),
				Expr: sqlparser.NewStrVal([]byte(name))})
		}
		return
	}
}

// qualify puts the name of the database that a call of a function names into that of the function:
// the engine forgets it.
func qualify(stmt sqlparser.Statement, query string) {
	if stmt == nil || !strings.Contains(query, ".") || !strings.Contains(query, "(") {
		return
	}
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		if f, ok := n.(*sqlparser.FuncExpr); ok && f != nil && !f.Qualifier.IsEmpty() {
			f.Name = sqlparser.NewColIdent(f.Qualifier.String() + "." + f.Name.String())
			f.Qualifier = sqlparser.TableIdent{}
		}
		return true, nil
	}, stmt) // it never fails
}

// anyTime lets the operand of AS OF be any expression, such as NOW() - INTERVAL 5 SECOND: the
// engine takes literals and function calls only.
func anyTime(stmt sqlparser.Statement, query string) {
	if !base.ContainsFold(query, "OF") || len(query) > 1<<16 {
		return
	}
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		if a, ok := n.(*sqlparser.AsOf); ok && a != nil {
			switch a.Time.(type) {
			case *sqlparser.BinaryExpr, *sqlparser.ParenExpr, *sqlparser.UnaryExpr:
				a.Time = &sqlparser.ConvertExpr{Name: "cast", Expr: a.Time, Type: &sqlparser.ConvertType{Type: "char"}}
			}
		}
		return true, nil
	}, stmt) // it never fails
}

// caseOfJSON lets CASE document WHEN 'text' compare texts, as MySQL does; the engine would make a
// document of the text. Other values are compared with the document.
func caseOfJSON(stmt sqlparser.Statement, query string) {
	if !base.ContainsFold(query, "CASE") || !base.ContainsFold(query, "JSON_EXTRACT") && !strings.Contains(query, "->") {
		return
	}
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		c, ok := n.(*sqlparser.CaseExpr)
		if !ok || !isDocument(c.Expr) || !slices.ContainsFunc(c.Whens, isTextCase) {
			return true, nil
		}
		for _, w := range c.Whens {
			of := c.Expr
			if isTextCase(w) {
				of = &sqlparser.ConvertExpr{Name: "cast", Expr: of, Type: &sqlparser.ConvertType{Type: "char"}}
			}
			w.Cond = &sqlparser.ComparisonExpr{Operator: sqlparser.EqualStr, Left: of, Right: w.Cond}
		}
		c.Expr = nil
		return true, nil
	}, stmt) // it never fails
}

// isDocument reports whether an expression yields a JSON document, as far as its text tells.
func isDocument(e sqlparser.Expr) bool {
	switch e := e.(type) {
	case *sqlparser.FuncExpr:
		return e.Name.Lowered() == "json_extract"
	case *sqlparser.BinaryExpr:
		return e.Operator == sqlparser.JSONExtractOp
	}
	return false
}

func isTextCase(w *sqlparser.When) bool {
	v, ok := w.Cond.(*sqlparser.SQLVal)
	return ok && v.Type == sqlparser.StrVal
}

// splitRanges writes column BETWEEN a AND b of an UPDATE or DELETE as two comparisons. The engine
// does that for SELECT only, and otherwise reads, and locks, the whole table instead of a range of
// an index.
func splitRanges(stmt sqlparser.Statement) {
	var w *sqlparser.Where
	switch s := stmt.(type) {
	case *sqlparser.Explain:
		splitRanges(s.Statement)
	case *sqlparser.Update:
		w = s.Where
	case *sqlparser.Delete:
		w = s.Where
	}
	if w != nil {
		w.Expr = splitRange(w.Expr)
	}
}

func splitRange(e sqlparser.Expr) sqlparser.Expr {
	switch e := e.(type) {
	case *sqlparser.AndExpr:
		e.Left, e.Right = splitRange(e.Left), splitRange(e.Right)
	case *sqlparser.ParenExpr:
		e.Expr = splitRange(e.Expr)
	case *sqlparser.RangeCond:
		if _, column := e.Left.(*sqlparser.ColName); column && e.Operator == sqlparser.BetweenStr {
			return &sqlparser.ParenExpr{Expr: &sqlparser.AndExpr{
				Left:  &sqlparser.ComparisonExpr{Operator: sqlparser.GreaterEqualStr, Left: e.Left, Right: e.From},
				Right: &sqlparser.ComparisonExpr{Operator: sqlparser.LessEqualStr, Left: e.Left, Right: e.To}}}
		}
	}
	return e
}

// renameIsolation lets SET know the variable by its old name, too, and SET SESSION TRANSACTION READ
// ONLY as the assignment that it is.
func renameIsolation(stmt sqlparser.Statement) {
	set, ok := stmt.(*sqlparser.Set)
	if !ok {
		return
	}
	for _, e := range set.Exprs {
		if v, ok := e.Expr.(*sqlparser.SQLVal); ok && e.Scope != sqlparser.SetScope_None &&
			strings.EqualFold(e.Name.Name.String(), sqlparser.TransactionStr) {
			switch string(v.Val) {
			case sqlparser.TxReadOnly:
				e.Name, e.Expr = sqlparser.NewColName(session.ReadOnlyVar), sqlparser.NewIntVal([]byte("1"))
			case sqlparser.TxReadWrite:
				e.Name, e.Expr = sqlparser.NewColName(session.ReadOnlyVar), sqlparser.NewIntVal([]byte("0"))
			}
		}
		if n := e.Name.Name.String(); strings.HasSuffix(strings.ToLower(n), session.OldIsolationVar) {
			e.Name.Name = sqlparser.NewColIdent(n[:len(n)-len(session.OldIsolationVar)] + session.IsolationVar)
		}
	}
}
