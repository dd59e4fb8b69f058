package evaluate

import (
	"bytes"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv/patch"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// SlotSpans are what a vote for a slot locks: in the tier of cross-region transactions its writes
// exclusively (CRTX) and its reads shared (CRTS), as well as rows whose patches stack; and against
// writes inside the region everything, shared; rows that are patched only until it is proposed.
// Transactions inside the region go on reading.
type SlotSpans struct {
	CRTX, CRTS, Shared, Patched []base.Span
}

// SlotSpansOf are the spans that the vote of a request locks.
func SlotSpansOf(q *wire.CommitRequest) (out SlotSpans) {
	for _, w := range q.Writes {
		s := base.Span{Start: w.Key}
		if w.Patch != nil && patch.Stacks(w.Patch) {
			out.CRTS = append(out.CRTS, txns.InCRTTier(s))
		} else {
			out.CRTX = append(out.CRTX, txns.InCRTTier(s))
		}
		if w.Patch != nil {
			out.Patched = append(out.Patched, s)
		} else {
			out.Shared = append(out.Shared, s)
		}
	}
	for _, w := range q.Reads {
		s := view.SpanOf(w)
		if s.IsPoint() {
			if _, written := slices.BinarySearchFunc(q.Writes, s.Start,
				func(w *wire.Write, k base.Key) int { return base.Key(w.Key).Compare(k) }); written {
				continue
			}
		}
		out.CRTS = append(out.CRTS, txns.InCRTTier(s))
		out.Shared = append(out.Shared, s)
	}
	return out
}

// WrittenSpans are the keys that a commit writes.
func WrittenSpans(ws []*wire.Write) []base.Span {
	out := make([]base.Span, len(ws))
	for i, w := range ws {
		out[i] = base.Span{Start: w.Key}
	}
	return out
}

// LockRuns has try lock the rows of one table as a range, if there are many of them and nobody
// holds anything in it: one by one they may be more locks than a transaction may hold. Others wait
// for the range no longer than the commit takes. It returns the keys that are left to be locked one
// by one. Entries of indexes are among them: they lie all over their index, where others work.
func LockRuns(keys []base.Span, many int, try func(base.Span) (bool, error)) (rest []base.Span, err error) {
	for len(keys) > 0 {
		n := run(keys)
		first := keys[0].Start
		if n >= many && first.Index() == 0 && first.Shard() != base.MetaShard {
			got, err := try(base.Span{Start: first, End: keys[n-1].Start.Next()})
			if err != nil {
				return nil, err
			}
			if got {
				keys = keys[n:]
				continue
			}
		}
		if n == len(keys) && rest == nil {
			return keys, nil
		}
		rest, keys = append(rest, keys[:n]...), keys[n:]
	}
	return rest, nil
}

// run is how many of the keys lie in the section of the first one.
func run(keys []base.Span) int {
	section := keys[0].Start.Section()
	n := 1
	for n < len(keys) && bytes.HasPrefix(keys[n].Start, section) {
		n++
	}
	return n
}

// KeysOf are the keys that a commit writes.
func KeysOf(ws []*wire.Write) []base.Key {
	out := make([]base.Key, len(ws))
	for i, w := range ws {
		out[i] = w.Key
	}
	return out
}

// MovedBy are the keys of the rows that move with a commit.
func MovedBy(ws []*wire.Write) (out [][]byte) {
	for _, w := range ws {
		if w.Move != 0 {
			out = append(out, w.Key)
		}
	}
	return out
}

// PatchedSpans are the rows that a commit patches.
func PatchedSpans(ws []*wire.Write) (out []base.Span) {
	for _, w := range ws {
		if w.Patch != nil {
			out = append(out, base.Span{Start: w.Key})
		}
	}
	return out
}
