package group

import (
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
