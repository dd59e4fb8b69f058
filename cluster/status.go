package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/health"
	"github.com/godwitdb/godwit/mechanism/group"
)

// Status is what `godwit status` shows: one node's view of the cluster,
// completed by asking every node for the groups it holds. Served as JSON at
// [PathStatus] on the cluster port.
type Status struct {
	ClusterID string        `json:"cluster_id"`
	Asked     base.NodeID   `json:"asked_node"`
	Topology  base.Topology `json:"topology"`
	Nodes     []NodeStatus  `json:"nodes"`
	Groups    []GroupStatus `json:"groups"`
	RTT       []RegionRTT   `json:"rtt"`
	// ClockHistory are the newest steps of the clock mode, the oldest first.
	ClockHistory []ClockStep `json:"clock_history,omitempty"`
	// RegionWaits is what regions wait for that are being added or dropped.
	RegionWaits map[base.RegionID]string `json:"region_waits,omitempty"`
	// what an operator should look at, in words
	Problems []string      `json:"problems,omitempty"`
	Took     time.Duration `json:"took_ns"`
}

// PathStatus serves [Status].
const PathStatus = "/cluster/status"

// NodeStatus is one process.
type NodeStatus struct {
	ID         base.NodeID    `json:"id"`
	Region     string         `json:"region"`
	Addr       string         `json:"addr"`
	SQL        string         `json:"sql_addr"`
	Live       bool           `json:"live"`
	LastHeard  time.Duration  `json:"last_heard_ns"` // since the asked node heard of it
	RTT        time.Duration  `json:"rtt_ns"`        // from the asked node, smoothed
	Leads      int            `json:"leads"`         // groups
	Replicas   int            `json:"replicas"`      // groups
	Statements int64          `json:"statements"`    // since start
	DiskBytes  int64          `json:"disk_bytes"`
	Uptime     time.Duration  `json:"uptime_ns"`
	Version    string         `json:"version"`
	MemBytes   int64          `json:"mem_bytes"` // of the process, as its runtime counts it
	Sessions   int            `json:"sessions"`  // MySQL connections
	Clock      *ClockStatus   `json:"clock,omitempty"`
	Health     *health.Status `json:"health,omitempty"`
	// Cut are the nodes whose direct path from this one is cut.
	Cut []CutPath `json:"cut,omitempty"`
	// Jobs are long statements run there, as JSON that package sql/server reads.
	Jobs json.RawMessage `json:"jobs,omitempty"`
}

// CutPath is a direct path that is cut, and the nodes over which messages go instead; none: no
// other way is known.
type CutPath struct {
	To   base.NodeID   `json:"to"`
	Over []base.NodeID `json:"over,omitempty"`
}

// GroupStatus is one consensus group as its leader sees it.
type GroupStatus struct {
	ID        base.GroupID  `json:"id"`
	Name      string        `json:"name"`
	Home      string        `json:"home"` // region; empty for the meta group
	Leader    base.NodeID   `json:"leader"`
	Term      uint64        `json:"term"`
	Voters    []base.NodeID `json:"voters"`
	Learners  []base.NodeID `json:"learners,omitempty"`
	Committed uint64        `json:"committed"`
	Lag       []ReplicaLag  `json:"lag"`
	ClosedLag time.Duration `json:"closed_lag_ns"` // now minus the closed timestamp
	Lease     time.Duration `json:"lease_left_ns"`
	Locks     int           `json:"locks"`
	Prepared  int           `json:"prepared"`
	// The leader's raft log on disk.
	LogEntries uint64 `json:"log_entries"`
	LogBytes   int64  `json:"log_bytes"`
	// Serving is false while a new leader waits for its predecessor's lease to end, or has lost its
	// own.
	Serving bool `json:"serving"`
}

// State says in a word whether the group serves.
func (g *GroupStatus) State() string {
	switch {
	case g.Leader == 0:
		return "NO LEADER"
	case !g.Serving:
		return "waiting" // for a lease
	}
	return "serving"
}

// LagText lists the replicas that do not keep up, as node:entries, node:snapshot while one is sent
// the whole shard, or node:SILENT if the leader does not hear of it.
func (g *GroupStatus) LagText() string {
	var out []string
	for _, l := range g.Lag {
		switch {
		case l.Snapshot:
			out = append(out, fmt.Sprintf("%d:snapshot", l.Node))
		case !l.Active:
			out = append(out, fmt.Sprintf("%d:SILENT", l.Node))
		case l.Entries > 0:
			out = append(out, fmt.Sprintf("%d:%d", l.Node, l.Entries))
		}
	}
	return strings.Join(out, " ")
}

// ReplicaLag is how far a replica is behind the leader's log.
type ReplicaLag struct {
	Node    base.NodeID `json:"node"`
	Entries uint64      `json:"entries"`
	Active  bool        `json:"active"` // heard of by the leader within an election timeout
	// Snapshot is set while the replica is sent the whole shard, because the log does not reach
	// back to where it is.
	Snapshot bool `json:"snapshot,omitempty"`
}

// RegionRTT is a smoothed round-trip time between two regions.
type RegionRTT struct {
	From string        `json:"from"`
	To   string        `json:"to"`
	RTT  time.Duration `json:"rtt_ns"`
}

// # Making a status

// part is what one node contributes to a status.
type part struct {
	Node NodeStatus `json:"node"`
	// Regions is what regions wait for, where the meta group is led.
	Regions map[base.RegionID]string `json:"regions,omitempty"`
	Groups  []GroupStatus            `json:"groups"` // led there
	RTT     []RegionRTT              `json:"rtt"`
}

// Status asks every node and puts the answers together.
func (c *Cluster) Status(ctx context.Context) *Status {
	begin := time.Now()
	t := c.Topology()
	s := &Status{ClusterID: t.ClusterID, Asked: c.self, Topology: *t}
	parts := c.askParts(ctx, t)
	for i, n := range t.Nodes {
		if parts[i] != nil || !n.Gone {
			s.Nodes = append(s.Nodes, c.nodeStatus(t, n, parts[i]))
		}
	}
	s.Groups = groupStatuses(t, parts)
	s.RTT = regionRTTs(t, parts)
	for _, p := range parts {
		if p != nil && len(p.Regions) > 0 {
			s.RegionWaits = p.Regions
		}
	}
	s.ClockHistory = c.ClockHistory()
	s.Problems = problems(s)
	s.Took = time.Since(begin)
	return s
}

// askParts asks every node for its part; nil for those that do not answer.
func (c *Cluster) askParts(ctx context.Context, t *base.Topology) []*part {
	parts := make([]*part, len(t.Nodes))
	var wg sync.WaitGroup
	for i, n := range t.Nodes {
		if n.Gone && !c.Live(n.ID) {
			continue
		}
		wg.Go(func() {
			if n.ID == c.self {
				parts[i] = c.part()
				return
			}
			if p, err := question[*part](ctx, c.env, n.ID, askStatus, nil); err == nil {
				parts[i] = p
			}
		})
	}
	wg.Wait()
	return parts
}

// nodeStatus is what a node says of itself, or what is known of one that does not answer.
func (c *Cluster) nodeStatus(t *base.Topology, n base.Node, p *part) NodeStatus {
	s := NodeStatus{ID: n.ID, Region: t.RegionName(n.Region), Addr: n.Addr, SQL: n.SQL}
	if p != nil {
		s = p.Node
		s.Live = true
	}
	if n.ID != c.self {
		s.LastHeard, s.RTT = c.peers.silence(n.ID), c.RTT(n.ID)
	}
	return s
}

// groupStatuses are all groups: what the leader of the newest term says, or what is known of a
// group that no node leads or whose leader does not answer.
func groupStatuses(t *base.Topology, parts []*part) (out []GroupStatus) {
	withLeader := map[base.GroupID]*GroupStatus{}
	for _, p := range parts {
		if p == nil {
			continue
		}
		for i, g := range p.Groups {
			if old := withLeader[g.ID]; old == nil || old.Term < g.Term {
				withLeader[g.ID] = &p.Groups[i]
			}
		}
	}
	for _, id := range t.Groups() {
		if g := withLeader[id]; g != nil {
			out = append(out, *g)
			continue
		}
		out = append(out, GroupStatus{ID: id, Name: id.String(), Home: homeName(t, id), Voters: t.ShardReplicas(id.Shard())})
	}
	return out
}

// homeName is the region that a group's rows belong to; empty for the meta group.
func homeName(t *base.Topology, id base.GroupID) string {
	if id == base.MetaGroup {
		return ""
	}
	return t.RegionName(id.Region())
}

// regionRTTs are the shortest round trips between regions that a node has measured.
func regionRTTs(t *base.Topology, parts []*part) (out []RegionRTT) {
	best := map[[2]string]time.Duration{}
	for _, p := range parts {
		if p == nil {
			continue
		}
		for _, r := range p.RTT {
			k := [2]string{r.From, r.To}
			if best[k] == 0 || r.RTT < best[k] {
				best[k] = r.RTT
			}
		}
	}
	for _, a := range t.Regions {
		for _, b := range t.Regions {
			if d := best[[2]string{a.Name, b.Name}]; d != 0 {
				out = append(out, RegionRTT{a.Name, b.Name, d})
			}
		}
	}
	return out
}

// part describes this node and the groups it leads.
func (c *Cluster) part() *part {
	t := c.Topology()
	p := &part{}
	if n := t.Node(c.self); n != nil {
		p.Node = NodeStatus{ID: n.ID, Region: t.RegionName(n.Region), Addr: n.Addr, SQL: n.SQL, Live: true}
	}
	p.Node.Clock, p.Node.Health, p.Node.Cut = c.Clock(), c.Health(), c.cutPaths()
	if c.options.Process.Describe != nil {
		c.options.Process.Describe(&p.Node)
	}
	for _, id := range t.Groups() {
		g := c.groups.Group(id)
		if g == nil {
			continue
		}
		p.Node.Replicas++
		if st := g.Status(); st.IsLeader {
			p.Node.Leads++
			p.Groups = append(p.Groups, c.groupStatus(t, id, &st))
		}
	}
	p.RTT, p.Regions = c.regionRTT(t), c.regionWaits(t)
	return p
}

// Local is what this node has: itself, and the groups that it leads.
func (c *Cluster) Local() (NodeStatus, []GroupStatus) {
	p := c.part()
	return p.Node, p.Groups
}

// cutPaths are the direct paths from this node that are cut.
func (c *Cluster) cutPaths() (out []CutPath) {
	if c.options.Paths == nil {
		return nil
	}
	paths := c.options.Paths.Cut()
	for _, to := range slices.Sorted(maps.Keys(paths)) {
		x := CutPath{To: to}
		if p := paths[to]; len(p) > 0 {
			x.Over = p[:len(p)-1]
		}
		out = append(out, x)
	}
	return out
}

// groupStatus describes a group led here.
func (c *Cluster) groupStatus(t *base.Topology, id base.GroupID, st *group.Status) GroupStatus {
	s := GroupStatus{ID: id, Name: id.String(), Home: homeName(t, id), Leader: c.self, Term: st.Term, Voters: st.Voters,
		Learners: st.Learners, Committed: st.Commit,
		LogEntries: st.Last + 1 - st.First, LogBytes: st.LogBytes}
	for n, pr := range st.Progress {
		if n != c.self {
			s.Lag = append(s.Lag, ReplicaLag{Node: n, Entries: st.Last - min(st.Last, pr.Match), Active: pr.Active,
				Snapshot: pr.State == "snapshot"})
		}
	}
	slices.SortFunc(s.Lag, func(a, b ReplicaLag) int { return cmp.Compare(a.Node, b.Node) })
	c.replicas.Describe(id, &s)
	return s
}

// regionRTT is the shortest smoothed round trip from here to each other region.
func (c *Cluster) regionRTT(t *base.Topology) []RegionRTT {
	self := t.RegionOf(c.self)
	best := map[base.RegionID]time.Duration{}
	for _, n := range t.Nodes {
		if d, ok := c.peers.rtt(n.ID); ok && n.Region != self && !n.Gone && (best[n.Region] == 0 || d < best[n.Region]) {
			best[n.Region] = d
		}
	}
	var out []RegionRTT
	for _, r := range t.Regions {
		if d := best[r.ID]; d != 0 {
			out = append(out, RegionRTT{From: t.RegionName(self), To: r.Name, RTT: d})
		}
	}
	return out
}
