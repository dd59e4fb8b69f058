package access

import (
	"bytes"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

// mostAnnounced bounds the bytes that one table is estimated to bring into an announcement: a large
// table costs several trips anyway, and would fill the answer that the small ones share.
const mostAnnounced = 2 << 20

// announce sends what all reads that have been started, and not yet been asked for rows, are sure
// to need in one step: first is one of them.
func (s *Statement) announce(first *rows) error {
	if !slices.Contains(s.waiting, first) || !first.joins(first) {
		return nil
	}
	var group []*rows
	for _, r := range s.waiting {
		if r.joins(first) {
			group = append(group, r)
		}
	}
	if len(group) < 2 {
		return nil
	}
	if first.src.Take == kv.LockNone {
		return s.together(group)
	}
	return s.locked(group)
}

// joins reports whether a read can be announced together with another one: it goes over the
// network, under the same lock, and brings little.
func (r *rows) joins(first *rows) bool {
	if r.src.KV != first.src.KV || r.src.Take != first.src.Take || r.read.Limit > 0 {
		return false
	}
	if d := r.src.Table.Def; d.Desc.Locality.Kind == schema.MultiMaster || d.Desc.Locality.Kind == schema.Global && r.src.Take != kv.LockExclusive {
		return false // at hand
	}
	if len(r.reads.keys) > 0 {
		return len(r.reads.keys) <= mostKeys && (r.src.Take != kv.LockNone || r.src.Index == nil)
	}
	return len(r.reads.spans) > 0 && len(r.reads.spans) <= 64 && r.t.Rows()*r.t.RowBytes() <= mostAnnounced
}

// locked has the transaction lock and keep what the reads will ask for.
func (s *Statement) locked(group []*rows) error {
	var keys []base.Key
	var spans []base.Span
	for _, r := range group {
		keys, spans = append(keys, r.reads.keys...), append(spans, r.reads.spans...)
		r.begun = true
	}
	s.waiting = slices.DeleteFunc(s.waiting, func(r *rows) bool { return r.begun })
	if sess := session.Of(s.ctx); !s.ahead && sess != nil {
		s.ahead = true
		sess.UseAhead()
	}
	src := group[0].src
	// What it does not keep is read as if it had not been announced.
	if _, err := src.KV.Ahead(src.Kvctx(s.ctx), keys, spans, src.Take); err != nil {
		return src.Txn.Fail(err)
	}
	return nil
}

// together reads all of the group by one scan of the snapshot. A read that its answer does not hold
// to the end begins anew on its own.
func (s *Statement) together(group []*rows) error {
	var spans []base.Span
	for _, r := range group {
		spans = append(spans, r.all()...)
		r.begun = true
	}
	s.waiting = slices.DeleteFunc(s.waiting, func(r *rows) bool { return r.begun })
	src := group[0].src
	res, err := src.KV.Scan(src.Kvctx(s.ctx), kv.ScanRequest{Spans: spans, MaxBytes: table.BatchBytes})
	if err != nil {
		return src.Txn.Fail(err)
	}
	rest := res.Rows
	for _, r := range group {
		n := 0
		for _, span := range r.all() {
			n += within(span, rest[n:])
		}
		if res.Next != nil && cutBefore(r.all(), res.Next.Spans) {
			return nil // of this one, and of those behind it, something is missing
		}
		if err := r.complete(rest[:n:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// within is how many of the rows, which come span by span, belong to the span that is next. Rows of
// a span ascend; one that does not is the first of another span, which overlaps with this one.
func within(span base.Span, rows []kv.Row) (n int) {
	for n < len(rows) && span.Contains(rows[n].Key) && (n == 0 || rows[n-1].Key.Compare(rows[n].Key) < 0) {
		n++
	}
	return n
}

// all are the spans of a read, its keys among them.
func (r *rows) all() []base.Span {
	if len(r.reads.keys) == 0 {
		return r.reads.spans
	}
	out := make([]base.Span, len(r.reads.keys))
	for i, k := range r.reads.keys {
		out[i] = base.PointSpan(k)
	}
	return out
}

// cutBefore reports whether some of the spans are left to read.
func cutBefore(spans, left []base.Span) bool {
	for _, l := range left {
		for _, s := range spans {
			if bytes.Equal(l.Limit(), s.Limit()) || s.Contains(l.Start) {
				return true
			}
		}
	}
	return false
}

// complete takes everything that a read asks for.
func (r *rows) complete(got []kv.Row) error {
	if q := r.req; q != nil && (q.Merge || q.Reverse) {
		suffix := q.Suffix
		if !q.Merge {
			suffix = 0
		}
		slices.SortStableFunc(got, func(a, b kv.Row) int { return bytes.Compare(a.Key[suffix:], b.Key[suffix:]) })
		if q.Reverse {
			slices.Reverse(got)
		}
	}
	r.keys, r.req = nil, nil
	return r.take(got)
}
