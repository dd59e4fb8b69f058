package server

import (
	"context"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/sql/oneshot"
	"github.com/godwitdb/godwit/sql/session"
)

// fastTx runs a statement that begins or ends a transaction, in the steps of the
// engine but without its analyzer.
func (h *handler) fastTx(ctx context.Context, s *session.Session, c *mysql.Conn, query string, sent *bool,
	send func(*sqltypes.Result) error) (done bool, err error) {
	what := oneshot.TxOf(query)
	if what == oneshot.TxNone || h.g.fast.Off || what != oneshot.TxBegin && !s.EndsPlainly() {
		return false, nil
	}
	sctx, err := h.sm.NewContextWithQuery(ctx, c, query)
	if err != nil {
		return false, nil
	}
	if sctx, err = h.g.engine.ProcessList.BeginQuery(sctx, query); err != nil {
		return true, err
	}
	defer h.g.engine.ProcessList.EndQuery(sctx)
	_ = s.CommandBegin()
	sql.IncrementStatusVariable(sctx, "Questions", 1)
	if err := s.ValidateSession(sctx); err != nil {
		return true, err
	}
	s.ClearWarnings()
	s.Stmt.Planned = true
	if t := sctx.GetTransaction(); t != nil {
		if what == oneshot.TxRollback {
			err = s.Rollback(sctx, t)
		} else {
			err = s.CommitTransaction(sctx, t)
		}
		if err != nil {
			return true, sql.CastSQLError(err)
		}
	}
	if what == oneshot.TxBegin {
		s.UnlockTables()
		t, err := s.StartTransaction(sctx, sql.ReadWrite)
		if err != nil {
			return true, sql.CastSQLError(err)
		}
		sctx.SetTransaction(t)
		sctx.SetIgnoreAutoCommit(true)
		c.StatusFlags |= uint16(mysql.ServerInTransaction)
	} else {
		sctx.SetIgnoreAutoCommit(false)
		sctx.SetTransaction(nil)
		c.StatusFlags &^= uint16(mysql.ServerInTransaction)
	}
	sctx.GetLastQueryInfo().RowCount.Store(0)
	*sent = true
	return true, send(&sqltypes.Result{})
}
