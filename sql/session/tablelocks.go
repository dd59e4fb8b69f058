package session

import (
	"context"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
)

// LockTables waits until nobody has WRITE locks of the tables, and takes those that it is to have:
// locks of keys without a value, one for each table, in a transaction that does nothing else. So
// they are those of all nodes, and end with the session. Who changes rows without LOCK TABLES does
// not ask for them. READ locks are not kept: who has one reads a moment from then on, which nobody
// changes. All sessions wait in one order, so that none waits for each other.
func (s *Session) LockTables(ctx *sql.Context, read, write []base.Key) error {
	begin := func() kv.Txn { return s.env.DB.Begin(kv.Options{Trace: s.Trace, Source: s.Home()}) }
	take := func(t kv.Txn, keys []base.Key) error {
		keys = slices.CompactFunc(slices.SortedFunc(slices.Values(keys), base.Key.Compare), func(a, b base.Key) bool {
			return a.Compare(b) == 0
		})
		for _, k := range keys {
			if _, err := t.Get(s.KVContext(ctx), []base.Key{k}, kv.LockExclusive); err != nil {
				return schema.ClientError(err)
			}
		}
		return nil
	}
	t := begin()
	if err := take(t, slices.Concat(read, write)); err != nil || len(write) == 0 {
		t.Rollback(context.Background())
		return err
	}
	s.tableLocks = t
	return nil
}

// UnlockTables gives the locks back, and reports whether LOCK TABLES was in effect.
func (s *Session) UnlockTables() (locked bool) {
	t := s.tableLocks
	locked = s.tablesLocked
	s.tableLocks, s.tablesLocked, s.lockedTables = nil, false, nil
	if t != nil {
		t.Rollback(context.Background())
	}
	return locked
}

// TableLock is a lock of LOCK TABLES: of a table or view, under a name by which statements use it.
type TableLock struct {
	DB, Table, Alias string
	Write            bool
}

// Covers reports whether it is the lock of a table that a statement uses by a name.
func (l TableLock) Covers(db, table, alias string) bool {
	return strings.EqualFold(l.DB, db) && strings.EqualFold(l.Table, table) && strings.EqualFold(l.Alias, alias)
}

// TablesLocked says that LOCK TABLES is in effect from now on, with these locks.
func (s *Session) TablesLocked(locks []TableLock) { s.tablesLocked, s.lockedTables = true, locks }

// LockedTables are the locks of LOCK TABLES; none: it is not in effect.
func (s *Session) LockedTables() []TableLock { return s.lockedTables }
