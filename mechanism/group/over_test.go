package group

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/mechanism/wan/overlay"
	"github.com/godwitdb/godwit/wire"
)

// spread puts the last three nodes into one region, makes the way from there to the first one
// faster over the second, and has overlays do all they can.
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

// TestOverFaults has the relay, and the fan-out proxy of a region, die at any message that goes
// over them: commits go on within a second, and all replicas agree.
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

// fanned is what some proposals of a size cost, at a pace.
type fanned struct {
	median, worst time.Duration
	bytes         uint64 // between regions
}

// fanLoad has node 1 lead a group with two voters in the region nearest to it, which a commit needs
// both, and two in another one.
func fanLoad(t *testing.T, on bool, size int, pause time.Duration, link wan.LinkSpec, change, hurt func(*cluster)) (f fanned) {
	virtual(t, 1, func(t *testing.T) {
		c := newCluster(t, 1, 5, wan.NetOptions{WAN: link, LAN: wan.LinkSpec{Delay: fanLAN}}, HostOptions{MinShared: minShared})
		defer c.close()
		c.region = func(id base.NodeID) base.RegionID { return base.RegionID(1 + id/2) }
		far := link
		far.Delay *= 2
		c.net.SetPaths(1, 3, far)
		c.over = &overlay.Params{FanOut: on}
		c.groups[testGroup], c.preferred[testGroup] = c.all(), 1
		if change != nil {
			change(c)
		}
		c.startAll()
		c.until("node 1 leads", func() bool { _, ok := c.group(1, testGroup).Leads(); return ok })
		traffic := func() (n uint64) {
			for _, m := range c.nodes {
				if !m.up {
					continue
				}
				for _, l := range m.tr.Stats() {
					if l.Region != c.where(m.id) {
						n += l.WireSent
					}
				}
			}
			return n
		}
		time.Sleep(5 * time.Second)
		before, text := traffic(), make([]byte, size)
		var took []time.Duration
		for i := range 200 {
			if i == 100 && hurt != nil {
				hurt(c)
			}
			begin := time.Now()
			x := put(uint64(i))
			x.Refuse = text
			if _, _, err := c.group(1, testGroup).Propose(context.Background(), x, 0); err != nil {
				t.Fatal(err)
			}
			took = append(took, time.Since(begin))
			time.Sleep(pause)
		}
		time.Sleep(time.Second)
		f.bytes = traffic() - before
		slices.Sort(took)
		f.median, f.worst = took[len(took)/2], took[len(took)-1]
		if s := c.overStats(); on && size >= minShared && (s.SharedMsgs == 0 || hurt != nil && s.Fallbacks == 0) {
			t.Errorf("%+v", s)
		}
	})
	return f
}

const (
	fanLAN    = 250 * time.Microsecond
	minShared = 256 // as it is by default
)

// TestFanOutDoesNotLose: one copy a region costs a commit at most a hop within that region, and
// never more bytes than a copy for each node; whatever the size of entries and their pace, on lossy
// paths too. That is why it is on by default.
func TestFanOutDoesNotLose(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 13 s")
	}
	const ms = time.Millisecond
	for _, link := range []wan.LinkSpec{{Delay: 20 * ms}, {Delay: 20 * ms, Jitter: 5 * ms}, {Delay: 20 * ms, Loss: 0.01}} {
		for _, size := range []int{10, 150, 300, 1000, 20000} {
			for _, pause := range []time.Duration{0, 100 * ms} {
				off, on := fanLoad(t, false, size, pause, link, nil, nil), fanLoad(t, true, size, pause, link, nil, nil)
				t.Logf("jitter %v, loss %v, %d bytes every %v: %d bytes instead of %d, median %v instead of %v, "+
					"worst %v instead of %v", link.Jitter, link.Loss, size, pause, on.bytes, off.bytes, on.median,
					off.median, on.worst, off.worst)
				steady := link.Jitter == 0 && link.Loss == 0
				most := off.bytes
				switch {
				case size < minShared:
					// nothing is shared, but a run has some heartbeats more or less
					most += most / 20
				case size >= 1000 && link.Loss == 0:
					most = most * 7 / 10
				case size >= minShared:
					most--
				}
				if on.bytes > most {
					t.Errorf("%d bytes every %v: %d bytes instead of %d", size, pause, on.bytes, off.bytes)
				}
				if steady && (on.median > off.median+fanLAN || on.worst > off.worst+fanLAN) {
					t.Errorf("%d bytes every %v: %v instead of %v", size, pause, on, off)
				}
			}
		}
	}
}

// TestDoorDies: when a fan-out proxy dies behind which the nearest majority lies, commits take once
// as much longer as falling back does: a round trip and a half, at least a round trip and 70 ms;
// and a look every 25 ms.
func TestProxyDies(t *testing.T) {
	const delay = 20 * time.Millisecond
	// a commit needs node 3, for which node 2 is the fan-out proxy; or node 4, which is far away
	change := func(c *cluster) {
		c.groups[testGroup] = Conf{Voters: []base.NodeID{1, 3, 4}, Learners: []base.NodeID{2, 5}}
		c.net.SetPaths(1, 3, wan.LinkSpec{Delay: 20 * delay})
	}
	kill := func(c *cluster) { c.net.Crash(2) }
	load := func(on bool) fanned {
		return fanLoad(t, on, 1000, 10*time.Millisecond, wan.LinkSpec{Delay: delay}, change, kill)
	}
	off, on := load(false), load(true)
	const bound = 2*delay + 70*time.Millisecond + 25*time.Millisecond
	t.Logf("worst commit %v instead of %v, at most %v more", on.worst, off.worst, bound)
	if on.worst > off.worst+bound {
		t.Errorf("a commit took %v, %v without one copy a region", on.worst, off.worst)
	}
	if on.worst < off.worst+delay {
		t.Errorf("a commit took %v: nothing went over the fan-out proxy that died", on.worst)
	}
}
