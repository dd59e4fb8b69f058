package multimaster

import (
	"bytes"
	"context"
	"slices"
	"sort"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/store"
)

// scanState continues a scan.
type scanState struct {
	spans []base.Span
	own   []op // the transaction's writes when it began, by key
}

// Scan implements kv.Txn.
func (t *Txn) Scan(ctx context.Context, req kv.ScanRequest) (kv.ScanResult, error) {
	if t.err != nil {
		return kv.ScanResult{}, t.err
	}
	st, again := req.State.(*scanState)
	if !again && (len(req.Spans) == 0 || !mine(req.Spans[0].Start)) {
		return t.inner.Scan(ctx, req)
	}
	if err := t.begin(); err != nil {
		return kv.ScanResult{}, err
	}
	if !again {
		if req.Merge && len(req.Spans) > 1 {
			return kv.ScanResult{}, base.Errorf(base.CodeInvalid, "rows of epochs lie in one shard: there is nothing to merge")
		}
		st = &scanState{slices.Clone(req.Spans), t.own()}
	}
	t.read = true
	r := t.db.e.cfg.Store.NewReader()
	defer r.Close()
	s := newScan(t, r, &req, st.own)
	err := s.run(st.spans)
	return s.res, err
}

// scan is one call of Scan.
type scan struct {
	t           *Txn
	r           *store.Reader
	req         *kv.ScanRequest
	own         []op
	limit, most int // of rows, and of bytes

	res  kv.ScanResult
	size int // of res, in bytes
}

func newScan(t *Txn, r *store.Reader, req *kv.ScanRequest, own []op) *scan {
	s := &scan{t: t, r: r, req: req, own: own, limit: req.Limit, most: req.MaxBytes}
	if s.limit <= 0 {
		s.limit = 1 << 30
	}
	if s.most <= 0 {
		s.most = 1 << 20
	}
	return s
}

func (s *scan) full() bool { return len(s.res.Rows) >= s.limit || s.size >= s.most }

// run scans spans until there is enough, and says where to go on.
func (s *scan) run(spans []base.Span) error {
	for i, span := range spans {
		if !mine(span.Start) {
			return base.Errorf(base.CodeInvalid, "a scan is of rows of epochs, or of others")
		}
		rest, err := s.span(span)
		if err != nil {
			return s.t.fail(old(err))
		}
		if last := i == len(spans)-1; rest == nil && (last || !s.full()) {
			continue
		}
		s.goOn(rest, spans[i+1:])
		break
	}
	return nil
}

// goOn has the next call begin with the rest of a span, if any, and the spans after it.
func (s *scan) goOn(rest *base.Span, after []base.Span) {
	left := &scanState{own: s.own}
	if rest != nil {
		left.spans = append(left.spans, *rest)
	}
	left.spans = append(left.spans, after...)
	next := *s.req
	next.State = left
	s.res.Next = &next
}

// span takes rows of a span until there are enough; rest is what it did not look at.
func (s *scan) span(span base.Span) (rest *base.Span, err error) {
	end := span.Limit()
	it := s.r.Iter(base.Span{Start: span.Start, End: end}, base.Timestamp(s.t.snapshot),
		store.IterOptions{Reverse: s.req.Reverse})
	defer it.Close()
	m := newMerged(it, s.own, span.Start, end, s.req.Reverse)
	seen := base.Span{Start: span.Start, End: end}
	for !m.done() {
		if s.full() {
			// What comes next is not looked at.
			if at := m.key(); s.req.Reverse {
				rest, seen.Start = &base.Span{Start: span.Start, End: at.Next()}, at.Next()
			} else {
				rest, seen.End = &base.Span{Start: at, End: end}, at
			}
			break
		}
		if row := m.next(); row.Value != nil {
			s.res.Rows = append(s.res.Rows, row)
			s.size += len(row.Key) + len(row.Value)
		}
	}
	if err := it.Err(); err != nil {
		return nil, err
	}
	if err := s.t.whole(); err != nil {
		return nil, err
	}
	if s.req.Lock != kv.LockNone && !s.t.opts.ReadOnly && bytes.Compare(seen.Start, seen.End) < 0 {
		s.t.ranges = append(s.t.ranges, seen)
	}
	return rest, nil
}

// merged has the rows of the store and the transaction's own writes in one order.
type merged struct {
	it      *store.Iter
	more    bool // it has a row
	own     []op
	reverse bool
}

func newMerged(it *store.Iter, own []op, start, end base.Key, reverse bool) *merged {
	lo := sort.Search(len(own), func(i int) bool { return own[i].key >= string(start) })
	hi := sort.Search(len(own), func(i int) bool { return own[i].key >= string(end) })
	own = own[lo:hi]
	if reverse {
		own = slices.Clone(own)
		slices.Reverse(own)
	}
	return &merged{it: it, more: it.Next(), own: own, reverse: reverse}
}

func (m *merged) done() bool { return !m.more && len(m.own) == 0 }

// order says which comes next: the store's row (-1), the own write (1), or both, of one key (0).
func (m *merged) order() int {
	switch {
	case len(m.own) == 0:
		return -1
	case !m.more:
		return 1
	}
	c := bytes.Compare(m.it.Version().Key, []byte(m.own[0].key))
	if m.reverse {
		return -c
	}
	return c
}

// key is that of what comes next.
func (m *merged) key() base.Key {
	if m.order() < 0 {
		return m.it.Version().Key.Clone()
	}
	return base.Key(m.own[0].key)
}

// next takes what comes next. A row without a value is not there: an own write has deleted it, or
// others have.
func (m *merged) next() (row kv.Row) {
	c := m.order()
	if c < 0 {
		if v := m.it.Version(); !v.Tombstone {
			row = kv.Row{Key: v.Key.Clone(), Value: present(slices.Clone(v.Value)), TS: v.TS}
		}
	} else if w := m.own[0]; !w.del {
		row = kv.Row{Key: base.Key(w.key), Value: w.value}
	}
	if c <= 0 {
		m.more = m.it.Next()
	}
	if c >= 0 {
		m.own = m.own[1:]
	}
	return row
}
