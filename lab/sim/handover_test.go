package sim

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

func handoverDelays() [][]time.Duration {
	const ms = time.Millisecond
	return [][]time.Duration{{0, 40 * ms, 70 * ms}, {40 * ms, 0, 60 * ms}, {70 * ms, 60 * ms, 0}}
}

// TestHandover: the lead of a group moves under write load, away by command and back by preference.
// No transaction fails, is lost or runs twice; those with locks go on; and the pause is within the
// budget.
func TestHandover(t *testing.T) {
	cfg := Config{Seed: 1, Regions: 3, NodesPerRegion: 1, Shards: 1, LAN: 250 * time.Microsecond,
		ClockBound: 100 * time.Microsecond,
		Delay:      handoverDelays(), GCAge: time.Hour, Stay: true}
	var l *handoverLab
	bubble(t, 1, func(*testing.T) {
		l = newHandoverLab(cfg)
		if !l.settle() {
			t.Error("the group is not led from home")
		}
		time.Sleep(5 * time.Second)
		for _, h := range l.w.hosts {
			l.load(h, 5, time.Millisecond)
		}
		time.Sleep(time.Second)
		began := l.handOver(2)
		const watch = 600 * time.Millisecond // the lead goes home after about a second
		time.Sleep(watch)
		if h := l.leader(); h == nil || h.id != 2 {
			t.Errorf("the lead did not move: %+v", h)
		}
		l.mu.Lock()
		reads, writes := gap(l.reads, began, began+watch), gap(l.writes, began, began+watch)
		before := gap(l.writes, began-time.Second, began)
		l.mu.Unlock()
		const oneWay, quorum = 40 * time.Millisecond, 80 * time.Millisecond
		t.Logf("pause of reads %v, of commits %v (without a move %v); a round trip takes %v", reads, writes, before, 2*oneWay)
		if reads > oneWay+5*time.Millisecond {
			t.Errorf("reads paused for %v, the budget is a one-way trip, %v", reads, oneWay)
		}
		if writes > oneWay+quorum+10*time.Millisecond {
			t.Errorf("commits paused for %v, the budget is a one-way trip and a quorum, %v", writes, oneWay+quorum)
		}
		time.Sleep(4 * time.Second)
		if h := l.leader(); h == nil || h.id != 1 {
			t.Errorf("the lead did not go home: %+v", h)
		}
		close(l.stop)
		l.wg.Wait()
		l.noFailures()
		l.check()
		var handed, inherited, helped int64
		for _, h := range l.w.hosts {
			s := h.up().node.Owners().Replica(l.group).Stats()
			handed, inherited, helped = handed+s.HandedOver.Load(), inherited+s.Inherited.Load(), helped+s.Helped.Load()
		}
		t.Logf("%d transactions, %d hand-overs, %d taken up, %d requests passed on", len(l.ends), handed, inherited, helped)
		if handed < 2 || inherited < 2 {
			t.Errorf("%d hand-overs, %d taken up", handed, inherited)
		}
		if err := l.w.err(); err != nil {
			t.Error(err)
		}
		l.w.close()
	})
	if t.Failed() {
		fmt.Println(l.w.log.tail(40))
	}
}

// TestHandoverFarMajority: the target is near the old leader, and both are far from a majority. The
// old leader serves on while the lease transfer entry is replicated and votes are on their way,
// even if it hears of a new term. So reads pause for the short way only.
func TestHandoverFarMajority(t *testing.T) {
	bubble(t, 1, func(*testing.T) {
		c, err := MeasureHandover(farMajority(), false)
		if err != nil {
			t.Error(err)
		}
		t.Logf("%+v", c)
		// The request for a vote reaches the third region on a detour that is shorter than the
		// direct path. So that region refuses the lease transfer entry, which arrives later, and
		// the first commit needs the answer of the fourth region.
		const oneWay, quorum = 5 * time.Millisecond, 170 * time.Millisecond
		if c.Reads > oneWay+10*time.Millisecond || c.Commits > oneWay+quorum+10*time.Millisecond || c.Failed > 0 {
			t.Errorf("%+v", c)
		}
	})
}

// handedInto runs writes through a node of five regions, has something happen, and then the lead go
// to another node. It returns for how long no commit took effect.
func handedInto(t *testing.T, rule Break, through, to base.NodeID, happens func(w *world)) (pause time.Duration) {
	const watch = 6 * time.Second
	bubble(t, 1, func(t *testing.T) {
		l := newHandoverLab(Config{Seed: 1, Regions: 5, NodesPerRegion: 1, Shards: 1, LAN: 250 * time.Microsecond,
			ClockBound: 100 * time.Microsecond, Delay: farMajority(), GCAge: time.Hour, Stay: true, Break: rule})
		if !l.settle() {
			t.Fatal("the group is not led from home")
		}
		time.Sleep(5 * time.Second)
		l.load(l.w.hosts[through-1], 3, 5*time.Millisecond)
		time.Sleep(time.Second)
		happens(l.w)
		from := l.handOver(to)
		time.Sleep(watch)
		close(l.stop)
		l.wg.Wait()
		pause = gap(l.writes, from, from+watch)
		time.Sleep(10 * time.Second)
		l.check()
		if err := l.w.err(); err != nil {
			t.Error(err)
		}
		l.w.close()
	})
	return pause
}

// frozen has the disks of nodes stand still for some seconds, and waits for a moment.
func frozen(moment time.Duration, nodes ...base.NodeID) func(w *world) {
	return func(w *world) {
		for _, n := range nodes {
			w.hosts[n-1].freeze(6 * time.Second)
		}
		time.Sleep(moment)
	}
}

// TestHandoverUncommitted: the target is near the old leader, and both are far from a majority, in
// which two disks stand still. The third voter grants its vote to the target before it has the
// lease transfer entry, so that this one is never committed in the old term; and without the old
// leader's vote the target is not elected. So that vote is not kept back for long.
func TestHandoverUncommitted(t *testing.T) {
	handsOver(t, Break{KeepsVotes: true}, 1200*time.Millisecond, 1, 2, frozen(100*time.Millisecond, 4, 5))
}

// TestHandoverFrozenDisks: the disks of the leader and of the target stand still, so that the lease
// transfer entry is not applied and the target does not stand. Then the leader, which knows by then
// that its disk is sick, hands its lead to another node. It does not notice that this one leads,
// since its disk holds its group up, and is told so.
func TestHandoverFrozenDisks(t *testing.T) {
	handsOver(t, Break{PatientSeals: true}, 2600*time.Millisecond, 2, 4, frozen(200*time.Millisecond, 1, 4))
}

// handsOver checks that a hand-over makes writes pause for less than a time, and without a rule for
// more.
func handsOver(t *testing.T, without Break, most time.Duration, through, to base.NodeID, happens func(w *world)) {
	with, broken := handedInto(t, Break{}, through, to, happens), handedInto(t, without, through, to, happens)
	t.Logf("no commit took effect for %v, and %v without the rule", with, broken)
	if with > most || broken <= most {
		t.Errorf("no commit took effect for %v, at most %v is right; %v without the rule", with, most, broken)
	}
}

// TestHandoverToSlowNode: the target of a hand-over begins to handle late what arrives: before it
// is asked, as it is, and when it has agreed. Nothing is proposed while it is awaited. That ends
// before the others take the old leader for dead.
func TestHandoverToSlowNode(t *testing.T) {
	for _, c := range []struct {
		name  string
		after time.Duration // from the begin of the hand-over
	}{
		{"before it is asked", -time.Second},
		{"as it is asked", 0},
		{"when it has agreed", 40 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T) {
				l := newHandoverLab(Config{Seed: 1, Regions: 3, NodesPerRegion: 1, Shards: 1, LAN: 250 * time.Microsecond,
					ClockBound: 100 * time.Microsecond, Delay: handoverDelays(), GCAge: time.Hour, Stay: true})
				if !l.settle() {
					t.Fatal("the group is not led from home")
				}
				time.Sleep(5 * time.Second)
				l.load(l.w.hosts[0], 3, 5*time.Millisecond)
				time.Sleep(time.Second)
				const watch, most = 6 * time.Second, 1800 * time.Millisecond
				slow := func() { l.w.hosts[1].slow.Store(int64(200 * time.Millisecond)) }
				if c.after <= 0 {
					slow()
					time.Sleep(-c.after)
				}
				from := l.handOver(2)
				time.Sleep(c.after)
				slow()
				time.Sleep(watch)
				close(l.stop)
				l.w.hosts[1].slow.Store(0)
				l.wg.Wait()
				if g := gap(l.writes, from, from+watch); g > most {
					t.Errorf("no commit took effect for %v, at most %v is right", g, most)
				} else {
					t.Logf("no commit took effect for %v", g)
				}
				time.Sleep(10 * time.Second)
				l.check()
				if err := l.w.err(); err != nil {
					t.Error(err)
				}
				l.w.close()
			})
		})
	}
}

// farMajority is five regions. The first two are near each other, and so are the other three.
func farMajority() [][]time.Duration {
	const ms = time.Millisecond
	return [][]time.Duration{{0, 5 * ms, 70 * ms, 80 * ms, 75 * ms}, {5 * ms, 0, 60 * ms, 85 * ms, 90 * ms},
		{70 * ms, 60 * ms, 0, 40 * ms, 30 * ms},
		{80 * ms, 85 * ms, 40 * ms, 0, 20 * ms}, {75 * ms, 90 * ms, 30 * ms, 20 * ms, 0}}
}

var flagEvery = flag.Int("every", some(93, 31), "TestHandoverFaults: at every how many messages something fails")

// TestHandoverFaults: whatever fails at any message of a hand-over, no acknowledged write is lost,
// the history is strictly serializable, and the cluster works again after the fault. Transactions
// are open while the lead moves: they hold locks for a while. In one of the kinds they cross
// regions without locks and move rows.
func TestHandoverFaults(t *testing.T) {
	cfg := Config{Seed: 1, Regions: 3, NodesPerRegion: 1, Shards: 1, LAN: 250 * time.Microsecond,
		ClockBound: 2 * time.Millisecond, SyncDelay: 2 * time.Millisecond,
		Delay: handoverDelays(), GCAge: time.Hour, Workload: "mixed", Clients: 2, Keys: 4,
		Think: 5 * time.Millisecond, Warmup: 2 * time.Second}
	relay, locks := cfg, cfg
	relay.Relay, relay.Moves = 30, 5
	locks.Clients, locks.Keys, locks.NoWait = 3, 3, 30
	five := locks // the target is near the old leader, and a majority is far from both
	five.Regions, five.Clients, five.Delay = 5, 1, farMajority()
	stamps := relay
	stamps.Concurrency = base.ByTimestampRelay
	runs := 0
	for k, c := range map[string]Config{"relay": relay, "locks": locks, "five regions": five, "timestamps": stamps} {
		run := func(t *testing.T, f HandoverFault) *Outcome {
			c := c
			c.Handover = &f
			o, err := runSeed(t, c)
			if err != nil {
				t.Errorf("message %d, %s:\n%s\n%v\nhistory and journal: %s", f.At, f.What, o.Summary(), err, save(t, o))
			}
			return o
		}
		t.Run(k, func(t *testing.T) {
			n := run(t, HandoverFault{}).Messages
			if n < 20 {
				t.Fatalf("%d messages in all", n)
			}
			t.Logf("%d messages", n)
			every := *flagEvery
			// they take longer, and have more messages
			if k == "five regions" && !flagGiven("every") {
				every *= 4
			}
			for i, what := range HandoverFaults {
				t.Run(what, func(t *testing.T) {
					for at := 1 + i*every/len(HandoverFaults); at <= n && !t.Failed(); at += every {
						run(t, HandoverFault{at, what})
						runs++
					}
				})
			}
		})
	}
	t.Logf("%d runs", runs)
}
