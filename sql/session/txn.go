package session

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/sqltypes"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/zone"
)

// Txn is the transaction of a session. The kv transaction below it begins when
// it is first needed, because only then it is known what it must be.
type Txn struct {
	Session *Session
	level   Isolation
	// SERIALIZABLE was asked for: of MULTI MASTER tables, too, everything read is validated
	strict    bool
	ReadOnly  bool           // START TRANSACTION READ ONLY
	AsOf      base.Timestamp // everything is read at that time; 0: not
	KV        kv.Txn         // nil until used
	Home      base.RegionID  // where its new rows are at home, as KV has it
	Snapshot  bool           // kv reads one snapshot and cannot write
	Over      bool           // committed, rolled back or lost
	Discarded bool           // an autocommit statement failed: end it
	Schema    *schema.Snapshot
	// Ends: the statement changes definitions without Schema: those of temporary tables, or in
	// transactions of its own. The transaction ends with it, also if it fails, as with every such
	// statement.
	Ends    bool
	pinned  []base.Key // of the descriptors of its tables
	saves   []savepoint
	editors []Editor // with pending rows
	homes   homes    // of rows read for update; only of tables that need it
	// Located are rows read for an update of their homes, by row key.
	Located map[string]kv.Row
	// Advice of the policy of homes for rows read for update, by row key.
	Advice map[string]base.RegionID
	// hidden finds rows of tables without primary key by their value.
	hidden map[string][]schema.RowRef
	// inserted explains keys that Commit may find present.
	inserted insertedRows
	held     held
	past     map[base.Timestamp]kv.Txn // AS OF reads
	After    []func()                  // run when the commit is durable
	Made     map[base.TableID]struct{} // tables created by this transaction
	declared map[base.TableID]bool     // MULTI MASTER tables that it changes; true: removes
	Raw      error                     // the last error of kv as it was
	LastHome RowHome                   // of the last row read with KeepHomes
	top      int                       // the newest savepoint of kv that exists
}

type savepoint struct {
	name string
	n    int
}

var _ sql.Transaction = (*Txn)(nil)

// NewTxn is a transaction of a session.
func NewTxn(s *Session) *Txn { return &Txn{Session: s, ReadOnly: s.nextReadOnly()} }

// NewTxnOver is a transaction of a session over one of kv that has begun.
func NewTxnOver(s *Session, k kv.Txn) *Txn { return &Txn{Session: s, KV: k} }

// Reset makes a transaction that has ended a new one, which the session keeps.
func (t *Txn) Reset() { *t = Txn{Session: t.Session} }

// Untouched reports whether the transaction has done nothing yet.
func (t *Txn) Untouched() bool {
	return t.KV == nil && !t.Over && len(t.saves) == 0 && len(t.past) == 0
}

// Again is a transaction like this one, which was lost before it had done anything.
func (t *Txn) Again() *Txn {
	return &Txn{Session: t.Session, ReadOnly: t.ReadOnly, level: t.level, strict: t.strict}
}

// String implements sql.Transaction.
func (t *Txn) String() string { return "godwit transaction" }

// IsReadOnly implements sql.Transaction: the client began it with READ ONLY.
func (t *Txn) IsReadOnly() bool { return t.ReadOnly }

// Begin is the kv transaction, begun if need be.
func (t *Txn) Begin(ctx *sql.Context) (kv.Txn, error) {
	if t.Over {
		return nil, schema.ClientError(base.Errorf(base.CodeAborted, "the transaction has already ended"))
	}
	if t.KV == nil {
		t.isolate()
		explicit := t.Session.Explicit(ctx)
		st := &t.Session.Stmt
		t.Snapshot = t.ReadOnly || !explicit && st.Planned && !st.Writes && !st.Locks && st.Lock == kv.LockNone
		var at base.Timestamp
		if t.Snapshot {
			at = t.Session.snapshotFor(ctx)
		}
		if t.Session.attempt.touched == nil {
			t.Session.attempt.touched = &kv.Touched{}
		}
		t.Home = t.Session.Home()
		relay, asked := t.Session.crosses()
		opts := kv.Options{ReadOnly: t.Snapshot, ReadTS: at, Age: t.Session.attempt.age,
			Source: t.Home, Trace: t.Session.Trace, Relay: relay, Careful: relay && !asked,
			Touched:   t.Session.attempt.touched,
			Statement: t.Session.forwarded.statement, LockTimeout: t.Session.lockTimeout(),
			Prepare: t.Session.preparation()}
		opts.Relay = opts.MayRelay(t.Session.attempt.tries)
		t.KV = t.Session.env.DB.Begin(opts)
		if t.Session.HasTemporary() {
			t.route()
		}
		t.Session.attempt.tries++
		if t.Session.attempt.age == 0 {
			t.Session.attempt.age = t.KV.ID().Start()
		}
	}
	return t.KV, nil
}

// Defines reports whether the transaction is that of a statement that changes definitions. It began
// with a commit of what was before, and ends with the statement.
func (t *Txn) Defines() bool { return t.Schema != nil || t.Ends }

// NoteMade notes that the transaction creates a table.
func (t *Txn) NoteMade(id base.TableID) {
	if t.Made == nil {
		t.Made = map[base.TableID]struct{}{}
	}
	t.Made[id] = struct{}{}
}

// Pin holds the descriptor of a table until commit.
func (t *Txn) Pin(snap *schema.Snapshot, tab *schema.Table) {
	if tab.TS == 0 || t.Schema != nil {
		return // made by this transaction, which holds it exclusively
	}
	for _, k := range t.pinned {
		if k.Compare(tab.Key) == 0 {
			return
		}
	}
	t.pinned = append(t.pinned, tab.Key)
	t.KV.Pin(max(tab.TS, snap.At), tab.Key)
}

// Fail notes an error of kv and returns it as the client shall see it.
func (t *Txn) Fail(err error) error {
	t.Raw = err
	if schema.EndsTxn(err) {
		t.Over = true
		t.Session.aborted = true
	}
	return schema.ClientError(err)
}

// Flush sends pending rows of editors to kv; of one table, or of all if nil.
func (t *Txn) Flush(ctx *sql.Context, id *base.TableID) error {
	for _, e := range slices.Clone(t.editors) {
		if id == nil || e.TableID() == *id {
			if err := e.Flush(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// freshIn is for how long a session waits for its own change of the catalog, whether the statement
// that made it was killed meanwhile or not.
const freshIn = 10 * time.Second

func (t *Txn) fresh(ctx *sql.Context) error {
	off, cancel := context.WithTimeout(context.WithoutCancel(t.Session.KVContext(ctx)), freshIn)
	defer cancel()
	_, err := t.Session.env.Catalog.Fresh(off)
	return err
}

// Commit sends what is pending and commits. A duplicate that only the commit has found gets MySQL's
// error, and a lost conflict is noted in the session.
func (t *Txn) Commit(ctx *sql.Context) error {
	if t.Over {
		return nil
	}
	if err := t.Flush(ctx, nil); err != nil {
		t.Rollback()
		return err
	}
	if t.KV != nil && t.KV.Wrote() {
		if err := t.Session.State.Commits(); err != nil {
			t.Rollback()
			return err
		}
	}
	t.Over = true
	t.EndPast()
	defer t.forget()
	if t.KV == nil {
		t.Session.EndDefinitions()
		return nil
	}
	ts, err := t.KV.Commit(t.Session.KVContext(ctx))
	t.Session.forwarded.raw = err
	if err != nil {
		t.KV.Rollback(context.Background())
		t.Session.UndoDefinitions()
		if isPrepared(err) {
			return ErrXANameUse
		}
		if base.CodeOf(err) == base.CodeExists {
			return t.explainExists(err)
		}
		t.Session.aborted = base.Retryable(err)
		return schema.ClientError(err)
	}
	t.Session.EndDefinitions()
	t.Session.committed++
	t.Session.commitTS = ts
	if t.Snapshot {
		t.Session.readAt = max(t.Session.readAt, ts)
	} else {
		t.Session.wroteAt = max(t.Session.wroteAt, ts)
	}
	if t.Schema != nil {
		t.Session.Stmt.Snap = nil
		// The next statement of this session must see its own change.
		if err := t.fresh(ctx); err != nil {
			t.Session.env.Log.Warn("catalog could not be read after a schema change", "err", err)
		}
	}
	if err := t.declare(ctx, ts); err != nil {
		return err
	}
	for _, f := range t.After {
		f()
	}
	return nil
}

// Stream has the transaction log rows of a table that were sent to kv, and entries of its indexes,
// if it can (kv.Streamer).
func (t *Txn) Stream(ctx *sql.Context, table base.TableID, indexes ...base.IndexID) error {
	k, ok := t.KV.(kv.Streamer)
	if !ok {
		return nil
	}
	err := k.Stream(t.Session.KVContext(ctx), table, indexes...)
	switch {
	case err == nil:
		return nil
	case base.CodeOf(err) == base.CodeExists:
		return t.explainExists(err)
	}
	return t.Fail(err)
}

// explainExists names the key that Commit found present.
func (t *Txn) explainExists(err error) error {
	var be *base.Error
	if errors.As(err, &be) {
		if err := t.inserted.duplicate(t.Session, be.Key); err != nil {
			return err
		}
		if be.Key.Table() >= schema.FirstTableSeq {
			// A hidden row id was taken: a clock went backwards.
			t.Session.aborted = true
			return schema.ClientError(base.Errorf(base.CodeAborted, "a row id was taken"))
		}
	}
	return schema.ClientError(err)
}

// shown is a row with its TIMESTAMPs as the session's clock shows them.
func (s *Session) shown(t *schema.Table, row sql.Row) sql.Row {
	loc, err := zone.Of(sql.NewContext(context.Background(), sql.WithSession(s)))
	if err != nil || loc == time.UTC {
		return row
	}
	row = row.Copy()
	for i, c := range t.Cols {
		if at, ok := row[i].(time.Time); ok && c.Type.Type() == sqltypes.Timestamp {
			row[i] = at.In(loc)
		}
	}
	return row
}

// DuplicateKey reports a duplicate key to the engine; the session keeps MySQL's wording for the
// client.
func DuplicateKey(s *Session, t *schema.Table, x *schema.Index, row, existing sql.Row) error {
	if s != nil {
		row = s.shown(t, row)
	}
	if s != nil && x != nil && s.Stmt.IndexNames[x.Desc.Name] != "" {
		named, d := *x, *x.Desc
		d.Name = s.Stmt.IndexNames[x.Desc.Name]
		named.Desc, x = &d, &named
	}
	text, err := schema.DuplicateKey(t, x, row, existing)
	if s != nil {
		s.Stmt.Duplicate = text
	}
	return err
}

// Rollback ends the transaction without effect. It may be called again.
func (t *Txn) Rollback() {
	t.Over = true
	t.editors = nil
	t.EndPast()
	defer t.forget()
	if t.KV != nil {
		t.KV.Rollback(context.Background())
	}
}

// forget gives back what the transaction has held.
func (t *Txn) forget() {
	t.inserted.end()
	t.held.end()
	t.hidden = nil
}

// EndPast ends the reads at times of the past.
func (t *Txn) EndPast() {
	for _, p := range t.past {
		p.Rollback(context.Background())
	}
	t.past = nil
}

// At is a transaction that reads at a timestamp.
func (t *Txn) At(ts base.Timestamp) kv.Txn {
	p, ok := t.past[ts]
	if !ok {
		if t.past == nil {
			t.past = map[base.Timestamp]kv.Txn{}
		}
		p = t.Session.env.DB.Begin(kv.Options{ReadOnly: true, ReadTS: ts, Trace: t.Session.Trace})
		t.past[ts] = p
	}
	return p
}

func (t *Txn) createSavepoint(ctx *sql.Context, name string) error {
	if _, err := t.Begin(ctx); err != nil {
		return err
	}
	if err := t.Flush(ctx, nil); err != nil {
		return err
	}
	t.saves = slices.DeleteFunc(t.saves, func(s savepoint) bool { return strings.EqualFold(s.name, name) })
	t.saves = append(t.saves, savepoint{name, t.Mark()})
	return nil
}

// Mark marks the writes so far.
func (t *Txn) Mark() int {
	t.top = t.KV.Savepoint()
	return t.top
}

// RollbackToMark drops the writes since a mark. Several editors of a statement mark
// and roll back on their own; a mark above one rolled back to is gone already.
func (t *Txn) RollbackToMark(n int) {
	if n <= t.top {
		t.top = n
		t.KV.RollbackTo(n)
		t.homes.rollback()
		t.Advice = nil
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
	if t.Over {
		return schema.ClientError(base.Errorf(base.CodeAborted, "the transaction has already ended"))
	}
	t.RollbackToMark(t.saves[i].n)
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

// NoteAdvice remembers where the policy of homes would move a row read for update.
func (t *Txn) NoteAdvice(kr kv.Row) {
	if t.Advice == nil {
		t.Advice = map[string]base.RegionID{}
	}
	t.Advice[string(kr.Key)] = kr.Advice
}

// Moved notes that the transaction takes a row to another home.
func (t *Txn) Moved(key base.Key, to base.RegionID) {
	delete(t.Advice, string(key))
	if _, ok := t.homes.of(key); ok {
		t.homes.set(key, to)
	}
}

// NoteHome remembers the home of a row read for update.
func (t *Txn) NoteHome(key base.Key, home base.RegionID) {
	t.homes.note(key, home)
}

// HomeOf is the home of a row read for update; ok is false if it is not known.
func (t *Txn) HomeOf(key base.Key) (home base.RegionID, ok bool) { return t.homes.of(key) }

// AddEditor notes an editor that has pending rows.
func (t *Txn) AddEditor(e Editor) { t.editors = append(t.editors, e) }

// DropEditor forgets an editor.
func (t *Txn) DropEditor(e Editor) {
	t.editors = slices.DeleteFunc(t.editors, func(o Editor) bool { return o == e })
}

// DropChanges has all editors forget their pending rows.
func (t *Txn) DropChanges() {
	for _, e := range t.editors {
		e.Drop()
	}
	t.editors = nil
}
