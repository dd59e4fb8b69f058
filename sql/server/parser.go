package server

import (
	"cmp"
	"context"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/bound"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/diagnostics"
	"github.com/godwitdb/godwit/sql/ending"
	"github.com/godwitdb/godwit/sql/rewrite"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/stored"
	"github.com/godwitdb/godwit/sql/token"
	"github.com/godwitdb/godwit/sql/weigh"
	"github.com/godwitdb/godwit/sql/xa"
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
	if p.sent(ctx, query) {
		s.Note(stmt)
	} else if d, ok := stmt.(*sqlparser.DDL); ok && d.TriggerSpec != nil {
		s.BindTrigger(d, query)
	}
}

// sent reports whether a text is what the client has sent: those of views, procedures and triggers
// are parsed here, too.
func (p *parser) sent(ctx context.Context, query string) bool {
	sc, ok := ctx.(*sql.Context)
	return ok && sql.RemoveSpaceAndDelimiter(query, ';') == sql.RemoveSpaceAndDelimiter(sc.Query(), ';')
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

// tooDeep is a statement that fails, in place of one that would be analyzed for long; or nil.
func (p *parser) tooDeep(ctx context.Context, query string) sqlparser.Statement {
	if err := weigh.ForEngine(ctx, query); err != nil {
		return p.refused(bound.Interrupted(err))
	}
	return nil
}

// aside waits for f, which parses a text, for as long as the statement may go on.
func (p *parser) aside(ctx context.Context, query string, f func()) error {
	sc, ok := ctx.(*sql.Context)
	if !ok {
		f()
		return nil
	}
	return bound.Interrupted(p.g.query.Aside(sc, query, f))
}

// ParseSimple implements sql.Parser.
func (p *parser) ParseSimple(query string) (sqlparser.Statement, error) {
	if stmt := p.own(query); stmt != nil {
		return stmt, nil
	}
	stmt, err := p.Parser.ParseSimple(rewrite.Text(query))
	rewrite.Times(stmt)
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
	if stmt, n := p.stored(query, o); stmt != nil && (multi || n == len(query)) {
		return stmt, query[:n], query[n:], nil
	}
	if stmt := p.password(ctx, query); stmt != nil {
		return stmt, query, "", nil
	}
	done, err := p.admit(ctx, query)
	if err != nil {
		return nil, "", "", err
	}
	defer done()
	if stmt := p.tooDeep(ctx, query); stmt != nil {
		return stmt, query, "", nil
	}
	var stmt sqlparser.Statement
	var q, rest string
	if gone := p.aside(ctx, query, func() { stmt, q, rest, err = p.Parser.ParseWithOptions(ctx, rewrite.Text(query), delim, multi, o) }); gone != nil {
		return nil, "", "", gone
	}
	if err != nil || ddl.MakesProcedure(ctx, query, stmt) {
		if own := ddl.ProgramTree(rewrite.Text(query), o); own != nil {
			stmt, q, rest, err = own, rewrite.Text(query), "", nil
		} else if d := rewrite.Returning(ctx, query, token.Mode{ANSIQuotes: o.AnsiQuotes}, o); d != nil {
			stmt, q, rest, err = d, query, "", nil
		} else if lacks := rewrite.Unparsed(query); lacks != nil {
			return p.refused(lacks), query, "", nil
		} else if bad := ddl.Misshapen(query, o); bad != nil && err == nil {
			return p.refused(bad), q, rest, nil
		}
	}
	if own := p.accounts(stmt, query); own != nil && err == nil {
		stmt = own
	}
	if err == nil && rewrite.AltersView(query) {
		if bad := p.g.MissesView(ctx, stmt); bad != nil {
			return p.refused(bad), q, rest, nil
		}
	}
	if err == nil && p.sent(ctx, query) {
		if bad := ddl.Prepare(ctx, stmt, p.g.needs); bad != nil {
			return refusedNode(ddl.AuthOf(stmt), p.g, bad), q, rest, nil // who may not rename is told that
		}
	}
	rewrite.Within(stmt, q)
	stmt = p.refuse(p.prepares(ctx, stmt), q)
	rewrite.Tree(stmt, query, err == nil)
	rewrite.Times(stmt)
	rewrite.Zoned(ctx, stmt)
	rewrite.EventTimes(ctx, stmt)
	rights.NameGrantTables(ctx, query, stmt)
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
	if stmt, n := p.stored(query, o); stmt != nil {
		return stmt, n, nil
	}
	done, err := p.admit(ctx, query)
	if err != nil {
		return nil, 0, err
	}
	defer done()
	if stmt := p.tooDeep(ctx, query); stmt != nil {
		return stmt, len(query), nil
	}
	var text string
	var stmt sqlparser.Statement
	var n int
	if gone := p.aside(ctx, query, func() {
		text = rewrite.Text(query)
		stmt, n, err = p.Parser.ParseOneWithOptions(ctx, text, o)
	}); gone != nil {
		return nil, 0, gone
	}
	if err != nil {
		if own := ddl.ProgramTree(text, o); own != nil {
			stmt, n, err = own, len(text), nil
		} else if d := rewrite.Returning(ctx, text, token.Mode{ANSIQuotes: o.AnsiQuotes}, o); d != nil {
			stmt, n, err = d, len(text), nil
		} else if lacks := rewrite.Unparsed(text); lacks != nil {
			stmt, n, err = p.refused(lacks), len(text), nil
		}
	}
	if own := p.accounts(stmt, query); own != nil && err == nil {
		stmt = own
	}
	rewrite.Within(stmt, text[:min(n, len(text))])
	stmt = p.refuse(p.prepares(ctx, stmt), text[:min(n, len(text))])
	rewrite.Tree(stmt, query, err == nil)
	rewrite.Times(stmt)
	rewrite.Zoned(ctx, stmt)
	rights.NameGrantTables(ctx, query, stmt)
	p.note(ctx, query, stmt, err)
	return stmt, n, err
}

// stored parses a statement about stored functions, which ends at a place of the text; nil: it is
// another one.
func (p *parser) stored(query string, o sqlparser.ParserOptions) (sqlparser.Statement, int) {
	m := token.Mode{ANSIQuotes: o.AnsiQuotes}
	if st, rest := xa.Parse(query, m); st != nil {
		return inject(ignoreAuth, &ownNode{g: p.g, name: st.Name(), sch: st.Schema(), writes: true,
			run: func(ctx *sql.Context) ([]sql.Row, error) { return st.Run(ctx, p.g.rights(ctx)) }}), len(query) - len(rest)
	}
	if st, rest := diagnostics.Parse(query, m); st != nil {
		return inject(ignoreAuth, &ownNode{g: p.g, name: st.Name(), sch: st.Schema(), run: st.Run}), len(query) - len(rest)
	}
	st, rest := stored.Parse(query, m)
	if st == nil {
		return nil, 0
	}
	return inject(ignoreAuth, &ownNode{g: p.g, name: st.Name(), sch: st.Schema(), writes: st.Writes(),
		run: func(ctx *sql.Context) ([]sql.Row, error) {
			return st.Run(ctx, &stored.Env{Env: p.g.Env, Rights: p.g.rights})
		}}), len(query) - len(rest)
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
	if e := ending.Of(stmt, text); e != nil {
		return inject(ignoreAuth, &ownNode{g: p.g, name: "COMMIT", sch: types.OkResultSchema, run: e.Run})
	}
	err := cmp.Or(ddl.Refused(stmt, text), rewrite.Refused(stmt, text), rewrite.RefusedParser(stmt), weigh.Expanded(stmt))
	if err == nil {
		return stmt
	}
	return p.refused(err)
}

func (p *parser) refused(err error) sqlparser.Statement { return refusedNode(ignoreAuth, p.g, err) }

func refusedNode(auth sqlparser.AuthInformation, g *gateway, err error) sqlparser.Statement {
	return inject(auth, &ownNode{g: g, name: "refused", sch: types.OkResultSchema,
		run: func(*sql.Context) ([]sql.Row, error) { return nil, err }})
}
