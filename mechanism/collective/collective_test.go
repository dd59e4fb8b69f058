package collective

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/policy/matrix"
	"github.com/godwitdb/godwit/policy/plan"
)

func sum(a, b []byte) []byte {
	return binary.BigEndian.AppendUint64(nil, binary.BigEndian.Uint64(a)+binary.BigEndian.Uint64(b))
}

func number(v int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(v)) }

// every runs each operation once, as rounds from..from+4, and checks the results.
func (w *world) every(from uint64) {
	w.t.Helper()
	n := len(w.comms)
	root := w.nodes[int(from)%n]
	at := int(from) % n
	w.all(func(i int, c *Comm) error {
		ctx, cancel := within(time.Minute)
		defer cancel()
		out, err := c.AllGather(ctx, from, payload(from, i))
		if err = errors.Join(err, gathered(out, from, nil)); err != nil {
			return err
		}
		var mine [][]byte
		for j := range n {
			mine = append(mine, pair(from+1, i, j))
		}
		out, err = c.AllToAll(ctx, from+1, mine)
		if err != nil {
			return err
		}
		for j, b := range out {
			if !bytes.Equal(b, pair(from+1, j, i)) {
				return fmt.Errorf("AllToAll: %q from node %d", b, j)
			}
		}
		out, err = c.Gather(ctx, from+2, root, payload(from+2, i))
		if err == nil && i == at {
			err = gathered(out, from+2, nil)
		}
		if err != nil {
			return err
		}
		one, err := c.Broadcast(ctx, from+3, root, payload(from+3, i))
		if err == nil && !bytes.Equal(one, payload(from+3, at)) {
			err = fmt.Errorf("Broadcast: %q", one)
		}
		if err != nil {
			return err
		}
		total, err := c.AllReduce(ctx, from+4, number(i+1), sum)
		if err == nil && !bytes.Equal(total, number(n*(n+1)/2)) {
			err = fmt.Errorf("AllReduce: %v", total)
		}
		return err
	})
}

// Each operation under flat, grouped, single-group and sharded plans (COLL-1).
func TestOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, network(t, matrix.AWS2022, 7), 2, Options{}, wan.NetOptions{})
		defer w.close()
		w.every(1)
		w.setPlan(w.makePlan(plan.Params{Groups: 3, NoShards: true}), 10)
		w.every(10)
		w.setPlan(w.makePlan(plan.Params{Groups: 1, NoShards: true}), 20)
		w.every(20)
		w.setPlan(w.sharded(), 30)
		w.every(30)
		gs := w.sharded().Groups
		gs[3].Aggregators = []int{6} // not all groups have as many slices
		w.setPlan(plan.Evaluate(w.facts, plan.Params{}, gs), 40)
		w.every(40)
	})
}

// An executed round takes as long as the plan says, and sends no more messages
// than a flat one (COLL-3, equation 7), on matrices with and without detours.
func TestMakespanAndMessages(t *testing.T) {
	for _, name := range []string{matrix.AWS, matrix.AWS2022, matrix.Clouds} {
		for _, n := range []int{5, 10, 15} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, network(t, name, n), 1, Options{}, wan.NetOptions{})
				defer w.close()
				run := func(p *plan.Plan, round uint64) (time.Duration, int) {
					w.setPlan(p, round)
					before := make([]int, n)
					relayed := make([]int, n)
					for i, tr := range w.trs {
						before[i], relayed[i] = tr.sent+tr.got, int(w.comms[i].Stats().Relayed)
					}
					took := w.all(func(i int, c *Comm) error {
						out, err := c.AllGather(context.Background(), round, payload(round, i))
						return errors.Join(err, gathered(out, round, nil))
					})
					time.Sleep(time.Second)
					all := 0
					for i, tr := range w.trs {
						k := tr.sent + tr.got - before[i] - 2*(int(w.comms[i].Stats().Relayed)-relayed[i])
						if all += k; k > 2*(n-1) {
							t.Errorf("%s n=%d: node %d has %d messages, flat %d", name, n, i, k, 2*(n-1))
						}
						if got := w.comms[i].Stats().Wants; got != 0 {
							t.Errorf("%s n=%d: node %d asked %d times without a fault", name, n, i, got)
						}
					}
					return took, all / 2
				}
				flat, flatMsgs := run(plan.Flat(n), 1)
				for k, p := range []*plan.Plan{w.makePlan(plan.Params{}), w.makePlan(plan.Params{Groups: 3}),
					w.makePlan(plan.Params{Slack: -1})} {
					took, msgs := run(p, uint64(2+k))
					if d := took - p.Makespan; d < -time.Millisecond || d > time.Millisecond {
						t.Errorf("%s n=%d plan %v: the round took %v, planned %v", name, n, p, took, p.Makespan)
					}
					if msgs != p.Cost.Messages || msgs > flatMsgs {
						t.Errorf("%s n=%d plan %v: %d messages, planned %d, flat %d", name, n, p, msgs, p.Cost.Messages, flatMsgs)
					}
					if k != 1 && took > flat+time.Millisecond {
						t.Errorf("%s n=%d plan %v: %v, flat %v", name, n, p, took, flat)
					}
				}
			})
		}
	}
}

// A node of any role ends at any message of a round: the survivors exclude it and
// complete this round and the next ones, all with the same result (COLL-1, COLL-4).
func TestNodeFailsAtAnyMessage(t *testing.T) {
	m := network(t, matrix.AWS2022, 8)
	for seed := range *seeds {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(uint64(seed), 1))
			per := 1 + seed%2
			m, err := m.First(8 / per)
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld(t, m, per, Options{}, wan.NetOptions{Seed: uint64(seed)})
			defer w.close()
			var p *plan.Plan
			if per == 1 {
				p = w.makePlan(plan.Params{Groups: 2 + rnd.IntN(4), RelayGain: -1})
			} else {
				p = w.sharded()
			}
			w.setPlan(p, 1)
			// An aggregator, a relay, or anybody.
			victim := rnd.IntN(8)
			switch rnd.IntN(3) {
			case 0:
				victim = p.Groups[rnd.IntN(len(p.Groups))].Aggregators[0]
			case 1:
				for _, relays := range p.Routes {
					victim = relays[0]
					break
				}
			}
			at := rnd.IntN(12)
			crash := func() {
				w.net.Crash(w.nodes[victim])
				go w.comms[victim].Close() // a dead process makes no calls
			}
			// As a coordinator's view change would: in the round of the crash it no longer counts.
			var down atomic.Bool
			crashed := make(chan struct{})
			w.trs[victim].fate = func(n int, _ base.NodeID) fate {
				if n == at && !down.Swap(true) {
					close(crashed)
					return fate{first: crash}
				}
				return fate{}
			}
			time.AfterFunc(time.Duration(rnd.IntN(3000))*time.Millisecond, func() {
				if !down.Swap(true) { // it sends fewer messages than that
					crash()
					close(crashed)
				}
			})
			var round, gone atomic.Uint64
			round.Store(1)
			go func() {
				<-crashed
				time.Sleep(3 * time.Second)
				from := round.Load()
				gone.Store(from)
				for i, c := range w.comms {
					if i != victim {
						c.Exclude(w.nodes[victim], from)
					}
				}
			}()
			excluded := func(num uint64) bool { return gone.Load() > 0 && num >= gone.Load() }
			for num := uint64(1); num <= 6; num++ {
				round.Store(num)
				took := w.all(func(i int, c *Comm) error {
					ctx, cancel := within(time.Minute)
					defer cancel()
					out, err := c.AllGather(ctx, num, payload(num, i))
					if i == victim && (down.Load() || err != nil) {
						return nil
					}
					if err == nil {
						err = gathered(out, num, func(o int) bool { return o == victim && excluded(num) })
					}
					return err
				})
				if took > 30*time.Second {
					t.Errorf("seed %d round %d took %v", seed, num, took)
				}
				if t.Failed() {
					t.Fatalf("seed %d: plan %v routes %v, node %d ended at its message %d", seed, p, p.Routes, victim, at)
				}
			}
			time.Sleep(10 * time.Second)
		})
	}
}

// Messages are lost, late, repeated and out of order, and links are cut for a
// while; every operation of every round still gives what it should (COLL-1, COLL-4).
func TestLossDelayAndRepetition(t *testing.T) {
	m := network(t, matrix.Clouds, 6)
	for seed := range *seeds {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(uint64(seed), 2))
			per := 1 + rnd.IntN(2)
			w := newWorld(t, m, per, Options{}, wan.NetOptions{Seed: uint64(seed),
				WAN: wan.LinkSpec{Jitter: 20 * time.Millisecond}})
			defer w.close()
			p := w.makePlan(plan.Params{Groups: []int{0, 2, 3}[rnd.IntN(3)]})
			if per == 2 && rnd.IntN(2) == 0 {
				p = w.sharded()
			}
			w.setPlan(p, 1)
			loss := 0.3 * rnd.Float64()
			for i := range w.trs {
				mine := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
				w.trs[i].fate = func(int, base.NodeID) (f fate) {
					switch x := mine.Float64(); {
					case x < loss:
						f.drop = true
					case x < loss+0.2:
						f.twice = true
					case x < loss+0.4:
						f.late = time.Duration(mine.IntN(3000)) * time.Millisecond
					}
					return f
				}
			}
			if rnd.IntN(2) == 0 {
				a, b := w.nodes[rnd.IntN(len(w.nodes))], w.nodes[rnd.IntN(len(w.nodes))]
				if a != b {
					w.net.CutNodes(a, b)
				}
			}
			w.every(1)
			w.setPlan(w.makePlan(plan.Params{Groups: 4}), 7)
			w.every(7)
			if t.Failed() {
				t.Fatalf("seed %d: loss %.2f plan %v", seed, loss, p)
			}
		})
	}
}

// Two nodes that cannot reach each other at all still complete: others have what they miss.
func TestBrokenPairIsBridged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, network(t, matrix.AWS, 5), 1, Options{}, wan.NetOptions{})
		defer w.close()
		w.net.CutNodes(1, 2)
		took := w.all(func(i int, c *Comm) error {
			out, err := c.AllGather(context.Background(), 1, payload(1, i))
			return errors.Join(err, gathered(out, 1, nil))
		})
		if took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// What comes after its aggregator has stopped waiting is passed on by itself, and
// nobody has to ask for it.
func TestLateContributionIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, network(t, matrix.AWS, 5), 1, Options{}, wan.NetOptions{})
		defer w.close()
		gs := []plan.Group{{Members: []int{1, 2, 3}, Aggregators: []int{1}}, {Members: []int{0, 4}, Aggregators: []int{4}}}
		p := plan.Evaluate(w.facts, plan.Params{NoRelays: true}, gs)
		w.setPlan(p, 1)
		late := p.Makespan/2 + 60*time.Millisecond
		w.trs[2].fate = func(int, base.NodeID) fate { return fate{late: late} }
		took := w.all(func(i int, c *Comm) error {
			out, err := c.AllGather(context.Background(), 1, payload(1, i))
			return errors.Join(err, gathered(out, 1, nil))
		})
		if took > late+p.Makespan {
			t.Errorf("%v; it was %v late, and a round takes %v", took, late, p.Makespan)
		}
		for i, c := range w.comms {
			if n := c.Stats().Wants; n > 0 {
				t.Errorf("node %d asked %d times", i, n)
			}
		}
	})
}

// A relay that swallows messages is found out, and rounds go direct while it rests.
func TestDeadRelayFallsBackToDirect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := matrix.Parse(strings.NewReader("a,b,r\n0,200,20\n200,0,20\n20,20,0\n"), "detour")
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, m, 1, Options{}, wan.NetOptions{})
		defer w.close()
		w.setPlan(plan.Evaluate(w.facts, plan.Params{}, plan.FlatGroups(3)), 1)
		round := func(num uint64) time.Duration {
			return w.all(func(i int, c *Comm) error {
				out, err := c.AllGather(context.Background(), num, payload(num, i))
				return errors.Join(err, gathered(out, num, nil))
			})
		}
		if took := round(1); took != 20*time.Millisecond {
			t.Errorf("over the relay: %v", took)
		}
		if got := w.comms[2].Stats().Relayed; got != 2 {
			t.Errorf("%d messages relayed", got)
		}
		w.trs[2].deaf.Store(true)
		slow := round(2)
		if slow < 100*time.Millisecond || slow > time.Second {
			t.Errorf("the round in which it failed: %v", slow)
		}
		if took := round(3); took != 100*time.Millisecond {
			t.Errorf("direct: %v", took)
		}
		w.trs[2].deaf.Store(false)
		time.Sleep(2 * time.Second)
		if took := round(4); took != 20*time.Millisecond {
			t.Errorf("after it has rested: %v", took)
		}
	})
}

// An aggregator that dies costs the round in which it died; the next ones do
// without it and take no longer than a flat round does.
func TestDeadAggregatorIsDoneWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, network(t, matrix.AWS2022, 8), 1, Options{}, wan.NetOptions{})
		defer w.close()
		p := w.makePlan(plan.Params{Groups: 2, NoRelays: true})
		w.setPlan(p, 1)
		victim := p.Groups[0].Aggregators[0]
		if len(p.Groups[0].Members) < 3 {
			victim = p.Groups[1].Aggregators[0]
		}
		round := func(num uint64, dead bool) time.Duration {
			return w.all(func(i int, c *Comm) error {
				if i == victim && dead {
					return nil
				}
				out, err := c.AllGather(context.Background(), num, payload(num, i))
				return errors.Join(err, gathered(out, num, func(o int) bool { return dead && o == victim }))
			})
		}
		if took := round(1, false); took > p.Makespan+time.Millisecond {
			t.Errorf("before: %v, planned %v", took, p.Makespan)
		}
		w.net.Crash(w.nodes[victim])
		w.comms[victim].Close()
		time.AfterFunc(time.Second, func() {
			for i, c := range w.comms {
				if i != victim {
					c.Exclude(w.nodes[victim], 2)
				}
			}
		})
		if took := round(2, true); took > 2*time.Second {
			t.Errorf("the round in which it died: %v", took)
		}
		flat := w.makePlan(plan.Params{}).Flat
		for num := uint64(3); num < 6; num++ {
			if took := round(num, true); took > flat+time.Millisecond {
				t.Errorf("round %d: %v, flat %v", num, took, flat)
			}
		}
	})
}

// A member that finds its aggregator dead sends its data to the other groups at
// once; one that only hears nothing of it does so from the next round on.
func TestMembersDoWithoutTheirAggregator(t *testing.T) {
	for _, how := range []string{"dead", "unreachable"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, network(t, matrix.AWS2022, 5), 1, Options{}, wan.NetOptions{})
			defer w.close()
			gs := []plan.Group{{Members: []int{0, 1, 2}, Aggregators: []int{1}},
				{Members: []int{3}, Aggregators: []int{3}}, {Members: []int{4}, Aggregators: []int{4}}}
			p := plan.Evaluate(w.facts, plan.Params{NoRelays: true}, gs)
			w.setPlan(p, 1)
			// What others have of a round after a time in which nobody asks for anything.
			lacking := func(num uint64) (missing []base.NodeID) {
				w.all(func(i int, c *Comm) error {
					ctx, cancel := within(p.Makespan + 50*time.Millisecond)
					defer cancel()
					var inc *Incomplete
					if _, err := c.AllGather(ctx, num, payload(num, i)); errors.As(err, &inc) && i == 3 {
						missing = inc.Missing
					}
					return nil
				})
				return missing
			}
			if how == "dead" {
				if m := lacking(1); m != nil {
					t.Fatalf("%v are missing", m)
				}
				w.net.Crash(2)
				w.comms[1].Close()
				for _, tr := range w.trs { // as connections do that have been found broken
					tr.fate = func(_ int, to base.NodeID) (f fate) {
						if to == 2 {
							f.err = base.Errorf(base.CodeUnavailable, "connection refused")
						}
						return f
					}
				}
				w.comms[1], w.comms[4] = w.comms[4], w.comms[1] // a closed end makes no calls
				w.comms = w.comms[:4]
				if m := lacking(2); !slices.Equal(m, []base.NodeID{2}) {
					t.Errorf("%v are missing, not only node 2", m)
				}
				return
			}
			w.net.CutNodes(1, 2)
			w.all(func(i int, c *Comm) error {
				out, err := c.AllGather(context.Background(), 1, payload(1, i))
				return errors.Join(err, gathered(out, 1, nil))
			})
			if m := lacking(2); m != nil {
				t.Errorf("%v are missing", m)
			}
		})
	}
}

// A relay between aggregators is found out by those who wait for a member's data.
func TestDeadRelayBetweenAggregators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := matrix.Parse(strings.NewReader("a,m,b,r\n0,10,200,20\n10,0,200,20\n200,200,0,20\n20,20,20,0\n"), "detour")
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, m, 1, Options{}, wan.NetOptions{})
		defer w.close()
		gs := []plan.Group{{Members: []int{0, 1}, Aggregators: []int{0}}, {Members: []int{2}, Aggregators: []int{2}},
			{Members: []int{3}, Aggregators: []int{3}}}
		w.setPlan(plan.Evaluate(w.facts, plan.Params{}, gs), 1)
		round := func(num uint64) time.Duration {
			return w.all(func(i int, c *Comm) error {
				out, err := c.AllGather(context.Background(), num, payload(num, i))
				return errors.Join(err, gathered(out, num, nil))
			})
		}
		if took := round(1); took > 31*time.Millisecond {
			t.Errorf("over the relay: %v", took)
		}
		w.trs[3].deaf.Store(true)
		round(2)
		if took := round(3); took > 111*time.Millisecond {
			t.Errorf("direct: %v", took)
		}
	})
}

// The same code over sockets, with a node that is closed in the middle.
func TestOverTCP(t *testing.T) {
	const n = 5
	var nodes []base.NodeID
	var trs []*wan.TCP
	var comms []*Comm
	for i := range n {
		nodes = append(nodes, base.NodeID(i+1))
	}
	for i := range n {
		tr, err := wan.NewTCP(wan.TCPOptions{Self: nodes[i], ClusterID: "c", Region: base.RegionID(i + 1), Listen: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		c, err := New(tr).Join(1, nodes, Options{Retry: 20 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		trs, comms = append(trs, tr), append(comms, c)
	}
	for i, tr := range trs {
		for j, peer := range trs {
			if i != j {
				tr.SetPeer(nodes[j], peer.Addr().String(), base.RegionID(j+1))
			}
		}
	}
	gs := []plan.Group{{Members: []int{0, 1, 2}, Aggregators: []int{1}}, {Members: []int{3, 4}, Aggregators: []int{3}}}
	grouped := &plan.Plan{Groups: gs, Of: []int{0, 0, 0, 1, 1}, Routes: map[[2]int][]int{{1, 3}: {4}}, Makespan: time.Millisecond}
	for i, tr := range trs {
		if err := errors.Join(tr.Start(), comms[i].SetPlan(grouped, 1)); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, nodes: nodes, comms: comms}
	w.every(1)
	trs[1].Close()
	comms[1].Close()
	for _, c := range comms {
		c.Exclude(2, 10)
	}
	w.all(func(i int, c *Comm) error {
		if i == 1 {
			return nil
		}
		ctx, cancel := within(time.Minute)
		defer cancel()
		out, err := c.AllGather(ctx, 10, payload(10, i))
		return errors.Join(err, gathered(out, 10, func(o int) bool { return o == 1 }))
	})
}

// Rounds do not mix, however late a node is, and a plan that changes in the
// middle of a round does not change it (COLL-2).
func TestEpochBoundaries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, network(t, matrix.AWS, 6), 1, Options{}, wan.NetOptions{})
		defer w.close()
		grouped := w.makePlan(plan.Params{Groups: 2})
		w.setPlan(grouped, 1)
		done := make(chan struct{})
		go func() { // plans come and go
			for k := uint64(0); ; k++ {
				select {
				case <-done:
					return
				case <-time.After(13 * time.Millisecond):
					w.comms[k%6].SetPlan([]*plan.Plan{grouped, plan.Flat(6)}[k/6%2], 0)
				}
			}
		}()
		w.all(func(i int, c *Comm) error {
			// Rounds overlap: each begins 10 ms after the one before, and some nodes lag.
			errs := make(chan error, 40)
			for num := uint64(1); num <= 40; num++ {
				go func() {
					out, err := c.AllGather(context.Background(), num, payload(num, i))
					errs <- errors.Join(err, gathered(out, num, nil))
				}()
				time.Sleep(time.Duration(10+i*3) * time.Millisecond)
			}
			var all error
			for range 40 {
				all = errors.Join(all, <-errs)
			}
			return all
		})
		close(done)
		time.Sleep(50 * time.Millisecond)
	})
}

// Old rounds are forgotten, and their messages counted, not delivered.
func TestLateMessagesOfForgottenRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, network(t, matrix.AWS, 3), 1, Options{}, wan.NetOptions{})
		defer w.close()
		w.trs[0].fate = func(n int, _ base.NodeID) fate { return fate{twice: true, late: time.Duration(n%2) * 10 * time.Second} }
		for num := uint64(1); num <= 40; num++ {
			w.all(func(i int, c *Comm) error {
				out, err := c.AllGather(context.Background(), num, payload(num, i))
				return errors.Join(err, gathered(out, num, nil))
			})
		}
		time.Sleep(time.Minute)
		var late uint64
		for _, c := range w.comms {
			late += c.Stats().Late
			if n := len(c.rounds); n > recent+2 {
				t.Errorf("%d rounds are kept", n)
			}
		}
		if late == 0 {
			t.Error("no late message was counted")
		}
		if _, err := w.comms[0].AllGather(context.Background(), 2, nil); err == nil {
			t.Error("a forgotten round was called again")
		}
		if _, err := w.comms[0].AllGather(context.Background(), 40, nil); err == nil {
			t.Error("a round was called twice")
		}
	})
}

func TestIncompleteNamesWhoIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, network(t, matrix.AWS, 4), 1, Options{}, wan.NetOptions{})
		defer w.close()
		w.net.Crash(3)
		w.all(func(i int, c *Comm) error {
			if i == 2 {
				return nil
			}
			ctx, cancel := within(5 * time.Second)
			defer cancel()
			out, err := c.AllGather(ctx, 1, payload(1, i))
			var inc *Incomplete
			if !errors.As(err, &inc) || !slices.Equal(inc.Missing, []base.NodeID{3}) ||
				!errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("got %v", err)
			}
			if !slices.Contains(c.Suspects(), base.NodeID(3)) {
				return fmt.Errorf("suspects are %v", c.Suspects())
			}
			return gathered(out, 1, func(o int) bool { return o == 2 })
		})
	})
}

// A filter sees a group's contributions once; if a node that it relied on is
// excluded, the original of what it shortened is fetched.
func TestFilterAndExclusion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The filter drops node 1's contribution because of node 2's.
		opt := Options{Filter: func(_ uint64, parts []Part) {
			if i := slices.IndexFunc(parts, func(p Part) bool { return p.Origin == 1 }); i >= 0 &&
				slices.ContainsFunc(parts, func(p Part) bool { return p.Origin == 2 }) {
				parts[i].Body, parts[i].Filtered, parts[i].Needs = []byte("void"), true, []int{2}
			}
		}}
		w := newWorld(t, network(t, matrix.AWS, 5), 1, opt, wan.NetOptions{})
		defer w.close()
		gs := []plan.Group{{Members: []int{0, 1, 2}, Aggregators: []int{0}},
			{Members: []int{3}, Aggregators: []int{3}}, {Members: []int{4}, Aggregators: []int{4}}}
		w.setPlan(plan.Evaluate(w.facts, plan.Params{}, gs), 1)
		w.all(func(i int, c *Comm) error {
			out, err := c.AllGather(context.Background(), 1, payload(1, i))
			if err == nil && i >= 3 && string(out[1]) != "void" {
				err = fmt.Errorf("unfiltered: %q", out[1])
			}
			return err
		})
		for _, c := range w.comms {
			c.Exclude(w.nodes[2], 2)
		}
		// Round 2: node 2's data is there and was used by the filter of an aggregator;
		// neither of them has heard of the exclusion in time.
		for _, i := range []int{0, 2} {
			w.comms[i].mu.Lock()
			w.comms[i].excluded = map[int]uint64{}
			w.comms[i].mu.Unlock()
		}
		time.AfterFunc(time.Second, func() { w.comms[0].Exclude(w.nodes[2], 2) })
		w.all(func(i int, c *Comm) error {
			out, err := c.AllGather(context.Background(), 2, payload(2, i))
			if i == 0 || i == 2 {
				return err // the aggregator had completed before; node 2 is out
			}
			return errors.Join(err, gathered(out, 2, func(o int) bool { return o == 2 }))
		})
	})
}

func TestJoinRefusesNonsense(t *testing.T) {
	net := wan.NewNetwork(wan.NetOptions{})
	defer net.Close()
	s := New(net.Join(1, 1))
	for _, nodes := range [][]base.NodeID{nil, {2}, {1, 2, 1}} {
		if _, err := s.Join(1, nodes, Options{}); err == nil {
			t.Errorf("%v was accepted", nodes)
		}
	}
	c, err := s.Join(1, []base.NodeID{1, 2}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Join(1, []base.NodeID{1}, Options{}); err == nil {
		t.Error("an id was used twice")
	}
	if c.SetPlan(plan.Flat(3), 1) == nil {
		t.Error("a plan for other nodes was accepted")
	}
	c.Close()
	if _, err := c.AllGather(context.Background(), 1, nil); base.CodeOf(err) != base.CodeUnavailable {
		t.Error(err)
	}
}
