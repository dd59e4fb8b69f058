package audited

import (
	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/bound"
	"github.com/godwitdb/godwit/sql/session"
)

// Runner runs the statements of stored procedures, which come as syntax trees.
type Runner struct {
	*sqle.Engine
	Audit *Recorder
}

// QueryWithBindings implements sql.StatementRunner.
func (r Runner) QueryWithBindings(ctx *sql.Context, query string, parsed sqlparser.Statement,
	bindings map[string]sqlparser.Expr, flags *sql.QueryFlags) (sql.Schema, sql.RowIter, *sql.QueryFlags, error) {
	if session.SkipsLocks(parsed) {
		return nil, nil, nil, session.ErrSkipsLocks("in a procedure")
	}
	if s := session.Of(ctx); s != nil {
		s.Stmt.Tree, s.Stmt.Binds, s.Stmt.Lock = parsed, nil, session.LockClause(parsed)
	}
	sch, it, flags, err := r.Engine.QueryWithBindings(ctx, query, parsed, bindings, flags)
	if it, err = r.Audit.Inner(session.Of(ctx), parsed, it, err); err == nil {
		it = bound.Results(ctx, it)
	}
	return sch, it, flags, err
}
