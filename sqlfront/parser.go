package sqlfront

import (
	"context"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"
)

// parser wraps MySQL's: it notes in the session what only the syntax tree tells, and adds
// the region-aware statements.
type parser struct {
	sql.Parser
	g *gateway
}

func (p *parser) note(ctx context.Context, query string, stmt sqlparser.Statement, err error) {
	// The texts of views, procedures and triggers come through here too.
	if sc, ok := ctx.(*sql.Context); ok && err == nil && sql.RemoveSpaceAndDelimiter(query, ';') == sql.RemoveSpaceAndDelimiter(sc.Query(), ';') {
		if s := sessionOf(sc); s != nil {
			s.note(stmt)
		}
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
	if sc, ok := ctx.(*sql.Context); ok {
		if s := sessionOf(sc); s != nil && s.view == query {
			d.Temporary = true
		}
	}
}

// ParseSimple implements sql.Parser.
func (p *parser) ParseSimple(query string) (sqlparser.Statement, error) {
	if stmt := p.own(query); stmt != nil {
		return stmt, nil
	}
	return p.Parser.ParseSimple(rewriteText(query))
}

// Parse implements sql.Parser.
func (p *parser) Parse(ctx *sql.Context, query string, multi bool) (sqlparser.Statement, string, string, error) {
	return p.ParseWithOptions(ctx, query, ';', multi, sql.LoadSqlMode(ctx).ParserOptions())
}

// ParseWithOptions implements sql.Parser.
func (p *parser) ParseWithOptions(ctx context.Context, query string, delim rune, multi bool, o sqlparser.ParserOptions) (sqlparser.Statement, string, string, error) {
	if stmt := p.own(query); stmt != nil {
		return stmt, query, "", nil
	}
	stmt, q, rest, err := p.Parser.ParseWithOptions(ctx, rewriteText(query), delim, multi, o)
	renameIsolation(stmt)
	p.useView(ctx, query, stmt)
	p.note(ctx, query, stmt, err)
	return stmt, q, rest, err
}

// ParseOneWithOptions implements sql.Parser.
func (p *parser) ParseOneWithOptions(ctx context.Context, query string, o sqlparser.ParserOptions) (sqlparser.Statement, int, error) {
	if stmt := p.own(query); stmt != nil {
		return stmt, len(query), nil
	}
	stmt, n, err := p.Parser.ParseOneWithOptions(ctx, rewriteText(query), o)
	renameIsolation(stmt)
	p.note(ctx, query, stmt, err)
	return stmt, n, err
}
