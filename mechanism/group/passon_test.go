package group

import (
	"context"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

// leads waits until a node leads, and returns its replica.
func (c *cluster) leads(id base.NodeID) *Group {
	c.t.Helper()
	var l *Group
	c.until("the node leads", func() bool {
		l = c.leader(testGroup)
		n, _ := l.Leader()
		return n == id
	})
	return l
}

// TestPassOn: a leader that cannot serve passes the lead on to the next voter, and past one that is
// dead.
func TestPassOn(t *testing.T) {
	virtual(t, 1, func(t *testing.T) {
		c := newCluster(t, 1, 5, wan30(), HostOptions{})
		defer c.close()
		c.groups[testGroup] = c.all()
		c.startAll()
		lead, _ := c.leader(testGroup).Leader()
		pass := func(to base.NodeID) {
			t.Helper()
			l := c.leads(lead)
			time.Sleep(time.Second) // all voters have answered it
			_, term := l.Leader()
			l.PassOn(term - 1) // of a term that is over: nothing happens
			l.PassOn(term)
			c.leads(to)
			lead = to
		}
		pass(lead%5 + 1)
		pass(lead%5 + 1)
		dead := lead%5 + 1
		c.crash(dead)
		time.Sleep(10 * time.Second) // it is known
		pass(dead%5 + 1)
	})
}

// TestLeaverFindsAVoter: a leader that is to leave its group hands the lead to a voter that stays
// and lives, whichever that is.
func TestLeaverFindsAVoter(t *testing.T) {
	for dead := base.NodeID(1); dead <= 4; dead++ {
		virtual(t, 1, func(t *testing.T) {
			c := newCluster(t, 1, 5, wan30(), HostOptions{})
			defer c.close()
			c.groups[testGroup] = c.all()
			c.preferred[testGroup] = 5
			c.startAll()
			l := c.leads(5)
			c.crash(dead)
			time.Sleep(10 * time.Second)
			c.moved.Store(true)
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			voters := []base.NodeID{1, 2, 3, 4}
			if err := l.ChangeMembers(ctx, voters, nil); base.CodeOf(err) != base.CodeNotLeader {
				t.Fatalf("with node %d dead the leader does not leave: %v", dead, err)
			}
		})
	}
}

// TestLeaverSparesTheUnfit: a leader that is to leave its group does not hand the lead to a voter
// that stays and is not fit to lead, but to one that joins; without GRP-17 it does.
func TestLeaverSparesTheUnfit(t *testing.T) {
	led := func(hasty, fit bool) (byUnfit bool) {
		virtual(t, 1, func(t *testing.T) {
			c := newCluster(t, 1, 5, wan30(), HostOptions{HastyLeavers: hasty,
				Fit: func(n base.NodeID) bool { return fit || n != 1 }})
			defer c.close()
			c.groups[testGroup] = Conf{Voters: []base.NodeID{1, 2, 3}}
			c.preferred[testGroup] = 3
			c.startAll()
			c.until("node 3 leads", func() bool { return c.group(3, testGroup).Status().Serving })
			c.moved.Store(true)
			want := []base.NodeID{1, 4, 5}
			c.until("the members have changed", func() bool {
				for _, id := range c.ids {
					g := c.group(id, testGroup)
					if g == nil || !g.Status().IsLeader {
						continue
					}
					byUnfit = byUnfit || id == 1
					ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
					err := g.ChangeMembers(ctx, want, nil)
					cancel()
					return err == nil
				}
				return false
			})
		})
		return byUnfit
	}
	if led(false, false) {
		t.Error("a node that is not fit to lead has led")
	}
	if !led(true, false) {
		t.Error("without GRP-17 no node that is not fit to lead has led: the test shows nothing")
	}
	if !led(false, true) {
		t.Error("a fit voter that stays has not got the lead")
	}
}
