package multi

import (
	"bytes"
	"context"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/epoch"
	"github.com/godwitdb/godwit/store"
	"github.com/godwitdb/godwit/wire"
)

// pageBytes is about the size of an answer with epochs or rows.
const pageBytes = 4 << 20

// pull answers with epochs of the log.
func (e *Engine) pull(q *wire.EpochControl) (*wire.EpochAnswer, error) {
	a := e.answer()
	if a.View != q.View {
		return a, nil
	}
	to := a.Held
	if q.To > 0 {
		to = min(to, q.To)
	}
	cut, err := e.j.cut()
	if err != nil {
		return nil, err
	}
	if q.After < cut {
		a.StateNeeded, a.At = true, a.Merged
		return a, nil
	}
	err = e.j.held(q.After, to, pageBytes, func(r *wire.EpochRecord) error {
		a.Records = append(a.Records, r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	// What was read counts only if neither a newer view nor a shorter log has come between.
	b := e.answer()
	if cut, err = e.j.cut(); err != nil || b.View != q.View || q.After < cut {
		return nil, base.Errorf(base.CodeUnavailable, "the log has changed meanwhile: ask again (%v)", err)
	}
	return a, nil
}

// state answers with rows as of an epoch.
func (e *Engine) state(q *wire.EpochControl) (*wire.EpochAnswer, error) {
	copies, a := e.copies.Load(), e.answer()
	if q.At == 0 || q.At > a.Merged || a.View != q.View {
		return nil, base.Errorf(base.CodeUnavailable, "this node has no rows as of epoch %d in view %d", q.At, q.View)
	}
	from := base.Key(q.From)
	if len(from) == 0 {
		from = shardStart
	}
	r := e.cfg.Store.NewReader()
	defer r.Close()
	it := r.Iter(base.Span{Start: from, End: shardEnd}, base.Timestamp(q.At), store.IterOptions{})
	defer it.Close()
	size := 0
	for it.Next() {
		v := it.Version()
		if size >= pageBytes {
			a.Next = v.Key.Clone()
			break
		}
		a.Rows = append(a.Rows, &wire.EpochRow{Key: v.Key.Clone(), Epoch: uint64(v.TS), Del: v.Tombstone, Value: slices.Clone(v.Value)})
		size += len(v.Key) + len(v.Value) + 16
	}
	if err := it.Err(); err != nil {
		return nil, err
	}
	if e.copies.Load() != copies {
		return nil, base.Errorf(base.CodeUnavailable, "the rows have been replaced meanwhile: ask again")
	}
	return a, nil
}

// All keys of the epochs' shard, which is the last one, lie between these.
var shardStart, shardEnd = base.Key{0xff, 0xff}, base.Key{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// follow brings this node near the members of a view, from the log of one of them or by copying its rows.
func (e *Engine) follow(ctx context.Context, cur *epoch.View) error {
	err := error(base.Errorf(base.CodeUnavailable, "view %d has no other member", cur.Number))
	alone := true
	for _, n := range slices.Concat(cur.Members, cur.Voters) {
		if n == e.cfg.Self {
			continue
		}
		alone = false
		if err = e.followOne(ctx, cur, n); err == nil {
			return nil
		}
	}
	if alone {
		return nil
	}
	return err
}

func (e *Engine) followOne(ctx context.Context, cur *epoch.View, n base.NodeID) error {
	for {
		e.mu.Lock()
		full, loading := e.full, e.place.Loading
		e.mu.Unlock()
		ask, cancel := context.WithTimeout(ctx, 5*e.cfg.Ask)
		a, err := e.ask(ask, n, &wire.EpochControl{Step: stepPull, View: cur.Number, After: full})
		cancel()
		if err != nil {
			return err
		}
		if a.View != cur.Number || a.Held+1 < cur.Start {
			return base.Errorf(base.CodeUnavailable, "node %d is in view %d, not %d, or not up to its start", n, a.View, cur.Number)
		}
		if a.StateNeeded || loading {
			if err := e.copyRows(ctx, cur, n, a); err != nil {
				return err
			}
			continue
		}
		if len(a.Records) == 0 {
			return nil
		}
		if err := e.take(cur.Number, full, a); err != nil {
			return err
		}
	}
}

// take adds epochs that another node of the view holds, and applies what is exposed there.
func (e *Engine) take(view, after uint64, a *wire.EpochAnswer) error {
	if !e.lock() {
		return base.Errorf(base.CodeUnavailable, "the node stops")
	}
	defer e.unlock()
	e.mu.Lock()
	fits := e.place.View.Number == view && !e.active && e.full == after && !e.place.Loading
	e.mu.Unlock()
	if !fits || len(a.Records) == 0 {
		return nil
	}
	if err := e.j.hold(a.Records); err != nil {
		return err
	}
	e.mu.Lock()
	e.queue = append(e.queue, a.Records...)
	e.full = a.Records[len(a.Records)-1].Epoch
	e.held = e.full
	e.mu.Unlock()
	if err := e.applyTo(min(a.Merged, e.full)); err != nil {
		return err
	}
	// A difference is found before this node takes part, so that it is the only one to stop (F8).
	if applied, d := e.Digest(); applied == a.Merged && !bytes.Equal(d[:], a.Digest) {
		err := base.Errorf(base.CodeCorrupt, "the rows of MULTI MASTER tables differ as of epoch %d from those of the node whose log this one follows", applied)
		e.fail(err)
		return err
	}
	return nil
}

// catchUp fetches what this node lacks of a view that is about to end.
func (e *Engine) catchUp(ctx context.Context, q *wire.EpochControl) (*wire.EpochAnswer, error) {
	for {
		a := e.answer()
		if a.View != q.View || !a.Sealed || a.Held >= q.To || base.NodeID(q.Holder) == e.cfg.Self {
			return a, nil
		}
		p, err := e.ask(ctx, base.NodeID(q.Holder), &wire.EpochControl{Step: stepPull, View: q.View, After: a.Held, To: q.To})
		if err != nil {
			return nil, err
		}
		if p.View != q.View || p.StateNeeded || len(p.Records) == 0 {
			return nil, base.Errorf(base.CodeUnavailable, "node %d cannot give epochs %d to %d", q.Holder, a.Held+1, q.To)
		}
		if err := e.take(q.View, a.Held, p); err != nil {
			return nil, err
		}
	}
}

// Readable reports whether the rows here are whole: they are not while they are being copied.
func (e *Engine) Readable() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.place.Loading
}

// setLoading notes whether the rows are being replaced; the caller holds work.
func (e *Engine) setLoading(on bool) error {
	e.mu.Lock()
	p := e.place
	e.mu.Unlock()
	p.Loading = on
	if err := e.j.savePlace(p); err != nil {
		return err
	}
	e.mu.Lock()
	e.place = p
	e.mu.Unlock()
	return nil
}

// copyRows replaces the rows here by those of another node, as of an epoch that is exposed.
func (e *Engine) copyRows(ctx context.Context, cur *epoch.View, n base.NodeID, a *wire.EpochAnswer) error {
	at, d := a.Merged, epoch.Digest(a.Digest)
	if !e.lock() {
		return base.Errorf(base.CodeUnavailable, "the node stops")
	}
	defer e.unlock()
	e.mu.Lock()
	fits := e.place.View.Number == cur.Number && !e.active
	e.mu.Unlock()
	if !fits {
		return base.Errorf(base.CodeUnavailable, "the view has changed meanwhile")
	}
	e.log.Info("rows of MULTI MASTER tables are copied", "from", n, "as of epoch", at)
	if err := e.setLoading(true); err != nil {
		return err
	}
	e.copies.Add(1) // before anything goes: whoever reads now looks at it afterwards
	if err := e.cfg.Store.ClearShard(base.EpochShard); err != nil {
		return err
	}
	reset := func(at uint64, d epoch.Digest) {
		e.mu.Lock()
		e.applied.Store(at)
		e.digest, e.full, e.held, e.queue = d, at, at, nil
		clear(e.digests)
		for num, subs := range e.own {
			for _, s := range subs {
				s.finish(base.Errorf(base.CodeAmbiguous, "the log of the epoch of this transaction is gone: whether it has committed is not known"))
			}
			delete(e.own, num)
		}
		e.mu.Unlock()
	}
	reset(0, epoch.Digest{})
	for from := []byte(nil); ; {
		ask, cancel := context.WithTimeout(ctx, 10*e.cfg.Ask)
		p, err := e.ask(ask, n, &wire.EpochControl{Step: stepState, View: cur.Number, At: at, From: from})
		cancel()
		if err != nil {
			return err
		}
		b := e.cfg.Store.NewBatch()
		for _, r := range p.Rows {
			b.PutVersion(store.Version{Key: r.Key, TS: base.Timestamp(r.Epoch), Tombstone: r.Del, Value: r.Value, Writer: base.GroupIndex{Region: 1, Index: r.Epoch}})
		}
		last := len(p.Next) == 0
		if last {
			setApplied(b, at, d)
			setCut(b, at)
		}
		err = b.Commit(last)
		b.Close()
		if err != nil {
			return err
		}
		if from = p.Next; last {
			break
		}
	}
	// What the rows were before is not here: nobody may read that, now or after a restart.
	if _, _, err := e.cfg.Store.CollectVersions(base.EpochShard, base.Timestamp(at), nil, 1); err != nil {
		return err
	}
	reset(at, d)
	e.cut = at
	return e.setLoading(false)
}
