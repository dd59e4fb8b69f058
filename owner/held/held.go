// Package held knows which replicas a node has, by group and by shard, and which shards are
// complete here. It is read for every request, so readers take no lock.
package held

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/godwitdb/godwit/base"
)

// Table is the replicas of one node. R is the replica of a group.
type Table[R any] struct {
	// Groups are the groups that count: all of the cluster but those of regions that are being
	// added (docs/protocol.md, REGION-2). Nil: those that are here.
	Groups func() []base.GroupID

	mu       sync.Mutex // guards changes of the maps
	replicas atomic.Pointer[map[base.GroupID]*R]
	shards   atomic.Pointer[map[base.ShardID]*shard[R]]
	none     Siblings[R]
}

// Siblings are the replicas of a shard's groups at a node, by region.
type Siblings[R any] [16]*R

// shard is one shard at this node.
type shard[R any] struct {
	at     Siblings[R]
	counts Siblings[R] // those of at that count
	whole  bool        // none is missing that counts
}

// New makes an empty table.
func New[R any](groups func() []base.GroupID) *Table[R] {
	t := &Table[R]{Groups: groups}
	t.replicas.Store(&map[base.GroupID]*R{})
	t.shards.Store(&map[base.ShardID]*shard[R]{})
	return t
}

// Put adds the replica of a group, or takes it away if r is nil.
func (t *Table[R]) Put(g base.GroupID, r *R) {
	t.mu.Lock()
	defer t.mu.Unlock()
	groups := map[base.GroupID]*R{}
	for id, o := range *t.replicas.Load() {
		groups[id] = o
	}
	if delete(groups, g); r != nil {
		groups[g] = r
	}
	t.count(groups)
}

// Recount takes account of what Groups names now.
func (t *Table[R]) Recount() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count(*t.replicas.Load())
}

// count finds out which shards are whole. It holds until the next change. A region that is being
// added cannot be missing, and does not count. mu is held.
func (t *Table[R]) count(groups map[base.GroupID]*R) {
	shards := map[base.ShardID]*shard[R]{}
	for id, r := range groups {
		if shards[id.Shard()] == nil {
			shards[id.Shard()] = &shard[R]{whole: true}
		}
		shards[id.Shard()].at[id.Region()] = r
	}
	if t.Groups == nil {
		for _, s := range shards {
			s.counts = s.at
		}
	} else {
		for _, id := range t.Groups() {
			switch s := shards[id.Shard()]; {
			case s == nil:
			case groups[id] == nil:
				s.whole = false
			default:
				s.counts[id.Region()] = groups[id]
			}
		}
	}
	t.replicas.Store(&groups)
	t.shards.Store(&shards)
}

// Get is the replica of a group; nil if there is none.
func (t *Table[R]) Get(g base.GroupID) *R { return (*t.replicas.Load())[g] }

// Len is the number of replicas.
func (t *Table[R]) Len() int { return len(*t.replicas.Load()) }

// All are all replicas, by group.
func (t *Table[R]) All() []*R {
	m := *t.replicas.Load()
	ids := make([]base.GroupID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	out := make([]*R, len(ids))
	for i, id := range ids {
		out[i] = m[id]
	}
	return out
}

// Siblings are the replicas of a shard's groups.
func (t *Table[R]) Siblings(s base.ShardID) *Siblings[R] {
	if h := (*t.shards.Load())[s]; h != nil {
		return &h.at
	}
	return &t.none
}

// Counted are those of Siblings on which reads depend.
func (t *Table[R]) Counted(s base.ShardID) *Siblings[R] {
	if h := (*t.shards.Load())[s]; h != nil {
		return &h.counts
	}
	return &t.none
}

// Holds reports whether this node holds a shard: replicas of all its groups. While a shard comes or
// goes the node has those of some; what the others do does not arrive here, so its rows are good
// for nothing but the groups led here.
func (t *Table[R]) Holds(s base.ShardID) bool {
	h := (*t.shards.Load())[s]
	return h != nil && h.whole
}

// Shards are those of which a replica is here.
func (t *Table[R]) Shards() (out []base.ShardID) {
	for id := range *t.shards.Load() {
		out = append(out, id)
	}
	return out
}

// Whole are the shards that this node holds.
func (t *Table[R]) Whole() (out []base.ShardID) {
	for id, h := range *t.shards.Load() {
		if h.whole {
			out = append(out, id)
		}
	}
	return out
}
