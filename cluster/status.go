package cluster

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/report"
	"github.com/godwitdb/godwit/mechanism/group"
)

// What a status consists of is in package report, which also says what is wrong with a cluster.
type (
	Status      = report.Status
	NodeStatus  = report.NodeStatus
	CutPath     = report.CutPath
	GroupStatus = report.GroupStatus
	ReplicaLag  = report.ReplicaLag
	RegionRTT   = report.RegionRTT
	ClockStatus = report.ClockStatus
	ClockStep   = report.ClockStep
)

// PathStatus serves [Status].
const PathStatus = "/cluster/status"

// # Making a status

// part is what one node contributes to a status.
type part struct {
	Node NodeStatus `json:"node"`
	// Regions is what regions wait for, where the meta group is led.
	Regions map[base.RegionID]string `json:"regions,omitempty"`
	// Replace is why silent nodes are not replaced, there.
	Replace map[base.NodeID]string `json:"replace,omitempty"`
	// Upgrade is what an upgrade waits for, there, too.
	Upgrade string        `json:"upgrade,omitempty"`
	Groups  []GroupStatus `json:"groups"` // led there
	RTT     []RegionRTT   `json:"rtt"`
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
	var rtts []RegionRTT
	for _, p := range parts {
		if p != nil {
			rtts = append(rtts, p.RTT...)
		}
		if p != nil && len(p.Regions) > 0 {
			s.RegionWaits = p.Regions
		}
		if p != nil && len(p.Replace) > 0 {
			s.ReplaceWaits = p.Replace
		}
		if p != nil && p.Upgrade != "" {
			s.UpgradeWaits = p.Upgrade
		}
	}
	s.RTT, s.ClockHistory = report.Shortest(t, rtts), c.ClockHistory()
	s.Problems = report.Problems(s)
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
	s := NodeStatus{ID: n.ID, Region: t.RegionName(n.Region), Addr: n.Addr, SQL: n.SQL, Admin: n.Admin}
	if p != nil {
		s = p.Node
		s.Live, s.Knows = true, p.Node.Knows.OrFirst()
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
		out = append(out, GroupStatus{ID: id, Name: id.String(), Home: report.HomeName(t, id), Voters: t.VotersOf(id.Shard())})
	}
	return out
}

// part describes this node and the groups it leads.
func (c *Cluster) part() *part {
	t := c.Topology()
	p := &part{}
	if n := t.Node(c.self); n != nil {
		p.Node = NodeStatus{ID: n.ID, Region: t.RegionName(n.Region), Addr: n.Addr, SQL: n.SQL, Admin: n.Admin, Live: true}
	}
	p.Node.Knows, p.Upgrade, p.Replace = c.knows, c.UpgradeWaits(), c.ReplaceWaits()
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
	s := GroupStatus{ID: id, Name: id.String(), Home: report.HomeName(t, id), Leader: c.self, Term: st.Term, Voters: st.Voters,
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
