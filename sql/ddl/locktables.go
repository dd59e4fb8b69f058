package ddl

import (
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/vitess/go/vt/sqlparser"

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
	names, err := lockNames(ctx, s)
	if err != nil {
		return nil, err
	}
	var read, write []base.Key
	writes := false
	for _, l := range n.Locks {
		writes = writes || l.Write
		node := l.Table
		if as, ok := node.(*plan.TableAlias); ok {
			node = as.Child
		}
		tn, ok := node.(sql.TableNode)
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
	s.TablesLocked(names)
	if writes {
		return sql.RowsToRowIter(), nil
	}
	return build(plan.NewStartTransaction(sql.ReadOnly))
}

// lockNames are the locks that a LOCK TABLES asks for, and those of the tables that its views read.
func lockNames(ctx *sql.Context, s *session.Session) (out []session.TableLock, err error) {
	n, ok := s.Stmt.Tree.(*sqlparser.LockTables)
	if !ok {
		return nil, nil
	}
	snap, err := s.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range n.Tables {
		t, ok := l.Table.(*sqlparser.AliasedTableExpr)
		if !ok {
			continue
		}
		x, ok := lockOf(t, ctx.GetCurrentDatabase())
		if !ok {
			continue
		}
		x.Write = strings.Contains(strings.ToLower(string(l.Lock)), "write")
		out = append(out, x)
	}
	for i := 0; i < len(out) && i < mostViews; i++ { // what a view reads may be a view
		v := snap.View(out[i].DB, out[i].Table)
		if v == nil || v.View == nil {
			continue
		}
		stmt, err := sqlparser.Parse(v.View.TextDefinition)
		if err != nil {
			continue
		}
		_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
			if t, ok := n.(*sqlparser.AliasedTableExpr); ok {
				x, ok := lockOf(t, out[i].DB)
				if ok && !slices.ContainsFunc(out, func(o session.TableLock) bool { return o.Covers(x.DB, x.Table, x.Alias) }) {
					x.Write = out[i].Write
					out = append(out, x)
				}
			}
			return true, nil
		}, stmt) // it never fails
	}
	return out, nil
}

// lockOf is the lock for a table as a statement names it.
func lockOf(t *sqlparser.AliasedTableExpr, db string) (x session.TableLock, ok bool) {
	name, ok := t.Expr.(sqlparser.TableName)
	if !ok {
		return x, false
	}
	x = session.TableLock{DB: db, Table: name.Name.String(), Alias: name.Name.String()}
	if q := name.DbQualifier.String(); q != "" {
		x.DB = q
	}
	if !t.As.IsEmpty() {
		x.Alias = t.As.String()
	}
	return x, true
}

// unlockTables executes UNLOCK TABLES. As in MySQL it ends a transaction only if there were locks.
func unlockTables(s *session.Session, build func(sql.Node) (sql.RowIter, error)) (sql.RowIter, error) {
	if s.UnlockTables() && s.GetIgnoreAutoCommit() {
		return build(plan.NewCommit())
	}
	return sql.RowsToRowIter(), nil
}
