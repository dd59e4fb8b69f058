package group

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestSoleVoter: clients of a group of one voter, alone and in company, while the node crashes and
// loses what its slow disk had not synced. One batch is applied while the next is on its way to the
// disk: what was acknowledged stays.
func TestSoleVoter(t *testing.T) {
	for _, seed := range seeds(t, 12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			virtual(t, seed, func(t *testing.T) { soleVoter(t, seed) })
		})
	}
}

func soleVoter(t *testing.T, seed uint64) {
	c := newCluster(t, seed, 1, wan30(), HostOptions{LogKeepEntries: 20})
	defer c.close()
	c.groups[testGroup] = c.all()
	c.rows = true
	c.record = &recorder{at: map[uint64]uint64{}}
	var mu sync.Mutex
	disk := rand.New(rand.NewPCG(seed, 3))
	c.syncDelay = func() time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(disk.IntN(int(8 * time.Millisecond)))
	}
	c.startAll()
	var ops []*op
	value := uint64(0)
	for life := range 8 {
		g := c.leader(testGroup)
		before := g.Applied()
		var crashed atomic.Bool
		var wg sync.WaitGroup
		for range 1 + (life+int(seed))%6*2 {
			wg.Go(func() {
				for !crashed.Load() {
					mu.Lock()
					value++
					o := &op{value: value, start: time.Now()}
					mu.Unlock()
					res, index, err := g.Propose(context.Background(), put(o.value), 0)
					if crashed.Load() {
						return // whatever it was told, nobody heard it
					}
					o.end, o.index, o.err = time.Now(), index, err
					if err == nil {
						o.prev = res.(uint64)
					}
					mu.Lock()
					ops = append(ops, o)
					mu.Unlock()
				}
			})
		}
		time.Sleep(time.Duration(50+c.rng.IntN(400)) * time.Millisecond)
		if g.Applied() == before {
			t.Errorf("life %d: nothing was applied", life)
		}
		crashed.Store(true)
		c.record.setDeaf(true)
		c.crash(1)
		wg.Wait()
		c.record.setDeaf(false)
		c.start(1)
	}
	c.leader(testGroup)
	time.Sleep(time.Second)
	checkHistory(t, ops, c.record.log())
}
