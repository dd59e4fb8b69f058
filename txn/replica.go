package txn

import (
	"context"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/obs"
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
	tr := obs.TraceOf(ctx)
	if q.wait == 0 {
		resp, err := t.read(ctx, q.msg)
		if err == nil && kv.LockMode(q.msg.Lock) == kv.LockNone {
			t.db.stats.ReadsAsked.Add(1)
			kind := obs.ReadOwner
			if n := t.db.leaderOf(base.GroupID(q.msg.Group)); n != 0 && t.db.cfg.Topology().RegionOf(n) != t.db.cfg.Region {
				kind = obs.ReadFar
			}
			tr.AddRead(kind, 0)
		}
		return resp, err
	}
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

const (
	touchEvery = 50 * time.Millisecond
	maxTouched = 1000 // rows that one owner is still to be notified of; more are not counted
)

// touches are rows of other regions that were read here: the policy of homes counts strong reads of
// points at their owners.
type touches struct {
	mu   sync.Mutex
	rows map[touchedBy][]*wire.KV
}

type touchedBy struct {
	owner  base.NodeID
	region uint32
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
	by := touchedBy{db.leaderOf(base.GroupID(q.msg.Group)), q.msg.Region}
	if by.owner == 0 || by.owner == db.cfg.Self {
		return
	}
	db.touches.mu.Lock()
	defer db.touches.mu.Unlock()
	if len(db.touches.rows) == 0 {
		db.touches.rows = map[touchedBy][]*wire.KV{}
		time.AfterFunc(touchEvery, db.tellTouched)
	}
	list := db.touches.rows[by]
	for _, r := range rows {
		if !r.Absent && len(list) < maxTouched {
			list = append(list, &wire.KV{Key: r.Key, Label: r.Label})
		}
	}
	db.touches.rows[by] = list
}

func (db *DB) tellTouched() {
	db.touches.mu.Lock()
	all := db.touches.rows
	db.touches.rows = nil
	db.touches.mu.Unlock()
	for by, rows := range all {
		if len(rows) == 0 {
			continue
		}
		db.tasks.spawn(func(ctx context.Context) { // lost: they were not counted
			_ = db.cfg.Transport.Call(ctx, by.owner, wire.KindTouched, &wire.Touched{Region: by.region, Rows: rows},
				&wire.TouchedResponse{})
		})
	}
}
