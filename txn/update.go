package txn

import (
	"context"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/patch"
	"github.com/godwitdb/godwit/txn/writes"
	"github.com/godwitdb/godwit/wire"
)

// Update implements kv.Txn.
func (t *Txn) Update(key base.Key, value []byte, p *wire.Patch) {
	draft := t.takeDraft(key)
	if t.ended || !t.mayShip(key) {
		t.Put(key, value, 0)
		return
	}
	i := t.lastRead(key)
	if i < 0 && draft == 0 {
		t.Put(key, value, 0)
		return
	}
	if i >= 0 {
		t.reads = slices.Delete(t.reads, i, i+1)
	}
	t.buffer(t.buf.Get(key), &writes.Write{Key: key, Kind: wire.WriteKind_PUT, Val: value, Home: t.home(key, 0), Patch: p, Draft: draft})
}

// mayShip reports whether an update of a key may be left to its owner.
func (t *Txn) mayShip(key base.Key) bool {
	if own := t.buf.Get(key); own.Content() || own != nil && own.Move != 0 {
		return false
	}
	return t.mode == crossable || t.mode == bySlot
}

func (t *Txn) takeDraft(key base.Key) base.Timestamp {
	if t.crossing == nil {
		return 0
	}
	draft := t.crossing.drafts[string(key)]
	delete(t.crossing.drafts, string(key))
	return draft
}

// Draft implements kv.Txn. A far row is shown by the replica here, as of what that is complete to.
// So a caller that does not depend on the version need not wait for the snapshot (about half a
// round trip): the vote finds out whether the patch is defined over the newest version (REL-9b).
func (t *Txn) Draft(ctx context.Context, key base.Key) (row kv.Row, ok bool, err error) {
	if err := t.usable(); err != nil {
		return row, false, err
	}
	if !t.mayDraft(key) {
		return row, false, nil
	}
	ctx = t.trace(ctx)
	if t.mode == crossable && !t.mayCross() {
		return row, false, nil
	}
	if t.mode == crossable {
		if err := t.cross(ctx); err != nil {
			return row, false, t.failed(err)
		}
	}
	row, at, err := t.glance(ctx, key)
	if err != nil {
		return row, false, t.failed(err)
	}
	if at == 0 || row.Value == nil {
		return row, false, nil
	}
	if t.crossing.drafts == nil {
		t.crossing.drafts = map[string]base.Timestamp{}
	}
	t.crossing.drafts[string(key)] = at
	t.opts.Touched.Begin([]base.Span{base.PointSpan(key)})
	t.opts.Touched.Note(base.PointSpan(key), kv.LockExclusive)
	return row, true, nil
}

// glance is a row as the replica here shows it, as of what it is complete to (at), without a trip
// or a wait; at is 0 if that cannot be had. The transaction crosses.
func (t *Txn) glance(ctx context.Context, key base.Key) (row kv.Row, at base.Timestamp, err error) {
	f := fetch{spans: []base.Span{base.PointSpan(key)}, ts: min(t.crossing.snapshot, t.db.set.Closed(key.Shard())),
		got: make([]found, 1), quiet: kv.Quiet(ctx)}
	if f.ts == 0 {
		return row, 0, nil
	}
	if done, err := f.local(ctx, t); err != nil || !done || len(f.got[0].rows) != 1 || f.got[0].cut != nil {
		return row, 0, err
	}
	row.Key = key
	setRow(&row, f.got[0].rows[0])
	return row, f.ts, nil
}

// mayDraft reports whether a draft of a row is of use: Update could leave it to another region, and
// the transaction has not locked or read it.
func (t *Txn) mayDraft(key base.Key) bool {
	switch {
	case t.opts.ReadOnly, t.opts.Careful, t.mode != crossable && t.mode != bySlot, key.Shard() == base.MetaShard, t.db.cfg.Reads.OwnersOnly:
		return false
	case t.buf.Get(key) != nil, t.rows.Shown[string(key)] != nil, t.hasRead(key), t.buf.Meta():
		return false
	}
	g, ok := t.db.set.Locate(key)
	if !ok || g.Region() == t.db.cfg.Region || t.db.cfg.Topology().RegionOf(t.db.leaderOf(g)) == t.db.cfg.Region {
		return false
	}
	_, locked := t.rows.Owner(key)
	return !locked
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

// dependOn turns an update of a row into a plain write, which depends on the version that was read.
func (t *Txn) dependOn(w *writes.Write) {
	if w == nil || w.Patch == nil {
		return
	}
	w.Patch = nil
	t.reads = append(t.reads, base.PointSpan(w.Key))
	if w.Draft != 0 {
		t.crossing.valid, w.Draft = min(t.crossing.valid, w.Draft), 0
	}
}

// confirm makes the result of an update that of the row at the snapshot, before it is shown.
func (t *Txn) confirm(ctx context.Context, w *writes.Write) error {
	if w.Draft == 0 {
		t.dependOn(w)
		return nil
	}
	f := fetch{spans: []base.Span{base.PointSpan(w.Key)}, lock: kv.LockExclusive}
	if err := f.run(t.trace(ctx), t); err != nil {
		return t.failed(err)
	}
	if rows := f.got[0].rows; len(rows) == 1 && !rows[0].Absent {
		if value, ok := patch.Apply(w.Patch, rows[0].Value); ok {
			t.buf.Grow(len(value) - len(w.Val))
			w.Val, w.Patch, w.Draft = value, nil, 0
			return nil
		}
	}
	return t.failed(base.Changed(t.id, "updates", w.Key))
}
