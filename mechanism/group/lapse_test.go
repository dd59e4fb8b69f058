package group

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
)

const testLease = 3 * time.Second

// lease has whichever node leads take ten leases a second while it may: as often as owners that are
// busy log something.
func (c *cluster) lease(g base.GroupID, may func(base.NodeID) bool) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			for _, id := range c.ids {
				r := c.group(id, g)
				if term, leads := r.Leads(); leads && may(id) {
					r.ProposeAsync(&wire.Command{Lease: &wire.Lease{Holder: uint32(id), LengthNs: uint64(testLease)}},
						term, func(any, uint64, error) {})
				}
			}
			select {
			case <-done:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return func() { close(done); <-ended }
}

// leased is a cluster of one group with a voter at each node, 40 ms apart, for tests of leases.
func leased(t *testing.T, nodes int) *cluster { return leasedBy(t, nodes, HostOptions{}) }

func leasedBy(t *testing.T, nodes int, rules HostOptions) *cluster {
	c := newCluster(t, 1, nodes, wan.NetOptions{WAN: wan.LinkSpec{Delay: 40 * time.Millisecond}}, rules)
	c.groups[testGroup] = c.all()
	c.startAll()
	return c
}

// others are the two nodes of a cluster of three beside one.
func others(of base.NodeID) []base.NodeID { return []base.NodeID{of%3 + 1, (of+1)%3 + 1} }

// leaderAfter is the node that serves when d has passed.
func (c *cluster) leaderAfter(d time.Duration) base.NodeID {
	time.Sleep(d)
	return c.leader(testGroup).host.opts.Self
}

// lapsed is how long a leader that does nothing is followed: a lease and a second, then an election
// of half the shortest timeout. Another second is for what a lease takes to arrive.
const lapsed = testLease + lapsePatience + 2*time.Second

// TestLapsedLeader: a leader that goes on with its heartbeats, and takes no lease, is left (GRP-8).
// One that takes its leases is not.
func TestLapsedLeader(t *testing.T) {
	virtual(t, 1, func(t *testing.T) {
		c := leased(t, 3)
		defer c.close()
		first := c.leader(testGroup).host.opts.Self
		stuck := make(chan struct{})
		stop := c.lease(testGroup, func(id base.NodeID) bool {
			select {
			case <-stuck:
				return id != first
			default:
				return true
			}
		})
		defer stop()
		if at := c.leaderAfter(time.Minute); at != first {
			t.Errorf("node %d took its leases, and node %d leads now", first, at)
		}
		close(stuck)
		if at := c.leaderAfter(lapsed); at == first {
			t.Errorf("node %d still leads %v after its owner got stuck", first, lapsed)
		}
		if at, again := c.leaderAfter(time.Minute), c.leaderAfter(time.Minute); at == first || again != at {
			t.Errorf("node %d leads after a minute, node %d after two", at, again)
		}
	})
}

// TestTargetLapses: the target of a hand-over that takes no lease of its own is left when the one
// that it was handed has lapsed, and not, like any other new leader, after two leases and a second
// (GRP-8).
func TestTargetLapses(t *testing.T) {
	left := func(patient bool) (after time.Duration) {
		virtual(t, 1, func(t *testing.T) {
			c := leasedBy(t, 3, HostOptions{PatientTargets: patient})
			defer c.close()
			first := c.leader(testGroup).host.opts.Self
			to := others(first)[0]
			var over atomic.Bool // who hands over proposes no lease behind the transfer
			stop := c.lease(testGroup, func(id base.NodeID) bool { return id != to && (id != first || !over.Load()) })
			defer stop()
			time.Sleep(10 * time.Second)
			g := c.group(first, testGroup)
			term, _ := g.Leads()
			over.Store(true)
			time.Sleep(50 * time.Millisecond) // no lease is on its way
			began := time.Now()
			g.ProposeAsync(&wire.Command{LeaseTransfer: &wire.LeaseTransfer{Target: uint32(to), LengthNs: uint64(testLease)}},
				term, func(any, uint64, error) {})
			if err := g.Transfer(to); err != nil {
				t.Fatal(err)
			}
			c.until("the target leads", func() bool { _, leads := c.group(to, testGroup).Leads(); return leads })
			c.until("it is left", func() bool { return c.leader(testGroup).host.opts.Self != to })
			after = time.Since(began)
		})
		return after
	}
	with, without := left(false), left(true)
	t.Logf("left after %v, and after %v without the rule", with, without)
	if with > lapsed || without < 2*testLease+lapsePatience {
		t.Errorf("left after %v, at most %v is right; after %v without the rule", with, lapsed, without)
	}
}

// TestLateLeader: a leader that hears 5 s late what the others send commits its leases when they
// have ended. It is left (GRP-8), though it goes on with its heartbeats and appends, and the others
// apply its leases. With half a second it stays.
func TestLateLeader(t *testing.T) {
	for _, late := range []time.Duration{500 * time.Millisecond, 5 * time.Second} {
		virtual(t, 1, func(t *testing.T) {
			c := leased(t, 3)
			defer c.close()
			first := c.leader(testGroup).host.opts.Self
			defer c.lease(testGroup, func(base.NodeID) bool { return true })()
			time.Sleep(10 * time.Second)
			rest := others(first)
			for d := time.Duration(0); d < late; d += late / 100 { // slowly, so that it hears of them all the time
				for _, id := range rest {
					c.net.SetPath(c.where(id), c.where(first), wan.LinkSpec{Delay: d})
				}
				time.Sleep(late / 40)
			}
			time.Sleep(lapsed + 2*lapsePatience)
			at, _ := c.group(rest[0], testGroup).Leader()
			if left := at != first && at != 0; left != (late > testLease) {
				t.Errorf("node %d hears %v late what is sent to it, and node %d leads", first, late, at)
			}
		})
	}
}

// TestLateLeaderIsGivenUp: a leader that most nodes find late is left at once, though its leases
// and heartbeats come (GRP-8). One that a single follower finds late stays.
func TestLateLeaderIsGivenUp(t *testing.T) {
	for _, all := range []bool{true, false} {
		virtual(t, 1, func(t *testing.T) {
			c := leased(t, 3)
			defer c.close()
			first := c.leader(testGroup).host.opts.Self
			defer c.lease(testGroup, func(base.NodeID) bool { return true })()
			time.Sleep(10 * time.Second)
			rest := others(first)
			if !all {
				rest = rest[:1]
			}
			for range 10 {
				for _, id := range rest {
					c.group(id, testGroup).host.OnPeerLate(first)
				}
				time.Sleep(100 * time.Millisecond)
			}
			at, _ := c.group(rest[0], testGroup).Leader()
			if left := at != first && at != 0; left != all {
				t.Errorf("nodes %v find node %d late, and node %d leads a second later", rest, first, at)
			}
			time.Sleep(5 * time.Second)
			if at := c.leader(testGroup).host.opts.Self; (at != first) != all {
				t.Errorf("nodes %v found node %d late, and node %d leads in the end", rest, first, at)
			}
		})
	}
}

// TestSuccessorIsFollowed: the first entry of a new leader commits leases of the one before, which
// came when that one was given up already. They are no reason to give the new leader up (GRP-8),
// while it waits for them to end and takes no lease of its own.
func TestSuccessorIsFollowed(t *testing.T) {
	virtual(t, 1, func(t *testing.T) {
		c := leased(t, 3)
		defer c.close()
		old := c.leader(testGroup).host.opts.Self
		defer c.lease(testGroup, func(id base.NodeID) bool { return id == old })()
		time.Sleep(10 * time.Second)
		rest := others(old)
		// It commits nothing any more, as it hears nothing, and goes on with its leases.
		for _, id := range rest {
			c.net.SetPath(c.where(id), c.where(old), wan.LinkSpec{Delay: time.Hour})
		}
		lead := old
		for lead == 0 || lead == old {
			time.Sleep(50 * time.Millisecond)
			lead, _ = c.group(rest[0], testGroup).Leader()
		}
		time.Sleep(200 * time.Millisecond) // both know
		_, term := c.group(lead, testGroup).Leader()
		for until := time.Now().Add(testLease); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
			for _, id := range rest {
				if at, now := c.group(id, testGroup).Leader(); at != lead && now >= term {
					t.Fatalf("node %d follows %d in term %d, and node %d leads in term %d", id, at, now, lead, term)
				}
			}
		}
	})
}

// TestStalledLeader: while the disk of the leader stands still, the others commit its leases for as
// long as it proposes any (GRP-7).
func TestStalledLeader(t *testing.T) {
	virtual(t, 1, func(t *testing.T) {
		c := leased(t, 3)
		defer c.close()
		defer c.lease(testGroup, func(base.NodeID) bool { return true })()
		first := c.leader(testGroup).host.opts.Self
		time.Sleep(10 * time.Second)
		c.frozen.Store(first, time.Now().Add(40*time.Second))
		time.Sleep(lapsed + 2*lapsePatience)
		rest := others(first)
		if at := c.leader(testGroup, rest...).host.opts.Self; at == first {
			t.Errorf("node %d still leads while its disk stands still", first)
		}
		time.Sleep(time.Minute)
		c.converge(testGroup)
	})
}

// TestStalledFollower: a follower whose own disk stands still sees no lease, and leaves its leader
// in peace.
func TestStalledFollower(t *testing.T) {
	virtual(t, 1, func(t *testing.T) {
		c := leased(t, 3)
		defer c.close()
		stop := c.lease(testGroup, func(base.NodeID) bool { return true })
		first := c.leader(testGroup)
		_, term := first.Leader()
		time.Sleep(10 * time.Second)
		sick := first.host.opts.Self%3 + 1
		c.frozen.Store(sick, time.Now().Add(40*time.Second))
		for range 1000 {
			time.Sleep(50 * time.Millisecond)
			if at, _ := c.group(sick, testGroup).Leader(); at != first.host.opts.Self {
				t.Errorf("node %d follows %d while its disk stands still", sick, at)
				break
			}
		}
		stop()
		time.Sleep(time.Second)
		if at, now := first.Leader(); at != first.host.opts.Self || now != term {
			t.Errorf("node %d leads in term %d; node %d led in term %d", at, now, first.host.opts.Self, term)
		}
		c.converge(testGroup)
	})
}

// TestStalledCandidate: when the leader dies, the others do not elect a node whose disk stands
// still, though it is the first to ask for their votes (GRP-9).
func TestStalledCandidate(t *testing.T) {
	virtual(t, 1, func(t *testing.T) {
		c := leased(t, 5)
		defer c.close()
		stop := c.lease(testGroup, func(base.NodeID) bool { return true })
		first := c.leader(testGroup).host.opts.Self
		time.Sleep(10 * time.Second)
		sick := first%5 + 1
		c.frozen.Store(sick, time.Now().Add(40*time.Second))
		time.Sleep(2 * time.Second) // leases are on their way to its disk
		stop()
		c.crash(first)
		var rest []base.NodeID
		for _, id := range c.ids {
			if id != first && id != sick {
				rest = append(rest, id)
			}
		}
		for i := range 600 {
			if i%6 == 0 { // as long as two rounds of votes take
				c.group(sick, testGroup).Campaign()
			}
			time.Sleep(50 * time.Millisecond)
			for _, id := range rest {
				if at, _ := c.group(id, testGroup).Leader(); at == sick {
					t.Fatalf("node %d was elected while its disk stands still", sick)
				}
			}
		}
		c.leader(testGroup, rest...)
	})
}

// TestStalledSuccessor: the disk of an idle node stands still, which nobody knows yet, and the node
// is elected. It gives the lead to another one before it is left (GRP-21).
func TestStalledSuccessor(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		virtual(t, 1, func(t *testing.T) {
			c := leasedBy(t, 5, HostOptions{KeepsStalled: keeps})
			defer c.close()
			stop := c.lease(testGroup, func(base.NodeID) bool { return true })
			first := c.leader(testGroup).host.opts.Self
			time.Sleep(5 * time.Second)
			stop()
			time.Sleep(500 * time.Millisecond)
			sick, well := first%5+1, (first+1)%5+1
			c.frozen.Store(sick, time.Now().Add(40*time.Second))
			c.crash(first)
			for _, id := range c.ids {
				if id != first {
					c.group(id, testGroup).host.OnPeerDown(first)
				}
			}
			c.group(sick, testGroup).Campaign()
			time.Sleep(300 * time.Millisecond)
			if at, _ := c.group(well, testGroup).Leader(); at != sick {
				t.Fatalf("node %d leads, not node %d", at, sick)
			}
			time.Sleep(time.Second)
			if at, _ := c.group(well, testGroup).Leader(); at == sick != keeps {
				t.Errorf("without GRP-21: %v; node %d leads, and the disk of node %d stands still", keeps, at, sick)
			}
		})
	}
}

// TestRefuserStands: a leader is heard by the survivor that stands second only, and dies. That one
// refuses the first one, whose log is shorter, and stands without waiting for its turn (GRP-10).
// With five voters it waits, since the first may be elected without it; unless that one says that
// it cannot (GRP-13), which is left out here.
func TestRefuserStands(t *testing.T) {
	for _, voters := range []int{3, 5} {
		virtual(t, 1, func(t *testing.T) {
			c := leasedBy(t, voters, HostOptions{StubbornLosers: true})
			defer c.close()
			lead := c.leader(testGroup)
			self := lead.host.opts.Self
			time.Sleep(5 * time.Second)
			var rest []base.NodeID
			for _, id := range c.ids {
				if id != self {
					rest = append(rest, id)
				}
			}
			c.net.CutOneWay(c.where(self), c.where(rest[0]))
			lead.ProposeAsync(put(1), lead.Status().Term, func(any, uint64, error) {})
			time.Sleep(200 * time.Millisecond)
			c.crash(self)
			began := time.Now()
			for _, id := range rest {
				c.group(id, testGroup).host.OnPeerDown(self)
			}
			for at := self; at == self || at == 0; at, _ = c.group(rest[1], testGroup).Leader() {
				time.Sleep(10 * time.Millisecond)
			}
			turn := campaignGap * lead.host.opts.TickInterval
			if d := time.Since(began); d < turn != (voters == 3) {
				t.Errorf("%d voters: one leads after %v, where each waits %v for its turn", voters, d, turn)
			}
		})
	}
}

// TestDeafness: a member is deaf to a leader's appends for an election timeout, ever more seldom in
// one term, and anew in the next.
func TestDeafness(t *testing.T) {
	const length, pause, most = 10, 100, 400
	var l leases
	began := func(term, from, to uint64) (at []uint64) {
		for now := from; now < to; now++ {
			was := l.deaf
			if l.turnDeaf(term, now, length, pause, most); l.deaf != was {
				at = append(at, now)
				if l.deaf != now+length {
					t.Errorf("deaf from %d to %d", now, l.deaf)
				}
			}
		}
		return at
	}
	if got, want := began(7, 1000, 2900), []uint64{1000, 1110, 1320, 1730, 2140, 2550}; !slices.Equal(got, want) {
		t.Errorf("deaf in one term at %v, not %v", got, want)
	}
	if got, want := began(8, 2900, 3100), []uint64{2900, 3010}; !slices.Equal(got, want) {
		t.Errorf("deaf in the next term at %v, not %v", got, want)
	}
}
