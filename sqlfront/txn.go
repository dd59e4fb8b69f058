package sqlfront

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// Txn is the transaction of a session. The kv transaction below it begins when
// it is first needed, because only then it is known what it must be.
type Txn struct {
	s         *Session
	level     isolation
	strict    bool           // SERIALIZABLE was asked for: of MULTI MASTER tables, too, everything read is validated
	readOnly  bool           // START TRANSACTION READ ONLY
	asOf      base.Timestamp // everything is read at that time; 0: not
	kv        kv.Txn         // nil until used
	snapshot  bool           // kv reads one snapshot and cannot write
	over      bool           // committed, rolled back or lost
	discarded bool           // an autocommit statement failed: end it
	snap      *snapshot
	pinned    []base.Key // of the descriptors of its tables
	saves     []savepoint
	editors   []*editor // with pending rows
	// homes of rows read for update, by row key; only of tables that need it.
	homes map[string]base.RegionID
	// located are rows read for an update of their homes, by row key.
	located map[string]kv.Row
	// advice of the policy of homes for rows read for update, by row key.
	advice map[string]base.RegionID
	// hidden finds rows of tables without primary key by their value.
	hidden map[string][]rowRef
	// inserted explains keys that Commit may find present.
	inserted map[string]insertedRow
	past     map[base.Timestamp]kv.Txn // AS OF reads
	after    []func()                  // run when the commit is durable
	made     map[base.TableID]struct{} // tables created by this transaction
	declared map[base.TableID]bool     // MULTI MASTER tables that it changes; true: removes
	raw      error                     // the last error of kv as it was
	lastHome homeOf                    // of the last row read with keepHomes
	top      int                       // the newest savepoint of kv that exists
}

type savepoint struct {
	name string
	n    int
}

type insertedRow struct {
	t   *table
	x   *index
	row sql.Row
}

var _ sql.Transaction = (*Txn)(nil)

func (t *Txn) String() string   { return "godwit transaction" }
func (t *Txn) IsReadOnly() bool { return t.readOnly }

// begun is the kv transaction, begun if need be.
func (t *Txn) begun(ctx *sql.Context) (kv.Txn, error) {
	if t.over {
		return nil, clientError(base.Errorf(base.CodeAborted, "the transaction has already ended"))
	}
	if t.kv == nil {
		t.isolate()
		explicit := t.s.explicit(ctx)
		t.snapshot = t.readOnly || !explicit && t.s.built && !t.s.writes && t.s.astLock == kv.LockNone
		var at base.Timestamp
		if t.snapshot {
			at = t.s.snapshotFor(ctx)
		}
		if t.s.age == 0 {
			t.s.tries = 0
		}
		t.kv = t.s.g.db.Begin(kv.Options{ReadOnly: t.snapshot, ReadTS: at, Age: t.s.age, Source: t.s.source, Trace: t.s.trace,
			Relay: t.s.tries < kv.RelayTries && t.s.crosses()})
		t.s.tries++
		if t.s.age == 0 {
			t.s.age = t.kv.ID().Start()
		}
	}
	return t.kv, nil
}

func (t *Txn) noteMade(id base.TableID) {
	if t.made == nil {
		t.made = map[base.TableID]struct{}{}
	}
	t.made[id] = struct{}{}
}

// pin holds the descriptor of a table until commit.
func (t *Txn) pin(snap *snapshot, tab *table) {
	if tab.ts == 0 || t.snap != nil {
		return // made by this transaction, which holds it exclusively
	}
	for _, k := range t.pinned {
		if k.Compare(tab.key) == 0 {
			return
		}
	}
	t.pinned = append(t.pinned, tab.key)
	t.kv.Pin(max(tab.ts, snap.at), tab.key)
}

// fail notes an error of kv and returns it as the client shall see it.
func (t *Txn) fail(err error) error {
	t.raw = err
	if endsTxn(err) {
		t.over = true
		t.s.aborted = true
	}
	return clientError(err)
}

// flush sends pending rows of editors to kv; of one table, or of all if nil.
func (t *Txn) flush(ctx *sql.Context, id *base.TableID) error {
	for _, e := range slices.Clone(t.editors) {
		if id == nil || e.t.desc.ID == *id {
			if err := e.flush(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Txn) commit(ctx *sql.Context) error {
	if t.over {
		return nil
	}
	if err := t.flush(ctx, nil); err != nil {
		t.rollback()
		return err
	}
	t.over = true
	t.endPast()
	if t.kv == nil {
		return nil
	}
	ts, err := t.kv.Commit(t.s.kvctx(ctx))
	if err != nil {
		t.kv.Rollback(context.Background())
		if base.CodeOf(err) == base.CodeExists {
			return t.explainExists(err)
		}
		t.s.aborted = base.Retryable(err)
		return clientError(err)
	}
	t.s.committed++
	t.s.commitTS = ts
	if t.snapshot {
		t.s.readAt = max(t.s.readAt, ts)
	} else {
		t.s.wroteAt = max(t.s.wroteAt, ts)
	}
	if t.snap != nil {
		t.s.snap = nil
		// The next statement of this session must see its own change.
		if _, err := t.s.g.catalog.fresh(t.s.kvctx(ctx)); err != nil {
			t.s.g.log.Warn("catalog could not be read after a schema change", "err", err)
		}
	}
	if err := t.declare(ctx, ts); err != nil {
		return err
	}
	for _, f := range t.after {
		f()
	}
	return nil
}

// explainExists names the key that Commit found present.
func (t *Txn) explainExists(err error) error {
	var be *base.Error
	if errors.As(err, &be) {
		if in, ok := t.inserted[string(be.Key)]; ok {
			return dupError(t.s, in.t, in.x, in.row, nil)
		}
		if be.Key.Table() >= firstTableSeq {
			// A hidden row id was taken: a clock went backwards.
			t.s.aborted = true
			return clientError(base.Errorf(base.CodeAborted, "a row id was taken"))
		}
	}
	return clientError(err)
}

func (t *Txn) rollback() {
	t.over = true
	t.editors = nil
	t.endPast()
	if t.kv != nil {
		t.kv.Rollback(context.Background())
	}
}

func (t *Txn) endPast() {
	for _, p := range t.past {
		p.Rollback(context.Background())
	}
	t.past = nil
}

// at is a transaction that reads at a timestamp.
func (t *Txn) at(ts base.Timestamp) kv.Txn {
	p, ok := t.past[ts]
	if !ok {
		if t.past == nil {
			t.past = map[base.Timestamp]kv.Txn{}
		}
		p = t.s.g.db.Begin(kv.Options{ReadOnly: true, ReadTS: ts, Trace: t.s.trace})
		t.past[ts] = p
	}
	return p
}

func (t *Txn) createSavepoint(ctx *sql.Context, name string) error {
	if _, err := t.begun(ctx); err != nil {
		return err
	}
	if err := t.flush(ctx, nil); err != nil {
		return err
	}
	t.saves = slices.DeleteFunc(t.saves, func(s savepoint) bool { return strings.EqualFold(s.name, name) })
	t.saves = append(t.saves, savepoint{name, t.save()})
	return nil
}

// save marks the writes so far.
func (t *Txn) save() int {
	t.top = t.kv.Savepoint()
	return t.top
}

// rollTo drops the writes since a mark. Several editors of a statement mark
// and roll back on their own; a mark above one rolled back to is gone already.
func (t *Txn) rollTo(n int) {
	if n <= t.top {
		t.top = n
		t.kv.RollbackTo(n)
		t.homes, t.advice = nil, nil // moves may have been dropped: read again
	}
}

func (t *Txn) findSavepoint(name string) (int, error) {
	i := slices.IndexFunc(t.saves, func(s savepoint) bool { return strings.EqualFold(s.name, name) })
	if i < 0 {
		return 0, sql.ErrSavepointDoesNotExist.New(name)
	}
	return i, nil
}

func (t *Txn) rollbackTo(name string) error {
	i, err := t.findSavepoint(name)
	if err != nil {
		return err
	}
	if t.over {
		return clientError(base.Errorf(base.CodeAborted, "the transaction has already ended"))
	}
	t.rollTo(t.saves[i].n)
	t.saves = t.saves[:i+1]
	return nil
}

func (t *Txn) release(name string) error {
	i, err := t.findSavepoint(name)
	if err == nil {
		t.saves = t.saves[:i]
	}
	return err
}

// noteAdvice remembers where the policy of homes would move a row read for update.
func (t *Txn) noteAdvice(kr kv.Row) {
	if t.advice == nil {
		t.advice = map[string]base.RegionID{}
	}
	t.advice[string(kr.Key)] = kr.Advice
}

// moved notes that the transaction takes a row to another home.
func (t *Txn) moved(key base.Key, to base.RegionID) {
	delete(t.advice, string(key))
	if _, ok := t.homes[string(key)]; ok {
		t.homes[string(key)] = to
	}
}

// noteHome remembers the home of a row read for update.
func (t *Txn) noteHome(key base.Key, home base.RegionID) {
	if t.homes == nil {
		t.homes = map[string]base.RegionID{}
	}
	t.homes[string(key)] = home
}
