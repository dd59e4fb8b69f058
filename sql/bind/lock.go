package bind

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/godwitdb/godwit/sql/algebra"
)

// locking is what a locking clause asks for.
type locking struct {
	kind algebra.LockKind
	wait algebra.WaitKind
}

var lockings = map[ast.SelectLockType]locking{
	ast.SelectLockForShare:            {algebra.ForShare, algebra.Wait},
	ast.SelectLockForShareNoWait:      {algebra.ForShare, algebra.NoWait},
	ast.SelectLockForShareSkipLocked:  {algebra.ForShare, algebra.SkipLocked},
	ast.SelectLockForUpdate:           {algebra.ForUpdate, algebra.Wait},
	ast.SelectLockForUpdateNoWait:     {algebra.ForUpdate, algebra.NoWait},
	ast.SelectLockForUpdateSkipLocked: {algebra.ForUpdate, algebra.SkipLocked},
}

// lock notes the locks that FOR UPDATE or FOR SHARE asks for at the tables of FROM, also those of
// derived tables and views in it. Subqueries in expressions have clauses of their own.
func (q *query) lock(rel algebra.Rel, n *ast.SelectLockInfo) error {
	if n == nil || n.LockType == ast.SelectLockNone {
		return nil
	}
	how, ok := lockings[n.LockType]
	if !ok {
		return unsupported("locking clause")
	}
	q.b.lock = max(q.b.lock, how.kind)
	for _, t := range n.Tables {
		if err := q.lockOf(t, how); err != nil {
			return err
		}
	}
	if len(n.Tables) > 0 {
		return nil
	}
	algebra.Walk(rel, func(r algebra.Rel) bool {
		if s, ok := r.(*algebra.Scan); ok {
			q.b.lockScan(s, how)
		}
		return true
	})
	return nil
}

func (b *binder) lockScan(s *algebra.Scan, how locking) {
	if s.Lock == algebra.NoLock || how.wait != algebra.Wait {
		s.Wait = how.wait // else the clause of the query inside holds
	}
	s.Lock = max(s.Lock, how.kind)
	if how.kind != algebra.ForUpdate {
		return
	}
	for _, x := range b.of {
		if x.scan == s {
			b.updates = append(b.updates, x.use)
		}
	}
}

// lockOf locks the table that OF names.
func (q *query) lockOf(n *ast.TableName, how locking) error {
	is := func(db, name string) bool {
		return strings.EqualFold(name, n.Name.O) && (n.Schema.O == "" || strings.EqualFold(db, n.Schema.O))
	}
	for _, s := range q.scans {
		if is(s.Table.DB(), s.Alias) {
			q.b.lockScan(s, how)
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

// SkipsLocks reports whether NOWAIT or SKIP LOCKED stands anywhere in a statement.
func SkipsLocks(n ast.Node) bool {
	v := &lockClauses{}
	n.Accept(v)
	return v.skips
}

type lockClauses struct{ skips bool }

// Enter implements ast.Visitor.
func (v *lockClauses) Enter(n ast.Node) (ast.Node, bool) {
	if s, ok := n.(*ast.SelectStmt); ok && s.LockInfo != nil && lockings[s.LockInfo.LockType].wait != algebra.Wait {
		v.skips = true
	}
	return n, v.skips
}

// Leave implements ast.Visitor.
func (v *lockClauses) Leave(n ast.Node) (ast.Node, bool) { return n, true }
