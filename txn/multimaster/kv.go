package multimaster

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/policy/filter"
	"github.com/godwitdb/godwit/wire"
)

// DB gives the transactions of another kv.DB the rows of epochs. It wraps all of them; see the
// package documentation for what that costs those that use no such rows.
type DB struct {
	kv.DB
	e *Engine
	// commit bounds the wait for the outcome of a transaction that has become part of an epoch.
	commit time.Duration
}

// Prepared implements kv.Preparer.
func (d *DB) Prepared(ctx context.Context) ([]kv.Prepared, error) {
	in, ok := d.DB.(kv.Preparer)
	if !ok {
		return nil, nil
	}
	return in.Prepared(ctx)
}

// EndPrepared implements kv.Preparer: rows of epochs are in no prepared transaction.
func (d *DB) EndPrepared(ctx context.Context, name []byte, commit bool) (bool, error) {
	in, ok := d.DB.(kv.Preparer)
	if !ok {
		return false, nil
	}
	return in.EndPrepared(ctx, name, commit)
}

// Program implements kv.Programs: rows of epochs are in no program.
func (d *DB) Program(ctx context.Context, opts kv.Options, p kv.Program) (kv.ProgramResult, error) {
	in, ok := d.DB.(kv.Programs)
	if !ok {
		return kv.ProgramResult{}, kv.ProgramElsewhere
	}
	written, _ := p.Written()
	for _, k := range append(written, p.Reads...) {
		if k.Shard() == base.EpochShard {
			return kv.ProgramResult{}, kv.ProgramElsewhere
		}
	}
	return in.Program(ctx, opts, p)
}

var (
	_ kv.DB       = (*DB)(nil)
	_ kv.Programs = (*DB)(nil)
	_ kv.Preparer = (*DB)(nil)
	_ kv.Epochs   = (*DB)(nil)
	_ kv.EpochTxn = (*Txn)(nil)
	_ kv.Streamer = (*Txn)(nil)
	_ kv.Measured = (*Txn)(nil)
	_ kv.Holder   = (*Txn)(nil)
)

// NewDB makes transactions of db and of the engine. A transaction may read both, and write one of
// them.
func NewDB(db kv.DB, e *Engine) *DB { return &DB{db, e, 30 * time.Second} }

// Begin implements kv.DB.
func (d *DB) Begin(opts kv.Options) kv.Txn { return &Txn{inner: d.DB.Begin(opts), db: d, opts: opts} }

// Owner implements kv.DB: rows of epochs are read and written everywhere.
func (d *DB) Owner(key base.Key) (base.NodeID, base.RegionID) {
	if key.Shard() == base.EpochShard {
		return d.Node(), d.Region()
	}
	return d.DB.Owner(key)
}

// BeginEpochs implements kv.Epochs.
func (d *DB) BeginEpochs(ctx context.Context) error {
	var nodes []base.NodeID
	for _, n := range d.Topology().Nodes {
		if !n.Gone {
			nodes = append(nodes, n.ID)
		}
	}
	if err := d.e.Begin(ctx, nodes); err != nil {
		return err
	}
	for v, _ := d.e.View(); v.Number == 0; v, _ = d.e.View() {
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return base.Errorf(base.CodeUnavailable, "epochs have not begun on this node yet: %v", err)
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// versionsTable holds the versions of definitions that are in force, by table; SQL numbers its
// tables from far above.
var versionsTable = base.MakeTableID(1, 0)

func versionKey(table base.TableID) base.Key {
	return base.AppendUint64(base.IndexPrefix(base.EpochShard, versionsTable, 0, 0), uint64(table))
}

func versionOf(v []byte) (base.Timestamp, error) {
	if len(v) == 0 {
		return 0, nil
	}
	n, _, err := base.TakeUint64(v)
	return base.Timestamp(n), err
}

// Declare implements kv.Epochs.
func (d *DB) Declare(ctx context.Context, table base.TableID, version base.Timestamp) error {
	_, err := kv.Run(ctx, d, kv.Options{}, func(t kv.Txn) error {
		rows, err := t.Get(ctx, []base.Key{versionKey(table)}, kv.LockShared)
		if err != nil {
			return err
		}
		now, err := versionOf(rows[0].Value)
		if err != nil || now >= version {
			return err
		}
		t.Put(versionKey(table), base.AppendUint64(nil, uint64(version)), 0)
		return nil
	})
	return err
}

// Txn is a transaction of both kinds of rows. Its own fields are about rows of epochs, and unused
// by a transaction that touches none.
type Txn struct {
	inner kv.Txn // of the other rows
	db    *DB
	opts  kv.Options

	open     bool
	snapshot uint64
	copies   uint64 // Engine.copies when the snapshot was chosen
	read     bool   // rows of epochs, other than versions of definitions
	ops      []op
	last     map[string]int // the newest op of a key
	marks    map[int]int    // ops at each savepoint
	reads    map[string]struct{}
	ranges   []base.Span
	err      error // the transaction is over
}

// op is a buffered write.
type op struct {
	key   string
	value []byte
	del   bool
	prev  int // the op of this key before, -1: none
}

func mine(k base.Key) bool { return k.Shard() == base.EpochShard }

// begin chooses the snapshot.
func (t *Txn) begin() error {
	if t.err != nil {
		return t.err
	}
	if t.open {
		return nil
	}
	e := t.db.e
	t.copies = e.copies.Load()
	switch v, _ := e.View(); {
	case e.Err() != nil:
		return t.fail(base.Errorf(base.CodeUnavailable, "MULTI MASTER tables cannot be used on this node: %v", e.Err()))
	case v.Number == 0:
		return t.fail(base.Errorf(base.CodeUnavailable, "this node has not heard of epochs yet: try again"))
	case !e.Readable():
		return t.fail(base.Errorf(base.CodeUnavailable,
			"this node is copying the rows of MULTI MASTER tables: ask another one, or try again"))
	}
	t.open, t.snapshot = true, e.Snapshot()
	return nil
}

// whole checks, after a read, that it was of the rows that the snapshot is of: they are replaced
// when this node has been away for too long.
func (t *Txn) whole() error {
	if t.db.e.copies.Load() != t.copies {
		return t.fail(base.Errorf(base.CodeAborted, "the rows of MULTI MASTER tables are being replaced on this node, "+
			"which has been cut off: run the transaction again"))
	}
	return nil
}

// fail ends the transaction if the error says so.
func (t *Txn) fail(err error) error {
	if base.Retryable(err) {
		t.err = err
		t.inner.Rollback(context.Background())
	}
	return err
}

// Hold implements kv.EpochTxn.
func (t *Txn) Hold(ctx context.Context, table base.TableID, version base.Timestamp) error {
	const (
		// then whoever has changed the table seems to have died in between
		help    = 500 * time.Millisecond
		longest = kv.ReachIn
	)
	key := versionKey(table)
	for begin, helped := time.Now(), false; ; {
		if err := t.begin(); err != nil {
			return err
		}
		r := t.db.e.cfg.Store.NewPointReader()
		v, _, err := r.Get(key, base.Timestamp(t.snapshot))
		r.Close()
		if err != nil {
			return t.fail(old(err))
		}
		if err := t.whole(); err != nil {
			return err
		}
		now, err := versionOf(v.Value)
		if err != nil {
			return err
		}
		if now == version {
			t.note(string(key))
			return nil
		}
		if now > version || t.read || len(t.ops) > 0 {
			return t.fail(base.Errorf(base.CodeSchemaChanged,
				"the definition of a MULTI MASTER table has changed: run the transaction again"))
		}
		waited := time.Since(begin)
		if waited > longest {
			return t.fail(base.Errorf(base.CodeUnavailable,
				"the definition of a MULTI MASTER table has not arrived by the epochs yet: is this region cut off?"))
		}
		if waited > help && !helped {
			helped = true
			ctx, cancel := context.WithDeadline(ctx, begin.Add(longest))
			_ = t.db.Declare(ctx, table, version) // waiting goes on
			cancel()
		}
		if err := pause(ctx, 2*time.Millisecond); err != nil {
			return t.fail(base.Errorf(base.CodeCanceled, "%v", err))
		}
		t.open = false
	}
}

// note makes a key one that must not have changed when the transaction commits.
func (t *Txn) note(key string) {
	if t.opts.ReadOnly {
		return
	}
	if t.reads == nil {
		t.reads = map[string]struct{}{}
	}
	t.reads[key] = struct{}{}
}

// Buffered implements kv.EpochTxn.
func (t *Txn) Buffered() (epochs, others bool) { return len(t.ops) > 0, t.inner.Wrote() }

// Wrote implements kv.Txn.
func (t *Txn) Wrote() bool { return len(t.ops) > 0 || t.inner.Wrote() }

// Inner is the transaction of the other rows.
func (t *Txn) Inner() kv.Txn { return t.inner }

// ID implements kv.Txn.
func (t *Txn) ID() base.TxnID { return t.inner.ID() }

// Pin implements kv.Txn.
func (t *Txn) Pin(ts base.Timestamp, keys ...base.Key) { t.inner.Pin(ts, keys...) }

// ReadTimestamp implements kv.Txn: it is that of the other rows.
func (t *Txn) ReadTimestamp() base.Timestamp { return t.inner.ReadTimestamp() }

// NextSnapshot implements kv.Txn: rows of epochs stay at the snapshot of their first read.
func (t *Txn) NextSnapshot() { t.inner.NextSnapshot() }

// Forget implements kv.Txn.
func (t *Txn) Forget() { t.inner.Forget() }

// Rollback implements kv.Txn.
func (t *Txn) Rollback(ctx context.Context) { t.inner.Rollback(ctx) }

// Get implements kv.Txn.
func (t *Txn) Get(ctx context.Context, keys []base.Key, lock kv.LockMode) ([]kv.Row, error) {
	if t.err != nil {
		return nil, t.err
	}
	n := 0
	for _, k := range keys {
		if mine(k) {
			n++
		}
	}
	if n == 0 {
		return t.inner.Get(ctx, keys, lock)
	}
	out := make([]kv.Row, len(keys))
	var rest []base.Key
	var at []int
	r := t.db.e.cfg.Store.NewPointReader()
	defer r.Close()
	for i, k := range keys {
		if !mine(k) {
			rest, at = append(rest, k), append(at, i)
			continue
		}
		row, err := t.get(r, k, lock)
		if err != nil {
			return nil, err
		}
		out[i] = row
	}
	if len(rest) == 0 {
		return out, nil
	}
	rows, err := t.inner.Get(ctx, rest, lock)
	if err != nil {
		return nil, err
	}
	for i, row := range rows {
		out[at[i]] = row
	}
	return out, nil
}

func (t *Txn) get(r *store.Reader, k base.Key, lock kv.LockMode) (kv.Row, error) {
	row := kv.Row{Key: k}
	if err := t.begin(); err != nil {
		return row, err
	}
	t.read = true
	if lock != kv.LockNone {
		t.note(string(k))
	}
	if i, ok := t.last[string(k)]; ok {
		if !t.ops[i].del {
			row.Value = t.ops[i].value
		}
		return row, nil
	}
	v, ok, err := r.Get(k, base.Timestamp(t.snapshot))
	if err != nil {
		return row, t.fail(old(err))
	}
	if err := t.whole(); err != nil {
		return row, err
	}
	if ok && !v.Tombstone {
		row.Value, row.TS = present(v.Value), v.TS
	}
	return row, nil
}

// old makes a snapshot that has been collected a reason to begin again.
func old(err error) error {
	if base.CodeOf(err) == base.CodeTooOld {
		return base.Errorf(base.CodeAborted, "the transaction has lasted too long: run it again (%v)", err)
	}
	return err
}

// present makes an empty value one that is there.
func present(v []byte) []byte {
	if v == nil {
		return []byte{}
	}
	return v
}

// own are the buffered writes by key.
func (t *Txn) own() []op {
	out := make([]op, 0, len(t.last))
	for _, i := range t.last {
		out = append(out, t.ops[i])
	}
	slices.SortFunc(out, func(a, b op) int { return bytes.Compare([]byte(a.key), []byte(b.key)) })
	return out
}

// Ahead implements kv.Txn: rows of epochs are at hand anyway.
func (t *Txn) Ahead(ctx context.Context, keys []base.Key, spans []base.Span, lock kv.LockMode) (bool, error) {
	if t.err != nil {
		return false, t.err
	}
	keys = slices.DeleteFunc(slices.Clone(keys), mine)
	spans = slices.DeleteFunc(slices.Clone(spans), func(s base.Span) bool { return mine(s.Start) })
	if len(keys) == 0 && len(spans) == 0 {
		return true, nil
	}
	return t.inner.Ahead(ctx, keys, spans, lock)
}

// Kept implements kv.Txn.
func (t *Txn) Kept(span base.Span, lock kv.LockMode) bool {
	return mine(span.Start) || t.inner.Kept(span, lock)
}

func (t *Txn) buffer(key base.Key, value []byte, del bool) {
	if t.last == nil {
		t.last = map[string]int{}
	}
	prev, ok := t.last[string(key)]
	if !ok {
		prev = -1
	}
	t.last[string(key)] = len(t.ops)
	t.ops = append(t.ops, op{string(key), value, del, prev})
}

// Put implements kv.Txn.
func (t *Txn) Put(key base.Key, value []byte, home base.RegionID) {
	if !mine(key) {
		t.inner.Put(key, value, home)
		return
	}
	t.buffer(key, present(value), false)
}

// Update implements kv.Txn: rows of epochs are written as they are.
func (t *Txn) Update(key base.Key, value []byte, p *wire.Patch) {
	if !mine(key) {
		t.inner.Update(key, value, p)
		return
	}
	t.buffer(key, present(value), false)
}

// Draft implements kv.Txn.
func (t *Txn) Draft(ctx context.Context, key base.Key) (kv.Row, bool, error) {
	if !mine(key) {
		return t.inner.Draft(ctx, key)
	}
	return kv.Row{}, false, nil
}

// Insert implements kv.Txn: whether the key is present is known at once.
func (t *Txn) Insert(key base.Key, value []byte, home base.RegionID) error {
	if !mine(key) {
		return t.inner.Insert(key, value, home)
	}
	r := t.db.e.cfg.Store.NewPointReader()
	defer r.Close()
	// as it is written, it is compared with what others write
	row, err := t.get(r, key, kv.LockNone)
	if err != nil {
		return err
	}
	if row.Value != nil {
		e := base.Errorf(base.CodeExists, "key %s exists", key)
		e.Key = key
		return e
	}
	t.buffer(key, present(value), false)
	return nil
}

// Move implements kv.Txn: rows of epochs are at home everywhere.
func (t *Txn) Move(key base.Key, to base.RegionID, opts kv.MoveOptions) {
	if !mine(key) {
		t.inner.Move(key, to, opts)
	}
}

// Fence implements kv.Txn.
func (t *Txn) Fence(key base.Key, to base.RegionID) {
	if !mine(key) {
		t.inner.Fence(key, to)
	}
}

// Delete implements kv.Txn.
func (t *Txn) Delete(key base.Key) {
	if !mine(key) {
		t.inner.Delete(key)
		return
	}
	t.buffer(key, nil, true)
}

// Savepoint implements kv.Txn.
func (t *Txn) Savepoint() int {
	n := t.inner.Savepoint()
	if len(t.ops) == 0 {
		delete(t.marks, n) // of a savepoint that was rolled back
		return n           // statements without such tables make one for each row
	}
	if t.marks == nil {
		t.marks = map[int]int{}
	}
	t.marks[n] = len(t.ops)
	return n
}

// RollbackTo implements kv.Txn.
func (t *Txn) RollbackTo(savepoint int) {
	t.inner.RollbackTo(savepoint)
	keep := t.marks[savepoint] // 0: there were none then
	for len(t.ops) > keep {
		o := t.ops[len(t.ops)-1]
		t.ops = t.ops[:len(t.ops)-1]
		if o.prev < 0 {
			delete(t.last, o.key)
		} else {
			t.last[o.key] = o.prev
		}
	}
}

// Stream implements kv.Streamer.
func (t *Txn) Stream(ctx context.Context, table base.TableID, indexes ...base.IndexID) error {
	if in, ok := t.inner.(kv.Streamer); ok && len(t.ops) == 0 {
		return in.Stream(ctx, table, indexes...)
	}
	return nil
}

// Written implements kv.Measured: of the inner transaction, which has bounds.
func (t *Txn) Written() (now, most kv.Volume) {
	if in, ok := t.inner.(kv.Measured); ok {
		return in.Written()
	}
	return now, kv.Unbounded
}

// Stretch implements kv.Measured.
func (t *Txn) Stretch(on bool) {
	if in, ok := t.inner.(kv.Measured); ok {
		in.Stretch(on)
	}
}

// Held implements kv.Holder: of the inner transaction.
func (t *Txn) Held() int64 {
	if in, ok := t.inner.(kv.Holder); ok {
		return in.Held()
	}
	return 0
}

// Spill implements kv.Holder.
func (t *Txn) Spill() error {
	if in, ok := t.inner.(kv.Holder); ok {
		return in.Spill()
	}
	return nil
}

// commitHops are the trips over the WAN that a commit waits for: the batch to all regions, and the
// word that a majority holds it (EPO-2).
const commitHops = 2

// Commit implements kv.Txn.
func (t *Txn) Commit(ctx context.Context) (base.Timestamp, error) {
	if t.err != nil {
		return 0, t.err
	}
	if len(t.ops) == 0 {
		return t.inner.Commit(ctx)
	}
	// what it has locked elsewhere it holds until the outcome
	defer t.inner.Rollback(context.Background())
	if t.inner.Wrote() {
		return 0, ErrMixed()
	}
	if p := t.opts.Prepare; p != nil && p.Name != nil {
		return 0, base.Errorf(base.CodeInvalid, "XA prepares no transaction that changes MULTI MASTER tables: commit it with "+
			"XA COMMIT ... ONE PHASE")
	}
	if t.opts.Statement != nil {
		return 0, kv.ErrStrayed // no group settles what an epoch commits
	}
	if err := t.begin(); err != nil {
		return 0, err
	}
	f, err := t.submission()
	if err != nil {
		return 0, err
	}
	if len(f.Writes) > 0 {
		wait, cancel := context.WithTimeout(ctx, t.db.commit)
		_, err = t.db.e.Submit(wait, *f)
		cancel()
		if err == nil && len(t.db.Topology().Regions) > 1 {
			t.opts.Trace.AddHops(commitHops)
		}
	}
	t.err = err
	if t.err == nil {
		t.err = base.Errorf(base.CodeAborted, "the transaction has already ended")
	}
	return t.db.Clock(), err
}

// ErrMixed says that a transaction has written both kinds of rows.
func ErrMixed() error {
	return base.Errorf(base.CodeInvalid, "a transaction cannot write MULTI MASTER tables and others: commit in between")
}

// submission is what the transaction gives to an epoch.
func (t *Txn) submission() (*filter.Txn, error) {
	f := &filter.Txn{ID: t.ID(), Priority: uint64(t.opts.Age), Snapshot: t.snapshot, Ranges: t.ranges}
	if f.Priority == 0 {
		f.Priority = uint64(f.ID.Start())
	}
	r := t.db.e.cfg.Store.NewPointReader()
	defer r.Close()
	for _, o := range t.own() {
		v, ok, err := r.Get(base.Key(o.key), base.Timestamp(t.snapshot))
		if err != nil {
			return nil, t.fail(old(err))
		}
		there := ok && !v.Tombstone
		if o.del && !there {
			t.note(o.key) // nothing to delete, and it must stay so
			continue
		}
		w := filter.Write{Key: o.key, Value: o.value, Del: o.del}
		if there && !o.del && bytes.Equal(v.Value, o.value) {
			w.Null = true
		}
		f.Writes = append(f.Writes, w)
	}
	if err := t.whole(); err != nil {
		return nil, err
	}
	for k := range t.reads {
		f.Reads = append(f.Reads, k)
	}
	slices.Sort(f.Reads)
	return f, nil
}
