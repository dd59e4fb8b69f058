package group

import (
	"context"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

// TestReached: a cut has swallowed the append of a commit. Once messages take a new way, the commit
// takes a round trip (GRP-14). Without the rule it takes the time
// until the next heartbeat, and two more trips.
func TestReached(t *testing.T) {
	for _, patient := range []bool{false, true} {
		longest := time.Duration(0)
		for seed := range uint64(8) {
			virtual(t, seed, func(t *testing.T) {
				c := newCluster(t, seed, 3, wan30(), HostOptions{PatientPaths: patient})
				defer c.close()
				c.groups[testGroup], c.preferred[testGroup] = c.all(), 1
				c.startAll()
				lead := c.leads(1)
				time.Sleep(time.Second + time.Duration(seed)*67*time.Millisecond)
				_, term := lead.Leader()
				for _, id := range c.ids[1:] {
					c.net.Cut(1, c.where(id))
				}
				done := make(chan error, 1)
				go func() {
					ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
					defer cancel()
					_, _, err := lead.Propose(ctx, put(7), 0)
					done <- err
				}()
				time.Sleep(400 * time.Millisecond)
				reach := func(from, to base.NodeID) { c.group(from, testGroup).host.OnPeerReached(to) }
				for _, id := range c.ids[1:] {
					c.net.Heal(1, c.where(id))
					reach(1, id)
					reach(id, 1)
				}
				began := time.Now()
				if err := <-done; err != nil {
					t.Error(err)
				}
				longest = max(longest, time.Since(began))
				if _, now := lead.Leader(); now != term {
					t.Errorf("seed %d: the term is %d, was %d", seed, now, term)
				}
			})
		}
		if slow := longest > 100*time.Millisecond; slow != patient {
			t.Errorf("patient %v: a commit took up to %v behind the cut", patient, longest)
		}
	}
}

// TestReachedOneByOne: the leader has a way to its followers before they have one to it, so that
// their answers are lost: they say that they are there when they have one.
func TestReachedOneByOne(t *testing.T) {
	virtual(t, 1, func(t *testing.T) {
		c := newCluster(t, 1, 3, wan30(), HostOptions{})
		defer c.close()
		c.groups[testGroup], c.preferred[testGroup] = c.all(), 1
		c.startAll()
		lead := c.leads(1)
		for range 5 {
			time.Sleep(time.Second + 83*time.Millisecond)
			for _, id := range c.ids[1:] {
				c.net.Cut(1, c.where(id))
			}
			done := make(chan error, 1)
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				defer cancel()
				_, _, err := lead.Propose(ctx, put(7), 0)
				done <- err
			}()
			time.Sleep(50 * time.Millisecond)
			c.net.HealAll()
			for _, id := range c.ids[1:] { // the ways to the leader are still cut
				c.net.CutOneWay(c.where(id), 1)
				c.group(1, testGroup).host.OnPeerReached(id)
			}
			time.Sleep(100 * time.Millisecond)
			c.net.HealAll()
			for _, id := range c.ids[1:] {
				c.group(id, testGroup).host.OnPeerReached(1)
			}
			began := time.Now()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if d := time.Since(began); d > 120*time.Millisecond { // three trips
				t.Errorf("a commit took %v once the followers had a way", d)
			}
		}
	})
}
