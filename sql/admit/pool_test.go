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

// compute is a statement that computes for d: it goes on in steps of a millisecond of virtual time.
func compute(ctx context.Context, turn *Turn, d time.Duration, step func()) error {
	defer turn.End()
	for range d / time.Millisecond {
		if err := turn.Yield(ctx); err != nil {
			return err
		}
		step()
	}
	return nil
}

// TestSlots: no more statements compute at once than there are slots, each gets on, and short ones
// wait for nobody.
func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(2)
		p.Delay = nil
		var running, top atomic.Int32
		var wg sync.WaitGroup
		ends := make([]time.Duration, 20)
		for i := range ends {
			wg.Go(func() {
				turn := p.Turn(Reading)
				steps := 0
				err := compute(t.Context(), &turn, 50*time.Millisecond, func() {
					if steps++; steps <= int(grace/glance)+1 { // without a slot
						time.Sleep(time.Millisecond)
						return
					}
					top.Store(max(top.Load(), running.Add(1)))
					time.Sleep(time.Millisecond)
					running.Add(-1)
				})
				if err != nil {
					t.Error(err)
				}
				ends[i] = p.now()
			})
		}
		short := p.Turn(Reading)
		if err := compute(t.Context(), &short, time.Millisecond, func() { time.Sleep(time.Millisecond) }); err != nil {
			t.Error(err)
		}
		if d := p.now(); d != time.Millisecond {
			t.Errorf("a short statement took %v", d)
		}
		wg.Wait()
		if top.Load() != 2 {
			t.Errorf("%d statements computed at once, want 2", top.Load())
		}
		// All take turns, so all end near the end.
		for i, d := range ends {
			if d < 300*time.Millisecond || d > 550*time.Millisecond {
				t.Errorf("statement %d ended after %v", i, d)
			}
		}
		for _, s := range p.Stats() {
			if s.Running != 0 || s.Waiting != 0 {
				t.Errorf("left over: %+v", s)
			}
		}
	})
}

// TestPaused: a statement from which the operating system takes the processor between two calls has
// not computed meanwhile, and does not queue.
func TestPaused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(1)
		p.Delay = nil
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				turn := p.Turn(Locking)
				_ = compute(ctx, &turn, time.Minute, func() { time.Sleep(time.Millisecond) })
			})
		}
		time.Sleep(100 * time.Millisecond)
		begin := p.now()
		turn := p.Turn(Reading)
		for _, pause := range []time.Duration{0, 8 * time.Millisecond, 0, 5 * time.Millisecond, 0} {
			time.Sleep(pause)
			if err := turn.Yield(ctx); err != nil {
				t.Error(err)
			}
		}
		turn.End()
		if d := p.now() - begin; d != 13*time.Millisecond {
			t.Errorf("it took %v, of which it was paused for 13ms", d)
		}
		cancel()
		wg.Wait()
	})
}

// TestLooks: statements have the scheduler look at the network while they take all slots, at every
// call that is late enough, and not while there is a slot for others.
func TestLooks(t *testing.T) {
	for _, c := range []struct {
		slots, statements int
		step              time.Duration
		least, most       int32
	}{
		{slots: 2, statements: 1, step: lookEvery},
		{slots: 1, statements: 1, step: lookEvery, least: 300, most: 500},
		{slots: 2, statements: 3, step: lookEvery, least: 600, most: 1000},
		{slots: 1, statements: 1, step: lookEvery / 4, least: 300, most: 500},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := New(c.slots)
			p.Delay = nil
			var looks atomic.Int32
			p.Look = func() { looks.Add(1) }
			var wg sync.WaitGroup
			for range c.statements {
				wg.Go(func() {
					turn := p.Turn(Reading)
					defer turn.End()
					for p.now() < 100*time.Millisecond {
						if err := turn.Yield(t.Context()); err != nil {
							t.Error(err)
						}
						time.Sleep(c.step)
					}
				})
			}
			wg.Wait()
			if n := looks.Load(); n < c.least || n > c.most {
				t.Errorf("%d statements on %d slots looked %d times, not %d to %d", c.statements, c.slots, n, c.least, c.most)
			}
			time.Sleep(time.Minute) // until it is no crowd any more
		})
	}
}

// TestClasses: statements that may hold locks come first.
func TestClasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(1)
		p.Delay = nil
		var wg sync.WaitGroup
		var locking, reading time.Duration
		for range 10 {
			wg.Go(func() {
				turn := p.Turn(Reading)
				_ = compute(t.Context(), &turn, 30*time.Millisecond, func() { time.Sleep(time.Millisecond) })
				reading = p.now()
			})
		}
		wg.Go(func() {
			turn := p.Turn(Locking)
			_ = compute(t.Context(), &turn, 30*time.Millisecond, func() { time.Sleep(time.Millisecond) })
			locking = p.now()
		})
		wg.Wait()
		if locking > 80*time.Millisecond || reading < 250*time.Millisecond {
			t.Errorf("the locking statement ended after %v, the last reading one after %v", locking, reading)
		}
	})
}

// TestHolderWaits: the holder of a slot waits for a lock, which somebody holds who waits for the
// slot. Both get on.
func TestHolderWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(1)
		p.Delay = nil
		lock := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			turn := p.Turn(Reading)
			defer turn.End()
			for range 20 {
				_ = turn.Yield(t.Context())
				time.Sleep(time.Millisecond)
			}
			<-lock // with the slot
			if err := turn.Yield(t.Context()); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			turn := p.Turn(Reading)
			if err := compute(t.Context(), &turn, 50*time.Millisecond, func() { time.Sleep(time.Millisecond) }); err != nil {
				t.Error(err)
			}
			close(lock)
		})
		wg.Wait()
		if n := p.Stats()[Reading].Lost; n != 1 {
			t.Errorf("%d slots were taken back, want 1", n)
		}
		if d := p.now(); d > 150*time.Millisecond {
			t.Errorf("it took %v", d)
		}
	})
}

// TestFullQueue: what has not begun is refused when the queue is full, or it has waited too long,
// and an interrupted statement leaves the queue.
func TestFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(1)
		p.Delay = nil
		p.Most, p.Patience = 2, 50*time.Millisecond
		ctx, cancel := context.WithCancelCause(t.Context())
		killed := errors.New("killed")
		busy := p.Turn(Locking)
		for range 8 {
			if err := busy.Yield(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		stop := make(chan struct{})
		var hog sync.WaitGroup
		hog.Go(func() { // keeps the slot: it never lets it lie for as long as a lease
			for {
				select {
				case <-stop:
					busy.End()
					return
				case <-time.After(time.Millisecond):
				}
				p.mu.Lock()
				p.slots[0].seen = p.now()
				p.mu.Unlock()
			}
		})
		errs := make(chan error, 3)
		begin := func(ctx context.Context) {
			turn := p.Turn(Reading)
			errs <- compute(ctx, &turn, 8*time.Millisecond, func() { time.Sleep(time.Millisecond) })
		}
		go begin(ctx)
		go begin(t.Context())
		time.Sleep(10 * time.Millisecond)
		go begin(t.Context())
		if err := <-errs; !errors.Is(err, errFull) {
			t.Errorf("a full queue: %v", err)
		}
		cancel(killed)
		if err := <-errs; !errors.Is(err, killed) {
			t.Errorf("a killed statement: %v", err)
		}
		if err := <-errs; !errors.Is(err, errOld) {
			t.Errorf("a statement that waits for long: %v", err)
		}
		close(stop)
		hog.Wait()
		if s := p.Stats()[Reading]; s.Refused != 2 || s.Waiting != 0 {
			t.Errorf("%+v", s)
		}
		last := p.Turn(Reading)
		if err := compute(t.Context(), &last, 8*time.Millisecond, func() { time.Sleep(time.Millisecond) }); err != nil {
			t.Errorf("after all: %v", err)
		}
	})
}

// TestSlotsAdapt: while goroutines wait long for a processor, a slot is closed.
func TestSlotsAdapt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(3)
		var delay atomic.Int64
		p.Delay = func() time.Duration { return time.Duration(delay.Load()) }
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				turn := p.Turn(Reading)
				_ = compute(ctx, &turn, 5*time.Second, func() { time.Sleep(time.Millisecond) })
			})
		}
		running := func() int { return p.Stats()[Reading].Running }
		for _, x := range []struct {
			delay time.Duration
			want  int
		}{{0, 3}, {2 * tooLate, 1}, {(tooLate + inTime) / 2, 1}, {0, 3}} {
			delay.Store(int64(x.delay))
			time.Sleep(10 * adaptEvery)
			synctest.Wait()
			if n, r := p.Slots(), running(); n != x.want || r != x.want {
				t.Errorf("at a delay of %v there are %d slots, and %d run, want %d", x.delay, n, r, x.want)
			}
		}
		cancel()
		wg.Wait()
	})
}

// TestPercentile: counts by buckets.
func TestPercentile(t *testing.T) {
	bounds := []float64{0, 0.001, 0.01, 0.1}
	for _, x := range []struct {
		counts []uint64
		want   time.Duration
	}{{[]uint64{0, 0, 0}, 0}, {[]uint64{100, 0, 0}, 0}, {[]uint64{98, 0, 2}, 10 * time.Millisecond}, {[]uint64{10, 990, 1}, time.Millisecond}} {
		var all uint64
		for _, n := range x.counts {
			all += n
		}
		if got := percentile(x.counts, bounds, all); got != x.want {
			t.Errorf("%v: %v, want %v", x.counts, got, x.want)
		}
	}
}

// TestCrowded: who asks is told once that statements wait, and once, a while later, that none does.
func TestCrowded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(2)
		p.Delay = nil
		type event struct {
			at    time.Duration
			crowd bool
		}
		var events []event
		p.Crowded = func(yes bool) { events = append(events, event{p.now(), yes}) }
		one := p.Turn(Reading)
		if err := compute(t.Context(), &one, 100*time.Millisecond, func() { time.Sleep(time.Millisecond) }); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Second)
		if len(events) != 0 {
			t.Errorf("one statement is a crowd: %v", events)
		}
		begin := p.now()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				turn := p.Turn(Reading)
				if err := compute(t.Context(), &turn, 300*time.Millisecond, func() { time.Sleep(time.Millisecond) }); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		end := p.now()
		time.Sleep(5 * time.Second)
		if len(events) != 2 || !events[0].crowd || events[1].crowd {
			t.Fatalf("events: %v", events)
		}
		if d := events[0].at - begin; d > 2*lease {
			t.Errorf("a crowd is told of after %v", d)
		}
		if d := events[1].at - end; d > calmFor+2*lease {
			t.Errorf("its end is told of after %v", d)
		}
		if p.timer != nil {
			t.Error("it looks for crowds for ever")
		}
	})
}

// TestShortComeFirst: while short statements come, those that compute for long leave them a
// processor, be they many or just as many as there are processors.
func TestShortComeFirst(t *testing.T) {
	for _, long := range []int{2, 6} {
		synctest.Test(t, func(t *testing.T) {
			p := New(2)
			p.Delay = nil
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			var done atomic.Int64
			for range long {
				wg.Go(func() {
					pass, err := p.Gate.Enter(ctx, "a", false)
					if err != nil {
						t.Error(err)
					}
					var slow atomic.Int64
					turn := p.Turn(Reading)
					turn.Slots = &slow
					_ = compute(ctx, &turn, time.Minute, func() { done.Add(1); time.Sleep(time.Millisecond) })
					if pass.Leave(slow.Load() > 0); slow.Load() == 0 {
						t.Error("a long statement does not know that it is one")
					}
				})
			}
			short := func(d time.Duration, every time.Duration) {
				for range d / every {
					if pass, err := p.Gate.Enter(ctx, "b", false); err != nil {
						t.Error(err)
					} else {
						pass.Leave(false)
					}
					time.Sleep(every)
				}
			}
			for _, x := range []struct {
				every time.Duration // 0: none come
				slots int
			}{{0, 2}, {10 * time.Millisecond, 1}, {500 * time.Millisecond, 2}, {50 * time.Millisecond, 1}, {0, 2}} {
				if x.every == 0 {
					time.Sleep(3 * time.Second)
				} else {
					short(3*time.Second, x.every)
				}
				synctest.Wait()
				if n := p.Slots(); n != x.slots {
					t.Errorf("%d long statements, a short one every %v: %d slots, want %d", long, x.every, n, x.slots)
				}
				before := done.Load()
				time.Sleep(100 * time.Millisecond)
				if n := int(done.Load()-before+50) / 100; n != x.slots {
					t.Errorf("%d long statements, a short one every %v: %d compute, want %d", long, x.every, n, x.slots)
				}
			}
			cancel()
			wg.Wait()
			if p.Gate.short.Load() == 0 {
				t.Error("no short statement was counted")
			}
		})
	}
}
