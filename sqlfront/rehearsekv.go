package sqlfront

import (
	"bytes"
	"context"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// smallTable is how many rows a table may have that is read to its end ahead of time.
const smallTable = 1000

// rehearsedTxn is the transaction of a statement as a rehearsal sees it: what is at hand is read, what is not is noted and
// ends the row that asks for it. Writes go to the buffer of the transaction, to be rolled back.
type rehearsedTxn struct {
	kv.Txn
	small func(base.TableID) bool
	// missed: the row at hand asked for something that is not known. What it would ask for then is a guess, and is not noted.
	missed bool
	want   [kv.LockExclusive + 1]wanted
	seen   map[string]bool
}

type wanted struct {
	keys  []base.Key
	spans []base.Span
}

var errMissed = base.Errorf(base.CodeInvalid, "not known yet")

// note adds what is not at hand to what is wanted; known is false if there is such.
func (t *rehearsedTxn) note(spans []base.Span, lock kv.LockMode) (known bool) {
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
func (t *rehearsedTxn) bounded(s base.Span) bool {
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
func (t *rehearsedTxn) Get(ctx context.Context, keys []base.Key, lock kv.LockMode) ([]kv.Row, error) {
	if !t.note(points(keys), lock) {
		t.missed = true
		return nil, errMissed
	}
	return t.Txn.Get(ctx, keys, lock)
}

// Scan implements kv.Txn.
func (t *rehearsedTxn) Scan(ctx context.Context, q kv.ScanRequest) (kv.ScanResult, error) {
	if q.State == nil && !t.note(q.Spans, q.Lock) {
		t.missed = true
		return kv.ScanResult{}, errMissed
	}
	return t.Txn.Scan(ctx, q)
}

// Ahead implements kv.Txn.
func (t *rehearsedTxn) Ahead(_ context.Context, keys []base.Key, spans []base.Span, lock kv.LockMode) (bool, error) {
	k, s := t.note(points(keys), lock), t.note(spans, lock)
	if !k || !s {
		t.missed = true
		return false, errMissed
	}
	return true, nil
}

// absent notes keys that are going to be inserted, and are taken to be absent as long as it is not known; it returns the others.
func (t *rehearsedTxn) absent(keys []base.Key) (known []base.Key) {
	for _, k := range keys {
		if t.note([]base.Span{base.PointSpan(k)}, kv.LockExclusive) {
			known = append(known, k)
		}
	}
	return known
}

func (t *rehearsedTxn) Forget()                         {}
func (t *rehearsedTxn) NextSnapshot()                   {}
func (t *rehearsedTxn) Pin(base.Timestamp, ...base.Key) {}
func (t *rehearsedTxn) Rollback(context.Context)        {}

// Commit implements kv.Txn.
func (t *rehearsedTxn) Commit(context.Context) (base.Timestamp, error) { return 0, errMissed }
