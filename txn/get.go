package txn

import (
	"context"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/txn/writes"
	"github.com/godwitdb/godwit/wire"
)

// Get implements kv.Txn.
func (t *Txn) Get(ctx context.Context, keys []base.Key, lock kv.LockMode) ([]kv.Row, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	if err := t.checkLock(lock); err != nil {
		return nil, err
	}
	out := make([]kv.Row, len(keys))
	f := fetch{lock: lock}
	meta := fetch{}
	skips := false
	if lock != kv.LockNone {
		wait, _ := kv.WaitOf(ctx)
		skips = wait == kv.WaitSkip
	}
	for i, k := range keys {
		if known, err := t.getKnown(ctx, &out[i], k, lock); err != nil {
			return nil, err
		} else if known {
			continue
		}
		if fromMeta(ctx, k, lock) {
			meta.spans = append(meta.spans, base.PointSpan(k))
		} else {
			f.spans = append(f.spans, base.PointSpan(k))
			out[i].Skipped = skips // the answer has no row for a key that was skipped: setRow clears it
		}
	}
	ctx = t.trace(ctx)
	if len(meta.spans) > 0 {
		if err := t.readMeta(ctx, &meta); err != nil {
			return nil, t.failed(err)
		}
	}
	if err := t.getAll(ctx, &f, out); err != nil {
		return nil, t.failed(err)
	}
	fillRows(out, meta.got)
	return out, nil
}

// fromMeta reports whether a key is read by readMeta.
func fromMeta(ctx context.Context, k base.Key, lock kv.LockMode) bool {
	return k.Shard() == base.MetaShard && lock != kv.LockExclusive && kv.GlanceOf(ctx) == nil
}

// getKnown sets a row that need not be asked for: an own write, or one that its owner has shown.
func (t *Txn) getKnown(ctx context.Context, row *kv.Row, k base.Key, lock kv.LockMode) (known bool, err error) {
	if w := t.buf.Get(k); w.Content() {
		if err := t.confirm(ctx, w); err != nil {
			return false, err
		}
		*row = w.Row(k)
		return true, nil
	}
	row.Key = k
	if r := t.rows.Shown[string(k)]; r != nil && lock != kv.LockNone {
		setRow(row, r)
		return true, nil
	}
	return false, nil
}

// getAll reads points. Answers are bounded: what did not fit is asked again.
func (t *Txn) getAll(ctx context.Context, f *fetch, out []kv.Row) error {
	for len(f.spans) > 0 {
		if err := t.snapshot(ctx, f); err != nil {
			return err
		}
		if err := f.runAhead(ctx, t); err != nil {
			return err
		}
		if fillRows(out, f.got) {
			return nil
		}
		var rest []base.Span
		for i, g := range f.got {
			if g.cut != nil {
				rest = append(rest, f.spans[i])
			}
		}
		f.spans = rest
	}
	return nil
}

// fillRows puts found points in their places; all is false if some are missing.
func fillRows(out []kv.Row, got []found) (all bool) {
	all = true
	if len(got) == 0 {
		return true
	}
	if len(out) == 1 && len(got) == 1 && len(got[0].rows) == 1 {
		setRow(&out[0], got[0].rows[0])
		return true
	}
	at := make(map[string]*wire.KV, len(got))
	for _, g := range got {
		if g.cut != nil {
			all = false
		}
		for _, r := range g.rows {
			at[string(r.Key)] = r
		}
	}
	for i := range out {
		if r := at[string(out[i].Key)]; r != nil {
			setRow(&out[i], r)
		}
	}
	return all
}

func setRow(row *kv.Row, r *wire.KV) {
	row.Skipped = false
	if r.Absent {
		return
	}
	l := base.Label(r.Label)
	row.Value, row.TS, row.Home, row.Label, row.Advice = writes.Present(r.Value), base.Timestamp(r.Ts), l.Home(), l,
		base.RegionID(r.Advice)
}

func (t *Txn) checkLock(lock kv.LockMode) error {
	if lock != kv.LockNone && t.opts.ReadOnly {
		return base.Errorf(base.CodeInvalid, "a READ ONLY transaction cannot lock rows")
	}
	return nil
}

// snapshot fixes the timestamp of LockNone reads at the first one.
func (t *Txn) snapshot(ctx context.Context, f *fetch) error {
	if f.lock != kv.LockNone || t.db.ordered && t.opts.ReadTS == 0 {
		return nil
	}
	if at := kv.GlanceOf(ctx); at != nil {
		if *at == 0 {
			var err error
			if *at, err = t.freshTimestamp(ctx); err != nil {
				return err
			}
		}
		f.ts = *at
		return nil
	}
	if t.readTS == 0 || t.stale {
		ts, err := t.now(ctx)
		if err != nil {
			return err
		}
		t.readTS, t.stale = ts, false
	}
	f.ts = t.readTS
	return nil
}
