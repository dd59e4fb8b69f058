package admit

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestLogins: no more logins compute at once than there are places, who waits for the client has
// none, and who is closed while it computes gives its own back once.
func TestLogins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := NewLogins(4)
		var computing, top atomic.Int32
		var wg sync.WaitGroup
		begin := time.Now()
		for i := range 50 {
			wg.Go(func() {
				var l Login
				for range 3 {
					l.Begin(all)
					top.Store(max(top.Load(), computing.Add(1)))
					time.Sleep(time.Millisecond)
					computing.Add(-1)
					if l.End(); i%10 == 0 {
						l.End() // by who closes it
					}
					time.Sleep(time.Second) // for the client
				}
				l.Begin(all)
				l.Done()
				l.Begin(all) // for nothing
			})
		}
		wg.Wait()
		if top.Load() != 2 {
			t.Errorf("%d logins computed at once, want 2", top.Load())
		}
		if d := time.Since(begin); d > 3200*time.Millisecond {
			t.Errorf("they waited for each other's clients: %v", d)
		}
		if n := len(all.places); n != 0 {
			t.Errorf("%d places are taken at the end", n)
		}
		if n := cap(NewLogins(1).places); n != 1 {
			t.Errorf("a node with one processor has %d places", n)
		}
	})
}
