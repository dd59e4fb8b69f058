package group

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
)

// wal is the newest file of a store's write-ahead log.
func (c *cluster) wal(fs *vfs.MemFS) (path string, data []byte) {
	c.t.Helper()
	names, err := fs.List("data")
	must(c.t, err)
	slices.Sort(names)
	for _, name := range names {
		var n int
		if k, _ := fmt.Sscanf(name, "%d.log", &n); k == 1 {
			path = fs.PathJoin("data", name)
		}
	}
	f, err := fs.Open(path)
	must(c.t, err)
	data, err = io.ReadAll(f)
	must(c.t, err)
	must(c.t, f.Close())
	return path, bytes.TrimRight(data, "\x00")
}

// synced is how much of a node's log would survive a crash.
func (c *cluster) synced(id base.NodeID) int {
	_, data := c.wal(c.nodes[id].fs.CrashClone(vfs.CrashCloneCfg{}))
	return len(data)
}

// crashDamaged ends a node as a power failure does, and flips a bit of the first record that its
// disk had synced behind an offset.
func (c *cluster) crashDamaged(id base.NodeID, from int) {
	c.t.Helper()
	m := c.nodes[id]
	c.net.Crash(id)
	clone := m.fs.CrashClone(vfs.CrashCloneCfg{})
	c.stop(id)
	m.fs = clone
	path, data := c.wal(clone)
	data[from+20] ^= 0x10
	f, err := clone.Create(path, "test")
	must(c.t, err)
	_, err = f.Write(data)
	must(c.t, err)
	must(c.t, f.Sync())
	must(c.t, f.Close())
}

// propose proposes through the leader and returns when that is acknowledged.
func (c *cluster) propose(v uint64, among ...base.NodeID) {
	c.t.Helper()
	_, _, err := c.leader(testGroup, among...).Propose(context.Background(), put(v), 0)
	must(c.t, err)
}

// led reports whether one of the nodes serves within d.
func (c *cluster) led(d time.Duration, among ...base.NodeID) bool {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for _, id := range among {
			if _, ok := c.group(id, testGroup).Leads(); ok {
				return true
			}
		}
	}
	return false
}

// onThree plays with a group of three nodes, of which the first leads.
func onThree(t *testing.T, opts HostOptions, play func(c *cluster)) {
	t.Helper()
	virtual(t, 1, func(t *testing.T) {
		c := newCluster(t, 1, 3, wan.NetOptions{WAN: wan.LinkSpec{Delay: 20 * time.Millisecond}}, opts)
		defer c.close()
		c.groups[testGroup], c.preferred[testGroup] = c.all(), 1
		c.startAll()
		c.until("the preferred node leads", func() bool { _, ok := c.group(1, testGroup).Leads(); return ok })
		c.propose(1)
		c.converge(testGroup)
		play(c)
	})
}

// lostEntry is the history that needs RECOVER-2: e is on A and B, B loses it, A dies, B and C elect
// C. It says whether B and C have elected a leader, and whether e is there once A is back.
func lostEntry(t *testing.T, trust bool) (led, kept bool) {
	onThree(t, HostOptions{TrustTails: trust}, func(c *cluster) {
		c.net.Isolate(3)
		before := c.synced(2)
		c.propose(2, 1, 2)
		c.crashDamaged(2, before)
		c.crash(1)
		c.net.Rejoin(3)
		c.start(2)
		led = c.led(20*time.Second, 2, 3)
		c.start(1)
		c.leader(testGroup)
		c.converge(testGroup)
		_, _, count := c.nodes[3].sms[testGroup].state()
		kept = count == 2
	})
	return led, kept
}

func TestDamagedTail(t *testing.T) {
	if led, kept := lostEntry(t, false); led || !kept {
		t.Errorf("a replica that lost what it had acknowledged elects a leader: %v; the entry is kept: %v", led, kept)
	}
}

// TestDamagedTailBites: without the rule the entry is lost.
func TestDamagedTailBites(t *testing.T) {
	if led, kept := lostEntry(t, true); !led || kept {
		t.Errorf("without the rule a leader is elected: %v, and the entry is kept: %v", led, kept)
	}
}

// TestSuspectRecovers: a replica that has lost what it acknowledged gets it from the others, and
// votes again: it can then stand in for another one.
func TestSuspectRecovers(t *testing.T) {
	onThree(t, HostOptions{}, func(c *cluster) {
		c.net.Isolate(3)
		before := c.synced(2)
		c.propose(2, 1, 2)
		c.crashDamaged(2, before)
		c.net.Rejoin(3)
		c.start(2)
		if why, err := c.nodes[2].store.Suspicion(testGroup); err != nil || why == "" {
			t.Errorf("the replica takes its log for whole: %v", err)
		}
		time.Sleep(20 * time.Second)
		c.leader(testGroup)
		c.converge(testGroup)
		if why, err := c.nodes[2].store.Suspicion(testGroup); err != nil || why != "" {
			t.Errorf("the replica is still suspect: %q, %v", why, err)
		}
		c.crash(1)
		c.propose(3, 2, 3)
	})
}

// TestAllSuspect: where all replicas are suspect the longest log leads, as soon as all answer
// (RECOVER-3), and not before.
func TestAllSuspect(t *testing.T) {
	onThree(t, HostOptions{}, func(c *cluster) {
		three := c.synced(3)
		c.propose(2)
		c.converge(testGroup)
		c.net.Isolate(3)
		two := c.synced(2)
		c.propose(3, 1, 2)
		c.crashDamaged(2, two)
		c.crashDamaged(3, three)
		c.crash(1)
		c.net.Rejoin(3)
		c.start(2)
		c.start(3)
		if c.led(20*time.Second, 2, 3) {
			t.Error("two suspect replicas elect a leader while the third does not answer")
		}
		c.start(1)
		c.leader(testGroup)
		c.converge(testGroup)
		if _, _, count := c.nodes[3].sms[testGroup].state(); count != 3 {
			t.Errorf("%d commands are left of 3", count)
		}
		time.Sleep(20 * time.Second)
		for _, id := range c.ids {
			if why, err := c.nodes[id].store.Suspicion(testGroup); err != nil || why != "" {
				t.Errorf("the replica of node %d is still suspect: %q, %v", id, why, err)
			}
		}
	})
}

// TestOldCopy: a node that is started on an old copy of its directory says so, harms no other, and
// is brought up to date.
func TestOldCopy(t *testing.T) {
	onThree(t, HostOptions{}, func(c *cluster) {
		old := c.nodes[2].fs.CrashClone(vfs.CrashCloneCfg{})
		for v := range uint64(20) {
			c.propose(2 + v)
		}
		c.converge(testGroup)
		c.stop(2)
		c.nodes[2].fs = old
		c.start(2)
		said := ""
		c.until("the replica is suspect", func() bool { said, _ = c.nodes[2].store.Suspicion(testGroup); return said != "" })
		c.until("the replica is sound", func() bool { said, _ = c.nodes[2].store.Suspicion(testGroup); return said == "" })
		c.leader(testGroup)
		c.converge(testGroup)
		c.propose(100)
	})
}
