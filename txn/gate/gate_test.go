package gate

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
)

func TestGateFollowsConflicts(t *testing.T) {
	var g Gate
	ctx := t.Context()
	for range 32 {
		if err := g.Enter(ctx, nil); err != nil {
			t.Fatal(err)
		}
	}
	if g.limit != 0 || g.inside != 32 {
		t.Fatalf("without conflicts: bound %v, %d inside", g.limit, g.inside)
	}
	for range 31 {
		g.Leave(true)
	}
	if g.limit >= 10 || g.limit < least || g.inside != 1 {
		t.Fatalf("after conflicts: bound %v, %d inside", g.limit, g.inside)
	}
	for i := 0; g.limit != 0; i++ {
		if i == 1000 {
			t.Fatalf("the bound stays at %v though all commit", g.limit)
		}
		if err := g.Enter(ctx, nil); err != nil {
			t.Fatal(err)
		}
		g.Leave(false)
	}
}

// TestGateLetsFewConflictsBe: where one transaction of many loses, nobody waits.
func TestGateLetsFewConflictsBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		began := time.Now()
		for i := range 1000 {
			for g.inside < 6 {
				if err := g.Enter(t.Context(), nil); err != nil {
					t.Fatal(err)
				}
			}
			g.Leave(i%20 == 0)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("clients have waited %v", took)
		}
	})
}

func TestGateQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := Gate{limit: least, lost: time.Now()}
		for range least {
			if err := g.Enter(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		// Who has waited longest comes next.
		order := make(chan int, 3)
		for i := range 3 {
			go func() {
				if g.Enter(t.Context(), nil) == nil {
					order <- i
				}
			}()
			synctest.Wait()
		}
		g.Leave(false)
		synctest.Wait()
		g.Leave(false)
		synctest.Wait()
		if a, b := <-order, <-order; a != 0 || b != 1 {
			t.Fatalf("%d and %d came first", a, b)
		}
		// The third does not wait for ever for those that are idle.
		begin := time.Now()
		if <-order; time.Since(begin) != wait {
			t.Fatalf("it waited %v", time.Since(begin))
		}
		if g.inside != 3 || len(g.queue) != 0 {
			t.Fatalf("%d inside, %d waiting", g.inside, len(g.queue))
		}
		// Who gives up leaves nothing behind.
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() { gone <- g.Enter(ctx, nil) }()
		synctest.Wait()
		cancel()
		if err := <-gone; err == nil || g.inside != 3 || len(g.queue) != 0 {
			t.Fatalf("%v; %d inside, %d waiting", err, g.inside, len(g.queue))
		}
		stop := make(chan struct{})
		go func() { gone <- g.Enter(t.Context(), stop) }()
		synctest.Wait()
		close(stop)
		if err := <-gone; base.CodeOf(err) != base.CodeUnavailable || g.inside != 3 || len(g.queue) != 0 {
			t.Fatalf("%v; %d inside, %d waiting", err, g.inside, len(g.queue))
		}
	})
}

// A transaction that turns to another region leaves the gate: those that stay take its place, and
// that it is lost later is no conflict here.
func TestGateQuit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := Gate{limit: least, lost: time.Now()}
		for range least {
			if err := g.Enter(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		begin := time.Now()
		done := make(chan time.Duration)
		go func() {
			_ = g.Enter(t.Context(), nil)
			done <- time.Since(begin)
		}()
		synctest.Wait()
		g.Quit()
		if waited := <-done; waited != 0 {
			t.Errorf("waited %v for a place that was free", waited)
		}
		if g.inside != least || g.limit != least {
			t.Errorf("%d inside, bound %v", g.inside, g.limit)
		}
	})
}

// TestGateForgets: what many lost conflicts have taught is over two seconds after the last one,
// even if nearly nothing commits.
func TestGateForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Gate
		for range 100 {
			_ = g.Enter(t.Context(), nil)
			g.Leave(true)
		}
		if g.limit != least {
			t.Fatalf("the bound is %v", g.limit)
		}
		for range 3 {
			for range least {
				_ = g.Enter(t.Context(), nil)
			}
			time.Sleep(time.Second)
			for range least {
				g.Leave(false)
			}
		}
		if g.limit != 0 {
			t.Errorf("the bound is still %v", g.limit)
		}
	})
}
