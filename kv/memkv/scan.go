package memkv

import (
	"bytes"
	"context"
	"sort"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// cursor walks the rows of one span that the transaction sees.
type cursor struct {
	t       *txn
	ts      base.Timestamp
	reverse bool
	lo, hi  int      // remaining committed keys [lo, hi)
	own     []string // remaining own writes, in scan order
	row     kv.Row
	ok      bool
}

func (t *txn) cursor(s base.Span, ts base.Timestamp, reverse bool) *cursor {
	c := &cursor{t: t, ts: ts, reverse: reverse}
	c.lo = t.db.seek(s.Start)
	c.hi = max(c.lo, t.db.seek(s.Limit()))
	for k := range t.writes {
		if s.Contains(base.Key(k)) {
			c.own = append(c.own, k)
		}
	}
	sort.Slice(c.own, func(i, j int) bool { return (c.own[i] < c.own[j]) != reverse })
	c.next()
	return c
}

func (c *cursor) next() {
	for c.lo < c.hi || len(c.own) > 0 {
		var k string
		committed := c.lo < c.hi
		if committed {
			k = c.t.db.keys[c.lo]
			if c.reverse {
				k = c.t.db.keys[c.hi-1]
			}
		}
		if len(c.own) > 0 && (!committed || c.own[0] == k || (c.own[0] < k) != c.reverse) {
			if committed && c.own[0] == k {
				c.skip()
			}
			k, c.own = c.own[0], c.own[1:]
		} else {
			c.skip()
		}
		if c.row, c.ok = c.t.read(k, c.ts); c.ok {
			return
		}
	}
	c.ok = false
}

func (c *cursor) skip() {
	if c.reverse {
		c.hi--
	} else {
		c.lo++
	}
}

func (t *txn) Scan(ctx context.Context, req kv.ScanRequest) (kv.ScanResult, error) {
	if err := t.beginRead(req.Spans, req.Lock); err != nil {
		return kv.ScanResult{}, err
	}
	defer t.db.mu.Unlock()
	if wait, _ := kv.WaitOf(ctx); wait == kv.WaitSkip && req.Lock != kv.LockNone {
		return kv.ScanResult{}, base.Errorf(base.CodeInvalid, "a scan cannot skip what is locked")
	}
	if req.Suffix == 0 {
		req.Suffix = base.ShardPrefixLen
	}
	for _, s := range req.Spans {
		if !bytes.Equal(s.Start.Section(), sectionOfLimit(s)) {
			return kv.ScanResult{}, base.Errorf(base.CodeInvalid, "span %s leaves its section", s)
		}
	}
	ts, err := t.protect(ctx, req.Spans, req.Lock)
	if err != nil {
		return kv.ScanResult{}, err
	}
	limit, room := req.Limit, req.MaxBytes
	if room == 0 {
		room = 1 << 20
	}
	cs := make([]*cursor, len(req.Spans))
	for i, s := range req.Spans {
		cs[i] = t.cursor(s, ts, req.Reverse)
	}
	var res kv.ScanResult
	for {
		best := first(cs, req)
		if best < 0 {
			return res, nil
		}
		if len(res.Rows) > 0 && (limit > 0 && len(res.Rows) >= limit || room <= 0) {
			next := req
			next.Spans = remaining(cs, req)
			res.Next = &next
			return res, nil
		}
		r := cs[best].row
		room -= len(r.Key) + len(r.Value)
		res.Rows = append(res.Rows, r)
		cs[best].next()
	}
}

// first is the cursor whose row comes next; -1: all are at their ends.
func first(cs []*cursor, req kv.ScanRequest) int {
	best := -1
	for i, c := range cs {
		switch {
		case !c.ok:
			continue
		case best < 0:
			best = i
		default:
			cmp := bytes.Compare(c.row.Key[req.Suffix:], cs[best].row.Key[req.Suffix:])
			if cmp < 0 != req.Reverse && cmp != 0 {
				best = i
			}
		}
		if !req.Merge {
			break
		}
	}
	return best
}

// remaining are the spans cut to what the cursors have not returned yet.
func remaining(cs []*cursor, req kv.ScanRequest) (out []base.Span) {
	for i, c := range cs {
		s := req.Spans[i]
		switch {
		case !c.ok:
			continue
		case s.IsPoint():
		case req.Reverse:
			s.End = c.row.Key.Next()
		default:
			s.Start = c.row.Key.Clone()
		}
		out = append(out, s)
	}
	return out
}

// sectionOfLimit is the section the span ends in.
func sectionOfLimit(s base.Span) base.Key {
	sec := s.Start.Section()
	if s.IsPoint() || bytes.Compare(s.End, sec.PrefixEnd()) <= 0 {
		return sec
	}
	return s.End.Section()
}
