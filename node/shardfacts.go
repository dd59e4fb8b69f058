package node

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/node/knobs"
	"github.com/godwitdb/godwit/node/shards"
	"github.com/godwitdb/godwit/owner/gauge"
	"github.com/godwitdb/godwit/policy/split"
	"github.com/godwitdb/godwit/sql/ddl/sharding"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/server"
)

// shardFacts is what package node/shards knows of the node, and does by it.
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

// Room implements shards.Local.
func (f shardFacts) Room() int64 {
	free, _ := f.n.store.Room()
	return free
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

// Topology implements shards.Cluster.
func (f shardFacts) Topology() *base.Topology { return f.n.cluster.Topology() }

// LeadsMeta implements shards.Cluster.
func (f shardFacts) LeadsMeta() bool { return f.n.reps.Leased(base.MetaGroup) }

// Snapshot implements shards.Cluster.
func (f shardFacts) Snapshot(ctx context.Context) (*schema.Snapshot, error) {
	srv, err := f.n.server()
	if err != nil {
		return nil, err
	}
	return srv.Catalog().Current(ctx)
}

// Split implements shards.Cluster.
func (f shardFacts) Split(ctx context.Context, t base.TableID, shards int) error {
	srv, err := f.n.server()
	if err != nil {
		return err
	}
	return srv.Split(ctx, t, shards)
}

// splitSettings are the settings of automatic splits.
func (n *Node) splitSettings() knobs.Group {
	return knobs.Of("split.", split.Defaults(), map[string]string{
		"mode": "whether tables get more shards of their own by themselves: auto, off, dry_run (decide and report only)",
		"shard_mb": "from how many MiB on disk in each of its shards a table gets more, if a region has more nodes than the table " +
			"has shards",
		"node_requests_per_s": "from how many requests per second to its leads a node counts as loaded: a table with most of them, in " +
			"shards of its own, gets more if another node of the region is idle",
		"after": "for how long the reason must hold; a duration like 10m",
		"pause": "how long a table is left alone afterwards, and all tables after a split that failed; a duration like 24h",
	}, split.Read, n.splitter.SetParams)
}

var splitTopics = []server.Topic{
	{Name: "splits", Comment: "newest decisions to give a table more shards of its own", Columns: slices.Concat(
		columns(server.TopicTime, "at"), columns(server.TopicText, "table_name"), columns(server.TopicInt, "from_shards", "to_shards"),
		columns(server.TopicText, "reason"), columns(server.TopicJSON, "why_json"), columns(server.TopicBool, "dry_run"),
		columns(server.TopicFloat, "took_s"), columns(server.TopicText, "error"))},
}

// splitRows are the decisions of all nodes that can be reached.
func (n *Node) splitRows(ctx context.Context) (rows [][]any) {
	for _, e := range n.splitter.All(ctx) {
		why, _ := json.Marshal(e.Why) // numbers can always be encoded
		row := []any{e.At.UTC(), e.Name, e.From, e.To, e.Reason, string(why), e.Dry, nil, orNull(e.Error)}
		if e.Took > 0 {
			row[7] = seconds(e.Took)
		}
		rows = append(rows, row)
	}
	return rows
}

// Shards implements server.Cluster.
func (s show) Shards(ctx context.Context, of base.TableID, which []base.ShardID) []sharding.Use {
	var q shards.Question
	if of != 0 {
		q.Tables = []base.TableID{of}
	}
	return s.n.shards.Uses(ctx, s.n.cluster.Topology(), q, which)
}
