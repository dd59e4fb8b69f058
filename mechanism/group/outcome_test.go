package group

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
)

// What proposers learn when the lead is lost under them.
func TestOutcomeOfLostLead(t *testing.T) {
	type outcome struct {
		err error
		at  time.Duration
	}
	setup := func(t *testing.T) (c *cluster, l *Group, id base.NodeID, others []base.NodeID) {
		c = newCluster(t, 1, 3, wan30(), HostOptions{})
		c.groups[testGroup] = c.all()
		c.startAll()
		l = c.leader(testGroup)
		id, _ = l.Leader()
		for _, o := range c.ids {
			if o != id {
				others = append(others, o)
			}
		}
		c.write(testGroup, 3)
		return c, l, id, others
	}
	propose := func(l *Group, v uint64) chan outcome {
		ch := make(chan outcome, 1)
		start := time.Now()
		go func() {
			_, _, err := l.Propose(context.Background(), put(v), 0)
			ch <- outcome{err, time.Since(start)}
		}()
		return ch
	}
	t.Run("overwritten is aborted", func(t *testing.T) {
		virtual(t, 1, func(t *testing.T) {
			c, l, id, others := setup(t)
			defer c.close()
			c.net.Isolate(id)
			ch := propose(l, 7)
			c.leader(testGroup, others...)
			c.write2(testGroup, 3, others...)
			c.net.Rejoin(id)
			if o := <-ch; base.CodeOf(o.err) != base.CodeAborted {
				t.Fatalf("%v after %v", o.err, o.at)
			}
			c.converge(testGroup)
		})
	})
	t.Run("unknown is ambiguous in time", func(t *testing.T) {
		virtual(t, 1, func(t *testing.T) {
			c, l, id, _ := setup(t)
			defer c.close()
			c.net.Isolate(id)
			o := <-propose(l, 7)
			if base.CodeOf(o.err) != base.CodeAmbiguous || o.at > 10*time.Second {
				t.Fatalf("%v after %v", o.err, o.at)
			}
		})
	})
	t.Run("committed by the next leader is a success", func(t *testing.T) {
		virtual(t, 1, func(t *testing.T) {
			c, l, id, others := setup(t)
			defer c.close()
			for _, o := range others {
				c.net.CutOneWay(regionOf(o), regionOf(id)) // acknowledgements do not come back
			}
			ch := propose(l, 7)
			c.until("the leader stepped down", func() bool { _, ok := l.Leads(); return !ok })
			c.leader(testGroup, others...)
			c.net.HealAll()
			if o := <-ch; o.err != nil {
				t.Fatalf("%v after %v", o.err, o.at)
			}
			c.converge(testGroup)
		})
	})
	t.Run("closed is ambiguous at once", func(t *testing.T) {
		virtual(t, 1, func(t *testing.T) {
			c, l, id, _ := setup(t)
			defer c.close()
			ch := propose(l, 7)
			time.Sleep(10 * time.Millisecond)
			c.stop(id)
			if o := <-ch; base.CodeOf(o.err) != base.CodeAmbiguous {
				t.Fatalf("%v after %v", o.err, o.at)
			}
			if _, _, err := l.Propose(context.Background(), put(8), 0); base.CodeOf(err) != base.CodeUnavailable {
				t.Fatalf("closed: %v", err)
			}
		})
	})
}

// OnPeerDown makes the survivors elect at once, also after a false alarm without harm.
func TestPeerDown(t *testing.T) {
	virtual(t, 1, func(t *testing.T) {
		c := newCluster(t, 1, 5, wan30(), HostOptions{})
		defer c.close()
		c.groups[testGroup] = c.all()
		c.startAll()
		l := c.leader(testGroup)
		id, term := l.Leader()
		for _, o := range c.ids[:3] { // a false alarm
			c.nodes[o].host.OnPeerDown(id)
		}
		time.Sleep(5 * time.Second)
		if n, now := c.leader(testGroup).Leader(); n != id || now != term {
			t.Fatalf("a false alarm moved the lead from node %d (term %d) to node %d (term %d)", id, term, n, now)
		}
		c.crash(id)
		start := time.Now()
		others := slices.DeleteFunc(slices.Clone(c.ids), func(o base.NodeID) bool { return o == id })
		c.preferred[testGroup] = others[2]
		for _, o := range others {
			c.nodes[o].host.OnPeerDown(id)
		}
		n, _ := c.leader(testGroup, others...).Leader()
		if d := time.Since(start); d > 500*time.Millisecond || n != others[2] {
			t.Fatalf("node %d leads after %v, want node %d within 500ms", n, d, others[2])
		}
	})
}

// Heartbeats of all groups of a node travel together.
func TestHeartbeatsAreCoalesced(t *testing.T) {
	virtual(t, 1, func(t *testing.T) {
		c := newCluster(t, 1, 5, wan.NetOptions{WAN: wan.LinkSpec{Delay: 30 * time.Millisecond}}, HostOptions{})
		defer c.close()
		for s := 1; s <= 6; s++ {
			for r := 1; r <= 5; r++ {
				g := base.DataGroup(base.ShardID(s), base.RegionID(r))
				c.groups[g] = c.all()
				c.preferred[g] = base.NodeID(r)
			}
		}
		c.startAll()
		for g := range c.groups {
			g := g
			c.until("every group is led from home", func() bool { _, ok := c.group(c.preferred[g], g).Leads(); return ok })
		}
		time.Sleep(5 * time.Second)
		count := func() (batches, msgs int64) {
			for _, m := range c.nodes {
				s := m.host.Stats()
				batches += s.Batches
				msgs += s.Messages
			}
			return
		}
		b0, m0 := count()
		time.Sleep(10 * time.Second)
		b1, m1 := count()
		// 20 pairs; two heartbeats and two answers a second each.
		t.Logf("an idle second of 5 nodes and 30 groups: %.1f batches, %.1f messages", float64(b1-b0)/10, float64(m1-m0)/10)
		if b1-b0 > 20*4*10*5/4 || m1-m0 > 30*4*4*10*5/4 {
			t.Fatalf("%d batches and %d messages in 10 idle seconds", b1-b0, m1-m0)
		}
	})
}

// A log that does not fit its applied index is refused with advice.
func TestRecoveryChecks(t *testing.T) {
	virtual(t, 1, func(t *testing.T) {
		c := newCluster(t, 1, 1, wan.NetOptions{}, HostOptions{})
		defer c.close()
		c.groups[testGroup] = c.all()
		c.startAll()
		c.write(testGroup, 10)
		m := c.nodes[1]
		must(t, m.host.Remove(testGroup, false))
		b := m.store.NewBatch()
		b.SetApplied(testGroup, 1000)
		must(t, b.Commit(true))
		b.Close()
		_, err := m.host.Open(testGroup, c.all(), newRegister(m.store, testGroup, t.Fatalf), nil)
		if base.CodeOf(err) != base.CodeCorrupt || !strings.Contains(err.Error(), "replace the node") {
			t.Fatalf("got %v", err)
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := NewHost(HostOptions{ElectionTicks: 3, HeartbeatTicks: 4})
	for _, want := range []string{"Self", "Store", "Transport", "ElectionTicks"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("%v does not name %s", err, want)
		}
	}
}
