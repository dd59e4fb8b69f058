package node

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/node/adviser"
	"github.com/godwitdb/godwit/policy/advice"
	"github.com/godwitdb/godwit/sql/server"
)

const (
	heartbeat = 100.0 // ms, between the closed timestamps that all get

	askUses, askRowUses = "uses", "row uses"
	// maxUsesHeard is how many of its hottest rows a node sums up, by the regions that use them.
	maxUsesHeard = 5000
	// maxDigestsAdvised is how many digests of each node count, those that took the longest: each
	// is parsed, for some 60 µs.
	maxDigestsAdvised = 200
)

var adviceTopics = []server.Topic{
	{Name: "advice", Comment: "what would make statements faster, what it gives up, and what it would do for each region",
		Columns: slices.Concat(
			columns(server.TopicInt, "advice"), columns(server.TopicText, "kind", "table_name", "why", "gives_up", "do_this"),
			columns(server.TopicFloat, "saves_s"), columns(server.TopicText, "region", "statement_kind"),
			columns(server.TopicInt, "statements"),
			columns(server.TopicFloat, "p50_ms", "p50_ms_after", "p99_ms", "p99_ms_after", "avg_ms", "avg_ms_after", "wan_round_trips",
				"wan_round_trips_after", "wan_bytes", "wan_bytes_after"))},
}

// adviceRows are what the adviser says.
func (n *Node) adviceRows(ctx context.Context) [][]any {
	f, ok := n.adviceFacts(ctx)
	if !ok {
		return nil
	}
	return adviser.Rows(&f)
}

// adviceFacts are what the nodes have counted; false: not all that it takes is known yet.
func (n *Node) adviceFacts(ctx context.Context) (advice.Facts, bool) {
	t := presentOnly(n.cluster.Topology())
	srv, err := n.server()
	if err != nil || len(t.Regions) < 2 {
		return advice.Facts{}, false
	}
	f, known := n.networkFacts(t)
	tables, err := srv.Catalog().Current(ctx)
	if err != nil || !known {
		return advice.Facts{}, false
	}
	for _, o := range tables.Outlines() {
		f.Tables = append(f.Tables, adviser.TableOf(t, o))
	}
	adviser.AddPlacements(&f, t)
	adviser.AddLeads(&f, t, n.cluster.AllLeaderRows(ctx), n.cluster.LeaderParams())
	adviser.AddHomes(&f, t, slices.Concat(append(askAll[[]adviser.HeatUse](ctx, n, askUses), n.localUses())...))
	sampled := append(askAll[adviser.Sampled](ctx, n, askRowUses), n.localRowUses(ctx))
	adviser.AddRowUses(&f, t, sampled)
	adviser.AddTiers(&f, t, sampled, n.tier.Params(), t.Allows(base.VersionSlots) && !t.Concurrency.Ordered())
	digests := append(askAll[nodeDigests](ctx, n, askStatements), n.localDigests())
	for _, d := range digests {
		region := adviser.RegionIndex(t, t.RegionOf(d.Node))
		for i := range d.Rows {
			if i >= maxDigestsAdvised {
				f.Others = append(f.Others, d.Rows[i].Text)
				continue
			}
			u, ok := adviser.UseOf(&f, &d.Rows[i])
			switch {
			case !ok:
				f.Others = append(f.Others, d.Rows[i].Text)
			case region >= 0:
				u.Region = region
				f.Uses = append(f.Uses, u)
			}
		}
	}
	return f, true
}

// presentOnly is a topology with the regions that have nodes: those that are being added are among
// them, and those that are gone are not.
func presentOnly(t *base.Topology) *base.Topology {
	out := *t
	out.Regions = t.Present()
	return &out
}

// networkFacts are the round trips, the voters of each region, and the settings that times rest on.
func (n *Node) networkFacts(t *base.Topology) (f advice.Facts, known bool) {
	for i, a := range t.Regions {
		f.Regions = append(f.Regions, a.Name)
		f.RTT = append(f.RTT, make([]float64, len(t.Regions)))
		for j, b := range t.Regions {
			if i == j {
				continue
			}
			d := n.between(t, a.ID, b.ID)
			if d <= 0 {
				return f, false
			}
			f.RTT[i][j] = millis(d)
		}
	}
	f.Voters = make([]int, len(t.Regions))
	for _, id := range t.ShardReplicas(1) {
		if i := adviser.RegionIndex(t, t.RegionOf(id)); i >= 0 {
			f.Voters[i]++
		}
	}
	f.Meta = max(0, adviser.RegionIndex(t, t.RegionOf(n.cluster.Leader(base.MetaGroup))))
	switch tick := float64(n.tick.Load()) / 1e6; {
	case tick == 0:
		f.Tick = readDefaults.Heartbeat
	case tick < 0:
		f.Tick = heartbeat
	default:
		f.Tick = tick
	}
	f.Beat = heartbeat
	f.Epoch = float64(n.interval.Load()) / 1e6
	// As its leader reckons, which is not as far from the others as this node may be; without the
	// lead of commits, which follows from the writes that are to go away.
	f.Lead = millis(n.cluster.MetaLead()-n.cluster.CommitLead()-n.cluster.Farthest()) + slices.Max(f.RTT[f.Meta])
	f.Age = make([]float64, len(t.Regions))
	all, _ := n.cluster.Servers()
	for _, s := range all {
		if i := adviser.RegionIndex(t, s.Region); i >= 0 && s.Healthy {
			f.Age[i] = max(f.Age[i], millis(s.Staleness))
		}
	}
	return f, true
}

// askAll are the answers of the other nodes to a question, as far as they come.
func askAll[T any](ctx context.Context, n *Node, name string) (out []T) {
	for _, b := range n.cluster.AskAll(ctx, name, name) {
		var x T
		if json.Unmarshal(b, &x) == nil {
			out = append(out, x)
		}
	}
	return out
}

// localRowUses samples the rows that this node's clients have used.
func (n *Node) localRowUses(ctx context.Context) adviser.Sampled {
	out := adviser.Sampled{Node: n.ID(), Seen: n.tier.Seen()}
	out.Relays, _ = n.relays()
	srv, err := n.server()
	if err != nil {
		return out
	}
	snap, err := srv.Catalog().Current(ctx)
	if err == nil {
		out.Tables, err = n.rowUses.Of(snap.Outlines(), srv.Statements().Kept.Take)
	}
	if err != nil {
		n.log.Warn("the rows that clients use are not known", "err", err)
	}
	return out
}

// localUses sums up the heat of the hottest rows that this node owns.
func (n *Node) localUses() []adviser.HeatUse {
	t := presentOnly(n.cluster.Topology())
	sum := adviser.NewHeat(t)
	for _, h := range n.homes.Top(maxUsesHeard, n.clock.Latest()) {
		if name, _ := n.tableName(h.Key).(string); h.Key != nil && name != "" {
			sum.Add(name, h.Home, h.Heat.Heat.Of)
		}
	}
	return sum.Uses
}

// between is the least round trip between a node of one region and a node of another; not positive:
// none is known.
func (n *Node) between(t *base.Topology, a, b base.RegionID) time.Duration {
	least := time.Duration(-1)
	for _, x := range t.NodesIn(a) {
		for _, y := range t.NodesIn(b) {
			if d := n.cluster.Between(x, y); d > 0 && (least < 0 || d < least) {
				least = d
			}
		}
	}
	return least
}
