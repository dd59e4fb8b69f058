package evaluate

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// maxLabelHome is the largest region that a label has room for.
const maxLabelHome = 15

// CheckCommit says what is wrong with a request to a group, and puts its writes in order. It has at
// most maxWrites writes, and has read at most maxSpans spans.
func CheckCommit(g base.GroupID, q *wire.CommitRequest, maxWrites, maxSpans int,
	knows base.ClusterVersion) error {
	if needs := base.ClusterVersion(q.Needs); needs > knows {
		return base.TooOld(fmt.Sprintf("group %v: what transaction %x writes needs", g, q.GetTxn().GetId()), needs, knows)
	}
	if len(q.Writes) > maxWrites {
		return base.Errorf(base.CodeInvalid, "a transaction writes at most %d keys of one group, not %d: "+
			"commit in smaller pieces", maxWrites, len(q.Writes))
	}
	if len(q.Writes) == 0 && !q.Prepare {
		return base.Errorf(base.CodeInvalid, "a one-round commit needs a write; use Finish to release locks")
	}
	if len(q.Reads) > 0 {
		if err := CheckSpans(g, q.Reads, maxSpans); err != nil {
			return err
		}
	}
	if q.Prepare && !slices.Contains(q.Participants, uint32(g)) {
		return base.Errorf(base.CodeInvalid, "group %v is not among the participants of the transaction it shall prepare", g)
	}
	return checkWrites(g, q.Writes)
}

func checkWrites(g base.GroupID, writes []*wire.Write) error {
	for _, w := range writes {
		if k := base.Key(w.Key); len(k) < base.ShardPrefixLen || k.Shard() != g.Shard() {
			return base.Errorf(base.CodeInvalid, "key %v is not in the shard of group %v", k, g)
		}
		if w.Home > maxLabelHome || w.Move > maxLabelHome {
			return base.Errorf(base.CodeInvalid, "home region %d is not one of 1 to %d", max(w.Home, w.Move), base.MaxRegions)
		}
	}
	slices.SortFunc(writes, func(a, b *wire.Write) int { return base.Key(a.Key).Compare(b.Key) })
	for i := 1; i < len(writes); i++ {
		if string(writes[i].Key) == string(writes[i-1].Key) {
			return base.Errorf(base.CodeInvalid, "key %v is written twice in one transaction", base.Key(writes[i].Key))
		}
	}
	return nil
}

// CheckSpans says what is wrong with the spans that a group is asked to read; it takes at most
// maxSpans.
func CheckSpans(g base.GroupID, spans []*wire.Span, maxSpans int) error {
	if len(spans) == 0 || len(spans) > maxSpans {
		return base.Errorf(base.CodeInvalid, "a read has 1 to %d spans, not %d", maxSpans, len(spans))
	}
	for _, s := range spans {
		switch k := base.Key(s.Start); {
		case len(k) == 0 || k.Shard() != g.Shard():
			return base.Errorf(base.CodeInvalid, "key %v is not in the shard of group %v", k, g)
		case len(s.End) > 0 && bytes.Compare(s.Start, s.End) >= 0:
			return base.Errorf(base.CodeInvalid, "span [%v,%v) is empty or reversed", k, base.Key(s.End))
		case len(s.End) > 0 && !sameSection(k, s.End):
			return base.Errorf(base.CodeInvalid, "span [%v,%v) reaches across sections", k, base.Key(s.End))
		}
	}
	return nil
}

// sameSection reports whether [start, end) lies within start's section.
func sameSection(start, end base.Key) bool {
	sec := start.Section()
	if start.Shard() == base.MetaShard {
		return base.Key(end).Shard() == base.MetaShard || bytes.Compare(end, base.Key{0, 1}) <= 0
	}
	if bytes.HasPrefix(end, sec) {
		return true
	}
	limit := sec.PrefixEnd()
	return limit != nil && bytes.Compare(end, limit) <= 0
}
