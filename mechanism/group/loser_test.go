package group

import (
	"context"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
)

// TestLeadLostToNobody: a node that was a candidate while nobody heard it comes back with a later
// term, which ends the leader's. That one leads again soon (GRP-11). Without the rule the group has
// no leader for an election timeout.
func TestLeadLostToNobody(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		virtual(t, 1, func(t *testing.T) {
			c := newCluster(t, 1, 3, wan.NetOptions{WAN: wan.LinkSpec{Delay: 40 * time.Millisecond}}, HostOptions{QuietLosers: quiet})
			c.groups[testGroup] = c.all()
			c.startAll()
			defer c.close()
			defer c.lease(testGroup, func(base.NodeID) bool { return true })()
			lead := c.leader(testGroup)
			self := lead.host.opts.Self
			time.Sleep(5 * time.Second)
			away := c.group(others(self)[0], testGroup)
			c.net.Isolate(away.host.opts.Self)
			away.later(func() {
				to, term := uint64(away.host.opts.Self), away.term
				_ = away.rn.Step(&pb.Message{Type: pb.MsgTimeoutNow.Enum(), From: new(uint64(self)), To: &to, Term: &term})
			})
			time.Sleep(500 * time.Millisecond)
			c.net.Rejoin(away.host.opts.Self)
			_, term := lead.Leader()
			began := time.Now()
			for {
				time.Sleep(10 * time.Millisecond)
				if at, now := lead.Leader(); at != 0 && now > term {
					break
				}
				if time.Since(began) > 20*time.Second {
					t.Fatal("the term has not ended, or nobody leads again")
				}
			}
			d := time.Since(began)
			t.Logf("quiet %v: a leader after %v", quiet, d)
			if d < 1500*time.Millisecond == quiet {
				t.Errorf("quiet %v: a leader after %v", quiet, d)
			}
		})
	}
}

// TestLeadLostUnheard: a leader that is heard and hears nobody steps down after an election
// timeout, and the answers arrive again just then. It leads again soon (GRP-11). Without the rule
// the others follow a leader that leads no more until its lease has lapsed.
func TestLeadLostUnheard(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		virtual(t, 1, func(t *testing.T) {
			c := newCluster(t, 1, 3, wan.NetOptions{WAN: wan.LinkSpec{Delay: 40 * time.Millisecond}}, HostOptions{QuietLosers: quiet})
			c.groups[testGroup] = c.all()
			c.startAll()
			defer c.close()
			defer c.lease(testGroup, func(base.NodeID) bool { return true })()
			lead := c.leader(testGroup)
			self := lead.host.opts.Self
			time.Sleep(5 * time.Second)
			_, term := lead.Leader()
			c.net.Isolate(self)
			for at := self; at == self; at, _ = lead.Leader() {
				time.Sleep(10 * time.Millisecond)
			}
			c.net.Rejoin(self)
			began := time.Now()
			for {
				time.Sleep(10 * time.Millisecond)
				if at, now := lead.Leader(); at != 0 && now > term {
					break
				}
				if time.Since(began) > 20*time.Second {
					t.Fatal("nobody leads again")
				}
			}
			d := time.Since(began)
			t.Logf("quiet %v: a leader after %v", quiet, d)
			if d < 1500*time.Millisecond == quiet {
				t.Errorf("quiet %v: a leader after %v", quiet, d)
			}
		})
	}
}

// TestLostQuestions: the leader dies, and all that the two survivors ask each other in the next
// second is lost. They ask again (GRP-20). Without the rule they wait for raft's timers.
func TestLostQuestions(t *testing.T) {
	for _, once := range []bool{false, true} {
		longest := time.Duration(0)
		for seed := range uint64(10) {
			virtual(t, seed, func(t *testing.T) {
				c := leasedBy(t, 3, HostOptions{AsksOnce: once})
				defer c.close()
				lead := c.leader(testGroup).host.opts.Self
				time.Sleep(5 * time.Second)
				rest := others(lead)
				c.net.Cut(c.where(rest[0]), c.where(rest[1]))
				c.crash(lead)
				for _, id := range rest {
					c.group(id, testGroup).host.OnPeerDown(lead)
				}
				time.Sleep(time.Second)
				c.net.HealAll()
				began := time.Now()
				c.leader(testGroup, rest...)
				longest = max(longest, time.Since(began))
			})
		}
		if slow := longest > time.Second; slow != once {
			t.Errorf("without GRP-20: %v; a leader was elected after up to %v", once, longest)
		}
		t.Logf("without GRP-20: %v; a leader was elected after up to %v", once, longest)
	}
}

// TestOutdatedCandidate: node 1 is handed the lead and cut off as it stands; node 2, which led, has
// a longer log. When they reach each other again, node 2 is elected within two seconds,
// though node 1 has voted for itself in a term that it has not heard of (GRP-18). Without the rule
// it takes longer.
func TestOutdatedCandidate(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		longest := time.Duration(0)
		for seed := range uint64(40) {
			virtual(t, seed, func(t *testing.T) {
				far := wan.NetOptions{WAN: wan.LinkSpec{Delay: 95 * time.Millisecond}}
				c := newCluster(t, seed, 2, far, HostOptions{QuietLosers: quiet, AsksOnce: true})
				defer c.close()
				c.groups[testGroup], c.preferred[testGroup] = c.all(), 2
				c.startAll()
				lead := c.leads(2)
				time.Sleep(time.Second)
				_, term := lead.Leader()
				c.net.Cut(c.where(1), c.where(2))
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				defer cancel()
				go func() { _, _, _ = lead.Propose(ctx, put(7), 0) }() // it only makes the log longer
				cut := c.group(1, testGroup)
				must(t, cut.do(ctx, func() { _ = cut.rn.Step(naming(2, 1, term)) }))
				time.Sleep(3500*time.Millisecond + time.Duration(seed)*93*time.Millisecond)
				c.net.HealAll()
				began := time.Now()
				time.Sleep(100 * time.Millisecond)
				cut.host.OnPeerBack(2)
				time.Sleep(time.Duration(seed%4) * 60 * time.Millisecond)
				lead.host.OnPeerBack(1)
				c.until("the group has a leader", func() bool { return lead.Status().Serving || cut.Status().Serving })
				longest = max(longest, time.Since(began))
			})
		}
		if slow := longest > 2*time.Second; slow != quiet {
			t.Errorf("without GRP-18: %v; a leader was elected after up to %v", quiet, longest)
		}
		t.Logf("without GRP-18: %v; a leader was elected after up to %v", quiet, longest)
	}
}
