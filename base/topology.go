package base

import (
	"cmp"
	"fmt"
	"slices"
)

// Region is a place. Distances on the WAN are between regions.
type Region struct {
	ID    RegionID    `json:"id"`
	Name  string      `json:"name"`
	State RegionState `json:"state,omitempty"`
	// Into is the region that gets the rows of one that leaves.
	Into RegionID `json:"into,omitempty"`
	// Unknown is what newer builds keep there; so it is in all parts of a topology.
	Unknown string `json:"-"`
}

// RegionState says how far a region has come or gone (docs/protocol.md, REGION-1 to REGION-5).
type RegionState string

// The states of a region, in the order in which it goes through them.
const (
	// RegionOpening: its groups are being founded. No reader counts them.
	RegionOpening RegionState = "opening"
	// RegionJoining: readers count its groups, but not all nodes are known to do so. No row is at
	// home there.
	RegionJoining RegionState = "joining"
	// RegionActive: rows may be at home there.
	RegionActive RegionState = ""
	// RegionLeaving: rows that are at home there move to the region that takes them over, and no
	// row gets its home there.
	RegionLeaving RegionState = "leaving"
	// RegionGone: no row is at home there and it has no nodes. Its groups go on elsewhere, since
	// gaps between rows are theirs.
	RegionGone RegionState = "gone"
)

// Node is one process of the cluster.
type Node struct {
	ID     NodeID   `json:"id"`
	Region RegionID `json:"region"`
	Addr   string   `json:"addr"`     // cluster transport and HTTP, host:port
	SQL    string   `json:"sql_addr"` // MySQL protocol, host:port
	// Admin is the address for requests of administrators, host:port. Empty: they go to Addr.
	Admin string `json:"admin_addr,omitempty"`
	// UUID identified the process before it had an id.
	UUID string `json:"uuid,omitempty"`
	// Gone marks a node that was removed for good; its id is never reused.
	Gone bool `json:"gone,omitempty"`
	// Away marks a node that has been silent for long: others of its region have its replicas until
	// it is back.
	Away    bool   `json:"away,omitempty"`
	Unknown string `json:"-"`
}

// AdminAddr is where administrators ask the node, host:port.
func (n *Node) AdminAddr() string { return cmp.Or(n.Admin, n.Addr) }

// Topology is an immutable snapshot of the regions, the nodes and their roles. Version grows with
// every change; the meta shard holds the newest one.
type Topology struct {
	Version   uint64 `json:"version"`
	ClusterID string `json:"cluster_id"`
	// ClusterVersion is what all nodes know and act by; 0 is the first.
	ClusterVersion ClusterVersion `json:"cluster_version,omitempty"`
	// data shards of synchronous tables, 1..Shards; fixed when the cluster is made
	Shards int `json:"shards"`
	// Async is the number of shards of asynchronous tables, which follow the others. It is 0 until
	// the first such table is made, then fixed.
	Async int `json:"async_shards,omitempty"`
	// Concurrency is how transactions are ordered; fixed when the cluster is made.
	Concurrency Concurrency `json:"concurrency,omitempty"`
	// Regions are those whose groups readers count, by id.
	Regions []Region `json:"regions"`
	// Opening are those that are being added, whose groups nobody counts yet, by id.
	Opening []Region `json:"opening,omitempty"`
	// Later says how the groups of regions began that were added later.
	Later []LaterRegion `json:"later,omitempty"`
	Nodes []Node        `json:"nodes"`
	// MetaVoters vote in the meta group; every other live node learns it.
	MetaVoters []NodeID `json:"meta_voters"`
	// Replicas[s] are the nodes that hold data shard s+1, hence a replica of
	// each of its groups.
	Replicas [][]NodeID `json:"replicas"`
	// AsyncFirst are the replicas with which the shards of asynchronous tables began.
	AsyncFirst [][]NodeID `json:"async_first,omitempty"`
	// Promotions are those of asynchronous groups whose region was lost, in order.
	Promotions []Promotion `json:"promotions,omitempty"`
	// Placements are those that there are and were, by id from 1.
	Placements []Placement `json:"placements,omitempty"`
	// Own are sets of shards that tables have for themselves, by their numbers. None ever goes.
	Own     []OwnShards `json:"own_shards,omitempty"`
	Unknown string      `json:"-"`
}

// LaterRegion is how the groups of a region began that the cluster did not have when it was made.
type LaterRegion struct {
	Region RegionID `json:"region"`
	// First[s] are the first replicas of the region's group of shard s+1.
	First   [][]NodeID `json:"first"`
	Unknown string     `json:"-"`
}

// Promotion is a new incarnation of the asynchronous groups of a region, made of the copies that
// other regions held when it was lost.
type Promotion struct {
	ID     uint64    `json:"id"`
	At     Timestamp `json:"at"`
	Region RegionID  `json:"region"` // whose groups
	Lost   RegionID  `json:"lost"`   // where they voted
	Seat   RegionID  `json:"seat"`   // where they vote since
	// commits at or below it are kept, later ones are discarded
	Cut    Timestamp  `json:"cut"`
	Groups []Promoted `json:"groups"`
	// Back is set when the groups vote in their own region again.
	Back bool `json:"back,omitempty"`
	// From are the regions where voters of the groups in Moving may still be, besides their
	// destination.
	From   []RegionID `json:"from,omitempty"`
	Moving []GroupID  `json:"moving,omitempty"`
	// Unknown: see Region.
	Unknown string `json:"-"`
}

// seat is the region of the voters, or their destination.
func (p *Promotion) seat() RegionID {
	if p.Back {
		return p.Region
	}
	return p.Seat
}

// Promoted says what a promotion made of one group.
type Promoted struct {
	Group GroupID `json:"group"`
	// the node whose copy the new incarnation begins with: no survivor had more
	Source NodeID    `json:"source"`
	Index  uint64    `json:"index"`  // of the old log
	Closed Timestamp `json:"closed"` // newest closed timestamp heard of it
	// Unknown: see Region.
	Unknown string `json:"-"`
}

// Of is the group's part in the promotion; nil if it has none.
func (p *Promotion) Of(g GroupID) *Promoted {
	for i := range p.Groups {
		if p.Groups[i].Group == g {
			return &p.Groups[i]
		}
	}
	return nil
}

// Incarnation counts the promotions of a group.
func (t *Topology) Incarnation(g GroupID) (n uint32) {
	for i := range t.Promotions {
		if t.Promotions[i].Of(g) != nil {
			n++
		}
	}
	return n
}

// Promotion is the one that made an incarnation of a group, from 1; nil if it is not known.
func (t *Topology) Promotion(g GroupID, incarnation uint32) *Promotion {
	for i := range t.Promotions {
		if t.Promotions[i].Of(g) != nil {
			if incarnation--; incarnation == 0 {
				return &t.Promotions[i]
			}
		}
	}
	return nil
}

// AllShards is the number of data shards.
func (t *Topology) AllShards() int { return t.Shards + t.Async }

// IsAsync reports whether a shard is for asynchronous tables: the voters of each of its groups are
// in one region.
func (t *Topology) IsAsync(s ShardID) bool { return int(s) > t.Shards && int(s) <= t.AllShards() }

// Promoted is the newest promotion of a region's asynchronous groups; nil if there is none.
func (t *Topology) Promoted(r RegionID) *Promotion {
	for i := len(t.Promotions) - 1; i >= 0; i-- {
		if t.Promotions[i].Region == r {
			return &t.Promotions[i]
		}
	}
	return nil
}

// Seat is the region in which the voters of a region's asynchronous groups are, or are moving to.
func (t *Topology) Seat(r RegionID) RegionID {
	if p := t.Promoted(r); p != nil {
		return p.seat()
	}
	return r
}

// Moving reports whether voters of a region's asynchronous groups may still be outside of their
// seat.
func (t *Topology) Moving(r RegionID) bool {
	p := t.Promoted(r)
	return p != nil && len(p.Moving) > 0
}

// Votes reports whether voters of a region's asynchronous groups may be in the region in.
func (t *Topology) Votes(r, in RegionID) bool {
	return t.Seat(r) == in || t.Moving(r) && slices.Contains(t.Promoted(r).From, in)
}

// Home is the region in which a data group is led.
func (t *Topology) Home(g GroupID) RegionID {
	if t.IsAsync(g.Shard()) {
		return t.Seat(g.Region())
	}
	if r := t.Region(g.Region()); r != nil && r.Into != 0 {
		return t.HomeFor(g.Region())
	}
	return g.Region()
}

// AsyncGroups are the groups of a region in the shards of asynchronous tables.
func (t *Topology) AsyncGroups(r RegionID) (gs []GroupID) {
	for s := t.Shards + 1; s <= t.AllShards(); s++ {
		gs = append(gs, DataGroup(ShardID(s), r))
	}
	return gs
}

// Node returns the node with an id, nil if unknown.
func (t *Topology) Node(id NodeID) *Node {
	for i := range t.Nodes {
		if t.Nodes[i].ID == id {
			return &t.Nodes[i]
		}
	}
	return nil
}

// ByUUID returns the node of a process, nil if unknown.
func (t *Topology) ByUUID(uuid string) *Node {
	for i := range t.Nodes {
		if t.Nodes[i].UUID == uuid {
			return &t.Nodes[i]
		}
	}
	return nil
}

// NodesIn are the nodes of a region that are not gone, by id.
func (t *Topology) NodesIn(r RegionID) []NodeID {
	var ids []NodeID
	for _, n := range t.Nodes {
		if n.Region == r && !n.Gone {
			ids = append(ids, n.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// RegionOf is the region of a node; 0 if unknown.
func (t *Topology) RegionOf(id NodeID) RegionID {
	if n := t.Node(id); n != nil {
		return n.Region
	}
	return 0
}

// Region is what is known of a region, also of one that is being added; nil if unknown.
func (t *Topology) Region(id RegionID) *Region {
	// Each transaction asks: mostly the regions that count have the first ids.
	if i := int(id) - 1; i >= 0 && i < len(t.Regions) && t.Regions[i].ID == id {
		return &t.Regions[i]
	}
	for _, list := range [][]Region{t.Regions, t.Opening} {
		for i := range list {
			if list[i].ID == id {
				return &list[i]
			}
		}
	}
	return nil
}

// RegionByName finds a region that has a part in the cluster; 0 if there is none of that name.
// Neither one that is being added counts nor one that is gone.
func (t *Topology) RegionByName(name string) RegionID {
	for _, r := range t.Regions {
		if r.Name == name && r.State != RegionGone {
			return r.ID
		}
	}
	return 0
}

// HomeByName finds a region in which rows may be given a home by everybody; 0 if there is none of
// that name.
func (t *Topology) HomeByName(name string) RegionID {
	if r := t.Region(t.RegionByName(name)); r != nil && r.State == RegionActive {
		return r.ID
	}
	return 0
}

// RegionName is the name of a region, or "r<id>" if unknown.
func (t *Topology) RegionName(id RegionID) string {
	if r := t.Region(id); r != nil {
		return r.Name
	}
	return fmt.Sprintf("r%d", id)
}

// MayLive reports whether rows may be given a home in a region. A node says so of a region that is
// joining, too: others may know already that it is active.
func (t *Topology) MayLive(id RegionID) bool {
	r := t.Region(id)
	return r != nil && (r.State == RegionActive || r.State == RegionJoining)
}

// HomeFor is where the rows of a region's clients are at home: there; or in the region that takes
// its rows over while and after it leaves; or in the first region, while it is being added.
func (t *Topology) HomeFor(id RegionID) RegionID {
	for range t.Regions { // that one may leave as well
		switch r := t.Region(id); {
		case r != nil && r.State == RegionActive:
			return id
		case r == nil || r.Into == 0:
			for _, x := range t.Regions {
				if x.State == RegionActive {
					return x.ID
				}
			}
		default:
			id = r.Into
		}
	}
	return id
}

// Present are the regions that have nodes or are to have some: all but those that are gone.
func (t *Topology) Present() (out []Region) {
	for _, list := range [][]Region{t.Regions, t.Opening} {
		for _, r := range list {
			if r.State != RegionGone {
				out = append(out, r)
			}
		}
	}
	slices.SortFunc(out, func(a, b Region) int { return int(a.ID) - int(b.ID) })
	return out
}

// FirstReplicas are the nodes with which the groups of a shard began that a region got when it was
// added, or those of a placement, or of a table's own; nil if the region, or the shard, was there
// before the other.
func (t *Topology) FirstReplicas(g GroupID) []NodeID {
	if o := t.OwnOf(g.Shard()); o != nil {
		return o.first(g)
	}
	if p := t.PlacementOf(g.Shard()); p != nil {
		return p.First[int(g.Shard())-1-p.ID.ShardBefore(t.Shards)]
	}
	for _, l := range t.Later {
		if l.Region == g.Region() && int(g.Shard()) <= len(l.First) {
			return l.First[g.Shard()-1]
		}
	}
	return nil
}

// ShardReplicas are the nodes that hold a shard; every live node for the meta shard.
func (t *Topology) ShardReplicas(s ShardID) []NodeID {
	if s == MetaShard {
		ids := make([]NodeID, 0, len(t.Nodes))
		for _, n := range t.Nodes {
			if !n.Gone {
				ids = append(ids, n.ID)
			}
		}
		return ids
	}
	if o := t.OwnOf(s); o != nil {
		return o.Replicas[int(s)-1-o.Before]
	}
	if p := t.PlacementOf(s); p != nil {
		return p.Replicas[int(s)-1-p.ID.ShardBefore(t.Shards)]
	}
	if int(s) > len(t.Replicas) {
		return nil
	}
	return t.Replicas[s-1]
}

// Groups are all groups that count: the meta group, then every shard's group of every region.
func (t *Topology) Groups() []GroupID { return t.groupsOf([]GroupID{MetaGroup}, t.Regions) }

// AllGroups are Groups, and those of regions that are being added.
func (t *Topology) AllGroups() []GroupID { return t.groupsOf(t.Groups(), t.Opening) }

func (t *Topology) groupsOf(gs []GroupID, regions []Region) []GroupID {
	gs = t.placedGroups(gs, func(id RegionID) bool {
		return slices.ContainsFunc(regions, func(r Region) bool { return r.ID == id })
	})
	for s := 1; s <= t.AllShards(); s++ {
		for _, r := range regions {
			gs = append(gs, DataGroup(ShardID(s), r.ID))
		}
	}
	return gs
}

// RegionGroups are a region's groups of all shards.
func (t *Topology) RegionGroups(r RegionID) []GroupID { return t.groupsOf(nil, []Region{{ID: r}}) }

// Validate reports what makes the topology unusable.
func (t *Topology) Validate() error {
	if n := len(t.Regions) + len(t.Opening); len(t.Regions) == 0 || n > MaxRegions {
		return Errorf(CodeInvalid, "a cluster has 1 to %d regions, those that are gone included, not %d", MaxRegions, n)
	}
	if t.Shards < 1 || t.Shards > 1<<12 {
		return Errorf(CodeInvalid, "a cluster has 1 to 4096 shards, not %d", t.Shards)
	}
	if t.Async < 0 || t.Async > 1<<12 || len(t.AsyncFirst) != t.Async {
		return Errorf(CodeInvalid, "%d shards of asynchronous tables, of which %d have first replicas", t.Async,
			len(t.AsyncFirst))
	}
	if len(t.Replicas) != t.AllShards() {
		return Errorf(CodeInvalid, "%d shards but %d replica sets", t.AllShards(), len(t.Replicas))
	}
	for s, set := range t.Replicas {
		if len(set) == 0 {
			return Errorf(CodeInvalid, "shard %d has no replica", s+1)
		}
		for i, id := range set {
			if t.Node(id) == nil || slices.Contains(set[:i], id) {
				return Errorf(CodeInvalid, "shard %d: replica on node %d is unknown or listed twice", s+1, id)
			}
		}
	}
	return t.validatePlacements()
}
