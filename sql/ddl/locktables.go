package ddl

import (
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

// Locks executes LOCK TABLES and UNLOCK TABLES; build has the engine execute a node.
func Locks(ctx *sql.Context, s *session.Session, n sql.Node, build func(sql.Node) (sql.RowIter, error)) (sql.RowIter, error) {
	if l, ok := n.(*plan.LockTables); ok {
		return lockTables(ctx, s, l, build)
	}
	return unlockTables(s, build)
}

// lockTables executes LOCK TABLES; it ends the transaction,
// gives earlier locks back, and waits for the new ones. With READ locks only, the session reads one
// moment until UNLOCK TABLES, as a READ ONLY transaction, so that what it reads does not change, as
// in MySQL.
func lockTables(ctx *sql.Context, s *session.Session, n *plan.LockTables, build func(sql.Node) (sql.RowIter, error)) (
	sql.RowIter, error) {
	var read, write []base.Key
	writes := false
	for _, l := range n.Locks {
		writes = writes || l.Write
		tn, ok := l.Table.(sql.TableNode)
		if !ok {
			continue // a view: what it reads is locked by who changes it
		}
		t := table.Of(tn.UnderlyingTable())
		if t == nil || t.IsTemporary() {
			continue
		}
		if k := schema.LockKey(t.Def.Desc.DB, t.Name()); l.Write {
			write = append(write, k)
		} else {
			read = append(read, k)
		}
	}
	if s.GetIgnoreAutoCommit() {
		if it, err := build(plan.NewCommit()); err != nil {
			return it, err
		}
	}
	s.UnlockTables()
	if err := s.LockTables(ctx, read, write); err != nil {
		return nil, err
	}
	s.TablesLocked()
	if writes {
		return sql.RowsToRowIter(), nil
	}
	return build(plan.NewStartTransaction(sql.ReadOnly))
}

// unlockTables executes UNLOCK TABLES. As in MySQL it ends a transaction only if there were locks.
func unlockTables(s *session.Session, build func(sql.Node) (sql.RowIter, error)) (sql.RowIter, error) {
	if s.UnlockTables() && s.GetIgnoreAutoCommit() {
		return build(plan.NewCommit())
	}
	return sql.RowsToRowIter(), nil
}
