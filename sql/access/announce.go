package access

import (
	"bytes"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

// mostAnnounced bounds the bytes that one table is estimated to bring into an announcement: a large
// table costs several trips anyway, and would fill the answer that the small ones share.
const mostAnnounced = 2 << 20

// mostShared is how many keys of one read may be part of a scan that several reads share.
const mostShared = 128

// announce sends, in one step, what the reads are sure to need that have been started, and have not
// been asked for rows yet. first is one of them.
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
// network, under the same lock, waits for locks, and brings little.
func (r *rows) joins(first *rows) bool {
	if r.src.KV != first.src.KV || r.src.Take != first.src.Take || r.read.Limit > 0 || r.read.Wait != exec.WaitDefault {
		return false
	}
	if r.homes || first.homes {
		return false // to see where rows live is no use of them
	}
	if d := r.src.Table.Def; d.Desc.Temporary() || d.Desc.Locality.Kind == schema.MultiMaster || d.Desc.Locality.Kind == schema.Global &&
		r.src.Take != kv.LockExclusive {
		return false // at hand
	}
	if len(r.reads.keys) > 0 {
		most := mostKeys
		if r.src.Take == kv.LockNone {
			most = mostShared
		}
		return len(r.reads.keys) <= most && (r.src.Take != kv.LockNone || r.src.Index == nil)
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

// shared are spans that several reads ask for, each once and none of them overlapping.
type shared struct {
	spans []base.Span
	rows  [][]kv.Row
}

// add makes the spans of a read part of a scan. It refuses if one overlaps with a span of another
// read, since the rows could not be told apart. Two reads may share a whole span.
func (x *shared) add(spans []base.Span) bool {
	var fresh []base.Span
	for _, s := range spans {
		known := false
		for _, o := range x.spans {
			if s.Start.Compare(o.Start) == 0 && s.Limit().Compare(o.Limit()) == 0 {
				known = true
				break
			}
			if s.Start.Compare(o.Limit()) < 0 && o.Start.Compare(s.Limit()) < 0 {
				return false
			}
		}
		if !known {
			fresh = append(fresh, s)
		}
	}
	x.spans = append(x.spans, fresh...)
	return true
}

// take gives the rows of a scan to their spans. It returns the position of the first span that is
// not complete.
func (x *shared) take(res kv.ScanResult) (complete int) {
	x.rows = make([][]kv.Row, len(x.spans))
	rest := res.Rows
	complete = len(x.spans)
	for i, s := range x.spans {
		n := 0
		for n < len(rest) && s.Contains(rest[n].Key) {
			n++
		}
		x.rows[i], rest = rest[:n], rest[n:]
		if res.Next != nil && complete > i && s.Limit().Compare(res.Next.Spans[0].Limit()) == 0 {
			complete = i
		}
	}
	return complete
}

// of are the rows of a read; ok is false if one of its spans is not complete.
func (x *shared) of(spans []base.Span, complete int) (rows []kv.Row, ok bool) {
	for _, s := range spans {
		i := slices.IndexFunc(x.spans, func(o base.Span) bool { return o.Start.Compare(s.Start) == 0 })
		if i >= complete {
			return nil, false
		}
		rows = append(rows, x.rows[i]...)
	}
	return rows, true
}

// together reads all of the group by one scan of the snapshot. A read that its answer does not hold
// to the end, or whose spans overlap with those of another one, begins anew on its own.
func (s *Statement) together(group []*rows) error {
	var x shared
	var in []*rows
	for _, r := range group {
		if x.add(r.all()) {
			in = append(in, r)
			r.begun = true
		}
	}
	s.waiting = slices.DeleteFunc(s.waiting, func(r *rows) bool { return r.begun })
	src := group[0].src
	res, err := src.KV.Scan(src.Kvctx(s.ctx), kv.ScanRequest{Spans: x.spans, MaxBytes: table.BatchBytes})
	if err != nil {
		return src.Txn.Fail(err)
	}
	complete := x.take(res)
	for _, r := range in {
		got, ok := x.of(r.all(), complete)
		if !ok {
			continue
		}
		if err := r.complete(got); err != nil {
			return err
		}
	}
	return nil
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
