package group

import (
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

// TestSickStandsLast: the leader dies, and the survivor whose turn is first is not fit to lead. The
// other one is elected (GRP-22). If neither is fit, or the fit one has the shorter log, there is a
// leader all the same.
func TestSickStandsLast(t *testing.T) {
	for _, c := range []struct {
		name  string
		rules HostOptions
		sick  []base.NodeID
		ahead base.NodeID // has entries that the other survivor lacks; 0: both have all
		want  base.NodeID // 0: any of the survivors
	}{
		{"one is sick", HostOptions{}, []base.NodeID{1}, 0, 2},
		{"without GRP-22", HostOptions{SickFirst: true}, []base.NodeID{1}, 0, 1},
		{"both are sick", HostOptions{}, []base.NodeID{1, 2}, 0, 0},
		{"the sick one has the longer log", HostOptions{}, []base.NodeID{1}, 1, 1},
	} {
		virtual(t, 1, func(t *testing.T) {
			sick := map[base.NodeID]bool{}
			for _, id := range c.sick {
				sick[id] = true
			}
			c.rules.Fit = func(n base.NodeID) bool { return !sick[n] }
			x := newCluster(t, 1, 3, wan30(), c.rules)
			defer x.close()
			x.groups[testGroup], x.preferred[testGroup] = x.all(), 3
			x.startAll()
			x.leads(3)
			time.Sleep(5 * time.Second)
			if c.ahead != 0 {
				x.net.Cut(x.where(3), x.where(3-c.ahead))
				lead := x.group(3, testGroup)
				term, _ := lead.Leads()
				lead.ProposeAsync(put(7), term, func(any, uint64, error) {})
				time.Sleep(300 * time.Millisecond)
			}
			x.crash(3)
			for _, id := range []base.NodeID{1, 2} {
				x.group(id, testGroup).host.OnPeerDown(3)
			}
			time.Sleep(2 * time.Second)
			at, _ := x.group(2, testGroup).Leader()
			if at != 1 && at != 2 || c.want != 0 && at != c.want {
				t.Errorf("%s: node %d leads, want %d", c.name, at, c.want)
			}
		})
	}
}

// TestSickDoesNotStandAlone: all nodes are cut off from each other for long, and come back. One
// that is not fit to lead does not lead before the others have had their turns, whenever raft's
// timers say that it should stand (GRP-22).
func TestSickDoesNotStandAlone(t *testing.T) {
	led := func(rules HostOptions) (bySick int) {
		for seed := range uint64(20) {
			virtual(t, seed, func(t *testing.T) {
				rules.Fit = func(n base.NodeID) bool { return n != 3 }
				c := newCluster(t, seed, 3, wan30(), rules)
				defer c.close()
				c.groups[testGroup], c.preferred[testGroup] = c.all(), 3
				c.startAll()
				c.leads(3)
				time.Sleep(2 * time.Second)
				for _, id := range c.ids {
					c.net.Isolate(id)
				}
				time.Sleep(10*time.Second + time.Duration(seed)*131*time.Millisecond)
				for _, id := range c.ids {
					c.net.Rejoin(id)
				}
				for _, id := range c.ids {
					for _, other := range c.ids {
						if other != id {
							c.group(id, testGroup).host.OnPeerBack(other)
						}
					}
				}
				c.until("the group has a leader", func() bool {
					at, _ := c.group(1, testGroup).Leader()
					other, _ := c.group(2, testGroup).Leader()
					if at != 0 && at == other && at == 3 {
						bySick++
					}
					return at != 0 && at == other
				})
			})
		}
		return bySick
	}
	if n := led(HostOptions{}); n > 0 {
		t.Errorf("a sick node was elected %d times of 20", n)
	}
	if n := led(HostOptions{SickFirst: true}); n == 0 {
		t.Error("without GRP-22 no sick node was elected: the test shows nothing")
	}
}

// TestSickLeaderThatNeverServed: a leader that is not fit, and whose owner waits for its lease, is
// to hand its lead over. There is no state to send, so another node leads at once (GRP-22).
func TestSickLeaderThatNeverServed(t *testing.T) {
	for _, c := range []struct {
		rules HostOptions
		sick  bool
		moves bool
	}{{HostOptions{}, true, true}, {HostOptions{}, false, false}, {HostOptions{SickFirst: true}, true, false}} {
		virtual(t, 1, func(t *testing.T) {
			c.rules.Fit = func(n base.NodeID) bool { return n != 1 || !c.sick }
			x := newCluster(t, 1, 3, wan30(), c.rules)
			defer x.close()
			x.groups[testGroup] = x.all()
			x.preferred[testGroup] = 1
			x.startAll()
			lead := x.leads(1)
			sm := x.nodes[1].sms[testGroup]
			sm.mu.Lock()
			sm.revoke = func(_ uint64, done func(error)) { done(ErrAcquires) }
			sm.mu.Unlock()
			time.Sleep(200 * time.Millisecond) // followers have answered
			must(t, lead.Transfer(2))
			time.Sleep(500 * time.Millisecond)
			if at, _ := x.group(3, testGroup).Leader(); (at == 2) != c.moves {
				t.Errorf("sick %v, without GRP-22 %v: node %d leads", c.sick, c.rules.SickFirst, at)
			}
		})
	}
}
