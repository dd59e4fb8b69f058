package group

import (
	"context"
	"testing"
	"time"

	"go.etcd.io/raft/v3"

	"github.com/godwitdb/godwit/base"
)

// TestLoserYields: the leader's last entries have reached two of four survivors only, which stand
// last. Those that stand first cannot be elected, and have one of the two stand (GRP-13). Without
// the rule all wait for its turn.
func TestLoserYields(t *testing.T) {
	for _, stubborn := range []bool{false, true} {
		for seed := range uint64(5) {
			virtual(t, seed, func(t *testing.T) {
				c := newCluster(t, seed, 5, wan30(), HostOptions{StubbornLosers: stubborn})
				defer c.close()
				c.groups[testGroup], c.preferred[testGroup] = c.all(), 1
				c.startAll()
				lead := c.leads(1)
				c.moved.Store(true)
				time.Sleep(time.Second + time.Duration(seed)*17*time.Millisecond)
				_, term := lead.Leader()
				c.net.CutOneWay(1, 2)
				c.net.CutOneWay(1, 3)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, _, err := lead.Propose(ctx, put(7), 0); err != nil {
					t.Fatal(err)
				}
				c.net.Isolate(1)
				for _, id := range c.ids[1:] {
					c.group(id, testGroup).host.OnPeerDown(1)
				}
				began := time.Now()
				next := c.leader(testGroup, c.ids[1:]...)
				if _, now := next.Leader(); now == term || next.host.opts.Self < 4 {
					t.Errorf("node %d leads in term %d", next.host.opts.Self, now)
				}
				if d := time.Since(began); d > 700*time.Millisecond != stubborn {
					t.Errorf("seed %d, losers stubborn %v: a leader that all follow after %v", seed, stubborn, d)
				}
			})
		}
	}
}

// TestNamed: a voter stands when a candidate names it, but not one that follows a leader.
func TestNamed(t *testing.T) {
	virtual(t, 1, func(t *testing.T) {
		c := newCluster(t, 1, 3, wan30(), HostOptions{})
		defer c.close()
		c.groups[testGroup], c.preferred[testGroup] = c.all(), 1
		c.startAll()
		_, term := c.leads(1).Leader()
		time.Sleep(time.Second)
		name := func(from, to base.NodeID) {
			g := c.group(from, testGroup)
			g.later(func() { g.send(naming(uint64(from), uint64(to), g.term)) })
		}
		name(2, 3)
		time.Sleep(time.Second)
		if id, now := c.leads(1).Leader(); id != 1 || now != term {
			t.Errorf("node %d leads in term %d", id, now)
		}
		c.crash(1)
		g := c.group(3, testGroup)
		g.later(func() { _ = g.rn.ForgetLeader() })
		time.Sleep(100 * time.Millisecond)
		name(2, 3)
		time.Sleep(100 * time.Millisecond)
		var is raft.StateType
		if err := g.do(t.Context(), func() { is = g.state }); err != nil || is != raft.StatePreCandidate {
			t.Errorf("it is a %v: %v", is, err)
		}
	})
}
