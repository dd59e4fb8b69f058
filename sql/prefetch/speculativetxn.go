package prefetch

import (
	"bytes"
	"context"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/wire"
)

// smallTable is how many rows a table may have that is read to its end ahead of time.
const smallTable = 1000

// speculativeTxn is the transaction of a statement as its speculative execution sees it: what is at
// hand is read, what is not is noted and ends the row that asks for it. Writes go to the buffer of
// the transaction, to be rolled back.
type speculativeTxn struct {
	inner kv.Txn
	small func(base.TableID) bool
	// missed: the row at hand asked for something that is not known. What it would ask for then is
	// a guess, and is not noted.
	missed bool
	want   [kv.LockExclusive + 1]wanted
	seen   map[string]bool
}

var _ kv.Txn = (*speculativeTxn)(nil)

type wanted struct {
	keys  []base.Key
	spans []base.Span
}

var errMissed = base.Errorf(base.CodeInvalid, "not known yet")

// note adds what is not at hand to what is wanted; known is false if there is such.
func (t *speculativeTxn) note(spans []base.Span, lock kv.LockMode) (known bool) {
	if t.missed {
		return false
	}
	known = true
	for _, s := range spans {
		if lock == kv.LockNone || t.Kept(s, lock) {
			continue
		}
		known = false
		if !s.IsPoint() && !t.bounded(s) {
			continue // it may be long, and the statement might not read it to its end
		}
		name := string(rune(lock)) + string(s.Start) + "\x00" + string(s.End)
		if t.seen[name] {
			continue
		}
		t.seen[name] = true
		w := &t.want[lock]
		if s.IsPoint() {
			w.keys = append(w.keys, s.Start)
		} else {
			w.spans = append(w.spans, s)
		}
	}
	return known
}

// bounded reports whether a span is what equality picks from an index, or all of a small table.
func (t *speculativeTxn) bounded(s base.Span) bool {
	return len(s.Start) > base.IndexPrefixLen+1 && bytes.Equal(s.End, s.Start.PrefixEnd()) || t.small(s.Start.Table())
}

func points(keys []base.Key) []base.Span {
	out := make([]base.Span, len(keys))
	for i, k := range keys {
		out[i] = base.PointSpan(k)
	}
	return out
}

// Get implements kv.Txn.
func (t *speculativeTxn) Get(ctx context.Context, keys []base.Key, lock kv.LockMode) ([]kv.Row, error) {
	if !t.note(points(keys), lock) {
		t.missed = true
		return nil, errMissed
	}
	return t.inner.Get(ctx, keys, lock)
}

// Scan implements kv.Txn.
func (t *speculativeTxn) Scan(ctx context.Context, q kv.ScanRequest) (kv.ScanResult, error) {
	if q.State == nil && !t.note(q.Spans, q.Lock) {
		t.missed = true
		return kv.ScanResult{}, errMissed
	}
	return t.inner.Scan(ctx, q)
}

// Ahead implements kv.Txn.
func (t *speculativeTxn) Ahead(_ context.Context, keys []base.Key, spans []base.Span, lock kv.LockMode) (bool, error) {
	k, s := t.note(points(keys), lock), t.note(spans, lock)
	if !k || !s {
		t.missed = true
		return false, errMissed
	}
	return true, nil
}

// Absent notes keys that are going to be inserted, and are taken to be absent as long as it is not
// known; it returns the others.
func (t *speculativeTxn) Absent(keys []base.Key) (known []base.Key) {
	for _, k := range keys {
		if t.note([]base.Span{base.PointSpan(k)}, kv.LockExclusive) {
			known = append(known, k)
		}
	}
	return known
}

// What follows passes through: the writes go to the buffer of the transaction.

func (t *speculativeTxn) ID() base.TxnID { return t.inner.ID() }

func (t *speculativeTxn) Kept(span base.Span, lock kv.LockMode) bool { return t.inner.Kept(span, lock) }

func (t *speculativeTxn) Put(key base.Key, value []byte, home base.RegionID) {
	t.inner.Put(key, value, home)
}

func (t *speculativeTxn) Insert(key base.Key, value []byte, home base.RegionID) error {
	return t.inner.Insert(key, value, home)
}

func (t *speculativeTxn) Delete(key base.Key) { t.inner.Delete(key) }

func (t *speculativeTxn) Wrote() bool { return t.inner.Wrote() }

func (t *speculativeTxn) Update(key base.Key, value []byte, patch *wire.Patch) {
	t.inner.Update(key, value, patch)
}

func (t *speculativeTxn) Draft(ctx context.Context, key base.Key) (kv.Row, bool, error) {
	return t.inner.Draft(ctx, key)
}

func (t *speculativeTxn) Move(key base.Key, to base.RegionID, opts kv.MoveOptions) {
	t.inner.Move(key, to, opts)
}

func (t *speculativeTxn) Fence(key base.Key, to base.RegionID) { t.inner.Fence(key, to) }

func (t *speculativeTxn) Savepoint() int { return t.inner.Savepoint() }

func (t *speculativeTxn) RollbackTo(savepoint int) { t.inner.RollbackTo(savepoint) }

func (t *speculativeTxn) ReadTimestamp() base.Timestamp { return t.inner.ReadTimestamp() }

// What follows would end or change more than the row at hand.

func (t *speculativeTxn) Forget()                         {}
func (t *speculativeTxn) NextSnapshot()                   {}
func (t *speculativeTxn) Pin(base.Timestamp, ...base.Key) {}
func (t *speculativeTxn) Rollback(context.Context)        {}

// Commit implements kv.Txn.
func (t *speculativeTxn) Commit(context.Context) (base.Timestamp, error) { return 0, errMissed }
