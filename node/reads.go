package node

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/base"
)

// reads chooses snapshots for SQL; it implements sqlfront.Reads.
type reads struct{ n *Node }

func (r reads) ReadPoint(ctx context.Context, atLeast base.Timestamp, wait time.Duration) (base.Timestamp, bool) {
	return r.n.cluster.ReadPoint(ctx, atLeast, wait)
}

// PointWait is as long as a closed timestamp takes from the farthest node, if nothing holds it back, and some more.
func (r reads) PointWait() time.Duration { return r.n.cluster.Farthest() + 100*time.Millisecond }

func (r reads) Plan(key base.Key) (local bool, wait, rtt time.Duration) { return r.n.db.PlanRead(key) }
