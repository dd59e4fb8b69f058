package node

import (
	"context"
	"encoding/json"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/node/knobs"
)

// reads chooses snapshots for SQL; it implements server.Reads.
type reads struct{ n *Node }

func (r reads) ReadPoint(ctx context.Context, atLeast base.Timestamp, wait time.Duration) (base.Timestamp, bool) {
	return r.n.cluster.ReadPoint(ctx, atLeast, wait)
}

// PointWait is the time that a closed timestamp takes from the farthest node, if nothing holds it
// back, plus a margin.
func (r reads) PointWait() time.Duration { return r.n.cluster.Farthest() + 100*time.Millisecond }

func (r reads) Plan(key base.Key) (local bool, wait, rtt time.Duration) {
	if key.Shard() == base.EpochShard {
		return true, 0, 0
	}
	return r.n.db.PlanRead(key)
}

// load is the number of reads and commits under way at this gateway.
func (n *Node) load() int {
	if db := n.gateway.Load(); db != nil {
		return db.Load()
	}
	return 0
}

// serve reads for nodes that hold no replica of the shard.
func (n *Node) serve(ctx context.Context, from base.NodeID, body []byte) (wan.Msg, error) {
	if db := n.gateway.Load(); db != nil {
		return db.Serve(ctx, from, body)
	}
	return nil, base.Errorf(base.CodeUnavailable, "node %d is starting", n.ID())
}

// readParams are the cluster settings of reads from replicas.
type readParams struct {
	Heartbeat float64 `json:"heartbeat_ms"`
}

var readDefaults = readParams{Heartbeat: 10}

func (n *Node) readSettings() knobs.Group {
	read := func(data []byte) (p readParams, err error) {
		if err = json.Unmarshal(data, &p); err == nil && (p.Heartbeat > 1000 || p.Heartbeat >= 0 && p.Heartbeat < 1) {
			err = base.Errorf(base.CodeInvalid, "reads.heartbeat_ms is %v; it must be from 1 to 1000, "+
				"or negative for none", p.Heartbeat)
		}
		return p, err
	}
	return knobs.Of("reads.", readDefaults, map[string]string{
		"heartbeat_ms": "time between the closed timestamps that leaders send to nodes that wait for them; negative: " +
			"only every 100 ms, with the heartbeats",
	}, read, func(p readParams) error {
		n.tick.Store(int64(p.Heartbeat * float64(time.Millisecond)))
		n.cluster.SetNoticeEvery(time.Duration(p.Heartbeat * float64(time.Millisecond)))
		return nil
	})
}
