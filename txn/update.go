package txn

import (
	"context"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/patch"
	"github.com/godwitdb/godwit/wire"
)

// Update implements kv.Txn.
func (t *Txn) Update(key base.Key, value []byte, p *wire.Patch) {
	draft := t.drafts[string(key)]
	delete(t.drafts, string(key))
	if own := t.buf.get(key); own.content() || own != nil && own.move != 0 || t.byTime() || !t.opts.Relay && t.crossing == nil {
		t.Put(key, value, 0)
		return
	}
	i := t.lastRead(key)
	if t.ended || i < 0 && draft == 0 {
		t.Put(key, value, 0)
		return
	}
	if i >= 0 {
		t.reads = slices.Delete(t.reads, i, i+1)
	}
	t.buffer(&write{key: key, kind: wire.WriteKind_PUT, val: value, home: t.home(0), patch: p, draft: draft})
}

// Draft implements kv.Txn. What is far is shown by the replica here as of what it is complete to, so that nobody waits for the snapshot
// (about half a round trip) who does not rely on it: the vote finds out whether the patch is defined over the newest version (S9b).
func (t *Txn) Draft(ctx context.Context, key base.Key) (row kv.Row, ok bool, err error) {
	if err := t.usable(); err != nil {
		return row, false, err
	}
	if t.byTime() || t.opts.ReadOnly || !t.opts.Relay && t.crossing == nil || key.Shard() == base.MetaShard ||
		t.buf.get(key) != nil || t.along[string(key)] != nil || t.hasRead(key) || t.buf.meta() || t.db.cfg.OwnersOnly {
		return row, false, nil
	}
	g, ok := t.db.set.Locate(key)
	if !ok || g.Region() == t.db.cfg.Region || t.db.cfg.Topology().RegionOf(t.db.leaderOf(g)) == t.db.cfg.Region {
		return row, false, nil
	}
	if _, ok := t.owner(key); ok {
		return row, false, nil // it is locked
	}
	ctx = t.trace(ctx)
	if t.crossing == nil {
		if err := t.cross(ctx); err != nil {
			return row, false, t.failed(err)
		}
	}
	f := fetch{spans: []base.Span{base.PointSpan(key)}, ts: min(t.crossing.snapshot, t.db.set.Closed(key.Shard())), got: make([]found, 1), quiet: kv.Quiet(ctx)}
	if f.ts == 0 {
		return row, false, nil
	}
	if done, err := f.local(ctx, t); err != nil {
		return row, false, t.failed(err)
	} else if !done || len(f.got[0].rows) != 1 || f.got[0].cut != nil {
		return row, false, nil
	}
	row.Key = key
	setRow(&row, f.got[0].rows[0])
	if row.Value == nil {
		return row, false, nil
	}
	if t.drafts == nil {
		t.drafts = map[string]base.Timestamp{}
	}
	t.drafts[string(key)] = f.ts
	return row, true, nil
}

// lastRead finds the last note that a key was read, by itself; -1: there is none.
func (t *Txn) lastRead(key base.Key) int {
	for i := len(t.reads) - 1; i >= 0; i-- {
		if t.reads[i].IsPoint() && t.reads[i].Start.Compare(key) == 0 {
			return i
		}
	}
	return -1
}

// settle turns an update of a row into a plain write, which rests on the row being as it was read.
func (t *Txn) settle(w *write) {
	if w == nil || w.patch == nil {
		return
	}
	w.patch = nil
	t.reads = append(t.reads, base.PointSpan(w.key))
	if w.draft != 0 {
		t.crossing.valid, w.draft = min(t.crossing.valid, w.draft), 0
	}
}

// confirm settles an update before its result is shown, which is to be that of the row at the snapshot.
func (t *Txn) confirm(ctx context.Context, w *write) error {
	if w.draft == 0 {
		t.settle(w)
		return nil
	}
	f := fetch{spans: []base.Span{base.PointSpan(w.key)}, lock: kv.LockExclusive}
	if err := f.run(t.trace(ctx), t); err != nil {
		return t.failed(err)
	}
	if rows := f.got[0].rows; len(rows) == 1 && !rows[0].Absent {
		if value, ok := patch.Apply(w.patch, rows[0].Value); ok {
			t.buf.bytes += len(value) - len(w.val)
			w.val, w.patch, w.draft = value, nil, 0
			return nil
		}
	}
	return t.failed(base.Errorf(base.CodeAborted, "transaction %v updates %v, which has been changed since: retry", t.id, w.key))
}
