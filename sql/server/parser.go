package server

import (
	"context"
	"regexp"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/session"
)

// parser wraps MySQL's: it notes in the session what only the syntax tree tells, and adds
// the region-aware statements.
type parser struct {
	sql.Parser
	g *gateway
}

func (p *parser) note(ctx context.Context, query string, stmt sqlparser.Statement, err error) {
	sc, ok := ctx.(*sql.Context)
	if !ok || err != nil {
		return
	}
	s := session.Of(sc)
	if s == nil {
		return
	}
	// The texts of views, procedures and triggers come through here too.
	if sql.RemoveSpaceAndDelimiter(query, ';') == sql.RemoveSpaceAndDelimiter(sc.Query(), ';') {
		s.Note(stmt)
	} else if d, ok := stmt.(*sqlparser.DDL); ok && d.TriggerSpec != nil {
		s.BindTrigger(d, query)
	}
}

// useView marks the definition of a view that a statement uses. The engine takes whatever
// statement has the definition of a view in it for DDL, and would commit the client's transaction
// behind a SELECT from a view; it makes an exception for what is temporary.
func (p *parser) useView(ctx context.Context, query string, stmt sqlparser.Statement) {
	d, ok := stmt.(*sqlparser.DDL)
	if !ok || d.ViewSpec == nil {
		return
	}
	if d.ViewSpec.CheckOption == sqlparser.ViewCheckOptionLocal {
		d.ViewSpec.CheckOption = sqlparser.ViewCheckOptionCascaded // the text keeps the word
	}
	if sc, ok := ctx.(*sql.Context); ok {
		if s := session.Of(sc); s != nil && s.Stmt.View == query {
			d.Temporary = true
			rights.View(s, d, s.Stmt.ViewDB, s.Stmt.ViewDefiner)
		}
	}
}

// admit refuses a text that would take too much to parse, unless it is what the client has sent:
// that was admitted before.
func (p *parser) admit(ctx context.Context, query string) (done func(), err error) {
	sc, ok := ctx.(*sql.Context)
	if !ok || sql.RemoveSpaceAndDelimiter(query, ';') == sql.RemoveSpaceAndDelimiter(sc.Query(), ';') {
		return func() {}, nil
	}
	return p.g.query.AdmitText(sc, query)
}

// ParseSimple implements sql.Parser.
func (p *parser) ParseSimple(query string) (sqlparser.Statement, error) {
	if stmt := p.own(query); stmt != nil {
		return stmt, nil
	}
	stmt, err := p.Parser.ParseSimple(rewriteText(query))
	declareTimes(stmt)
	return stmt, err
}

// Parse implements sql.Parser.
func (p *parser) Parse(ctx *sql.Context, query string, multi bool) (sqlparser.Statement, string, string, error) {
	return p.ParseWithOptions(ctx, query, ';', multi, sql.LoadSqlMode(ctx).ParserOptions())
}

// ParseWithOptions implements sql.Parser.
func (p *parser) ParseWithOptions(ctx context.Context, query string, delim rune, multi bool,
	o sqlparser.ParserOptions) (sqlparser.Statement, string, string, error) {
	if stmt := p.own(query); stmt != nil {
		return stmt, query, "", nil
	}
	done, err := p.admit(ctx, query)
	if err != nil {
		return nil, "", "", err
	}
	defer done()
	stmt, q, rest, err := p.Parser.ParseWithOptions(ctx, rewriteText(query), delim, multi, o)
	if own := p.accounts(stmt, query); own != nil && err == nil {
		stmt = own
	}
	stmt = p.refuse(p.prepares(ctx, stmt), q)
	renameIsolation(stmt)
	splitRanges(stmt)
	setNames(stmt, query)
	declareTimes(stmt)
	if err == nil {
		anyTime(stmt, query)
	}
	p.useView(ctx, query, stmt)
	p.note(ctx, query, stmt, err)
	return stmt, q, rest, err
}

// ParseOneWithOptions implements sql.Parser.
func (p *parser) ParseOneWithOptions(ctx context.Context, query string, o sqlparser.ParserOptions) (sqlparser.Statement,
	int, error) {
	if stmt := p.own(query); stmt != nil {
		return stmt, len(query), nil
	}
	done, err := p.admit(ctx, query)
	if err != nil {
		return nil, 0, err
	}
	defer done()
	text := rewriteText(query)
	stmt, n, err := p.Parser.ParseOneWithOptions(ctx, text, o)
	if own := p.accounts(stmt, query); own != nil && err == nil {
		stmt = own
	}
	stmt = p.refuse(p.prepares(ctx, stmt), text[:min(n, len(text))])
	renameIsolation(stmt)
	splitRanges(stmt)
	setNames(stmt, query)
	declareTimes(stmt)
	if err == nil {
		anyTime(stmt, query)
	}
	p.note(ctx, query, stmt, err)
	return stmt, n, err
}

// prepares makes PREPARE fail in a session that keeps too much.
func (p *parser) prepares(ctx context.Context, stmt sqlparser.Statement) sqlparser.Statement {
	sc, ok := ctx.(*sql.Context)
	if _, prepare := stmt.(*sqlparser.Prepare); !ok || !prepare {
		return stmt
	}
	if s := session.Of(sc); s != nil {
		if err := s.Full(); err != nil {
			return p.refused(err)
		}
	}
	return stmt
}

// refuse makes a statement fail that go-mysql-server would take and do something else.
func (p *parser) refuse(stmt sqlparser.Statement, text string) sqlparser.Statement {
	err := ddl.Refused(stmt, text)
	if err == nil {
		return stmt
	}
	return p.refused(err)
}

func (p *parser) refused(err error) sqlparser.Statement {
	return inject(ignoreAuth, &ownNode{g: p.g, name: "refused", sch: types.OkResultSchema,
		run: func(*sql.Context) ([]sql.Row, error) { return nil, err }})
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
