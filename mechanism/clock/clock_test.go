package clock

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
)

func TestNowIsUniqueAndGrows(t *testing.T) {
	c := New(NewWall(0))
	var mu sync.Mutex
	seen := map[base.Timestamp]bool{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := base.Timestamp(0)
			for range 1000 {
				ts := c.Now()
				if ts <= last {
					t.Errorf("%s after %s", ts, last)
				}
				last = ts
				mu.Lock()
				if seen[ts] {
					t.Errorf("%s twice", ts)
				}
				seen[ts] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func TestObserve(t *testing.T) {
	c := New(NewWall(time.Millisecond))
	ahead := c.Now().Add(time.Second)
	if err := c.Observe(ahead); err != nil {
		t.Fatal(err)
	}
	if ts := c.Now(); ts <= ahead {
		t.Fatalf("%s is not above the observed %s", ts, ahead)
	}
	if at := c.Time(); at >= ahead {
		t.Errorf("the time is %s, ahead with the observed %s", at, ahead)
	}
	if err := c.Observe(c.Latest().Add(time.Hour)); base.CodeOf(err) != base.CodeInvalid {
		t.Fatalf("an hour ahead: %v", err)
	}
}

// TestObserveBeforeTheMode: a node that was down for a minute knows the oracle as it was before. It
// does not take others to task for that.
func TestObserveBeforeTheMode(t *testing.T) {
	c := New(NewWall(time.Millisecond))
	c.Wait(nil)
	now := base.FromTime(time.Now())
	c.Learn(now.Add(-time.Minute)) // from its log
	if err := c.Observe(now); base.CodeOf(err) != base.CodeUnavailable {
		t.Errorf("a minute ahead of what it knew before: %v", err)
	}
	if seen := c.Seen(); seen >= now {
		t.Errorf("it follows to %s", seen)
	}
	c.Adopt(GClock, 1, now)
	if err := c.Within(now.Add(time.Minute), 5*time.Second); base.CodeOf(err) != base.CodeUnavailable {
		t.Errorf("a minute ahead, before its clock is confirmed: %v", err)
	}
	c.Confirm()
	if err := c.Observe(now); err != nil {
		t.Error(err)
	}
	if err := c.Within(now.Add(time.Minute), 5*time.Second); base.CodeOf(err) != base.CodeInvalid {
		t.Errorf("a minute ahead: %v", err)
	}
}

// TestSettle is CLK-3: two clocks at opposite ends of their bounds.
func TestSettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bound := 3 * time.Millisecond
		fast := New(skewed{bound, bound})
		slow := New(skewed{-bound, bound})
		ts := fast.Now()
		if err := fast.Settle(context.Background(), ts); err != nil {
			t.Fatal(err)
		}
		if got := slow.Now(); got <= ts {
			t.Fatalf("slow clock hands out %s after commit wait on %s", got, ts)
		}
	})
}

type skewed struct{ off, bound time.Duration }

func (s skewed) Read() (base.Timestamp, time.Duration) {
	return base.FromTime(time.Now()).Add(s.off), s.bound
}
