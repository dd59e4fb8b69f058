package group

import (
	"sync"
	"testing"

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
