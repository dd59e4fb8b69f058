package group

import (
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

// TestPush: proposers who do the group's turns themselves, many at once and while the replica
// stops, are answered once each, and none before its command is applied.
func TestPush(t *testing.T) {
	for _, n := range []int{1, 3} {
		virtual(t, uint64(n), func(t *testing.T) {
			c := newCluster(t, 1, n, wan30(), HostOptions{})
			defer c.close()
			c.groups[testGroup] = c.all()
			c.startAll()
			l := c.leader(testGroup)
			term, _ := l.Leads()
			before := l.Applied()
			const proposers, each = 8, 50
			var wg sync.WaitGroup
			for range proposers {
				wg.Go(func() {
					for i := range each {
						done := make(chan uint64, 2)
						l.Enqueue(put(uint64(i)), term, func(_ any, index uint64, err error) {
							if err != nil {
								index = 0
							}
							done <- index
						})
						l.Push()
						if index := <-done; index <= before || l.Applied() < index {
							t.Errorf("a proposal got index %d, applied is %d", index, l.Applied())
						}
					}
				})
			}
			wg.Wait()
			if got := l.Applied() - before; got < proposers*each {
				t.Fatalf("%d entries applied, %d proposed", got, proposers*each)
			}
			c.converge(testGroup)
			codes := make(chan base.Code, proposers*each)
			for range proposers {
				wg.Go(func() {
					for i := range each {
						l.Enqueue(put(uint64(i)), term, func(_ any, _ uint64, err error) { codes <- base.CodeOf(err) })
						l.Push()
					}
				})
			}
			lead, _ := l.Leader()
			c.stop(lead)
			wg.Wait()
			for range proposers * each {
				<-codes
			}
		})
	}
}

// TestPushDoesNotWaitForTheDisk: the disk of a sole voter takes nothing. Whoever does the group's
// turn is free at once, and can give up.
func TestPushDoesNotWaitForTheDisk(t *testing.T) {
	const stalls = 10 * time.Second
	for _, waits := range []bool{false, true} {
		virtual(t, 1, func(t *testing.T) {
			c := newCluster(t, 1, 1, wan30(), HostOptions{GuestsWait: waits})
			defer c.close()
			c.groups[testGroup] = c.all()
			c.startAll()
			l := c.leader(testGroup)
			term, _ := l.Leads()
			time.Sleep(time.Second)
			c.frozen.Store(base.NodeID(1), time.Now().Add(stalls))
			done := make(chan error, 1)
			began := time.Now()
			l.Enqueue(put(1), term, func(_ any, _ uint64, err error) { done <- err })
			l.Push()
			if d := time.Since(began); waits != (d > stalls/2) {
				t.Errorf("waits %v: whoever did the turn was there for %v", waits, d)
			}
			must(t, <-done)
			if d := time.Since(began); d < stalls/2 {
				t.Errorf("the disk stood still, and took a proposal after %v", d)
			}
		})
	}
}
