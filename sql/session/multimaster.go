package session

import (
	"context"
	"time"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
)

// HoldMultiMaster makes the transaction depend on the definition of the table that it knows.
func (t *Txn) HoldMultiMaster(ctx *sql.Context, tab *schema.Table) error {
	if tab.TS == 0 || t.Schema != nil {
		return nil // of a schema change: it does not write rows
	}
	e, ok := t.KV.(kv.EpochTxn)
	if !ok {
		return schema.Invalid("this server has no MULTI MASTER tables")
	}
	if err := e.Hold(t.Session.KVContext(ctx), tab.Desc.ID, tab.TS); err != nil {
		return t.Fail(err)
	}
	return nil
}

// Validates is what a read of a MULTI MASTER table asks of kv, where every lock is a validation at
// commit: by default what locking reads and foreign keys have read, and what is written; everything
// in a SERIALIZABLE transaction.
func (t *Txn) Validates(asked, lock kv.LockMode, target bool) kv.LockMode {
	switch {
	case t.strict || lock == kv.LockNone:
		return lock
	case target:
		return t.Session.Stmt.Lock // the rows that are changed are validated as written
	}
	return max(asked, t.Session.Stmt.Lock)
}

// Declares notes that the commit of this transaction changes the definition of a MULTI MASTER
// table, or removes its id.
func (t *Txn) Declares(id base.TableID, gone bool) {
	if t.declared == nil {
		t.declared = map[base.TableID]bool{}
	}
	t.declared[id] = gone
}

// declareTimeout bounds the wait for a definition to be in force.
const declareTimeout = 10 * time.Second

// declare puts the definitions that were committed at ts in force for the transactions of epochs,
// also if the statement was killed meanwhile.
func (t *Txn) declare(ctx *sql.Context, ts base.Timestamp) error {
	if len(t.declared) == 0 {
		return nil
	}
	e, ok := t.Session.env.DB.(kv.Epochs)
	if !ok {
		return nil
	}
	kctx, cancel := context.WithTimeout(context.WithoutCancel(t.Session.KVContext(ctx)), declareTimeout)
	defer cancel()
	for id, gone := range t.declared {
		version := ts
		if gone {
			version = base.MaxTimestamp
		}
		if err := e.Declare(kctx, id, version); err != nil {
			return schema.ClientError(base.Errorf(base.CodeAmbiguous,
				"the definition has changed, but transactions of other regions may not respect it yet: %v", err))
		}
	}
	return nil
}
