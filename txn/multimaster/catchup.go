package multimaster

import (
	"bytes"
	"context"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/policy/epoch"
	"github.com/godwitdb/godwit/wire"
)

// maxCopies is how often the rows of a node are copied before another one is tried.
const maxCopies = 3

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
	} else if !inShard(from) {
		return nil, base.Errorf(base.CodeInvalid, "no row of MULTI MASTER tables has the key %s", from)
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
		a.Rows = append(a.Rows, &wire.EpochRow{Key: v.Key.Clone(), Epoch: uint64(v.TS), Del: v.Tombstone,
			Value: slices.Clone(v.Value)})
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

// inShard reports whether a key is one of the epochs' shard.
func inShard(k base.Key) bool { return len(k) > 2 && k.Shard() == base.EpochShard }

// follow brings this node near the members of a view, from the log of one of them or by copying its
// rows.
func (e *Engine) follow(ctx context.Context, cur *epoch.View) error {
	err := error(base.Errorf(base.CodeUnavailable, "view %d has no other member", cur.Number))
	alone := true
	for _, n := range slices.Concat(cur.Members, cur.Voters) {
		if n == e.cfg.Self {
			continue
		}
		alone = false
		if err = e.followOne(ctx, cur, n); err != nil {
			continue
		}
		// A difference is found before this node takes part, so that it stops alone, or leaves out
		// the node that differs (EPO-8).
		e.mu.Lock()
		_, differs := e.differ[n]
		if e.judge(e.cfg.Self, e.concerned(cur)) == outvoted {
			e.diverge()
			err = e.failure
			e.mu.Unlock()
			return err
		}
		e.mu.Unlock()
		if !differs {
			return nil
		}
		err = base.Errorf(base.CodeUnavailable, "the rows of MULTI MASTER tables differ from those of node %d, "+
			"and too few nodes answer to tell whose are right", n)
	}
	if alone {
		return nil
	}
	return err
}

func (e *Engine) followOne(ctx context.Context, cur *epoch.View, n base.NodeID) error {
	for copies := 0; ; {
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
			return base.Errorf(base.CodeUnavailable, "node %d is in view %d, not %d, or not up to its start", n, a.View,
				cur.Number)
		}
		if a.StateNeeded || loading {
			if copies++; copies > maxCopies {
				return base.Errorf(base.CodeUnavailable, "the log of node %d has always moved on when its rows were here", n)
			}
			if err := e.copyRows(ctx, cur, n, a); err != nil {
				return err
			}
			continue
		}
		if len(a.Records) == 0 {
			return e.keepUp(cur.Number, n, a)
		}
		if err := e.take(cur.Number, full, a); err != nil {
			return err
		}
		// What is more has come within a round trip, and the next view sees to it. There is always
		// more while others write.
		if a.Records[len(a.Records)-1].Epoch >= a.Held {
			return e.keepUp(cur.Number, n, a)
		}
	}
}

// keepUp applies what is exposed at another node and held here, and compares the outcomes.
func (e *Engine) keepUp(view uint64, n base.NodeID, a *wire.EpochAnswer) error {
	d, err := epoch.ParseDigest(a.Digest)
	if err != nil {
		return err
	}
	if !e.lock() {
		return base.Errorf(base.CodeUnavailable, "the node stops")
	}
	defer e.unlock()
	e.mu.Lock()
	fits := e.place.View.Number == view && !e.active && !e.place.Loading
	e.mu.Unlock()
	if !fits {
		return nil
	}
	if err := e.applyTo(a.Merged); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hear(n, a.Merged, d)
	return nil
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
	for _, r := range a.Records { // before any is written down
		if r.Epoch <= after || r.Epoch > a.Held {
			return base.Errorf(base.CodeInvalid, "epoch %d came, after epoch %d and with %d as the last one", r.Epoch,
				after, a.Held)
		}
		after = r.Epoch
		if _, err := batchesOf(r); err != nil {
			return err
		}
	}
	if err := e.j.hold(a.Records); err != nil {
		return err
	}
	e.mu.Lock()
	for _, r := range a.Records {
		e.queue = append(e.queue, held{EpochRecord: r})
	}
	e.full = a.Records[len(a.Records)-1].Epoch
	e.held = e.full
	e.mu.Unlock()
	return e.applyTo(min(a.Merged, e.full))
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
	if p.Loading = on; !on {
		p.Least = 0
	}
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
	at := a.Merged
	e.mu.Lock()
	least := e.place.Least
	e.mu.Unlock()
	if at < least {
		return base.Errorf(base.CodeUnavailable, "node %d has exposed epochs up to %d, "+
			"and this one has held those up to %d", n, at, least)
	}
	d, err := epoch.ParseDigest(a.Digest)
	if err != nil {
		return err
	}
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
	later, err := e.keepLater(cur.Number, n, at)
	if err != nil {
		return err
	}
	e.log.Info("rows of MULTI MASTER tables are copied", "from", n, "as of epoch", at)
	if err := e.setLoading(true); err != nil {
		return err
	}
	e.copies.Add(1) // before anything goes: whoever reads now looks at it afterwards
	if err := e.cfg.Store.ClearShard(base.EpochShard); err != nil {
		return err
	}
	e.startFrom(0, epoch.Digest{}, nil)
	from := base.Key(nil)
	for more := true; more; {
		p, err := e.rowsFrom(ctx, cur.Number, n, at, from)
		if err != nil {
			return err
		}
		if more = len(p.Next) > 0; more {
			err = e.writeRows(p, nil)
		} else {
			err = e.writeRows(p, func(b *store.Batch) error {
				setApplied(b, at, d)
				setCut(b, at)
				return setHeld(b, later)
			})
		}
		if err != nil {
			return err
		}
		from = p.Next
	}
	// What the rows were before is not here: nobody may read that, now or after a restart.
	if _, _, err := e.cfg.Store.CollectVersions(base.EpochShard, base.Timestamp(at), nil, 1); err != nil {
		return err
	}
	e.startFrom(at, d, later)
	e.cut = at
	if len(later) > 0 {
		if err := e.j.setAside(cur.Number, nil); err != nil {
			return err
		}
	}
	return e.setLoading(false)
}

// keepLater sets aside what the log here has of epochs after those of the rows that are going to be
// copied. This node has said that it holds them (EPO-2), and if it copies because its rows were
// wrong, no other node may hold them.
func (e *Engine) keepLater(view uint64, n base.NodeID, at uint64) ([]*wire.EpochRecord, error) {
	later, err := e.j.later(view, at)
	if err != nil || len(later) == 0 {
		return nil, err
	}
	if e.cut > at {
		return nil, base.Errorf(base.CodeUnavailable,
			"the log here begins after epoch %d, and node %d has the rows as of epoch %d: it has to go on first",
			e.cut, n, at)
	}
	return later, e.j.setAside(view, later)
}

// startFrom begins anew with rows as of an epoch, and the later epochs of the log.
func (e *Engine) startFrom(at uint64, d epoch.Digest, later []*wire.EpochRecord) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.applied.Store(at)
	e.digest, e.full, e.held, e.queue = d, at, at, nil
	for _, r := range later {
		e.queue = append(e.queue, held{EpochRecord: r})
		e.full, e.held = r.Epoch, r.Epoch
	}
	e.forgive()
	e.digests[at] = d
	for num, subs := range e.own {
		for _, s := range subs {
			s.finish(base.Errorf(base.CodeAmbiguous,
				"the log of the epoch of this transaction is gone: whether it has committed is not known"))
		}
		delete(e.own, num)
	}
}

// rowsFrom asks a node for the next rows to be copied, from a key on, and checks that they are
// such.
func (e *Engine) rowsFrom(ctx context.Context, view uint64, n base.NodeID, at uint64, from base.Key) (*wire.EpochAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*e.cfg.Ask)
	defer cancel()
	p, err := e.ask(ctx, n, &wire.EpochControl{Step: stepState, View: view, At: at, From: from})
	if err != nil {
		return nil, err
	}
	for _, r := range p.Rows {
		if !inShard(r.Key) || bytes.Compare(r.Key, from) < 0 || r.Epoch == 0 || r.Epoch > at {
			return nil, base.Errorf(base.CodeInvalid,
				"node %d gives row %s of epoch %d as one of MULTI MASTER tables as of epoch %d", n,
				base.Key(r.Key), r.Epoch, at)
		}
	}
	if len(p.Next) > 0 && (len(p.Rows) == 0 || bytes.Compare(p.Next, p.Rows[len(p.Rows)-1].Key) <= 0) {
		return nil, base.Errorf(base.CodeInvalid, "node %d would have the rows copied from key %s on again", n, base.Key(p.Next))
	}
	return p, nil
}

// writeRows writes copied rows down. last adds what ends the copy, which is durable when writeRows
// returns; nil: there are more.
func (e *Engine) writeRows(p *wire.EpochAnswer, last func(*store.Batch) error) error {
	b := e.cfg.Store.NewBatch()
	defer b.Close()
	for _, r := range p.Rows {
		b.PutVersion(store.Version{Key: r.Key, TS: base.Timestamp(r.Epoch), Tombstone: r.Del, Value: r.Value,
			Writer: base.GroupIndex{Region: 1, Index: r.Epoch}})
	}
	if last != nil {
		if err := last(b); err != nil {
			return err
		}
	}
	return b.Commit(last != nil)
}
