package group

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/overlay"
	"github.com/godwitdb/godwit/wan"
	"github.com/godwitdb/godwit/wire"
)

// spread puts the last three nodes into one region, makes the way from there to the first one faster over the second,
// and has overlays do all they can.
func (c *cluster) spread() {
	n := base.NodeID(len(c.ids))
	c.ids = append(c.ids, n+1, n+2)
	last := base.RegionID(n)
	c.region = func(id base.NodeID) base.RegionID { return min(base.RegionID(id), last) }
	path := c.net.Path(1, last)
	path.Delay *= 4
	c.net.SetPaths(1, last, path)
	c.net.SetPaths(last, last, wan.LinkSpec{Delay: 250 * time.Microsecond})
	c.over = &overlay.Params{Relay: true, FanOut: true, Window: time.Second}
}

// overStats are the sums of what the overlays count.
func (c *cluster) overStats() (s overlay.Stats) {
	for _, m := range c.nodes {
		for _, x := range m.tr.(*overlay.Overlay).OverStats() {
			s.RelayedMsgs += x.RelayedMsgs
			s.SharedMsgs += x.SharedMsgs
			s.ResentMsgs += x.ResentMsgs
			s.Fallbacks += x.Fallbacks
			s.PassedMsgs += x.PassedMsgs
			s.Refused += x.Refused
			s.SavedBytes += x.SavedBytes
			s.Received.Msgs += x.Received.Msgs
		}
	}
	return s
}

func checkOver(t *testing.T, s overlay.Stats) {
	if s.SharedMsgs == 0 || s.PassedMsgs == 0 || s.Refused != 0 {
		t.Errorf("the overlay has done too little, or too much: %+v", s)
	}
}

// TestOverFaults has the relay, and the door of a region, die at any message that goes over them: commits go on
// within a second, and all replicas agree.
func TestOverFaults(t *testing.T) {
	for _, kind := range []wire.Kind{wire.KindParcel, wire.KindRaftBundle} {
		for at := int64(0); at < 12; at += 3 {
			t.Run(fmt.Sprint(kind, at), func(t *testing.T) {
				virtual(t, uint64(at), func(t *testing.T) { overFault(t, kind, at) })
			})
		}
	}
}

func overFault(t *testing.T, kind wire.Kind, at int64) {
	// Node 1 leads; nodes 3 to 5 are one region, and node 2 lies on the way to it.
	c := newCluster(t, uint64(at), 3, wan.NetOptions{WAN: wan.LinkSpec{Delay: 20 * time.Millisecond}}, HostOptions{})
	defer c.close()
	c.spread()
	c.over.Relay = kind == wire.KindParcel // else bundles come in parcels
	c.groups[testGroup] = Conf{Voters: []base.NodeID{1, 2, 3}, Learners: []base.NodeID{4, 5}}
	c.preferred[testGroup] = 1
	c.startAll()
	c.leader(testGroup)
	c.until("node 1 leads", func() bool { _, ok := c.group(1, testGroup).Leads(); return ok })
	propose := func(v uint64) time.Duration {
		begin := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if _, _, err := c.group(1, testGroup).Propose(ctx, put(v), 0); err != nil {
			t.Errorf("proposal %d: %v", v, err)
		}
		return time.Since(begin)
	}
	v := uint64(0)
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		v++
		propose(v)
	}
	var left, dead atomic.Int64
	left.Store(at)
	look := spy(func(n base.NodeID, k wire.Kind) bool {
		if k != kind || n == 1 || int64(n) != 2 && kind == wire.KindParcel || dead.Load() != 0 && dead.Load() != int64(n) {
			return false
		}
		if left.Add(-1) >= 0 {
			return false
		}
		if dead.CompareAndSwap(0, int64(n)) {
			c.net.Crash(n)
		}
		return true
	})
	c.spy.Store(&look)
	worst := time.Duration(0)
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		v++
		worst = max(worst, propose(v))
	}
	down := base.NodeID(dead.Load())
	if down == 0 {
		t.Fatal("nobody died: nothing went over another node")
	}
	if worst > time.Second {
		t.Errorf("a commit took %v", worst)
	}
	c.crash(down)
	c.start(down)
	c.leader(testGroup)
	time.Sleep(2 * time.Second)
	c.converge(testGroup)
	s := c.overStats()
	checkOver(t, s)
	if (s.RelayedMsgs > 0) != c.over.Relay || s.Fallbacks == 0 {
		t.Errorf("%+v", s)
	}
}
