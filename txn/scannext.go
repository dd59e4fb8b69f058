package txn

import (
	"bytes"
	"context"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/txn/writes"
)

// scanning is what a scan knows from one batch to the next.
type scanning struct {
	own  *writes.View // as of the first batch
	next *nextBatch   // nil: nothing is being read
}

// nextBatch is read while the caller is at the batch before.
type nextBatch struct {
	fetch
	done  chan struct{} // closed: it has been read, or
	err   error         // could not be: it is read again when it is asked for
	trace []*obs.Trace  // of one branch
}

// batch is the read of a scan's next batch, but for its timestamp, with the own writes in each
// span.
func (s *scanning) batch(req *kv.ScanRequest) (f fetch, own []ownRows, err error) {
	spans := req.Spans
	if !req.Merge && len(spans) > scanWindow {
		spans = spans[:scanWindow]
	}
	f = fetch{spans: spans, lock: req.Lock, reverse: req.Reverse, maxBytes: req.MaxBytes, limit: req.Limit,
		each: req.Each, apart: req.Merge}
	if req.Lock == kv.LockNone {
		f.drops = req.Drops
	}
	if f.maxBytes <= 0 {
		f.maxBytes = defaultScan
	}
	own = make([]ownRows, len(spans))
	for i, span := range spans {
		o := &own[i]
		if o.rows, o.cut, err = s.own.Within(span, req.Reverse, f.maxBytes); err != nil {
			return f, nil, err
		}
		if f.limit > 0 { // own deletes may hide rows: ask for as many more
			f.limit += len(o.rows)
		}
		if len(o.rows) > 0 || o.cut != nil || req.Lock != kv.LockNone {
			f.each = 0
		}
	}
	return f, own, nil
}

// Ready reports whether the next batch has been read, as far as it is read ahead.
func (s *scanning) Ready() bool {
	if s.next == nil {
		return false
	}
	select {
	case <-s.next.done:
		return true
	default:
		return false
	}
}

// has waits for the batch that is being read, if that is the one asked for, and reports whether f
// has its rows then.
func (s *scanning) has(ctx context.Context, f *fetch) bool {
	n := s.next
	s.next = nil
	same := func(a, b base.Span) bool { return bytes.Equal(a.Start, b.Start) && bytes.Equal(a.End, b.End) }
	if n == nil || n.ts != f.ts || n.limit != f.limit || n.each != f.each || n.maxBytes != f.maxBytes || n.reverse != f.reverse ||
		n.apart != f.apart || !slices.EqualFunc(n.spans, f.spans, same) {
		return false
	}
	select {
	case <-n.done:
	case <-ctx.Done():
		return false // the read that follows has the error
	}
	if n.err != nil {
		return false
	}
	f.got = n.got
	obs.TraceOf(ctx).Join(n.trace)
	return true
}

// readNext begins to read the batch that follows, of so many rows: a scan of many rows then uses
// two processors, and its trips overlap with what is done with the rows. A transaction of its own
// does it, at the same snapshot, since t is its caller's meanwhile.
func (t *Txn) readNext(ctx context.Context, limit int, next *kv.ScanRequest) error {
	if limit <= 0 || next == nil || next.Lock != kv.LockNone || t.stale || t.readTS == 0 || t.db.ordered || t.served ||
		kv.GlanceOf(ctx) != nil || fromMeta(ctx, next.Spans[0].Start, next.Lock) {
		return nil
	}
	s := next.State.(*scanning)
	req := *next
	req.Limit = limit
	f, _, err := s.batch(&req)
	if err != nil {
		return err
	}
	f.ts = t.readTS
	n := &nextBatch{fetch: f, done: make(chan struct{}), trace: obs.TraceOf(ctx).Parallel(1)}
	opts := t.opts
	opts.ReadTS, opts.Touched, opts.Trace = f.ts, nil, n.trace[0]
	reader := t.db.begin(opts)
	if t.db.tasks.For(obs.WithTrace(ctx, n.trace[0]), func(ctx context.Context) {
		defer close(n.done)
		n.err = n.run(ctx, reader)
		reader.abandon()
	}) {
		s.next = n
	}
	return nil
}
