package session

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv/private"
	"github.com/godwitdb/godwit/sql/schema"
)

// Temporary tables are known to their session alone. Their definitions are here, laid over the
// catalog by [Session.Snapshot]; their rows are in a store of package kv/private, which takes part
// in the session's transactions ([Txn.Begin]). A transaction undoes changes of the rows, and no
// changes of the definitions, as in MySQL. A statement that fails undoes both
// ([Session.UndoDefinitions]).

// Budget bounds the memory of temporary tables; Release gives back all of it.
type Budget interface {
	private.Budget
	Release()
}

// temporaries are the temporary tables of one session.
type temporaries struct {
	store  *private.Store
	budget Budget
	tables map[tableName]*schema.Table
	// next are the values that AUTO_INCREMENT columns get next, by the counters of their tables.
	next map[schema.CounterID]uint64
	// below is the catalog that over is laid over.
	below, over *schema.Snapshot
}

// tableName is the name of a table, in lower case.
type tableName struct{ db, name string }

func nameOf(db, name string) tableName { return tableName{strings.ToLower(db), strings.ToLower(name)} }

// temporaryIDs numbers the temporary tables of all sessions of the process: what is kept by the id
// of a table, such as plans, is not of another session's.
var temporaryIDs atomic.Uint64

// NewTemporaryID is the id of a new temporary table.
func NewTemporaryID() base.TableID {
	return base.MakeTableID(base.FirstPrivate+temporaryIDs.Add(1)%(base.FirstSpace-base.FirstPrivate), 0)
}

// unbounded is the budget of sessions whose gateway has none, as in tests.
type unbounded struct{}

func (unbounded) Grow(int64) error { return nil }
func (unbounded) Shrink(int64)     {}
func (unbounded) Release()         {}

// HasTemporary reports whether the session has temporary tables.
func (s *Session) HasTemporary() bool { return s.temp != nil && len(s.temp.tables) > 0 }

// Temporary is a temporary table by name, nil if there is none.
func (s *Session) Temporary(db, name string) *schema.Table {
	if !s.HasTemporary() {
		return nil
	}
	return s.temp.tables[nameOf(db, name)]
}

// TemporaryIn are the temporary tables of a database, by name.
func (s *Session) TemporaryIn(db string) []*schema.Table {
	if !s.HasTemporary() {
		return nil
	}
	return slices.DeleteFunc(s.temp.sorted(), func(t *schema.Table) bool { return !schema.SameName(t.Desc.DB, db) })
}

func (x *temporaries) sorted() []*schema.Table {
	return slices.SortedFunc(maps.Values(x.tables), func(a, b *schema.Table) int {
		return cmp.Or(strings.Compare(a.Desc.DB, b.Desc.DB), strings.Compare(a.Desc.Name, b.Desc.Name))
	})
}

// laid lays the temporary tables over the catalog.
func (s *Session) laid(snap *schema.Snapshot, err error) (*schema.Snapshot, error) {
	if err != nil || !s.HasTemporary() {
		return snap, err
	}
	if x := s.temp; x.below != snap {
		x.below, x.over = snap, snap.Over(x.sorted())
	}
	return s.temp.over, nil
}

// PutTemporary makes a temporary table known, in the place of the one that it was before: old is
// nil for a new table. From then on the session's transaction has its rows.
func (s *Session) PutTemporary(old, t *schema.Table) {
	if s.temp == nil {
		s.temp = &temporaries{budget: unbounded{}, tables: map[tableName]*schema.Table{},
			next: map[schema.CounterID]uint64{}}
		if s.env.Memory != nil {
			s.temp.budget = s.env.Memory()
		}
		s.temp.store = private.NewStore(s.temp.budget)
	}
	s.BeginDefinitions()
	if old != nil {
		delete(s.temp.tables, nameOf(old.Desc.DB, old.Desc.Name))
		if old.Counter() != t.Counter() {
			delete(s.temp.next, old.Counter())
		}
	}
	s.temp.tables[nameOf(t.Desc.DB, t.Desc.Name)] = t
	s.temp.below = nil
	if tx := s.Txn(); tx != nil && tx.KV != nil {
		tx.route()
	}
}

// DropTemporary removes a temporary table and its rows. Nothing brings them back.
func (s *Session) DropTemporary(t *schema.Table) {
	delete(s.temp.tables, nameOf(t.Desc.DB, t.Desc.Name))
	delete(s.temp.next, t.Counter())
	s.temp.below = nil
	s.temp.store.Drop(t.Desc.ID)
}

// BeginDefinitions notes that the statement changes definitions, and keeps what its failure has to
// bring back.
func (s *Session) BeginDefinitions() {
	if s.Stmt.undo != nil {
		return
	}
	tables, next, mark := maps.Clone(s.temp.tables), maps.Clone(s.temp.next), s.temp.store.Mark()
	s.Stmt.undo = func() {
		s.temp.store.UndoTo(mark)
		had := map[base.TableID]bool{}
		for _, t := range tables {
			had[t.Desc.ID] = true
		}
		for _, t := range s.temp.tables {
			if !had[t.Desc.ID] {
				s.temp.store.Drop(t.Desc.ID)
			}
		}
		s.temp.tables, s.temp.next, s.temp.below = tables, next, nil
	}
}

// UndoDefinitions undoes what the statement has done to the definitions of temporary tables, and to
// their rows meanwhile, because it fails.
func (s *Session) UndoDefinitions() {
	if undo := s.Stmt.undo; undo != nil {
		s.Stmt.undo = nil
		undo()
	}
}

// EndDefinitions keeps what the statement has done to definitions, because it succeeds.
func (s *Session) EndDefinitions() { s.Stmt.undo = nil }

// Defines reports whether the statement changes definitions of temporary tables.
func (s *Session) Defines() bool { return s.Stmt.undo != nil }

// endTemporary removes all temporary tables, and gives back their memory.
func (s *Session) endTemporary() {
	if s.temp == nil {
		return
	}
	s.temp.store.Close()
	s.temp.budget.Release()
	s.temp = nil
}

// TakeTemporary takes the next value of the counter of a temporary table.
func (s *Session) TakeTemporary(t *schema.Table) uint64 {
	v := s.PeekTemporary(t)
	s.PassTemporary(t, v)
	return v
}

// PeekTemporary is the next value of the counter of a temporary table.
func (s *Session) PeekTemporary(t *schema.Table) uint64 { return max(s.temp.next[t.Counter()], 1) }

// PassTemporary notes that a value of the AUTO_INCREMENT column of a temporary table is used: later
// ones are above it.
func (s *Session) PassTemporary(t *schema.Table, v uint64) {
	if v+1 > v {
		v++
	}
	s.SetTemporary(t, max(s.PeekTemporary(t), v))
}

// SetTemporary sets the next value of the counter of a temporary table.
func (s *Session) SetTemporary(t *schema.Table, v uint64) { s.temp.next[t.Counter()] = v }

// TemporaryRows is how many rows a temporary table has.
func (s *Session) TemporaryRows(t *schema.Table) uint64 {
	if s.temp == nil {
		return 0
	}
	n := 1
	for _, x := range t.Indexes {
		if x.Desc.Stored() {
			n++
		}
	}
	return uint64(s.temp.store.Keys(t.Desc.ID) / n)
}

// TemporaryBytes is the memory that temporary tables take.
func (s *Session) TemporaryBytes() int64 {
	if s.temp == nil {
		return 0
	}
	return s.temp.store.Bytes()
}

// route makes the rows of temporary tables part of the transaction, unless they are.
func (t *Txn) route() {
	if _, ok := t.KV.(private.Routed); !ok {
		t.KV = private.Route(t.KV, t.Session.temp.store)
	}
}

// Full is MySQL's error 1114 if a row of a temporary table was not written for want of memory. The
// statement that wrote it is to be rolled back.
func (t *Txn) Full(tab *schema.Table) error {
	if r, ok := t.KV.(private.Routed); ok && r.Full() != nil {
		return mysql.NewSQLError(mysql.ERRecordFileFull, "HY000", "The table '%s' is full", tab.Desc.Name)
	}
	return nil
}

// DiscardTemporary removes rows of temporary tables when the transaction commits.
func (t *Txn) DiscardTemporary(span base.Span) {
	if r, ok := t.KV.(private.Routed); ok {
		r.Discard(span)
	}
}

// Stored is the catalog without the temporary tables of the session.
func (s *Session) Stored(ctx *sql.Context) (*schema.Snapshot, error) {
	if t := s.Txn(); t != nil && t.Schema != nil {
		return t.Schema, nil
	}
	if s.Stmt.Snap == nil {
		snap, err := s.env.Catalog.Current(s.KVContext(ctx))
		if err != nil {
			return nil, schema.ClientError(err)
		}
		s.Stmt.Snap = snap
	}
	return s.Stmt.Snap, nil
}
