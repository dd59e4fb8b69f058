package node

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wan"
)

// reads chooses snapshots for SQL; it implements sqlfront.Reads.
type reads struct{ n *Node }

func (r reads) ReadPoint(ctx context.Context, atLeast base.Timestamp, wait time.Duration) (base.Timestamp, bool) {
	return r.n.cluster.ReadPoint(ctx, atLeast, wait)
}

// PointWait is as long as a closed timestamp takes from the farthest node, if nothing holds it back, and some more.
func (r reads) PointWait() time.Duration { return r.n.cluster.Farthest() + 100*time.Millisecond }

func (r reads) Plan(key base.Key) (local bool, wait, rtt time.Duration) { return r.n.db.PlanRead(key) }

// load is the number of reads and commits under way at this gateway.
func (n *Node) load() int {
	if db := n.gateway.Load(); db != nil {
		return db.Load()
	}
	return 0
}

// serve reads for nodes that do not hold what they read.
func (n *Node) serve(ctx context.Context, from base.NodeID, body []byte) (wan.Msg, error) {
	if db := n.gateway.Load(); db != nil {
		return db.Serve(ctx, from, body)
	}
	return nil, base.Errorf(base.CodeUnavailable, "node %d is starting", n.ID())
}
