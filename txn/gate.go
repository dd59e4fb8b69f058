package txn

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
)

// gate bounds how many of a gateway's transactions hold locks at a time, while many of them lose
// conflicts. Locks that overlap make the work lost grow with the square of the transactions at
// work, and more of them than there are processors do not end sooner. The bound falls when one is
// lost and rises when one commits; it is far above what is at work where conflicts are rare. A
// transaction that waits holds no lock, and waits for a moment only, because those that hold locks
// may be idle.
type gate struct {
	mu     sync.Mutex
	limit  float64   // 0: none
	lost   time.Time // when one was lost last
	inside int
	queue  []chan struct{} // transactions that wait, in the order of arrival
}

const (
	gateLeast = 2
	gateFall  = 0.93                   // of the bound, for one lost
	gateRise  = 0.04                   // for one committed
	gateCalm  = 2 * time.Second        // without one that is lost, and there is no bound any more
	gateWait  = 100 * time.Millisecond // longest wait
)

// enter lets a transaction begin to lock. stop ends the wait as well: the gateway closes.
func (g *gate) enter(ctx context.Context, stop <-chan struct{}) error {
	g.mu.Lock()
	if len(g.queue) == 0 && g.room() {
		g.inside++
		g.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	g.queue = append(g.queue, turn)
	g.mu.Unlock()
	t := time.NewTimer(gateWait)
	defer t.Stop()
	var err error
	select {
	case <-turn:
		return nil
	case <-t.C:
	case <-ctx.Done():
		err = base.Errorf(base.CodeCanceled, "%v", context.Cause(ctx))
	case <-stop:
		err = base.Errorf(base.CodeUnavailable, "the gateway is closing")
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.queue, turn)
	if i >= 0 {
		g.queue = slices.Delete(g.queue, i, i+1)
	}
	switch {
	case err == nil && i >= 0:
		g.inside++
	case err != nil && i < 0: // was let in meanwhile
		g.inside--
		g.admit()
	}
	return err
}

func (g *gate) room() bool { return g.limit == 0 || float64(g.inside+1) <= g.limit }

// idle is a bound that does nothing while so many are at work.
func (g *gate) idle(n int) float64 { return 2*float64(n) + gateLeast }

// admit lets in as many as there is room for; mu is held.
func (g *gate) admit() {
	for len(g.queue) > 0 && g.room() {
		close(g.queue[0])
		g.queue = slices.Delete(g.queue, 0, 1)
		g.inside++
	}
}

// quit lets out a transaction that turns to another region: over there it waits much longer than it
// works, and those that work here must not wait with it.
func (g *gate) quit() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.admit()
}

// leave tells how a transaction that entered has ended.
func (g *gate) leave(lost bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case lost:
		// The bound falls from a value that holds nobody up, so that one loss now and then does
		// not hold anybody up either.
		if most := g.idle(g.inside); g.limit == 0 || g.limit > most {
			g.limit = most
		}
		g.limit = max(gateLeast, g.limit*gateFall)
		g.lost = time.Now()
	case g.limit != 0:
		if g.limit += gateRise; g.limit > g.idle(g.inside+len(g.queue)) || time.Since(g.lost) > gateCalm {
			g.limit = 0
		}
	}
	g.inside--
	g.admit()
}
