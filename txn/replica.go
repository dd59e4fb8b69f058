package txn

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/txn/touched"
	"github.com/godwitdb/godwit/wire"
)

const (
	// leastWait is the shortest time that a read here waits for a closed timestamp before it asks
	// the owners after all.
	leastWait = 20 * time.Millisecond
	// nearby is a round trip that is not worth a wait.
	nearby = 2 * time.Millisecond
)

// choose decides for each piece of a snapshot read whether to ask its owner, or to wait until the
// replica here is complete up to the snapshot. The wait takes about half a round trip and a
// heartbeat, the owner a whole round trip; and the wait costs the owner nothing.
func (f *fetch) choose(t *Txn, todo []piece) {
	db := t.db
	if db.cfg.Reads.RTT == nil || db.cfg.Reads.OwnersOnly {
		return
	}
	for i := range todo {
		p := &todo[i]
		if p.owner || p.group == base.MetaGroup {
			continue
		}
		leader := db.leaderOf(p.group)
		if leader == db.cfg.Self {
			continue
		}
		rtt := db.cfg.Reads.RTT(leader)
		if leader != 0 && (db.cfg.Topology().RegionOf(leader) == db.cfg.Region || rtt > 0 && rtt < nearby) {
			continue
		}
		db.cfg.Reads.Want()
		shard := p.span.Start.Shard()
		if !db.set.Holds(shard) {
			continue
		}
		// (What others own in it, unknown here, makes the read fail and be asked of the owners.)
		if est := db.set.ClosedIn(p.group, f.ts); est < rtt || leader == 0 && est < time.Second {
			p.wait = max(est, 1)
		}
	}
}

// PlanRead tells how a strong read of a key would be answered now: from the local replica after
// about wait, or by its owner after about rtt.
func (db *DB) PlanRead(key base.Key) (local bool, wait, rtt time.Duration) {
	g, ok := db.set.Locate(key)
	if !ok || db.cfg.Reads.RTT == nil {
		return false, 0, 0
	}
	leader := db.leaderOf(g)
	if leader == db.cfg.Self {
		return false, 0, 0
	}
	rtt = db.cfg.Reads.RTT(leader)
	wait = db.set.ClosedIn(g, db.clock.Latest())
	return wait < rtt, wait, rtt
}

// ask carries out a request; no answer and no error: it waited here in vain.
func (t *Txn) ask(ctx context.Context, q *request) (*wire.ReadResponse, error) {
	if q.wait == 0 {
		return t.hedged(ctx, q)
	}
	tr := obs.TraceOf(ctx)
	began := time.Now()
	g := base.GroupID(q.msg.Group)
	ts := base.Timestamp(q.msg.ReadTs)
	if r := t.db.set.Replica(g); r == nil || r.Closed() < ts {
		ok := t.db.set.WaitClosed(ctx, g, ts, max(2*q.wait, q.wait+leastWait))
		tr.AddHops(1) // the closed timestamp is on its way already: one crossing, not two
		if !ok {
			t.db.stats.WaitsLost.Add(1)
			tr.AddRead(obs.ReadWaited, time.Since(began))
			if ctx.Err() != nil {
				return nil, base.Errorf(base.CodeCanceled, "%v", context.Cause(ctx))
			}
			return nil, nil
		}
	}
	r := t.db.set.Replica(g)
	if r == nil {
		return nil, nil
	}
	resp, err := r.ReadLocal(ctx, q.msg)
	if base.CodeOf(err) == base.CodeTooLate {
		return nil, nil
	}
	if err == nil {
		t.db.stats.ReadsWaited.Add(1)
		tr.AddRead(obs.ReadWaited, time.Since(began))
		t.touched(q, resp.Rows)
	}
	return resp, err
}

// askOwner asks the owner.
func (t *Txn) askOwner(ctx context.Context, q *request) (*wire.ReadResponse, error) {
	resp, err := t.read(ctx, q.msg)
	if err == nil && kv.LockMode(q.msg.Lock) == kv.LockNone {
		t.db.stats.ReadsAsked.Add(1)
		kind := obs.ReadOwner
		if n := t.db.leaderOf(base.GroupID(q.msg.Group)); n != 0 && t.db.cfg.Topology().RegionOf(n) != t.db.cfg.Region {
			kind = obs.ReadFar
		}
		obs.TraceOf(ctx).AddRead(kind, 0)
	}
	return resp, err
}

// touched notes the rows of a point read that waited here. Their owner is notified in a moment.
func (t *Txn) touched(q *request, rows []*wire.KV) {
	if q.msg.Quiet {
		return
	}
	for i := range q.pieces {
		if !q.pieces[i].span.IsPoint() {
			return
		}
	}
	db := t.db
	owner := db.leaderOf(base.GroupID(q.msg.Group))
	if owner == 0 || owner == db.cfg.Self {
		return
	}
	db.touches.Note(touched.By{Owner: owner, Region: q.msg.Region}, rows, func(by touched.By, rows []*wire.KV) {
		db.tasks.Spawn(func(ctx context.Context) { // lost: they were not counted
			_ = db.cfg.Transport.Call(ctx, by.Owner, wire.KindTouched, &wire.Touched{Region: by.Region, Rows: rows},
				&wire.TouchedResponse{})
		})
	})
}
