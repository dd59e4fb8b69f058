package sim

import (
	"cmp"
	"slices"

	"github.com/godwitdb/godwit/lab/history"
)

// canonical is the history with deletes that found nothing turned into reads. Such a delete leaves
// no version behind. So no read above its timestamp waits for it or has to see it: it only says
// that the key was absent when it committed. The client cannot know which deletes found nothing,
// but the timestamps show it. The timestamp of a version is unknown if its transaction has an
// unknown outcome and the version was first seen after a move. A delete that may have found such a
// version is left as it is.
func (o *Outcome) canonical() *history.History {
	h := *o.History
	h.Txns = slices.Clone(h.Txns)
	keys := map[string][]lastWrite{}
	undated := map[string]int64{} // from when on a key may have had a version of unknown timestamp
	for i := range h.Txns {
		t := &h.Txns[i]
		if t.Outcome == history.Aborted {
			continue
		}
		for k, w := range o.lastWrites(t, i) {
			if w.ts != 0 {
				keys[k] = append(keys[k], w)
			} else if since, ok := undated[k]; w.value != "" && (!ok || t.Invoke < since) {
				undated[k] = t.Invoke
			}
		}
	}
	for k, ws := range keys {
		slices.SortFunc(ws, func(a, b lastWrite) int { return cmp.Compare(a.ts, b.ts) })
		before := h.Init[k]
		for _, w := range ws {
			if w.value == "" && before == "" && w.op >= 0 {
				t := &h.Txns[w.txn]
				if since, ok := undated[k]; ok && since <= t.Return {
					continue // nothing before it matters
				}
				t.Ops = slices.Clone(t.Ops)
				t.Ops[w.op] = history.Op{Kind: history.OpRead, Key: k}
			}
			before = w.value
		}
	}
	return &h
}

// lastWrite is the last write or delete of a key in a transaction.
type lastWrite struct {
	ts    uint64 // of the commit; 0 if not known
	txn   int    // in the history
	op    int    // in the transaction; -1 if the key was written before or seen in it
	value string // "" for a delete
}

// lastWrites are those of the i-th transaction, by key.
func (o *Outcome) lastWrites(t *history.Txn, i int) map[string]lastWrite {
	last, there := map[string]lastWrite{}, map[string]bool{}
	ts := o.committedAt(t)
	for j, op := range t.Ops {
		switch op.Kind {
		case history.OpRead:
			there[op.Key] = op.Value != ""
		case history.OpWrite, history.OpDelete:
			w := lastWrite{ts: ts, txn: i, op: j, value: op.Value}
			if _, twice := last[op.Key]; twice || there[op.Key] {
				w.op = -1 // not a lone delete
			}
			last[op.Key] = w
		}
	}
	return last
}

// committedAt is a transaction's commit timestamp. If its outcome is unknown, it is the timestamp
// shown with any of its values, as a transaction commits as a whole; 0 if no value was seen.
func (o *Outcome) committedAt(t *history.Txn) uint64 {
	if t.Timestamp != 0 {
		return t.Timestamp
	}
	for _, op := range t.Ops {
		if op.Kind == history.OpWrite {
			if ts := o.bench.versions[[2]string{op.Key, op.Value}]; ts != 0 {
				return uint64(ts)
			}
		}
	}
	return 0
}
