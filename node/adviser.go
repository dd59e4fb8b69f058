package node

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/policy/advice"
	"github.com/godwitdb/godwit/sql/bind/tree"
	"github.com/godwitdb/godwit/sql/digest"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/server"
)

const (
	heartbeat = 100.0 // ms, between the closed timestamps that all get

	askUses = "uses"
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

// adviceRows are what the adviser says: a row for each advice, region and kind of statements.
func (n *Node) adviceRows(ctx context.Context) (rows [][]any) {
	f, ok := n.adviceFacts(ctx)
	if !ok {
		return nil
	}
	round := func(x float64) float64 { return math.Round(x*100) / 100 }
	for i, a := range advice.Advise(f) {
		for _, e := range a.Effects {
			b, c := e.Before, e.After
			rows = append(rows, []any{i + 1, a.Kind, a.Subject, a.Why, orNull(a.GivesUp), a.Do, round(a.Saves / 1000),
				f.Regions[e.Region], e.Kind.String(), e.Statements, round(b.P50), round(c.P50), round(b.P99), round(c.P99), round(b.Mean), round(c.Mean),
				round(b.Trips), round(c.Trips), round(b.Bytes), round(c.Bytes)})
		}
	}
	return rows
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
		f.Tables = append(f.Tables, adviceTable(t, o))
	}
	n.addHomes(ctx, t, &f)
	digests := []nodeDigests{n.localDigests()}
	for _, b := range n.cluster.AskAll(ctx, askStatements, askStatements) {
		var more nodeDigests
		if json.Unmarshal(b, &more) == nil {
			digests = append(digests, more)
		}
	}
	for _, d := range digests {
		region := regionIndex(t, t.RegionOf(d.Node))
		for i := range d.Rows[:min(len(d.Rows), maxDigestsAdvised)] {
			if u, ok := adviceUse(&f, &d.Rows[i]); ok && region >= 0 {
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

// regionIndex is a region's place in the topology, by which the adviser numbers them.
func regionIndex(t *base.Topology, id base.RegionID) int {
	return slices.IndexFunc(t.Regions, func(r base.Region) bool { return r.ID == id })
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
		if i := regionIndex(t, t.RegionOf(id)); i >= 0 {
			f.Voters[i]++
		}
	}
	f.Meta = max(0, regionIndex(t, t.RegionOf(n.cluster.Leader(base.MetaGroup))))
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
		if i := regionIndex(t, s.Region); i >= 0 && s.Healthy {
			f.Age[i] = max(f.Age[i], millis(s.Staleness))
		}
	}
	return f, true
}

// adviceTable is a table as the adviser knows tables.
func adviceTable(t *base.Topology, o schema.Outline) advice.Table {
	quote := func(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }
	a := advice.Table{Name: tableKey(o.DB, o.Name), Quote: quote(o.DB) + "." + quote(o.Name), Key: o.Key, Unique: o.Unique,
		Indexes: o.Indexes, Single: o.Single}
	a.Async = o.Locality.Async
	switch l := o.Locality; {
	case l.IsTable():
		a.Locality, a.Region = advice.ByTable, max(0, regionIndex(t, l.Region))
	case l.IsGlobal():
		a.Locality = advice.Global
	case l.IsMultiMaster():
		a.Locality = advice.MultiMaster
	}
	return a
}

func tableKey(db, name string) string { return strings.ToLower(db + "." + name) }

// adviceUse is what a digest does with tables; false: nothing that the adviser knows.
func adviceUse(f *advice.Facts, r *digest.Row) (u advice.Use, ok bool) {
	acc, ok := tree.AccessOf(r.Text)
	if !ok || r.Count == 0 {
		return u, false
	}
	count := float64(r.Count)
	u = advice.Use{Digest: r.Text, Locks: acc.Looks, Past: acc.Past, Inside: float64(r.Inside) / count, Count: r.Count,
		Rows: float64(r.Affected+r.Sent) / count, Crossed: r.Crossed, Least: millis(r.Min), P50: millis(r.P50), P99: millis(r.P99), Mean: millis(r.Mean()),
		Trips: float64(r.Hops) / 2 / count, Bytes: float64(r.Bytes) / count}
	switch {
	case acc.Verb == "insert" && !acc.Looks:
		u.Kind = advice.Insert
	case acc.Verb != "select":
		u.Kind = advice.Write
	}
	for _, x := range acc.Tables {
		if u.Kind != advice.Read && !x.Changed {
			continue // read on the way, which the figures do not tell apart
		}
		db := x.DB
		if db == "" {
			db = r.Schema
		}
		name := tableKey(db, x.Name)
		i := slices.IndexFunc(f.Tables, func(t advice.Table) bool { return t.Name == name })
		if i < 0 {
			return u, false // a view, or a table that is gone
		}
		u.Tables, u.Equal = append(u.Tables, name), x.Equal
		u.Whole = u.Whole || !names(x.Equal, &f.Tables[i], u.Kind) || len(acc.Tables) > 1
	}
	return u, len(u.Tables) > 0
}

// names reports whether columns that have values name rows by a key. Reads look in all regions even
// for rows that a unique index names.
func names(equal []string, t *advice.Table, k advice.Kind) bool {
	covers := func(key []string) bool {
		return len(key) > 0 && !slices.ContainsFunc(key, func(c string) bool { return !slices.Contains(equal, c) })
	}
	return covers(t.Key) || k != advice.Read && slices.ContainsFunc(t.Unique, covers)
}

// heatUse is how much the regions use the rows of a table that live in one region, by their ids.
type heatUse struct {
	Table string                    `json:"table"`
	Home  base.RegionID             `json:"home"`
	Heat  map[base.RegionID]float64 `json:"heat"`
}

// localUses sums up the heat of the hottest rows that this node owns.
func (n *Node) localUses() (out []heatUse) {
	t := presentOnly(n.cluster.Topology())
	type key struct {
		table string
		home  base.RegionID
	}
	at := map[key]int{}
	for _, h := range n.homes.Top(maxUsesHeard, n.clock.Latest()) {
		name, _ := n.tableName(h.Key).(string)
		if h.Key == nil || name == "" {
			continue
		}
		k := key{strings.ToLower(name), h.Home}
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, heatUse{k.table, h.Home, map[base.RegionID]float64{}})
		}
		for _, r := range t.Regions {
			if x := h.Heat.Heat.Of(r.ID); x > 0 {
				out[i].Heat[r.ID] += x
			}
		}
	}
	return out
}

// addHomes tells of each table where the rows live that each region uses.
func (n *Node) addHomes(ctx context.Context, t *base.Topology, f *advice.Facts) {
	all := n.localUses()
	for _, b := range n.cluster.AskAll(ctx, askUses, askUses) {
		var more []heatUse
		if json.Unmarshal(b, &more) == nil {
			all = append(all, more...)
		}
	}
	for _, x := range all {
		i := slices.IndexFunc(f.Tables, func(a advice.Table) bool { return a.Name == x.Table })
		home := regionIndex(t, x.Home)
		if i < 0 || home < 0 {
			continue
		}
		if f.Tables[i].Homes == nil {
			for range t.Regions {
				f.Tables[i].Homes = append(f.Tables[i].Homes, make([]float64, len(t.Regions)))
			}
		}
		for r, heat := range x.Heat {
			if asker := regionIndex(t, r); asker >= 0 {
				f.Tables[i].Homes[asker][home] += heat
			}
		}
	}
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
