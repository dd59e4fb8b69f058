package sqlfront

import (
	"context"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

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
