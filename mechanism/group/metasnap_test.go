package group

import (
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
)

// TestMetaSnapshotDoesNotWait: a node that was away needs snapshots of all shards. That of the meta
// shard, without which it serves nothing, takes a place of its own, though others came first.
func TestMetaSnapshotDoesNotWait(t *testing.T) {
	took := map[bool]time.Duration{}
	for _, waits := range []bool{false, true} {
		virtual(t, 1, func(t *testing.T) {
			c := newCluster(t, 1, 3, wan.NetOptions{WAN: wan.LinkSpec{Delay: 30 * time.Millisecond}}, HostOptions{LogKeepEntries: 50,
				SnapshotChunkBytes: 1000, SnapshotWindow: 1, MetaWaits: waits})
			defer c.close()
			c.rows = true
			all := []base.GroupID{base.MetaGroup}
			for shard := range base.ShardID(4) {
				all = append(all, base.DataGroup(shard+1, 1))
			}
			for _, g := range all {
				c.groups[g], c.preferred[g] = c.all(), 1
			}
			c.preferred[base.MetaGroup] = 2 // it sends nothing else
			c.startAll()
			for _, g := range all {
				c.until("the preferred node leads", func() bool {
					n, _ := c.leader(g).Leader()
					return n == c.preferred[g]
				})
			}
			c.crash(3)
			for _, g := range all {
				c.write(g, 300)
			}
			c.net.Cut(2, 3)
			c.start(3)
			c.until("node 1 sends snapshots", func() bool { return c.nodes[3].host.snaps.staged(1) > 0 })
			began := time.Now()
			c.net.HealAll()
			c.until("the meta shard is there", func() bool {
				return c.group(3, base.MetaGroup).Applied() == c.group(2, base.MetaGroup).Applied()
			})
			took[waits] = time.Since(began)
			for _, g := range all {
				c.converge(g)
			}
		})
	}
	t.Logf("the meta shard is there after %v, and after %v if it waits for the others", took[false], took[true])
	if 2*took[false] > took[true] {
		t.Errorf("the meta shard is there after %v, and after %v if it waits for the others", took[false], took[true])
	}
}
