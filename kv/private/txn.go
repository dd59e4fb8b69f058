package private

import (
	"context"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/wire"
)

// Txn is a transaction of the cluster together with the private rows of a session.
type Txn struct {
	in    kv.Txn
	s     *Store
	marks []mark
	ended bool
}

// mark is how long the log was at a savepoint.
type mark struct{ savepoint, log int }

var (
	_ kv.Txn      = (*Txn)(nil)
	_ kv.Measured = (*Txn)(nil)
	_ kv.Holder   = (*Txn)(nil)
	_ kv.EpochTxn = (*epochTxn)(nil)
)

// epochTxn is a Txn over one that has to do with epochs.
type epochTxn struct {
	*Txn
	epochs kv.EpochTxn
}

// Routed is what a session knows about its transaction with private rows.
type Routed interface {
	kv.Txn
	// Full is why a write of private rows was not done; nil: all were done.
	Full() error
	// Discard removes the private rows of a span when the transaction commits.
	Discard(span base.Span)
}

// Route makes private rows part of a transaction, from now on. The transaction may have begun
// before. A store has one transaction at a time.
func Route(in kv.Txn, s *Store) Routed {
	t := &Txn{in: in, s: s}
	if e, ok := in.(kv.EpochTxn); ok {
		return &epochTxn{t, e}
	}
	return t
}

// Hold implements kv.EpochTxn.
func (t *epochTxn) Hold(ctx context.Context, table base.TableID, version base.Timestamp) error {
	return t.epochs.Hold(ctx, table, version)
}

// Buffered implements kv.EpochTxn: private rows count as neither.
func (t *epochTxn) Buffered() (epochs, others bool) { return t.epochs.Buffered() }

// Written implements kv.Measured: of the cluster's rows.
func (t *Txn) Written() (now, most kv.Volume) {
	if in, ok := t.in.(kv.Measured); ok {
		return in.Written()
	}
	return now, kv.Unbounded
}

// Stretch implements kv.Measured.
func (t *Txn) Stretch(on bool) {
	if in, ok := t.in.(kv.Measured); ok {
		in.Stretch(on)
	}
}

// Held implements kv.Holder: of the cluster's rows. The store's budget has the others.
func (t *Txn) Held() int64 {
	if in, ok := t.in.(kv.Holder); ok {
		return in.Held()
	}
	return 0
}

// Spill implements kv.Holder.
func (t *Txn) Spill() error {
	if in, ok := t.in.(kv.Holder); ok {
		return in.Spill()
	}
	return nil
}

// Full implements Routed.
func (t *Txn) Full() error { return t.s.full }

// Discard implements Routed.
func (t *Txn) Discard(span base.Span) { t.s.gone = append(t.s.gone, span) }

func private(k base.Key) bool { return k.Table().IsPrivate() }

func privateSpan(s base.Span) bool { return private(s.Start) }

// ID implements kv.Txn.
func (t *Txn) ID() base.TxnID { return t.in.ID() }

// Get implements kv.Reader.
func (t *Txn) Get(ctx context.Context, keys []base.Key, lock kv.LockMode) ([]kv.Row, error) {
	if !slices.ContainsFunc(keys, private) {
		return t.in.Get(ctx, keys, lock)
	}
	out := make([]kv.Row, len(keys))
	var others []base.Key
	var at []int
	for i, k := range keys {
		if !private(k) {
			others, at = append(others, k), append(at, i)
			continue
		}
		r, _ := t.s.get(k)
		out[i] = kv.Row{Key: k, Value: r.value}
	}
	if len(others) == 0 {
		return out, nil
	}
	rows, err := t.in.Get(ctx, others, lock)
	if err != nil {
		return nil, err
	}
	for j, r := range rows {
		out[at[j]] = r
	}
	return out, nil
}

// Scan implements kv.Reader. The spans of a request are all private, or none is.
func (t *Txn) Scan(ctx context.Context, req kv.ScanRequest) (kv.ScanResult, error) {
	switch {
	case !slices.ContainsFunc(req.Spans, privateSpan):
		return t.in.Scan(ctx, req)
	case slices.ContainsFunc(req.Spans, func(s base.Span) bool { return !privateSpan(s) }):
		return kv.ScanResult{}, base.Errorf(base.CodeInvalid, "a scan of private rows and of others")
	}
	return t.s.scan(req)
}

// Ahead implements kv.Prefetcher.
func (t *Txn) Ahead(ctx context.Context, keys []base.Key, spans []base.Span, lock kv.LockMode) (ok bool, err error) {
	if slices.ContainsFunc(keys, private) {
		keys = slices.DeleteFunc(slices.Clone(keys), private)
	}
	if slices.ContainsFunc(spans, privateSpan) {
		spans = slices.DeleteFunc(slices.Clone(spans), privateSpan)
	}
	if len(keys)+len(spans) == 0 {
		return true, nil
	}
	return t.in.Ahead(ctx, keys, spans, lock)
}

// Kept implements kv.Prefetcher.
func (t *Txn) Kept(span base.Span, lock kv.LockMode) bool {
	return privateSpan(span) || t.in.Kept(span, lock)
}

// Forget implements kv.Prefetcher.
func (t *Txn) Forget() { t.in.Forget() }

// Put implements kv.Writer.
func (t *Txn) Put(key base.Key, value []byte, home base.RegionID) {
	if !private(key) {
		t.in.Put(key, value, home)
		return
	}
	if value == nil {
		value = []byte{}
	}
	t.s.put(key, value)
}

// Insert implements kv.Writer. A private key that is present is found at once.
func (t *Txn) Insert(key base.Key, value []byte, home base.RegionID) error {
	if !private(key) {
		return t.in.Insert(key, value, home)
	}
	if _, ok := t.s.get(key); ok {
		e := base.Errorf(base.CodeExists, "key %s exists", key)
		e.Key = key.Clone()
		return e
	}
	t.Put(key, value, home)
	return nil
}

// Delete implements kv.Writer.
func (t *Txn) Delete(key base.Key) {
	if !private(key) {
		t.in.Delete(key)
		return
	}
	t.s.put(key, nil)
}

// Wrote implements kv.Writer.
func (t *Txn) Wrote() bool { return t.in.Wrote() || len(t.s.log) > 0 }

// Update implements kv.Patcher: a private row has no owner that could evaluate the patch.
func (t *Txn) Update(key base.Key, value []byte, patch *wire.Patch) {
	if !private(key) {
		t.in.Update(key, value, patch)
		return
	}
	t.Put(key, value, 0)
}

// Draft implements kv.Patcher.
func (t *Txn) Draft(ctx context.Context, key base.Key) (row kv.Row, ok bool, err error) {
	if private(key) {
		return kv.Row{}, false, nil
	}
	return t.in.Draft(ctx, key)
}

// Move implements kv.Mover: private rows have no home.
func (t *Txn) Move(key base.Key, to base.RegionID, opts kv.MoveOptions) {
	if !private(key) {
		t.in.Move(key, to, opts)
	}
}

// Fence implements kv.Mover.
func (t *Txn) Fence(key base.Key, to base.RegionID) {
	if !private(key) {
		t.in.Fence(key, to)
	}
}

// Pin implements kv.Pinner: definitions of private tables are not among the keys.
func (t *Txn) Pin(ts base.Timestamp, keys ...base.Key) { t.in.Pin(ts, keys...) }

// Savepoint implements kv.Savepoints.
func (t *Txn) Savepoint() int {
	n := t.in.Savepoint()
	t.marks = append(t.marks[:t.before(n)], mark{n, len(t.s.log)})
	return n
}

// before is how many marks are of savepoints below one.
func (t *Txn) before(savepoint int) int {
	i, _ := slices.BinarySearchFunc(t.marks, savepoint, func(m mark, n int) int { return m.savepoint - n })
	return i
}

// RollbackTo implements kv.Savepoints. At savepoints of the time before Route, the log was empty.
func (t *Txn) RollbackTo(savepoint int) {
	t.in.RollbackTo(savepoint)
	i, n := t.before(savepoint), 0
	if i < len(t.marks) && t.marks[i].savepoint == savepoint {
		n = t.marks[i].log
		i++
	}
	t.marks = t.marks[:i]
	t.s.back(min(n, len(t.s.log))) // it is shorter after UndoTo
}

// ReadTimestamp implements kv.Snapshots.
func (t *Txn) ReadTimestamp() base.Timestamp { return t.in.ReadTimestamp() }

// NextSnapshot implements kv.Snapshots.
func (t *Txn) NextSnapshot() { t.in.NextSnapshot() }

// Commit implements kv.Ender. If the transaction of the cluster does not commit, or its outcome is
// not known, the private rows are as before it.
func (t *Txn) Commit(ctx context.Context) (base.Timestamp, error) {
	if t.ended {
		return t.in.Commit(ctx)
	}
	if err := t.s.full; err != nil {
		t.in.Rollback(ctx)
		t.end(false)
		return 0, err
	}
	ts, err := t.in.Commit(ctx)
	t.end(err == nil)
	return ts, err
}

// Rollback implements kv.Ender.
func (t *Txn) Rollback(ctx context.Context) {
	t.in.Rollback(ctx)
	t.end(false)
}

// end ends the part of the private rows, once.
func (t *Txn) end(committed bool) {
	if t.ended {
		return
	}
	t.ended, t.marks = true, nil
	if committed {
		t.s.settle()
		return
	}
	t.s.gone = nil
	t.s.back(0)
}
