package txn

import (
	"context"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/txn/kept"
	"github.com/godwitdb/godwit/wire"
)

// maxAhead bounds the bytes that are kept of reads made ahead.
const maxAhead = 32 << 20

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
	if lock != kv.LockNone {
		t.opts.Touched.Begin(todo)
	}
	whole := todo                          // the spans as they were asked for
	begun := make([][]*wire.KV, len(todo)) // what came before an answer was full
	for len(todo) > 0 {
		if lock == kv.LockNone || t.ahead.Bytes() >= maxAhead {
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
				t.ahead.Keep(whole[i], rows, lock)
				continue
			}
			s := todo[i]
			if !s.IsPoint() {
				s.Start = g.cut
			}
			rest, restWhole, restBegun = append(rest, s), append(restWhole, whole[i]), append(restBegun, rows)
		}
		t.ahead.Sort()
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
			if _, kept := t.ahead.Find(s, lock); !kept {
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
	return base.Disjoint(todo)
}

// Held implements kv.Holder.
func (t *Txn) Held() int64 { return t.buf.Held() }

// Spill implements kv.Holder.
func (t *Txn) Spill() error { return t.buf.SpillNow() }

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
	_, kept := t.ahead.Find(span, lock)
	return kept
}

// Forget implements kv.Txn.
func (t *Txn) Forget() { t.ahead = kept.Rows{} }

// foresee makes an attempt that locks across regions begin by locking all keys that the attempts
// before it have noted (kv.Options.Touched). So it holds its locks for one trip and the commit, and
// not for a trip for each statement.
func (t *Txn) foresee(ctx context.Context, spans []base.Span) error {
	if wait, _ := kv.WaitOf(ctx); wait != kv.WaitDefault {
		return nil // the next read that may wait does it
	}
	t.opts.Touched.Begin(spans)
	if t.opts.Touched.Empty() || t.mode != byLocks || t.foreseen {
		return nil
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
		if err := t.foresee(ctx, f.spans); err != nil {
			return err
		}
	}
	if f.lock == kv.LockNone || t.ahead.Bytes() == 0 {
		return f.run(ctx, t)
	}
	all := f.spans
	got := make([]found, len(all))
	var left []int
	f.spans = nil
	for i, s := range all {
		rows, ok := t.ahead.Find(s, f.lock)
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
