package group

import (
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
)

// TestSnapshotsQueue: a node that was away lacks the logs of groups of one shard that different
// nodes lead. Their snapshots of the shard come one behind the other. If the second one is refused
// while the first one comes, all are there later.
func TestSnapshotsQueue(t *testing.T) {
	took := map[bool]time.Duration{}
	for _, refuses := range []bool{false, true} {
		virtual(t, 1, func(t *testing.T) {
			c := newCluster(t, 1, 5, wan.NetOptions{WAN: wan.LinkSpec{Delay: 80 * time.Millisecond}},
				HostOptions{LogKeepEntries: 50, RefusesStreams: refuses})
			defer c.close()
			c.rows = true
			var all []base.GroupID
			for region := range base.RegionID(4) {
				all = append(all, base.DataGroup(1, region+1))
			}
			for i, g := range all {
				c.groups[g], c.preferred[g] = c.all(), base.NodeID(i+1)
			}
			c.startAll()
			for _, g := range all {
				c.until("the preferred node leads", func() bool {
					n, _ := c.leader(g).Leader()
					return n == c.preferred[g]
				})
			}
			c.crash(5)
			for _, g := range all {
				c.write(g, 300)
			}
			began := time.Now()
			c.start(5)
			for i, g := range all {
				c.until("the log is there", func() bool {
					return c.group(5, g).Applied() == c.group(base.NodeID(i+1), g).Applied()
				})
			}
			took[refuses] = time.Since(began)
		})
	}
	t.Logf("all logs are there after %v, and after %v if streams are refused", took[false], took[true])
	if took[false] > 2200*time.Millisecond || took[true]-took[false] < 300*time.Millisecond {
		t.Errorf("all logs are there after %v, and after %v if streams are refused", took[false], took[true])
	}
}

// TestSnapshotsShareAStream: one node leads all groups of a shard; another one was away and lacks
// their logs. One stream brings all of them. If it does not wait for the others it takes two.
func TestSnapshotsShareAStream(t *testing.T) {
	for _, lone := range []bool{false, true} {
		virtual(t, 1, func(t *testing.T) {
			c := newCluster(t, 1, 3, wan30(), HostOptions{LogKeepEntries: 50, LoneSnapshots: lone})
			defer c.close()
			c.rows = true
			var all []base.GroupID
			for region := range base.RegionID(4) {
				g := base.DataGroup(1, region+1)
				all = append(all, g)
				c.groups[g], c.preferred[g] = c.all(), 1
			}
			c.startAll()
			for _, g := range all {
				c.until("node 1 leads", func() bool {
					n, _ := c.leader(g).Leader()
					return n == 1
				})
			}
			c.crash(3)
			for _, g := range all {
				c.write(g, 600)
			}
			time.Sleep(10 * time.Second) // no log is kept for node 3 any more
			c.start(3)
			for _, g := range all {
				c.converge(g)
			}
			time.Sleep(5 * time.Second) // the sender knows
			if n := c.nodes[1].host.stats.snapSent.Load(); n == 1 == lone {
				t.Errorf("lone %v: %d streams for %d groups", lone, n, len(all))
			}
		})
	}
}
