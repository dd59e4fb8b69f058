package clock

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
)

// counter is an oracle at a distance.
type counter struct {
	mu    sync.Mutex
	at    base.Timestamp
	trip  time.Duration // there and back
	calls int
}

func (o *counter) Raise(ctx context.Context, min base.Timestamp) (base.Timestamp, int, error) {
	time.Sleep(o.trip / 2)
	o.mu.Lock()
	o.calls++
	o.at = max(o.at, min).Next()
	ts := o.at
	o.mu.Unlock()
	time.Sleep(o.trip / 2)
	return ts, 2, nil
}

const testBound = 10 * time.Millisecond

// member is a node's clock that is off, in a mode that the test orders.
func member(o Oracle, off time.Duration) *Clock {
	c := New(skewed{off, testBound})
	c.Wait(o)
	c.Confirm()
	c.Grant(time.Now().Add(time.Hour))
	return c
}

// TestListing1 is the example of the paper (listing 1): a transaction of GTM mode that commits
// while the cluster is on its way to GClock, at a timestamp that a fast clock has raised, is missed
// by the next one at a slow clock, unless it waits.
func TestListing1(t *testing.T) {
	for _, variant := range []string{"as it is", "without looking at the mode again", "without waiting in DUAL mode"} {
		synctest.Test(t, func(t *testing.T) {
			o := &counter{at: base.FromTime(time.Now()).Add(-time.Minute), trip: 200 * time.Microsecond}
			n1, n2, n3 := member(o, 0), member(o, -testBound), member(o, testBound)
			for _, n := range []*Clock{n1, n2, n3} {
				n.Adopt(GTM, 1, o.at)
			}
			ctx := context.Background()
			if _, err := n1.Snapshot(ctx); err != nil { // Trx1 begins in GTM mode
				t.Fatal(err)
			}
			for _, n := range []*Clock{n2, n3, n1} {
				n.Adopt(Dual, 2, 0)
			}
			n2.Adopt(GClock, 3, 0)
			ts3, err := n3.Snapshot(ctx) // raises the oracle to a large timestamp
			if err != nil {
				t.Fatal(err)
			}
			ts1, _, _ := o.Raise(ctx, 0)
			switch variant {
			case "as it is":
				err = n1.Settle(ctx, ts1)
			case "without looking at the mode again":
				_, _, err = o.Raise(ctx, ts1) // what GTM mode asks for
			case "without waiting in DUAL mode":
				_, err = n1.rounds.raise(ctx, n1, ts1, false)
			}
			if err != nil || ts1 <= ts3 {
				t.Fatalf("%s above %s: %v", ts1, ts3, err)
			}
			ts2, err := n2.Snapshot(ctx) // Trx2 begins after Trx1 was acknowledged
			if err != nil {
				t.Fatal(err)
			}
			if missed := ts2 < ts1; missed != (variant != "as it is") {
				t.Errorf("%s: Trx2 at %s, Trx1 at %s", variant, ts2, ts1)
			}
		})
	}
}

// TestModesAgree is CLK-3: whatever modes next to each other the nodes are in, and however these
// change, a snapshot that begins after a commit was settled is above it; and commits lie above
// those settled before they began.
func TestModesAgree(t *testing.T) {
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			o := &counter{at: base.FromTime(time.Now()), trip: 3 * time.Millisecond}
			var nodes []*Clock
			for i := range 4 {
				nodes = append(nodes, member(o, time.Duration(i-2)*testBound/2))
				nodes[i].Adopt(GClock, 1, 0)
			}
			var mu sync.Mutex
			var settled base.Timestamp
			ctx, cancel := context.WithCancel(context.Background())
			var wg sync.WaitGroup
			for i, n := range nodes {
				for w := range 3 {
					rng := rand.New(rand.NewPCG(seed, uint64(10*i+w)))
					wg.Go(func() {
						for ctx.Err() == nil {
							mu.Lock()
							low := settled
							mu.Unlock()
							var ts base.Timestamp
							var err error
							if w == 0 {
								if ts, err = n.Snapshot(ctx); err != nil {
									return
								}
							} else {
								var whole bool
								if ts, whole = n.Assign(); !whole {
									begin, err := n.Snapshot(ctx)
									if err != nil {
										return
									}
									ts, _ = n.Assign()
									ts = max(ts, begin.Next())
								}
							}
							if ts < low {
								t.Errorf("node %d: %s below %s, which was settled before", i, ts, low)
							}
							if w != 0 {
								n.Settling(ts)
								time.Sleep(time.Duration(rng.Int64N(int64(5 * time.Millisecond))))
								if n.Settle(ctx, ts) != nil {
									return
								}
								mu.Lock()
								settled = max(settled, ts)
								mu.Unlock()
							}
							time.Sleep(time.Duration(rng.Int64N(int64(3 * time.Millisecond))))
						}
					})
				}
			}
			epoch := uint64(1)
			adopt := func(m Mode) {
				epoch++
				o.mu.Lock()
				at := o.at
				o.mu.Unlock()
				for _, i := range rng.Perm(len(nodes)) {
					nodes[i].Adopt(m, epoch, at)
					time.Sleep(time.Duration(rng.Int64N(int64(10 * time.Millisecond))))
				}
			}
			for range 8 {
				time.Sleep(50 * time.Millisecond)
				adopt(Dual)
				// the oracle has heard of all that was acknowledged by clocks
				for _, n := range nodes {
					if _, _, err := o.Raise(ctx, max(n.Seen(), n.Latest())); err != nil {
						t.Fatal(err)
					}
				}
				adopt(GTM)
				time.Sleep(50 * time.Millisecond)
				adopt(Dual)
				o.mu.Lock()
				mark := o.at
				o.mu.Unlock()
				for _, n := range nodes { // every clock has passed what the oracle issued
					for n.Earliest() <= mark {
						time.Sleep(time.Millisecond)
					}
				}
				adopt(GClock)
			}
			cancel()
			wg.Wait()
			time.Sleep(10 * time.Second) // trips under way
		})
	}
}

// TestRight: a node acts in a mode only for so long as it was granted, says so, and goes on when it
// is granted more.
func TestRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, m := range []Mode{GClock, Dual, GTM} {
			o := &counter{at: base.FromTime(time.Now())}
			c := New(skewed{0, time.Millisecond})
			c.Wait(o)
			c.Confirm()
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			if _, err := c.Snapshot(ctx); base.CodeOf(err) != base.CodeUnavailable {
				t.Errorf("before a mode is known: %v", err)
			}
			cancel()
			c.Adopt(m, 1, o.at)
			c.Grant(time.Now().Add(time.Second))
			ts, err := c.Snapshot(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			if c.Settled(ts) {
				t.Errorf("%v: settled without the right to", m)
			}
			if _, whole := c.Assign(); whole {
				t.Errorf("%v: assigned without the right to", m)
			}
			ctx, cancel = context.WithTimeout(context.Background(), time.Second)
			if err := c.Settle(ctx, ts); base.CodeOf(err) != base.CodeUnavailable {
				t.Errorf("%v, without the right: %v", m, err)
			}
			cancel()
			go func() {
				time.Sleep(time.Second)
				c.Grant(time.Now().Add(time.Second))
			}()
			if err := c.Settle(context.Background(), ts); err != nil {
				t.Errorf("%v, granted again: %v", m, err)
			}
		}
		time.Sleep(10 * time.Second)
	})
}

// TestFence: a fenced clock issues only in GTM mode, and not by its source.
func TestFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &counter{at: base.FromTime(time.Now())}
		c := member(o, time.Hour) // far outside its bound
		c.Adopt(GClock, 1, o.at)
		c.Fence(true)
		if now := c.Now(); now > o.at.Add(time.Minute) {
			t.Errorf("a fenced node goes on at %s by its source", now)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := c.Snapshot(ctx); base.CodeOf(err) != base.CodeUnavailable {
			t.Errorf("a fenced node takes snapshots: %v", err)
		}
		c.Adopt(Dual, 2, o.at)
		c.Adopt(GTM, 3, o.at)
		ts, err := c.Snapshot(context.Background())
		if err != nil || c.Settle(context.Background(), ts) != nil {
			t.Errorf("a fenced node does not serve in GTM mode: %v", err)
		}
		time.Sleep(10 * time.Second)
	})
}

// TestFencedAfterSilence: a node that is fenced and has heard of nobody for a minute does not take
// others to task for what it knows of the oracle; for what its source says it does.
func TestFencedAfterSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &counter{at: base.FromTime(time.Now()).Add(-time.Minute)}
		c := member(o, -100*time.Millisecond)
		c.Adopt(GClock, 1, o.at)
		c.Fence(true)
		now := base.FromTime(time.Now())
		if err := c.Within(now, 10*time.Second); err != nil {
			t.Errorf("now, to a fenced node that knows of the oracle what it was a minute ago: %v", err)
		}
		if err := c.Within(now.Add(time.Minute), 10*time.Second); base.CodeOf(err) != base.CodeInvalid {
			t.Errorf("a minute ahead: %v", err)
		}
	})
}

// TestRoundsAreShared: callers share trips, and a snapshot counts only from one that began after
// it.
func TestRoundsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &counter{at: base.FromTime(time.Now()), trip: 100 * time.Millisecond}
		c := member(o, 0)
		c.Adopt(GTM, 1, o.at)
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				if _, err := c.Snapshot(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		began := time.Now()
		wg.Wait()
		if took := time.Since(began); took > 2*o.trip || o.calls > 2*maxFlying {
			t.Errorf("1000 snapshots took %s and %d trips", took, o.calls)
		}
		time.Sleep(10 * time.Second)
	})
}

// TestVirtual: in GTM mode time goes on by the monotonic clock, whatever the source does, and comes
// slowly nearer to it.
func TestVirtual(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := NewSimulated(time.Millisecond, 1)
		c := New(src)
		o := &counter{}
		c.Wait(o)
		c.Confirm()
		from := base.FromTime(time.Now()).Add(3 * time.Second) // ahead, as after a change of leader
		c.Adopt(GTM, 1, from)
		src.Jump(-time.Hour)
		c.Fence(true)
		time.Sleep(10 * time.Second)
		if d := c.Latest().Sub(from); d < 9*time.Second || d > 10*time.Second {
			t.Errorf("the virtual clock went on by %s in 10 s", d)
		}
		c.Fence(false)
		src.Jump(time.Hour)
		for range 200 {
			time.Sleep(100 * time.Millisecond)
			c.Tick()
		}
		if d := c.Latest().Sub(base.FromTime(time.Now())); d.Abs() > 100*time.Millisecond {
			t.Errorf("after 20 s the virtual clock is still %s away", d)
		}
	})
}

func TestSteady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := NewSimulated(time.Millisecond, 1)
		src.Set(0, 100e-6, 0)
		s := NewSteady(src)
		for range 100 {
			time.Sleep(time.Second)
			if _, b := s.Read(); b != time.Millisecond {
				t.Fatalf("drift is taken for a step: bound %s", b)
			}
		}
		for _, jump := range []time.Duration{time.Hour, -time.Minute} {
			truth := time.Now()
			src.Set(0, 0, 0)
			s.Accept()
			src.Jump(jump)
			now, b := s.Read()
			if lo, hi := now.Add(-b), now.Add(b); lo > base.FromTime(truth) || hi < base.FromTime(truth) ||
				lo > base.FromTime(truth.Add(jump)) || hi < base.FromTime(truth.Add(jump)) {
				t.Errorf("after a jump of %s the bounds %s to %s do not cover both times", jump, lo, hi)
			}
			if s.Stepped() == 0 {
				t.Errorf("a jump of %s was not noticed", jump)
			}
		}
	})
}
