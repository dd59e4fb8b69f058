package txn

import (
	"bytes"
	"context"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/txn/writes"
	"github.com/godwitdb/godwit/wire"
)

// Scan implements kv.Txn.
func (t *Txn) Scan(ctx context.Context, req kv.ScanRequest) (kv.ScanResult, error) {
	if err := t.usable(); err != nil {
		return kv.ScanResult{}, err
	}
	if err := t.checkLock(req.Lock); err != nil {
		return kv.ScanResult{}, err
	}
	for _, s := range req.Spans {
		if !s.IsPoint() && bytes.Compare(s.Start, s.End) >= 0 || len(s.Start) == 0 {
			return kv.ScanResult{}, base.Errorf(base.CodeInvalid, "span [%v,%v) is empty or reversed", s.Start, s.End)
		}
	}
	if req.Suffix == 0 {
		req.Suffix = base.ShardPrefixLen
	}
	ctx = t.trace(ctx)
	if req.State == nil {
		own, err := t.confirmedWrites(ctx, req.Spans)
		if err != nil {
			return kv.ScanResult{}, err
		}
		req.State = &scanning{own: own}
	}
	for {
		res, err := t.scanStep(ctx, req)
		if err != nil {
			return kv.ScanResult{}, t.failed(err)
		}
		// An answer without rows is possible (tombstones, own deletes): go on for the caller.
		if len(res.Rows) > 0 || res.Next == nil {
			return res, t.readNext(ctx, req.Next, res.Next)
		}
		if ctx.Err() != nil {
			return kv.ScanResult{}, t.failed(base.Ended(ctx))
		}
		req = *res.Next
	}
}

// confirmedWrites are the transaction's writes within the spans of a scan, as of its first batch: a
// statement that writes what it scans never meets its own rows. Drafts of them are confirmed.
func (t *Txn) confirmedWrites(ctx context.Context, spans []base.Span) (*writes.View, error) {
	own := t.buf.View(spans)
	for _, w := range own.Memory() {
		if w.Draft == 0 {
			continue // noteReads sees to it
		}
		if err := t.confirm(ctx, w); err != nil {
			return nil, err
		}
	}
	return own, nil
}

// scanStep reads one batch of all spans (or, span by span, of the first few).
func (t *Txn) scanStep(ctx context.Context, req kv.ScanRequest) (kv.ScanResult, error) {
	if len(req.Spans) == 0 {
		return kv.ScanResult{}, nil
	}
	f, own, err := req.State.(*scanning).batch(&req)
	if err != nil {
		return kv.ScanResult{}, err
	}
	spans := f.spans
	if fromMeta(ctx, spans[0].Start, req.Lock) {
		err = t.readMeta(ctx, &f)
	} else if err = t.snapshot(ctx, &f); err == nil && !req.State.(*scanning).has(ctx, &f) {
		err = f.runAhead(ctx, t)
	}
	if err != nil {
		return kv.ScanResult{}, err
	}
	streams, total := make([]stream, len(spans)), 0
	for i := range spans {
		own[i].bound(&f.got[i], req.Reverse)
		total += len(f.got[i].rows) + len(own[i].rows)
	}
	all := make([]kv.Row, 0, total)
	for i := range spans {
		streams[i] = overlay(own[i].rows, spans[i], &f.got[i], req.Reverse, all)
		all = all[:len(all)+len(streams[i].rows)]
	}
	if req.Merge {
		return mergeStreams(req, streams, f.maxBytes), nil
	}
	return chainStreams(req, streams, all, f.maxBytes), nil
}

// ownRows are the transaction's writes in a span, up to where they are complete (writes.View).
type ownRows struct {
	rows []*writes.Write
	cut  base.Key
}

// bound ends what was found of a span where the own writes are not known any more.
func (o *ownRows) bound(got *found, reverse bool) {
	if o.cut == nil || got.cut != nil && !comesBefore(o.cut, got.cut, reverse) {
		return
	}
	got.cut = o.cut
	for i, r := range got.rows {
		if !got.reaches(r.Key, reverse) {
			got.rows = got.rows[:i]
			return
		}
	}
}

// stream is the complete beginning of one span, own writes included.
type stream struct {
	span base.Span
	rows []kv.Row
	cut  base.Key // where it goes on; nil at its end
}

// overlay merges own writes into what was found of a span. The rows are put behind those in all,
// which has room for them.
func overlay(own []*writes.Write, span base.Span, got *found, reverse bool, all []kv.Row) stream {
	s := stream{span: span, cut: got.cut, rows: all[len(all):]}
	if reverse && len(own) > 0 {
		own = slices.Clone(own)
		slices.Reverse(own)
	}
	i := 0
	push := func() {
		if w := own[i]; w.Kind != wire.WriteKind_DELETE && got.reaches(w.Key, reverse) {
			s.rows = append(s.rows, w.Row(w.Key))
		}
		i++
	}
	for _, r := range got.rows {
		if r.Absent {
			continue
		}
		for i < len(own) && comesBefore(own[i].Key, r.Key, reverse) {
			push()
		}
		if i < len(own) && bytes.Equal(own[i].Key, r.Key) {
			push()
			continue
		}
		row := kv.Row{Key: r.Key}
		setRow(&row, r)
		s.rows = append(s.rows, row)
	}
	for i < len(own) {
		push()
	}
	return s
}

// comesBefore reports whether a scan comes to a before b.
func comesBefore(a, b base.Key, reverse bool) bool {
	if reverse {
		return a.Compare(b) > 0
	}
	return a.Compare(b) < 0
}

// reaches reports whether a key lies before where the answer was cut.
func (g *found) reaches(k base.Key, reverse bool) bool {
	switch {
	case g.cut == nil:
		return true
	case reverse:
		return k.Compare(g.cut) >= 0
	}
	return k.Compare(g.cut) < 0
}

// rest is the part of the stream's span from a row on; nil if that is nothing.
func (s *stream) rest(from int, reverse bool) *base.Span {
	at := s.cut
	if from < len(s.rows) {
		if at = s.rows[from].Key; reverse {
			at = at.Next()
		}
	}
	switch {
	case at == nil:
		return nil
	case s.span.IsPoint():
		return &s.span
	case reverse:
		if bytes.Compare(s.span.Start, at) >= 0 {
			return nil
		}
		return &base.Span{Start: s.span.Start, End: at}
	}
	if bytes.Compare(at, s.span.End) >= 0 {
		return nil
	}
	return &base.Span{Start: at, End: s.span.End}
}

func rowSize(r *kv.Row) int { return len(r.Key) + len(r.Value) + 16 }

// chainStreams returns rows span by span, up to the first that is not complete. The rows of the
// streams follow on each other in all.
func chainStreams(req kv.ScanRequest, streams []stream, all []kv.Row, maxBytes int) kv.ScanResult {
	var res kv.ScanResult
	n, size := 0, 0
	for i := range streams {
		s := &streams[i]
		for j := range s.rows {
			if req.Limit > 0 && n >= req.Limit || size >= maxBytes {
				res.Rows, res.Next = all[:n:n], next(req, s.rest(j, req.Reverse), req.Spans[i+1:])
				return res
			}
			n++
			size += rowSize(&s.rows[j])
		}
		if rest := s.rest(len(s.rows), req.Reverse); rest != nil {
			res.Rows, res.Next = all[:n:n], next(req, rest, req.Spans[i+1:])
			return res
		}
	}
	res.Rows = all[:n:n]
	if len(streams) < len(req.Spans) {
		res.Next = next(req, nil, req.Spans[len(streams):])
	}
	return res
}

func next(req kv.ScanRequest, first *base.Span, others []base.Span) *kv.ScanRequest {
	n := req
	n.Spans = make([]base.Span, 0, 1+len(others))
	if first != nil {
		n.Spans = append(n.Spans, *first)
	}
	n.Spans = append(n.Spans, others...)
	if len(n.Spans) == 0 {
		return nil
	}
	return &n
}

// mergeStreams returns the rows of all spans in the order of their keys behind the suffix length,
// as far as every stream is known.
func mergeStreams(req kv.ScanRequest, streams []stream, maxBytes int) kv.ScanResult {
	var res kv.ScanResult
	at := make([]int, len(streams))
	size := 0
	for {
		best := nextStream(req, streams, at)
		if best < 0 || at[best] >= len(streams[best].rows) {
			break // all are at their ends, or the next row is not known
		}
		if len(res.Rows) > 0 && (req.Limit > 0 && len(res.Rows) >= req.Limit || size >= maxBytes) {
			break
		}
		res.Rows = append(res.Rows, streams[best].rows[at[best]])
		size += rowSize(&streams[best].rows[at[best]])
		at[best]++
	}
	var rest []base.Span
	for i := range streams {
		if r := streams[i].rest(at[i], req.Reverse); r != nil {
			rest = append(rest, *r)
		}
	}
	if len(rest) > 0 {
		n := req
		n.Spans = rest
		res.Next = &n
	}
	return res
}

// nextStream is the stream whose next row comes first; -1: all are at their ends. If a row has the
// very key at which another stream becomes unknown, either stream may come first.
func nextStream(req kv.ScanRequest, streams []stream, at []int) int {
	best := -1
	var first []byte
	for i := range streams {
		k := streams[i].place(at[i], req.Reverse)
		if k == nil {
			continue
		}
		tail := k[min(req.Suffix, len(k)):]
		c := bytes.Compare(tail, first)
		if best < 0 || c < 0 && !req.Reverse || c > 0 && req.Reverse {
			best, first = i, tail
		}
	}
	return best
}

// place is the key of the stream's next row. If that row is unknown, it is the first key that the
// row may have; nil at the end of the stream.
func (s *stream) place(at int, reverse bool) base.Key {
	if at < len(s.rows) {
		return s.rows[at].Key
	}
	if s.cut != nil && s.rest(at, reverse) != nil {
		return s.cut
	}
	return nil
}
