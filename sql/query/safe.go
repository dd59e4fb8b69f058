package query

import (
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/opt"
	"github.com/godwitdb/godwit/sql/session"
)

const errUnsafe = 1175

// errIsUnsafe is what sql_safe_updates refuses.
var errIsUnsafe = mysql.NewSQLError(errUnsafe, "HY000", "You are using safe update mode and you tried to update a table without a "+
	"WHERE that uses a KEY column.")

// safeUpdates reports whether the session refuses to change rows that no key finds.
func safeUpdates(ctx *sql.Context) bool { return intVar(ctx, "sql_safe_updates") != 0 }

// safely refuses an UPDATE or DELETE, under sql_safe_updates, that has no LIMIT and reads a table
// that it changes from the beginning to the end.
func (c *change) safely() error {
	p := c.statement.plan
	if p == nil || limited(p) || !safeUpdates(c.ctx) {
		return nil
	}
	for _, t := range c.c.Targets {
		if t.Row != 0 && readsWhole(p, t.Table) {
			return errIsUnsafe
		}
	}
	return nil
}

// limited reports whether a LIMIT bounds the rows of a plan.
func limited(p *opt.Plan) bool {
	for p.Op != opt.OpLimit && p.Op != opt.OpTopN {
		if len(p.In) != 1 {
			return false
		}
		p = p.In[0]
	}
	return true
}

// readsWhole reports whether a plan reads a table without a key.
func readsWhole(p *opt.Plan, t algebra.Table) bool {
	if p.Op == opt.OpScan && p.Scan.Table == t && len(p.Spans) == 0 && p.Read.Keys == nil {
		return true
	}
	return slices.ContainsFunc(p.In, func(in *opt.Plan) bool { return readsWhole(in, t) })
}

// Unsafe is sql_safe_updates for what go-mysql-server runs: it refuses an UPDATE or DELETE that
// neither has a LIMIT nor reads by a key.
func Unsafe(ctx *sql.Context, s *session.Session, n sql.Node) error {
	switch n.(type) {
	case *plan.Update, *plan.DeleteFrom:
	case *plan.Truncate: // the engine makes one of a DELETE without a WHERE
		if _, is := s.Stmt.Tree.(*sqlparser.Delete); !is {
			return nil
		}
	default:
		return nil
	}
	if !safeUpdates(ctx) {
		return nil
	}
	whole, bounded := false, false
	transform.Inspect(n, func(n sql.Node) bool {
		switch n.(type) {
		case *plan.Limit, *plan.TopN, *plan.IndexedTableAccess:
			bounded = true
			return false
		case *plan.ResolvedTable:
			whole = true
		}
		return true
	})
	if whole && !bounded {
		return errIsUnsafe
	}
	return nil
}
