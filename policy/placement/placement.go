// Package placement decides which nodes of a region hold a shard, who votes in a group and who
// learns, and which node should lead. It reads a topology and makes the next one: the same rule
// runs on every node that changes the topology, so its answer depends on nothing else. Package
// cluster changes the membership of groups accordingly.
package placement

import (
	"slices"

	"github.com/godwitdb/godwit/base"
)

// replicasPerRegion says how many nodes of a region hold each shard, so that the
// voters of a synchronous group survive a region where there are three or more
// of them, and a node where there are fewer: one per region from three regions
// on; three in a single region; two and one in two regions, which is the best
// majority two regions can have.
func replicasPerRegion(regions, index, nodes int) int {
	want := 1
	switch {
	case regions == 1 && nodes >= 3:
		want = 3 // two would stall with either of them
	case regions == 2 && index == 0:
		want = 2
	}
	return min(want, nodes)
}

// asyncPerRegion is the same for the shards of asynchronous tables: three, so that the voters, all
// in one region, survive one of them, or one where there are fewer. The nodes of the other regions
// learn, all of them: each may lead its own region's group of the shard, and a leader needs what
// all groups of the shard have done.
func asyncPerRegion(nodes int) int {
	if nodes >= 3 {
		return 3
	}
	return min(1, nodes)
}

// Place returns t with the replica sets and meta voters that the placement
// rule wants, changing as little as possible: a replica moves only off a node
// that is gone or in order to even out a region by more than one shard.
func Place(t base.Topology) base.Topology {
	out := t
	out.Replicas = make([][]base.NodeID, t.AllShards())
	regions := t.Present()
	for i := range regions {
		placeRegion(&t, &out, regions, i)
	}
	out.Placements = placements(&t)
	out.Own = ownShards(&t)
	out.MetaVoters = metaVoters(&t)
	return out
}

// placements are those of a topology, with the replicas that the rule wants of each in its regions:
// as many as in a cluster that has no other regions, so that its groups survive what they would
// survive there.
func placements(t *base.Topology) []base.Placement {
	out := slices.Clone(t.Placements)
	for i := range out {
		p := &out[i]
		old := *t
		old.Replicas, p.Replicas = p.Replicas, make([][]base.NodeID, t.Shards)
		for k, r := range p.Regions {
			nodes := standing(t, r)
			for s, set := range placeShards(&old, nodes, 0, t.Shards, replicasPerRegion(len(p.Regions), k, len(nodes))) {
				p.Replicas[s] = append(p.Replicas[s], set...)
			}
		}
		for _, r := range p.Readers {
			nodes := standing(t, r)
			for s, set := range placeShards(&old, nodes, 0, t.Shards, min(1, len(nodes))) {
				p.Replicas[s] = append(p.Replicas[s], set...)
			}
		}
		if p.First == nil {
			p.First = slices.Clone(p.Replicas)
		}
	}
	return out
}

// standing are the nodes of a region that get replicas: those that are not away, or all if all are.
func standing(t *base.Topology, r base.RegionID) []base.NodeID {
	all := t.NodesIn(r)
	nodes := slices.DeleteFunc(slices.Clone(all), func(n base.NodeID) bool { return t.Node(n).Away })
	if len(nodes) == 0 {
		return all
	}
	return nodes
}

func placeRegion(old, out *base.Topology, regions []base.Region, index int) {
	nodes := standing(old, regions[index].ID)
	// The two families of shards are placed apart: an even load of each is an even load of both.
	for s, set := range append(placeShards(old, nodes, 0, old.Shards, replicasPerRegion(len(regions), index, len(nodes))),
		placeShards(old, nodes, old.Shards, old.AllShards(), asyncPerRegion(len(nodes)))...) {
		out.Replicas[s] = append(out.Replicas[s], set...)
	}
}

// placeShards says which nodes of a region hold the shards from+1..to, want of them each.
func placeShards(old *base.Topology, nodes []base.NodeID, from, to, want int) [][]base.NodeID {
	sets := make([][]base.NodeID, to-from)
	if want == 0 {
		return sets
	}
	load := map[base.NodeID]int{}
	for _, n := range nodes {
		load[n] = 0
	}
	for s := range sets {
		if from+s < len(old.Replicas) {
			for _, n := range old.Replicas[from+s] {
				if slices.Contains(nodes, n) && len(sets[s]) < want {
					sets[s] = append(sets[s], n)
					load[n]++
				}
			}
		}
	}
	for s := range sets {
		for len(sets[s]) < want {
			n := lightest(nodes, load, sets[s])
			sets[s] = append(sets[s], n)
			load[n]++
		}
	}
	balance(nodes, load, sets)
	return sets
}

// balance moves one replica at a time from the fullest node to the emptiest
// that can take it, until no move evens out more than it disturbs.
func balance(nodes []base.NodeID, load map[base.NodeID]int, sets [][]base.NodeID) {
	for range len(sets) * len(nodes) {
		moved := false
		for s := range sets {
			for i, from := range sets[s] {
				to := lightest(nodes, load, sets[s])
				if to != 0 && load[from]-load[to] > 1 && load[from] == heaviest(load) {
					sets[s][i] = to
					load[from]--
					load[to]++
					moved = true
					break
				}
			}
		}
		if !moved {
			return
		}
	}
}

func lightest(nodes []base.NodeID, load map[base.NodeID]int, not []base.NodeID) base.NodeID {
	best := base.NodeID(0)
	for _, n := range nodes {
		if !slices.Contains(not, n) && (best == 0 || load[n] < load[best]) {
			best = n
		}
	}
	return best
}

func heaviest(load map[base.NodeID]int) int {
	m := 0
	for _, l := range load {
		m = max(m, l)
	}
	return m
}

// metaVoters picks the voters of the meta group: those it has, as far as they
// live, and the lowest node ids otherwise.
func metaVoters(t *base.Topology) []base.NodeID {
	var out []base.NodeID
	regions := t.Present()
	for i, r := range regions {
		nodes := standing(t, r.ID)
		want := replicasPerRegion(len(regions), i, len(nodes))
		var mine []base.NodeID
		for _, n := range t.MetaVoters {
			if slices.Contains(nodes, n) && len(mine) < want {
				mine = append(mine, n)
			}
		}
		for _, n := range nodes {
			if len(mine) < want && !slices.Contains(mine, n) {
				mine = append(mine, n)
			}
		}
		out = append(out, mine...)
	}
	slices.Sort(out)
	return out
}

// Members are the voters and learners that a group should have.
func Members(t *base.Topology, g base.GroupID) (voters, learners []base.NodeID) {
	switch {
	case t.IsAsync(g.Shard()):
		return asyncMembers(t, t.Home(g), t.ShardReplicas(g.Shard()))
	case g != base.MetaGroup:
		return placedMembers(t, g, t.ShardReplicas(g.Shard()))
	}
	for _, n := range t.Nodes {
		switch {
		case n.Gone:
		case slices.Contains(t.MetaVoters, n.ID):
			voters = append(voters, n.ID)
		default:
			learners = append(learners, n.ID)
		}
	}
	return voters, learners
}

// asyncMembers splits the replicas of a shard into those that vote in a group, which are in one
// region, and those that learn.
func asyncMembers(t *base.Topology, seat base.RegionID, replicas []base.NodeID) (voters, learners []base.NodeID) {
	for _, n := range replicas {
		if t.RegionOf(n) == seat {
			voters = append(voters, n)
		} else {
			learners = append(learners, n)
		}
	}
	return voters, learners
}

// placedMembers splits the replicas of a synchronous shard into those that vote and those that
// learn: read replicas of a placement.
func placedMembers(t *base.Topology, g base.GroupID, replicas []base.NodeID) (voters, learners []base.NodeID) {
	p := t.PlacementOf(g.Shard())
	for _, n := range replicas {
		if p == nil || p.Has(t.RegionOf(n)) {
			voters = append(voters, n)
		} else {
			learners = append(learners, n)
		}
	}
	return voters, learners
}

// FirstMembers are the members with which a group began that was not there when the cluster was
// made: that of an asynchronous shard, of a region that was added, of a placement, or of shards
// that a table has for itself.
func FirstMembers(t *base.Topology, g base.GroupID) (voters, learners []base.NodeID) {
	first := t.FirstReplicas(g)
	switch {
	case !t.IsAsync(g.Shard()):
		return placedMembers(t, g, first)
	case first == nil:
		first = t.AsyncFirst[int(g.Shard())-t.Shards-1]
	}
	return asyncMembers(t, g.Region(), first)
}

// Preferred is the node that should lead a group: of the home region's
// replicas (with several, spread over them by shard), or of the meta group's voters,
// the first that is live; if none is, the first. 0 leaves the choice to the election.
func Preferred(t *base.Topology, g base.GroupID, live func(base.NodeID) bool) base.NodeID {
	nodes := t.MetaVoters
	first := 0
	if g != base.MetaGroup {
		nodes = nil
		for _, n := range t.ShardReplicas(g.Shard()) {
			if t.RegionOf(n) == t.Home(g) {
				nodes = append(nodes, n)
			}
		}
		first = int(g.Shard())
	}
	stays := func(n base.NodeID) bool {
		r := t.Region(t.RegionOf(n))
		return r == nil || r.Into == 0
	}
	for i := range nodes {
		if n := nodes[(first+i)%len(nodes)]; live(n) && stays(n) {
			return n
		}
	}
	if len(nodes) == 0 {
		return 0
	}
	return nodes[first%len(nodes)]
}
