package bind

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/godwitdb/godwit/sql/algebra"
)

// lock notes the locks that FOR UPDATE or FOR SHARE asks for at the tables of FROM, also those of
// derived tables and views in it. Subqueries in expressions have clauses of their own.
func (q *query) lock(rel algebra.Rel, n *ast.SelectLockInfo) error {
	if n == nil || n.LockType == ast.SelectLockNone {
		return nil
	}
	kind := algebra.ForUpdate
	switch n.LockType {
	case ast.SelectLockForShare:
		kind = algebra.ForShare
	case ast.SelectLockForUpdate:
	case ast.SelectLockForShareNoWait, ast.SelectLockForUpdateNoWait:
		return unsupported("NOWAIT")
	case ast.SelectLockForShareSkipLocked, ast.SelectLockForUpdateSkipLocked:
		return unsupported("SKIP LOCKED")
	default:
		return unsupported("locking clause")
	}
	q.b.lock = max(q.b.lock, kind)
	for _, t := range n.Tables {
		if err := q.lockOf(t, kind); err != nil {
			return err
		}
	}
	if len(n.Tables) > 0 {
		return nil
	}
	algebra.Walk(rel, func(r algebra.Rel) bool {
		if s, ok := r.(*algebra.Scan); ok {
			q.b.lockScan(s, kind)
		}
		return true
	})
	return nil
}

func (b *binder) lockScan(s *algebra.Scan, kind algebra.LockKind) {
	s.Lock = max(s.Lock, kind)
	if kind != algebra.ForUpdate {
		return
	}
	for _, x := range b.of {
		if x.scan == s {
			b.updates = append(b.updates, x.use)
		}
	}
}

// lockOf locks the table that OF names.
func (q *query) lockOf(n *ast.TableName, kind algebra.LockKind) error {
	is := func(db, name string) bool {
		return strings.EqualFold(name, n.Name.O) && (n.Schema.O == "" || strings.EqualFold(db, n.Schema.O))
	}
	for _, s := range q.scans {
		if is(s.Table.DB(), s.Alias) {
			q.b.lockScan(s, kind)
			return nil
		}
	}
	for _, c := range q.scope.cols {
		if is(c.db, c.table) {
			return unsupported("locking clause for a table of another kind")
		}
	}
	return &Refusal{fail(3568, "HY000", "Unresolved table name `%s` in locking clause.", n.Name.O),
		sql.ErrUnresolvedTableLock.New(n.Name.O)}
}
