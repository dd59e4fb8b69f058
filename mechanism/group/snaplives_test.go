package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

// halfStream makes node 3 lag and returns when it holds the first part of a snapshot of node 1.
func halfStream(c *cluster) {
	c.t.Helper()
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
	c.start(3)
	s := c.nodes[3].host.snaps
	for range 60000 {
		if s.staged(1) > 6 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	c.t.Fatal("node 1 sends no snapshot")
}

// staged counts the chunks that have come of a stream of a node.
func (s *snapshots) staged(from base.NodeID) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, in := range s.in {
		if k.from == from {
			in.turn <- struct{}{}
			n = max(n, len(in.seen))
			<-in.turn
		}
	}
	return n
}

func rowKey(n int) base.Key {
	return append(base.Key{0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1}, fmt.Sprintf("k%d", n)...)
}

// TestSnapshotOfTwoLives: a sender dies amid a snapshot. Its next life sends one, too, and has
// collected a row meanwhile. Nothing of the first copy may come back with the second (STORE-5).
func TestSnapshotOfTwoLives(t *testing.T) {
	virtual(t, 1, func(t *testing.T) {
		c := newCluster(t, 1, 3, wan30(), HostOptions{LogKeepEntries: 50, SnapshotChunkBytes: 1000})
		defer c.close()
		halfStream(c)
		c.crash(1)
		c.start(1)
		below := base.Timestamp(1000 << 8)
		for _, id := range []base.NodeID{1, 2} {
			st := c.nodes[id].store
			b := st.NewBatch()
			must(t, b.CollectKeys([]base.Key{rowKey(0)}, below))
			must(t, b.Commit(false))
			b.Close()
			_, _, err := st.CollectVersions(1, below, nil, 0) // the mark goes
			must(t, err)
		}
		c.until("node 3 takes a snapshot", func() bool { return c.installed(3) })
		c.converge(testGroup)
		for id, m := range c.nodes {
			rd := m.store.NewReader()
			v, ok, err := rd.Newest(rowKey(0))
			rd.Close()
			must(t, err)
			if ok {
				t.Errorf("node %d has a row that was collected: %v by %v", id, v.TS, v.Writer)
			}
		}
	})
}

// TestSnapshotAfterDeadSender: a sender dies amid a snapshot. Another one is heard soon: at once if
// the node knows that the first one is lost.
func TestSnapshotAfterDeadSender(t *testing.T) {
	for _, told := range []bool{false, true} {
		t.Run(fmt.Sprintf("told %t", told), func(t *testing.T) {
			virtual(t, 1, func(t *testing.T) {
				c := newCluster(t, 1, 3, wan30(), HostOptions{LogKeepEntries: 50, SnapshotChunkBytes: 1000})
				defer c.close()
				halfStream(c)
				died := time.Now()
				c.crash(1)
				c.nodes[3].tr.SetLost(1, told)
				c.moved.Store(true)
				c.until("node 3 takes the snapshot of node 2", func() bool { return c.installed(3) })
				bound := quietStream + 5*time.Second
				if told {
					bound = quietStream // most of it is the election
				}
				if d := time.Since(died); d > bound {
					t.Errorf("node 3 was sent a snapshot %v after the sender of another one had died", d)
				}
			})
		})
	}
}

// TestSnapshotsGiveWay: a receiver stops amid a snapshot, without a word. Its sender, which sends
// one at a time, has another receiver that waits; that one gets its snapshot soon after the first
// is known to be lost. Who is lost and held up nobody keeps its stream.
func TestSnapshotsGiveWay(t *testing.T) {
	virtual(t, 1, func(t *testing.T) {
		c := newCluster(t, 1, 5, wan30(), HostOptions{LogKeepEntries: 50, SnapshotChunkBytes: 1000, SnapshotStreams: 1})
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
		c.crash(4)
		c.write(testGroup, 300)
		c.start(3)
		c.until("node 1 sends to node 3", func() bool { return c.nodes[3].host.snaps.staged(1) > 6 })
		c.net.Isolate(3)
		c.nodes[1].tr.SetLost(3, true)
		time.Sleep(2 * time.Second)
		if failed := c.nodes[1].host.snaps.h.stats.snapFailed.Load(); failed != 0 {
			t.Errorf("%d snapshots were given up, with nobody waiting", failed)
		}
		c.start(4)
		began := time.Now()
		c.until("node 4 takes a snapshot", func() bool { return c.installed(4) })
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("node 4 waited %v for a snapshot", d)
		}
		c.net.Rejoin(3)
		c.nodes[1].tr.SetLost(3, false)
		c.converge(testGroup)
	})
}

// installed reports whether a node has taken a snapshot.
func (c *cluster) installed(id base.NodeID) bool {
	sm := c.nodes[id].sms[testGroup]
	sm.mu.Lock()
	defer sm.mu.Unlock()
	return sm.installed > 0
}
