package txn

import (
	"context"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// heartbeatAfter is how old a transaction is when owners begin to hear of it regularly.
const heartbeatAfter = time.Second

// liveTxns are the attempts that hold locks. Their owners release the locks of a transaction from
// which they have not heard for some time, so heartbeats tell them of each.
type liveTxns struct {
	mu  sync.Mutex
	set map[*attempt]struct{}
}

func (l *liveTxns) add(a *attempt, g base.GroupID) {
	if len(a.parts) == 1 {
		a.db.cfg.Bounds.Know(a.id, &a.bounds)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a.groups = append(a.groups, g)
	l.set[a] = struct{}{}
}

func (l *liveTxns) remove(a *attempt) {
	a.db.cfg.Bounds.Forget(a.id)
	l.mu.Lock()
	defer l.mu.Unlock()
	a.groups = nil
	delete(l.set, a)
}

// byNode are the transactions to name to each leader.
func (l *liveTxns) byNode(leader func(base.GroupID) base.NodeID) map[base.NodeID][][]byte {
	nodes := map[base.NodeID][][]byte{}
	l.mu.Lock()
	defer l.mu.Unlock()
	for a := range l.set {
		if time.Since(a.begun) < heartbeatAfter {
			continue
		}
		named := map[base.NodeID]bool{}
		for _, g := range a.groups {
			n := leader(g)
			if n != 0 && !named[n] {
				named[n] = true
				nodes[n] = append(nodes[n], a.id[:])
			}
		}
	}
	return nodes
}

// heartbeats runs until the gateway closes.
func (db *DB) heartbeats() {
	tick := time.NewTicker(db.cfg.Limits.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-db.tasks.Stopped():
			return
		case <-tick.C:
		}
		for n, ids := range db.live.byNode(db.leaderOf) {
			db.heartbeat(n, &wire.TxnHeartbeatRequest{Txns: ids, Gateway: uint32(db.cfg.Self)})
		}
	}
}

func (db *DB) heartbeat(n base.NodeID, q *wire.TxnHeartbeatRequest) {
	if n == db.cfg.Self {
		db.set.Heartbeat(q)
		return
	}
	db.tasks.Spawn(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, 5*db.cfg.Limits.Heartbeat)
		defer cancel()
		_ = db.cfg.Transport.Call(ctx, n, wire.KindTxnHeartbeat, q, &wire.TxnHeartbeatResponse{})
	})
}
