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
	took := queuedSnapshots(t, HostOptions{LogKeepEntries: 50}, HostOptions{LogKeepEntries: 50, RefusesStreams: true})
	t.Logf("all logs are there after %v, and after %v if streams are refused", took[0], took[1])
	if took[0] > 1500*time.Millisecond || took[1]-took[0] < 300*time.Millisecond {
		t.Errorf("all logs are there after %v, and after %v if streams are refused", took[0], took[1])
	}
}

// TestSnapshotsTakeOneRoundTrip: a copy that fits into one chunk is sent in one message, and waits
// at its receiver until the one before is merged. Four nodes send one behind the other; with
// messages for headers, copy and end each of them takes three round trips of its own. A receiver of
// an older build gets these.
func TestSnapshotsTakeOneRoundTrip(t *testing.T) {
	took := queuedSnapshots(t, HostOptions{LogKeepEntries: 50}, HostOptions{LogKeepEntries: 50, LoneHeads: true})
	t.Logf("all logs are there after %v, and after %v if headers travel alone", took[0], took[1])
	if took[1]-took[0] < 700*time.Millisecond {
		t.Errorf("all logs are there after %v, and after %v if headers travel alone", took[0], took[1])
	}
}

// queuedSnapshots is how long it takes until a node that was away has the logs of four groups of
// one shard, which four nodes lead.
func queuedSnapshots(t *testing.T, opts ...HostOptions) (took []time.Duration) {
	for _, o := range opts {
		virtual(t, 1, func(t *testing.T) {
			c := newCluster(t, 1, 5, wan.NetOptions{WAN: wan.LinkSpec{Delay: 80 * time.Millisecond}}, o)
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
			took = append(took, time.Since(began))
		})
	}
	return took
}

// TestSnapshotToAnOlderBuild: a receiver that takes each header in a chunk of its own gets those.
func TestSnapshotToAnOlderBuild(t *testing.T) {
	for _, chunk := range []int{1000, 0} { // bytes
		virtual(t, 1, func(t *testing.T) {
			c := newCluster(t, 1, 3, wan30(), HostOptions{LogKeepEntries: 50, SnapshotChunkBytes: chunk})
			defer c.close()
			c.rows = true
			c.groups[testGroup] = c.all()
			c.preferred[testGroup] = 1
			c.startAll()
			c.until("node 1 leads", func() bool {
				n, _ := c.leader(testGroup).Leader()
				return n == 1
			})
			c.crash(3)
			c.write(testGroup, 300)
			c.opts.LoneHeads = true
			c.start(3)
			c.converge(testGroup)
			time.Sleep(5 * time.Second) // the sender knows
			if s := &c.nodes[1].host.stats; s.snapSent.Load() != 1 || s.snapFailed.Load() != 0 {
				t.Errorf("chunks of %d bytes: %d snapshots were sent, %d failed", chunk, s.snapSent.Load(), s.snapFailed.Load())
			}
		})
	}
}

// TestSnapshotsShareAStream: one node leads all groups of a shard; another one was away and lacks
// their logs. One stream brings all of them. If it does not wait for the others it takes several,
// but where they happen to ask at once.
func TestSnapshotsShareAStream(t *testing.T) {
	if n := streamsForAll(t, false); n != 1 {
		t.Errorf("%d streams for the groups of a shard", n)
	}
	for range 10 {
		if streamsForAll(t, true) > 1 {
			return
		}
	}
	t.Error("one stream was enough, though none waits for other groups")
}

// streamsForAll is how many streams bring four groups of a shard to a node that lacks their logs.
func streamsForAll(t *testing.T, lone bool) (streams int64) {
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
		streams = c.nodes[1].host.stats.snapSent.Load()
	})
	return streams
}
