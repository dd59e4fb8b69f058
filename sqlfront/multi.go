package sqlfront

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// MULTI MASTER tables. Their rows lie in the shard of the epochs, each transaction reads them at the last epoch
// applied on this node, and writes them by submitting what it has buffered to the next one ([kv.Epochs]).
//
// Their definitions are rows of the meta shard like those of other tables, but nothing there orders transactions of epochs. So
// the version in force is a row of the epochs, too: whoever changes a definition declares it after the commit, and
// transactions are held to the version that they know ([kv.EpochTxn.Hold]). Should the node that changes one die in between,
// the first that waits for it declares it.

// beginEpochs has the cluster begin with epochs.
func (g *gateway) beginEpochs(ctx *sql.Context) error {
	e, ok := g.db.(kv.Epochs)
	if !ok {
		return invalid("this server has no MULTI MASTER tables")
	}
	return clientError(e.BeginEpochs(sessionOf(ctx).kvctx(ctx)))
}

// hold makes the transaction depend on the definition of the table that it knows.
func (t *Txn) hold(ctx *sql.Context, tab *table) error {
	if tab.ts == 0 || t.snap != nil {
		return nil // of a schema change: it does not write rows
	}
	e, ok := t.kv.(kv.EpochTxn)
	if !ok {
		return invalid("this server has no MULTI MASTER tables")
	}
	if err := e.Hold(t.s.kvctx(ctx), tab.desc.ID, tab.ts); err != nil {
		return t.fail(err)
	}
	return nil
}

// validates is what a read of a MULTI MASTER table asks of kv, where every lock is a validation at commit: by default what
// locking reads and foreign keys have read, and what is written; everything in a SERIALIZABLE transaction.
func (t *Txn) validates(acc *access, lock kv.LockMode) kv.LockMode {
	switch {
	case t.strict || lock == kv.LockNone:
		return lock
	case acc.target:
		return t.s.astLock // the rows that are changed are validated as written
	}
	return max(acc.lock, t.s.astLock)
}

// unmixed refuses to write MULTI MASTER and other tables in one transaction.
func (e *editor) unmixed() error {
	k, ok := e.tx.kv.(kv.EpochTxn)
	if !ok {
		return nil
	}
	epochs, others := k.Buffered()
	if _, made := e.tx.made[e.t.desc.ID]; made && e.t.desc.Locality.Kind == multi {
		return invalid("a MULTI MASTER table cannot be filled by the statement that creates it: create it first")
	}
	if e.t.desc.Locality.Kind == multi && others || e.t.desc.Locality.Kind != multi && epochs {
		return invalid("a transaction cannot write MULTI MASTER tables and others: commit in between")
	}
	return nil
}

// unmixed refuses a definition with which a foreign key would lead from a MULTI MASTER table to another one, or the other way: whichever of the two
// tables comes later is the one refused.
func (m *mutation) unmixed(d *tableDesc) error {
	check := func(fk *sql.ForeignKeyConstraint, child, parent *tableDesc) error {
		if lowerEq(fk.Table, fk.ParentTable) && lowerEq(fk.Database, fk.ParentDatabase) || (child.Locality.Kind == multi) == (parent.Locality.Kind == multi) {
			return nil
		}
		is, isNot := child.Name, parent.Name
		if parent.Locality.Kind == multi {
			is, isNot = isNot, is
		}
		return invalid("foreign key " + fk.Name + " leads from table " + child.Name + " to table " + parent.Name + ", but " + is + " is MULTI MASTER and " + isNot +
			" is not: give both that locality or neither, or drop the foreign key")
	}
	for i := range d.FKs {
		if p := m.snap().table(d.FKs[i].ParentDatabase, d.FKs[i].ParentTable); p != nil {
			if err := check(&d.FKs[i], d, p.desc); err != nil {
				return err
			}
		}
	}
	if db := m.snap().db(d.DB); db != nil {
		for _, fk := range db.referencedBy[strings.ToLower(d.Name)] {
			if c := m.snap().table(fk.Database, fk.Table); c != nil {
				if err := check(&fk, c.desc, d); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// resolve marks a foreign key of a MULTI MASTER table as resolved if it was declared before its parent (foreign_key_checks = 0) and fits it now. The
// engine would note that in the definition when rows are written, and no transaction writes both. As in MySQL, rows of before are not checked.
func (g *gateway) resolve(ctx *sql.Context, snap *snapshot, fk *sql.ForeignKeyConstraint) {
	if fk.IsResolved {
		return
	}
	child, parent := snap.table(fk.Database, fk.Table), snap.table(fk.ParentDatabase, fk.ParentTable)
	if child == nil || parent == nil || child.desc.Locality.Kind != multi || parent.desc.Locality.Kind != multi || len(fk.Columns) != len(fk.ParentColumns) {
		return
	}
	r := *fk
	r.Columns, r.ParentColumns = slices.Clone(fk.Columns), slices.Clone(fk.ParentColumns)
	from, to := newSQLTable(g, child), newSQLTable(g, parent)
	theirs := func(t *sqlTable, names []string) (map[string]*sql.Column, bool) { // by lower name; names are given their case
		cols := map[string]*sql.Column{}
		for _, c := range t.Schema(ctx) {
			cols[strings.ToLower(c.Name)] = c
		}
		for i, n := range names {
			c := cols[strings.ToLower(n)]
			if c == nil {
				return nil, false
			}
			names[i] = c.Name
		}
		return cols, true
	}
	cols, known := theirs(from, r.Columns)
	parents, there := theirs(to, r.ParentColumns)
	if !known || !there || plan.ValidateForeignKeyDefinition(ctx, r, cols, parents) != nil {
		return
	}
	if _, ok, err := plan.FindFKIndexWithPrefix(ctx, to, r.ParentColumns, true); !ok || err != nil {
		return
	}
	r.IsResolved = true
	*fk = r
}

// declares notes that the commit of this transaction changes the definition of a MULTI MASTER table, or removes its id.
func (t *Txn) declares(id base.TableID, gone bool) {
	if t.declared == nil {
		t.declared = map[base.TableID]bool{}
	}
	t.declared[id] = gone
}

// declareTimeout bounds the wait for a definition to be in force.
const declareTimeout = 10 * time.Second

// declare puts the definitions that were committed at ts in force for the transactions of epochs.
func (t *Txn) declare(ctx *sql.Context, ts base.Timestamp) error {
	if len(t.declared) == 0 {
		return nil
	}
	e, ok := t.s.g.db.(kv.Epochs)
	if !ok {
		return nil
	}
	kctx, cancel := context.WithTimeout(t.s.kvctx(ctx), declareTimeout)
	defer cancel()
	for id, gone := range t.declared {
		version := ts
		if gone {
			version = base.MaxTimestamp
		}
		if err := e.Declare(kctx, id, version); err != nil {
			return clientError(base.Errorf(base.CodeAmbiguous, "the definition has changed, but transactions of other regions may not respect it yet: %v", err))
		}
	}
	return nil
}

// retire makes sure that nobody writes or reads what is to be removed from a MULTI MASTER table.
func (g *gateway) retire(ctx context.Context, d *garbageDesc) error {
	e, ok := g.db.(kv.Epochs)
	if !ok {
		return invalid("this server has no MULTI MASTER tables")
	}
	version := base.MaxTimestamp
	if d.Index != nil {
		snap, err := g.catalog.fresh(ctx)
		if err != nil {
			return err
		}
		if t := snap.byID[d.Table]; t != nil {
			version = t.ts
		}
	}
	return e.Declare(ctx, d.Table, version)
}

func errMultiRewrite(name string) error {
	return invalid("table " + name + " is MULTI MASTER, and this change would write all of its rows again while other regions write them: make a new table and copy them")
}

// mayTurn refuses localities that a table cannot change to.
func (t *sqlTable) mayTurn(m *mutation, d *tableDesc, l locality) error {
	if d.Locality.Kind == multi {
		return errMultiRewrite(d.Name)
	}
	if l.Kind != multi {
		return nil
	}
	if len(d.FKs) > 0 {
		return invalid("table " + d.Name + " has foreign keys: drop them first, and add them when all tables concerned are MULTI MASTER")
	}
	for _, db := range m.snap().dbs {
		for _, o := range db.tables {
			for _, k := range o.desc.FKs {
				if lowerEq(k.ParentTable, d.Name) && lowerEq(k.ParentDatabase, d.DB) {
					return invalid("foreign keys of table " + o.desc.Name + " refer to table " + d.Name + ": drop them first, and add them when all tables concerned are MULTI MASTER")
				}
			}
		}
	}
	for i := range d.Indexes {
		if !d.Indexes[i].stored() {
			return invalid("index " + d.Indexes[i].Name + " is of a kind that MULTI MASTER tables do not have")
		}
	}
	return nil
}
