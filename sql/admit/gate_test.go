package admit

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// gated is a gate in virtual time, whose measured delay the test sets.
func gated(least int) (g *Gate, delay *atomic.Int64) {
	g, delay = NewGate(1), new(atomic.Int64)
	g.Least = least
	g.Delay = func() time.Duration { return time.Duration(delay.Load()) }
	return g, delay
}

// busy are clients of a user that execute statements of a length again and again, until ctx ends.
func busy(ctx context.Context, wg *sync.WaitGroup, g *Gate, user string, clients int, first bool, length time.Duration,
	n *atomic.Int64) {
	for range clients {
		wg.Go(func() {
			for ctx.Err() == nil {
				p, err := g.Enter(ctx, user, first)
				if err != nil {
					return
				}
				time.Sleep(length)
				p.Leave(true)
				n.Add(1)
			}
		})
	}
}

// TestGateOpen: while nothing waits for a processor, no statement waits, however many there are.
func TestGateOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := gated(2)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var n atomic.Int64
		busy(ctx, &wg, g, "a", 100, false, time.Millisecond, &n)
		time.Sleep(time.Second)
		cancel()
		wg.Wait()
		if s := g.Stats(); n.Load() < 99_000 || s.Granted != 0 || s.Slots != 0 || s.Running != 0 {
			t.Errorf("%d statements, %+v", n.Load(), s)
		}
		time.Sleep(time.Second)
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.ticking {
			t.Error("an idle gate goes on measuring")
		}
	})
}

// TestGateBounds: while what is woken waits for a processor, statements are bounded, and more and
// more of them wait; a user with one client waits for its turn, not for another user's thousand
// clients. Later there is no bound any more.
func TestGateBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, delay := gated(4)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var many, one, open atomic.Int64
		busy(ctx, &wg, g, "many", 1000, false, time.Millisecond, &many)
		time.Sleep(2 * tick)
		delay.Store(int64(2 * tooLate))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := g.Stats(); s.Slots != 4 || s.Running != 4 || s.Waiting != 996 {
			t.Errorf("bounded: %+v", s)
		}
		many.Store(0)
		busy(ctx, &wg, g, "one", 1, false, time.Millisecond, &one)
		busy(ctx, &wg, g, "open", 1, true, time.Millisecond, &open)
		time.Sleep(time.Second)
		// One of four ends every 250 us on the average: who comes first waits for a millisecond.
		if many.Load() < 2500 || one.Load() < 300 || open.Load() < 400 {
			t.Errorf("of many clients %d statements, of one client %d, of one in a transaction %d", many.Load(), one.Load(),
				open.Load())
		}
		delay.Store(int64((tooLate + inTime) / 2))
		time.Sleep(time.Second)
		if s := g.Stats(); s.Slots != 4 {
			t.Errorf("neither too late nor in time: %+v", s)
		}
		delay.Store(0)
		time.Sleep(5 * time.Second)
		if s := g.Stats(); s.Slots != 0 || s.Waiting != 0 {
			t.Errorf("in time: %+v", s)
		}
		cancel()
		wg.Wait()
	})
}

// TestGateWaitsForNobody: statements that wait for a lock keep nobody out, also not the one that
// holds the lock.
func TestGateWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, delay := gated(2)
		delay.Store(int64(2 * tooLate))
		lock := make(chan struct{})
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				p, err := g.Enter(t.Context(), "a", false)
				if err != nil {
					t.Error(err)
				}
				<-lock
				p.Leave(true)
			})
			time.Sleep(tick / 4)
		}
		p, err := g.Enter(t.Context(), "b", true)
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(g.began); d > 20*tick/4+4*tick {
			t.Errorf("the holder of the lock waited until %v", d)
		}
		close(lock)
		p.Leave(true)
		wg.Wait()
		if s := g.Stats(); s.Lost == 0 || s.Running < 0 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestGatePatience: a statement that waits is interrupted, or refused after a while, and leaves
// nothing behind.
func TestGatePatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, delay := gated(1)
		g.Patience = 10 * time.Millisecond
		delay.Store(int64(2 * tooLate))
		killed := errors.New("killed")
		if _, err := g.Enter(t.Context(), "a", false); err != nil { // begins to measure
			t.Fatal(err)
		}
		time.Sleep(tick + time.Millisecond)
		holder, err := g.Enter(t.Context(), "a", false)
		if err == nil {
			t.Fatalf("a second statement came in, bound %d", g.bound.Load())
		}
		if !errors.Is(err, errOld) {
			t.Errorf("a statement that waits for long: %v", err)
		}
		holder.Leave(true)
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(killed)
		if _, err := g.Enter(ctx, "a", true); err != nil && !errors.Is(err, killed) {
			t.Errorf("a killed statement: %v", err)
		}
		time.Sleep(4 * tick)
		p, err := g.Enter(t.Context(), "a", false)
		if err != nil {
			t.Fatal(err)
		}
		p.Leave(true)
		if s := g.Stats(); s.Waiting != 0 || s.Refused != 1 {
			t.Errorf("%+v", s)
		}
	})
}
