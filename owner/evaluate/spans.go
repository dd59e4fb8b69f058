package evaluate

import (
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// SlotSpans are what a vote for a slot locks: in the tier of cross-region transactions its writes
// exclusively (CRTX) and its reads shared (CRTS); and against writes inside the region everything,
// shared; rows that are patched only until it is proposed. Transactions inside the region go on
// reading.
type SlotSpans struct {
	CRTX, CRTS, Shared, Patched []base.Span
}

// SlotSpansOf are the spans that the vote of a request locks.
func SlotSpansOf(q *wire.CommitRequest) (out SlotSpans) {
	for _, w := range q.Writes {
		s := base.Span{Start: w.Key}
		out.CRTX = append(out.CRTX, txns.InCRTTier(s))
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

// PatchedSpans are the rows that a commit patches.
func PatchedSpans(ws []*wire.Write) (out []base.Span) {
	for _, w := range ws {
		if w.Patch != nil {
			out = append(out, base.Span{Start: w.Key})
		}
	}
	return out
}
