package rewrite

import (
	"context"

	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/token"
)

// Returning is the tree of a DELETE with RETURNING, which the parser knows behind INSERT only; nil
// if a text is none. PREPARE asks for it; the statement itself runs in our own engine.
func Returning(ctx context.Context, q string, m token.Mode, o sqlparser.ParserOptions) sqlparser.Statement {
	if !base.ContainsFold(q, "RETURNING") {
		return nil
	}
	depth := 0
	for _, t := range token.Scan(q, m) {
		switch {
		case t.Is("("):
			depth++
		case t.Is(")"):
			depth--
		case depth == 0 && t.Is("returning"):
			if d := returning(ctx, q[:t.From], q[t.To:], o); d != nil {
				return d
			}
		}
	}
	return nil
}

// returning makes one tree of a DELETE and a list.
func returning(ctx context.Context, plain, list string, o sqlparser.ParserOptions) sqlparser.Statement {
	stmt, err := sqlparser.ParseWithOptions(ctx, Text(plain), o)
	d, ok := stmt.(*sqlparser.Delete)
	if err != nil || !ok || len(d.Targets) > 0 {
		return nil
	}
	// The list is parsed where the parser knows it: nothing else may follow it there.
	stmt, err = sqlparser.ParseWithOptions(ctx, "INSERT INTO t VALUES () RETURNING "+list, o)
	i, ok := stmt.(*sqlparser.Insert)
	if err != nil || !ok {
		return nil
	}
	d.Returning = i.Returning
	return d
}
