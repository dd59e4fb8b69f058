package txn

import (
	"bytes"
	"context"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/wire"
)

// maxAhead bounds the bytes that are kept of reads made ahead.
const maxAhead = 32 << 20

// ahead is what was read before it was asked for. Its keys and spans are locked until
// the transaction ends, so what they held then they hold now, but for own writes.
type ahead struct {
	points map[string]keptPoint
	spans  []keptSpan // by start
	bytes  int
}

type keptPoint struct {
	row  *wire.KV
	lock kv.LockMode
}

type keptSpan struct {
	span base.Span
	rows []*wire.KV // in key order
	lock kv.LockMode
}

// Ahead implements kv.Txn.
func (t *Txn) Ahead(ctx context.Context, keys []base.Key, spans []base.Span, lock kv.LockMode) (bool, error) {
	if err := t.usable(); err != nil {
		return false, err
	}
	if err := t.checkLock(lock); err != nil {
		return false, err
	}
	ctx = t.trace(ctx)
	todo := t.notAhead(keys, spans, lock)
	whole := todo                          // the spans as they were asked for
	begun := make([][]*wire.KV, len(todo)) // what came before an answer was full
	for len(todo) > 0 {
		if lock == kv.LockNone || t.ahead.bytes >= maxAhead {
			return false, nil
		}
		f := fetch{spans: todo, lock: lock}
		if err := f.run(ctx, t); err != nil {
			return false, t.failed(err)
		}
		var rest, restWhole []base.Span
		var restBegun [][]*wire.KV
		for i, g := range f.got {
			rows := append(begun[i], g.rows...)
			if g.cut == nil {
				t.ahead.keep(whole[i], rows, lock)
				continue
			}
			s := todo[i]
			if !s.IsPoint() {
				s.Start = g.cut
			}
			rest, restWhole, restBegun = append(rest, s), append(restWhole, whole[i]), append(restBegun, rows)
		}
		slices.SortStableFunc(t.ahead.spans, func(a, b keptSpan) int { return a.span.Start.Compare(b.span.Start) })
		todo, whole, begun = rest, restWhole, restBegun
	}
	return true, nil
}

// notAhead are the keys and spans that have not been read ahead yet, each once.
func (t *Txn) notAhead(keys []base.Key, spans []base.Span, lock kv.LockMode) (todo []base.Span) {
	seen := map[string]bool{}
	ask := func(s base.Span) {
		if s.Start.Shard() == base.MetaShard && lock != kv.LockExclusive {
			return // read from the local replica
		}
		if name := string(s.Start) + "\x00" + string(s.End); !seen[name] {
			seen[name] = true
			if _, kept := t.ahead.find(s, lock); !kept {
				todo = append(todo, s)
			}
		}
	}
	for _, k := range keys {
		if w := t.buf.Get(k); !w.Content() {
			ask(base.PointSpan(k))
		}
	}
	for _, s := range spans {
		ask(s)
	}
	return disjoint(todo)
}

// disjoint are spans without overlaps that cover the same keys: an answer gives each row to one
// span only, and the other one would seem to be without it.
func disjoint(spans []base.Span) []base.Span {
	slices.SortStableFunc(spans, func(a, b base.Span) int { return a.Start.Compare(b.Start) })
	out := spans[:min(len(spans), 1)]
	for _, s := range spans[len(out):] {
		last := &out[len(out)-1]
		switch {
		case last.Limit().Compare(s.Start) <= 0:
			out = append(out, s)
		case last.Limit().Compare(s.Limit()) < 0:
			*last = base.Span{Start: last.Start, End: s.Limit()}
		}
	}
	return out
}

// Kept implements kv.Txn.
func (t *Txn) Kept(span base.Span, lock kv.LockMode) bool {
	if span.IsPoint() {
		if w := t.buf.Get(span.Start); w.Content() {
			return true
		}
	}
	if span.Start.Shard() == base.MetaShard && lock != kv.LockExclusive {
		return true // read from the local replica
	}
	_, kept := t.ahead.find(span, lock)
	return kept
}

// Forget implements kv.Txn.
func (t *Txn) Forget() { t.ahead = ahead{} }

func (a *ahead) keep(s base.Span, rows []*wire.KV, lock kv.LockMode) {
	for _, r := range rows {
		a.bytes += len(r.Key) + len(r.Value)
	}
	a.bytes += len(s.Start) + len(s.End) + 64
	if !s.IsPoint() {
		a.spans = append(a.spans, keptSpan{s, rows, lock})
		return
	}
	if a.points == nil {
		a.points = map[string]keptPoint{}
	}
	p := keptPoint{lock: lock}
	if len(rows) > 0 {
		p.row = rows[0]
	}
	a.points[string(s.Start)] = p
}

// find returns the rows of a span, in key order, if they were read ahead under a lock that is no
// weaker.
func (a *ahead) find(s base.Span, lock kv.LockMode) (rows []*wire.KV, ok bool) {
	if lock == kv.LockNone || a.bytes == 0 {
		return nil, false
	}
	if s.IsPoint() {
		if p, ok := a.points[string(s.Start)]; ok && p.lock >= lock {
			if p.row == nil {
				return nil, true
			}
			return []*wire.KV{p.row}, true
		}
	}
	n, _ := slices.BinarySearchFunc(a.spans, s.Start, func(k keptSpan, at base.Key) int {
		if k.span.Start.Compare(at) <= 0 {
			return -1
		}
		return 1
	})
	// The same span may be there under two locks.
	for i := n - 1; i >= max(0, n-2); i-- {
		k := &a.spans[i]
		if k.lock < lock || bytes.Compare(s.Limit(), k.span.End) > 0 {
			continue
		}
		at := func(to []byte) int {
			i, _ := slices.BinarySearchFunc(k.rows, to, func(r *wire.KV, to []byte) int { return bytes.Compare(r.Key, to) })
			return i
		}
		return k.rows[at(s.Start):at(s.Limit())], true
	}
	return nil, false
}

// foresee makes an attempt that locks across regions begin by locking all keys that the attempts
// before it have noted (kv.Options.Touched). So it holds its locks for one trip and the commit, and
// not for a trip for each statement.
func (t *Txn) foresee(ctx context.Context) error {
	if t.opts.Touched.Empty() || t.mode != byLocks || t.foreseen {
		return nil
	}
	if wait, _ := kv.WaitOf(ctx); wait != kv.WaitDefault {
		return nil // the next read that may wait does it
	}
	t.foreseen = true
	for _, lock := range []kv.LockMode{kv.LockExclusive, kv.LockShared} {
		if keys := t.opts.Touched.Keys(lock); len(keys) > 0 {
			if _, err := t.Ahead(ctx, keys, nil, lock); err != nil {
				return err
			}
		}
	}
	return nil
}

// runAhead takes the spans that were read ahead, and runs the fetch for the others.
func (f *fetch) runAhead(ctx context.Context, t *Txn) error {
	if f.lock != kv.LockNone {
		if err := t.foresee(ctx); err != nil {
			return err
		}
	}
	if f.lock == kv.LockNone || t.ahead.bytes == 0 {
		return f.run(ctx, t)
	}
	all := f.spans
	got := make([]found, len(all))
	var left []int
	f.spans = nil
	for i, s := range all {
		rows, ok := t.ahead.find(s, f.lock)
		if !ok {
			left = append(left, i)
			f.spans = append(f.spans, s)
			continue
		}
		got[i].rows = slices.Clone(rows)
		if f.reverse {
			slices.Reverse(got[i].rows)
		}
	}
	if len(left) > 0 {
		if err := f.run(ctx, t); err != nil {
			return err
		}
	}
	for j, i := range left {
		got[i] = f.got[j]
	}
	f.spans, f.got = all, got
	return nil
}
