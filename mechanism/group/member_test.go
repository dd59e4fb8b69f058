package group

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/godwitdb/godwit/base"
)

// write proposes n values through whoever leads.
func (c *cluster) write(g base.GroupID, n int) {
	c.t.Helper()
	l := c.leader(g)
	for i := range n {
		if _, _, err := l.Propose(context.Background(), put(uint64(1000+i)), 0); err != nil {
			c.t.Fatalf("write %d: %v", i, err)
		}
	}
}

// TestLargeEntriesGo: a few large entries are dropped as soon as they are more than the log keeps,
// and not only when there are many.
func TestLargeEntriesGo(t *testing.T) {
	virtual(t, 1, func(t *testing.T) {
		c := newCluster(t, 1, 1, wan30(), HostOptions{LogKeepBytes: 10_000})
		defer c.close()
		c.groups[testGroup] = c.all()
		c.startAll()
		l := c.leader(testGroup)
		for i := range 60 {
			cmd := put(uint64(i))
			cmd.Refuse = make([]byte, 2000)
			if _, _, err := l.Propose(context.Background(), cmd, 0); err != nil {
				t.Fatal(err)
			}
		}
		if s := l.Status(); s.Last-s.First > 15 {
			t.Errorf("%d entries of 2,000 bytes are kept", s.Last-s.First+1)
		}
	})
}

func TestSnapshotToLaggard(t *testing.T) {
	virtual(t, 1, func(t *testing.T) {
		c := newCluster(t, 1, 3, wan30(), HostOptions{LogKeepEntries: 50, SnapshotChunkBytes: 1000})
		defer c.close()
		c.rows = true
		c.groups[testGroup] = c.all()
		c.startAll()
		lead, _ := c.leader(testGroup).Leader()
		lag := lead%3 + 1
		c.crash(lag)
		c.write(testGroup, 300)
		if s := c.group(lead, testGroup).Status(); s.Last-s.First > 150 {
			t.Fatalf("the log was not truncated: %+v", s)
		}
		c.start(lag)
		c.write(testGroup, 10)
		c.converge(testGroup)
		if n := c.nodes[lag].sms[testGroup].installed; n == 0 {
			t.Fatal("no snapshot was installed")
		}
		// It survives a crash and can lead.
		c.crash(lag)
		c.start(lag)
		c.converge(testGroup)
		c.until("the node that had lagged leads", func() bool {
			l := c.leader(testGroup)
			if n, _ := l.Leader(); n == lag {
				return true
			}
			_ = l.Transfer(lag)
			time.Sleep(time.Second)
			return false
		})
		c.write(testGroup, 10)
		c.converge(testGroup)
	})
}

// Several groups of a shard, led by one node, reach a fresh node by few streams.
func TestSnapshotSharedByGroups(t *testing.T) {
	virtual(t, 1, func(t *testing.T) {
		c := newCluster(t, 1, 4, wan30(), HostOptions{LogKeepEntries: 10, SnapshotChunkBytes: 5000})
		defer c.close()
		c.rows = true
		gs := []base.GroupID{base.DataGroup(1, 1), base.DataGroup(1, 2), base.DataGroup(1, 3)}
		first := Conf{Voters: []base.NodeID{1, 2, 3}}
		for _, g := range gs {
			c.groups[g] = first
			c.preferred[g] = 1
		}
		c.startAll()
		for _, g := range gs {
			c.leader(g, 1, 2, 3)
		}
		for _, g := range gs {
			l := c.group(1, g)
			for i := range 100 {
				_, _, err := l.Propose(context.Background(), put(uint64(i)), 0)
				must(t, err)
			}
		}
		done := make(chan error, len(gs))
		for _, g := range gs {
			go func() { done <- c.group(1, g).ChangeMembers(context.Background(), []base.NodeID{1, 2, 3, 4}, nil) }()
		}
		for range gs {
			must(t, <-done)
		}
		for _, g := range gs {
			c.converge(g)
			if n := c.nodes[4].sms[g].installed; n == 0 {
				t.Fatalf("%v: no snapshot", g)
			}
		}
		s := c.nodes[1].host.Stats()
		t.Logf("%d streams sent, %d failed", s.SnapshotsSent, s.SnapshotsFailed)
		if s.SnapshotsSent > 2 {
			t.Fatal("the groups did not share a stream")
		}
	})
}

func TestChangeMembers(t *testing.T) {
	virtual(t, 1, func(t *testing.T) {
		c := newCluster(t, 1, 6, wan30(), HostOptions{})
		defer c.close()
		c.groups[testGroup] = Conf{Voters: []base.NodeID{1, 2, 3}}
		c.startAll()
		ctx := context.Background()
		c.leader(testGroup, 1, 2, 3)
		c.write2(testGroup, 20, 1, 2, 3)

		change := func(among []base.NodeID, voters, learners []base.NodeID) {
			t.Helper()
			for range 10 {
				l := c.leader(testGroup, among...)
				err := l.ChangeMembers(ctx, voters, learners)
				if base.CodeOf(err) == base.CodeNotLeader || base.CodeOf(err) == base.CodeUnavailable {
					continue // it was not among the new ones
				}
				must(t, err)
				l = c.leader(testGroup, voters...)
				s := l.Status()
				slices.Sort(s.Voters)
				slices.Sort(s.Learners)
				if !slices.Equal(s.Voters, voters) || !slices.Equal(s.Learners, learners) || len(s.Outgoing) > 0 {
					t.Fatalf("members are %v, %v, %v", s.Voters, s.Learners, s.Outgoing)
				}
				return
			}
			t.Fatal("the change does not come about")
		}
		// A dead node replaced, and a learner added.
		lead, _ := c.leader(testGroup, 1, 2, 3).Leader()
		dead := lead%3 + 1
		third := dead%3 + 1
		c.crash(dead)
		ids := []base.NodeID{lead, third, 4}
		slices.Sort(ids)
		change([]base.NodeID{lead, third}, ids, []base.NodeID{5})
		c.write2(testGroup, 20, ids...)
		c.converge(testGroup, lead, third, 4, 5)

		// The leader itself leaves, all else is exchanged at once.
		change(ids, []base.NodeID{4, 5, 6}, nil)
		c.write2(testGroup, 20, 4, 5, 6)
		c.converge(testGroup, 4, 5, 6)

		// Who was removed and learnt of it has destroyed its state; who did not, is ignored, and
		// removed by hand.
		c.until("removed replicas are gone", func() bool {
			for _, id := range []base.NodeID{lead, third} {
				if g := c.group(id, testGroup); g != nil {
					if m, _ := g.Leader(); m != 0 {
						return false
					}
				}
			}
			return true
		})
		c.start(dead)
		term := c.leader(testGroup, 4, 5, 6).Status().Term
		time.Sleep(20 * time.Second)
		if now := c.leader(testGroup, 4, 5, 6).Status().Term; now != term {
			t.Fatalf("a node that was removed raised the term from %d to %d", term, now)
		}
		must(t, c.nodes[dead].host.Remove(testGroup, true))
		applied, err := c.nodes[dead].store.Applied(testGroup)
		if must(t, err); applied != 0 {
			t.Fatalf("the removed replica still has %d applied", applied)
		}
		// It does not take itself for a first member again, and can join anew.
		g := c.open(c.nodes[dead], testGroup)
		time.Sleep(10 * time.Second)
		if s := g.Status(); s.IsLeader || len(s.Voters) != 0 {
			t.Fatalf("the removed replica came back by itself: %+v", s)
		}
		all := []base.NodeID{4, 5, 6, dead}
		slices.Sort(all)
		change([]base.NodeID{4, 5, 6}, all, nil)
		c.write2(testGroup, 5, all...)
		c.converge(testGroup, all...)

		l := c.leader(testGroup, all...)
		if err := l.ChangeMembers(ctx, nil, nil); base.CodeOf(err) != base.CodeInvalid {
			t.Fatalf("no voters: %v", err)
		}
		if err := l.ChangeMembers(ctx, []base.NodeID{4, 4}, nil); base.CodeOf(err) != base.CodeInvalid {
			t.Fatalf("twice: %v", err)
		}
		if err := c.group(5, testGroup).Transfer(99); err == nil {
			t.Fatal("the lead was handed to a stranger")
		}
	})
}

// A group whose only voter is exchanged for another one, as when a region that was promoted over
// votes again, hands its lead over: nobody waits for an election.
func TestTheOnlyVoterIsExchanged(t *testing.T) {
	virtual(t, 1, func(t *testing.T) {
		c := newCluster(t, 1, 3, wan30(), HostOptions{})
		defer c.close()
		c.groups[testGroup] = Conf{Voters: []base.NodeID{1}, Learners: []base.NodeID{2, 3}}
		c.startAll()
		c.leader(testGroup, 1)
		for i := range 10 {
			_, _, err := c.group(1, testGroup).Propose(context.Background(), put(uint64(i)), 0)
			must(t, err)
		}
		for _, to := range []base.NodeID{2, 3} {
			from, _ := c.leader(testGroup, 1, 2, 3).Leader()
			var others []base.NodeID
			for _, n := range c.ids {
				if n != to {
					others = append(others, n)
				}
			}
			began := time.Now()
			if err := c.group(from, testGroup).ChangeMembers(context.Background(), []base.NodeID{to},
				others); base.CodeOf(err) != base.CodeNotLeader {
				t.Fatalf("the leader that is not to vote: %v", err)
			}
			l := c.leader(testGroup, to)
			took := time.Since(began)
			must(t, l.ChangeMembers(context.Background(), []base.NodeID{to}, others))
			if s := c.leader(testGroup, to).Status(); !slices.Equal(s.Voters, []base.NodeID{to}) || len(s.Learners) != 2 {
				t.Fatalf("members are %v, %v", s.Voters, s.Learners)
			}
			t.Logf("node %d leads instead of node %d after %v", to, from, took)
			if took > 500*time.Millisecond {
				t.Errorf("node %d leads instead of node %d after %v", to, from, took)
			}
			c.converge(testGroup)
		}
	})
}

// A node that was removed while it was cut off, and is to come back at once, still has its old log.
// It must not acknowledge entries on the strength of it: it forgets that log when it learns of its
// removal. (Simulation, seed 4289.)
func TestRejoinWithOldLog(t *testing.T) {
	// also where nobody asks, a leader must not believe what is of before
	for _, asks := range []bool{true, false} {
		virtual(t, 1, func(t *testing.T) {
			var c *cluster
			opts := HostOptions{}
			if asks {
				opts.Fresh = func(_ context.Context, id base.GroupID, n base.NodeID) bool {
					time.Sleep(200 * time.Millisecond)
					switch g := c.group(n, id); {
					case g == nil:
						c.open(c.nodes[n], id)
					case g.Fresh():
						return true
					case g.Abandoned():
						g.Abandon()
					}
					return false
				}
			}
			c = newCluster(t, 1, 4, wan30(), opts)
			defer c.close()
			c.groups[testGroup] = Conf{Voters: []base.NodeID{1, 2, 3}}
			c.preferred[testGroup] = 1
			c.startAll()
			c.leader(testGroup, 1, 2, 3)
			c.write2(testGroup, 20, 1, 2, 3)
			lead := c.group(1, testGroup)
			c.net.Isolate(3)
			must(t, lead.ChangeMembers(context.Background(), []base.NodeID{1, 2, 4}, nil))
			c.write2(testGroup, 5, 1, 2, 4)
			c.net.Rejoin(3)
			if !asks {
				// What its old log made it say may be under way for long.
				must(t, c.nodes[3].host.Remove(testGroup, true))
				c.open(c.nodes[3], testGroup)
				stop := make(chan struct{})
				defer close(stop)
				go func() {
					for {
						g := c.group(1, testGroup)
						st := g.Status()
						g.mb.putMsg(&pb.Message{Type: pb.MsgAppResp.Enum(), From: new(uint64(3)), To: new(uint64(1)),
							Term: new(st.Term), Index: new(st.Commit)}, 10, nil)
						select {
						case <-stop:
							return
						case <-time.After(time.Millisecond):
							if p, ok := st.Progress[3]; ok && p.State == "snapshot" {
								return
							}
						}
					}
				}()
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			must(t, lead.ChangeMembers(ctx, []base.NodeID{1, 2, 3}, nil))
			c.write2(testGroup, 20, 1, 2, 3)
			c.converge(testGroup, 1, 2, 3)
			if n := c.nodes[3].sms[testGroup].installed; n == 0 {
				t.Errorf("asks %v: node 3 is back without a snapshot", asks)
			}
		})
	}
}

// A replica that has forgotten its log does not vote: a member that has not heard of the removal
// would win with that vote, beside the group's leader and without what was committed since.
// (Simulation, seed 6196.)
func TestForgottenLogDoesNotVote(t *testing.T) {
	virtual(t, 1, func(t *testing.T) {
		c := newCluster(t, 1, 4, wan30(), HostOptions{})
		defer c.close()
		c.groups[testGroup] = Conf{Voters: []base.NodeID{1, 2, 3}}
		c.preferred[testGroup] = 2
		c.startAll()
		c.leader(testGroup, 1, 2, 3)
		c.net.Isolate(1)
		must(t, c.group(2, testGroup).ChangeMembers(context.Background(), []base.NodeID{1, 2, 4}, nil))
		c.write2(testGroup, 20, 2, 4)
		c.until("node 3 has forgotten the group", func() bool { return c.group(3, testGroup) == nil })
		c.open(c.nodes[3], testGroup)
		c.net.Isolate(2)
		c.net.Isolate(4)
		c.net.Rejoin(1)
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			if st := c.group(1, testGroup).Status(); st.IsLeader {
				t.Fatalf("node 1 leads with the vote of node 3, which is no member: %+v", st)
			}
		}
		c.net.Rejoin(2)
		c.net.Rejoin(4)
		c.leader(testGroup, 1, 2, 4)
		c.write2(testGroup, 5, 1, 2, 4)
		c.converge(testGroup, 1, 2, 4)
	})
}

// A replica that has forgotten its log, and is to be a member again, takes no notice of a heartbeat
// that its removal has overtaken: its commit index lies beyond the empty log, which raft takes for
// a log that was lost. (Simulation, TestOverlaySoak, seed 50099.)
func TestHeartbeatOvertakenByRemoval(t *testing.T) {
	virtual(t, 1, func(t *testing.T) {
		c := newCluster(t, 1, 4, wan30(), HostOptions{})
		defer c.close()
		c.groups[testGroup] = Conf{Voters: []base.NodeID{1, 2, 3}}
		c.preferred[testGroup] = 1
		c.startAll()
		c.leader(testGroup, 1, 2, 3)
		c.until("node 1 leads", func() bool { _, ok := c.group(1, testGroup).Leads(); return ok })
		c.write2(testGroup, 20, 1, 2, 3)
		lead := c.group(1, testGroup)
		st := lead.Status()
		must(t, lead.ChangeMembers(context.Background(), []base.NodeID{1, 2, 4}, nil))
		c.until("node 3 has forgotten the group", func() bool { return c.group(3, testGroup) == nil })
		c.open(c.nodes[3], testGroup)
		c.group(3, testGroup).mb.putMsg(&pb.Message{Type: pb.MsgHeartbeat.Enum(), From: new(uint64(1)),
			To: new(uint64(3)), Term: new(st.Term), Commit: new(st.Commit)}, 10, nil)
		time.Sleep(100 * time.Millisecond)
		if !c.group(3, testGroup).Fresh() {
			t.Error("node 3 is not empty any more, or has stopped")
		}
		must(t, lead.ChangeMembers(context.Background(), []base.NodeID{1, 2, 3}, nil))
		c.write2(testGroup, 5, 1, 2, 3)
		c.converge(testGroup, 1, 2, 3)
	})
}

func (c *cluster) write2(g base.GroupID, n int, among ...base.NodeID) {
	c.t.Helper()
	for i := range n {
		var err error
		for range 20 {
			if _, _, err = c.leader(g, among...).Propose(context.Background(), put(uint64(i)), 0); err == nil {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		must(c.t, err)
	}
}

func TestPreferredLeads(t *testing.T) {
	virtual(t, 3, func(t *testing.T) {
		c := newCluster(t, 1, 3, wan30(), HostOptions{})
		defer c.close()
		c.groups[testGroup] = c.all()
		c.preferred[testGroup] = 2
		start := time.Now()
		c.startAll()
		l := c.leader(testGroup)
		if n, _ := l.Leader(); n != 2 || time.Since(start) > time.Second {
			t.Fatalf("a fresh group is led by node %d after %v, want node 2 at once", n, time.Since(start))
		}
		// It dies: another leads. It returns: it leads again, with its owner asked before.
		c.crash(2)
		n, _ := c.leader(testGroup, 1, 3).Leader()
		c.write2(testGroup, 10, 1, 3)
		back := time.Now()
		c.start(2)
		c.until("the preferred node leads again", func() bool { _, ok := c.group(2, testGroup).Leads(); return ok })
		t.Logf("back after %v", time.Since(back))
		sm := c.nodes[n].sms[testGroup]
		c.until("the old leader stopped", func() bool {
			sm.mu.Lock()
			defer sm.mu.Unlock()
			return slices.Equal(sm.events[len(sm.events)-2:], []string{"revoking for 2", "stopped"})
		})
		c.converge(testGroup)
	})
}

// The owner decides about a hand-over: refuses, is too slow, or agrees.
func TestRevoke(t *testing.T) {
	virtual(t, 3, func(t *testing.T) {
		c := newCluster(t, 1, 3, wan30(), HostOptions{})
		defer c.close()
		c.groups[testGroup] = c.all()
		c.startAll()
		l := c.leader(testGroup)
		id, term := l.Leader()
		to := id%3 + 1
		sm := c.nodes[id].sms[testGroup]
		time.Sleep(200 * time.Millisecond) // followers have answered
		sm.revoke = func(_ uint64, done func(error)) { done(fmt.Errorf("not now")) }
		must(t, l.Transfer(to))
		c.until("resumed", func() bool {
			sm.mu.Lock()
			defer sm.mu.Unlock()
			return sm.events[len(sm.events)-1] == "leading false"
		})
		var held func(error)
		sm.mu.Lock()
		sm.revoke = func(_ uint64, done func(error)) { held = done }
		sm.events = nil
		sm.mu.Unlock()
		must(t, l.Transfer(to))
		// the lease's end is logged meanwhile
		_, _, err := l.Propose(context.Background(), put(1), term)
		must(t, err)
		if err := l.Transfer(to); base.CodeOf(err) != base.CodeUnavailable {
			t.Fatalf("two at once: %v", err)
		}
		time.Sleep(5 * time.Second)
		sm.mu.Lock()
		if !slices.Equal(sm.events, []string{fmt.Sprintf("revoking for %d", to), "leading false"}) {
			t.Fatalf("events %v", sm.events)
		}
		sm.events = nil
		sm.mu.Unlock()
		held(nil) // too late: nothing happens
		must(t, l.Transfer(to))
		time.Sleep(time.Second)
		held(nil)
		c.until("handed over", func() bool { n, _ := c.leader(testGroup).Leader(); return n == to })
		sm.mu.Lock()
		if !slices.Equal(sm.events, []string{fmt.Sprintf("revoking for %d", to), "stopped"}) {
			t.Fatalf("events %v", sm.events)
		}
		sm.mu.Unlock()
	})
}
