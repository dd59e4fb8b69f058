package node

import (
	"context"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/node/shards"
	"github.com/godwitdb/godwit/owner/gauge"
	"github.com/godwitdb/godwit/sql/ddl/sharding"
)

// shardFacts is what package node/shards knows of the node.
type shardFacts struct{ n *Node }

// ID implements shards.Local.
func (f shardFacts) ID() base.NodeID { return f.n.ID() }

// Held implements shards.Local.
func (f shardFacts) Held() []base.GroupID { return f.n.reps.Held() }

// Leased implements shards.Local.
func (f shardFacts) Leased(g base.GroupID) bool { return f.n.reps.Leased(g) }

// Loads implements shards.Local.
func (f shardFacts) Loads(g base.GroupID) map[gauge.Asker]gauge.Load { return f.n.reps.Loads(g) }

// SpanBytes implements shards.Local.
func (f shardFacts) SpanBytes(start, end base.Key) (int64, error) {
	return f.n.store.SpanBytes(start, end)
}

// Ask implements shards.Local.
func (f shardFacts) Ask(ctx context.Context, n base.NodeID, name string, body []byte) ([]byte, error) {
	return f.n.cluster.Ask(ctx, n, name, body)
}

// Others implements shards.Local.
func (f shardFacts) Others() (out []base.NodeID) {
	for _, x := range f.n.cluster.Topology().Nodes {
		if x.ID != f.n.ID() && !x.Gone && f.n.cluster.Live(x.ID) {
			out = append(out, x.ID)
		}
	}
	return out
}

// Shards implements server.Cluster.
func (s show) Shards(ctx context.Context, of base.TableID, which []base.ShardID) []sharding.Use {
	return s.n.shards.Uses(ctx, s.n.cluster.Topology(), shards.Question{Table: of}, which)
}
