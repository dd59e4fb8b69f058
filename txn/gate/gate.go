// Package gate bounds how many transactions of a gateway hold locks at a time.
package gate

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
)

// Gate bounds how many of a gateway's transactions hold locks at a time, while many of them lose
// conflicts. Locks that overlap make the work lost grow with the square of the transactions at
// work, and more of them than there are processors do not end sooner. The bound falls when one is
// lost and rises when one commits; it is far above what is at work where conflicts are rare. A
// transaction that waits holds no lock, and waits for a moment only, because those that hold locks
// may be idle.
type Gate struct {
	mu     sync.Mutex
	limit  float64   // 0: none
	lost   time.Time // when one was lost last
	inside int
	queue  []chan struct{} // transactions that wait, in the order of arrival
}

const (
	least = 2
	fall  = 0.93                   // of the bound, for one lost
	rise  = 0.04                   // for one committed
	calm  = 2 * time.Second        // without one that is lost, and there is no bound any more
	wait  = 100 * time.Millisecond // longest wait
)

// Enter lets a transaction begin to lock. stop ends the wait as well: the gateway closes.
func (g *Gate) Enter(ctx context.Context, stop <-chan struct{}) error {
	g.mu.Lock()
	if len(g.queue) == 0 && g.room() {
		g.inside++
		g.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	g.queue = append(g.queue, turn)
	g.mu.Unlock()
	t := time.NewTimer(wait)
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

func (g *Gate) room() bool { return g.limit == 0 || float64(g.inside+1) <= g.limit }

// idle is a bound that does nothing while so many are at work.
func (g *Gate) idle(n int) float64 { return 2*float64(n) + least }

// admit lets in as many as there is room for; mu is held.
func (g *Gate) admit() {
	for len(g.queue) > 0 && g.room() {
		close(g.queue[0])
		g.queue = slices.Delete(g.queue, 0, 1)
		g.inside++
	}
}

// Quit lets out a transaction that turns to another region: over there it waits much longer than it
// works, and those that work here must not wait with it.
func (g *Gate) Quit() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inside--
	g.admit()
}

// Leave tells how a transaction that entered has ended.
func (g *Gate) Leave(lost bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case lost:
		// The bound falls from a value that holds nobody up, so that one loss now and then does
		// not hold anybody up either.
		if most := g.idle(g.inside); g.limit == 0 || g.limit > most {
			g.limit = most
		}
		g.limit = max(least, g.limit*fall)
		g.lost = time.Now()
	case g.limit != 0:
		if g.limit += rise; g.limit > g.idle(g.inside+len(g.queue)) || time.Since(g.lost) > calm {
			g.limit = 0
		}
	}
	g.inside--
	g.admit()
}
