package store

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// compactions is a database that has some compactions to do, two at once.
type compactions struct {
	mu      sync.Mutex
	waiting int
	begun   int
	closed  bool
	t       *testing.T
}

func (c *compactions) GetAllowedWithoutPermission() int { return 2 }

func (c *compactions) GetWaitingCompaction() (bool, pebble.WaitingCompaction) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		c.t.Error("the database is asked after it was closed")
	}
	return c.waiting > 0, pebble.WaitingCompaction{}
}

func (c *compactions) Schedule(pebble.CompactionGrantHandle) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == 0 {
		return false
	}
	c.waiting--
	c.begun++
	return true
}

func (c *compactions) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting += n
}

func (c *compactions) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.begun
}

// TestPatience: compactions wait while much is written, for a bounded time, and begin when it ends.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, db := newPatience(), &compactions{t: t}
		p.Register(1, db)
		write := func(d time.Duration, bytes int64) {
			for range d / (10 * time.Millisecond) {
				p.written.Add(bytes)
				time.Sleep(10 * time.Millisecond)
			}
		}
		want := func(what string, begun int) {
			t.Helper()
			synctest.Wait()
			if n := db.count(); n != begun {
				t.Errorf("%s: %d compactions have begun, want %d", what, n, begun)
			}
		}

		// When little is written they begin at once, as many as may.
		write(time.Second, 1000)
		ok, h := p.TrySchedule()
		if !ok {
			t.Fatal("a compaction waits, though little is written")
		}
		db.add(2)
		write(2*lookEvery, 1000)
		want("two may run, one of them was granted before", 1)
		h.Done()
		want("one of them is done", 2)
		p.Done()
		p.Done()

		// In a burst they wait for its end.
		write(time.Second, burst)
		if ok, _ := p.TrySchedule(); ok {
			t.Error("a compaction begins in a burst")
		}
		db.add(1)
		write(patient-time.Second, burst)
		want("a burst", 2)
		write(2*lookEvery, 0)
		want("its end", 3)
		p.Done()

		// They do not wait for longer than they may, and from then on not at all, until all are
		// done.
		write(time.Second, burst)
		db.add(1)
		write(patient+3*lookEvery, burst)
		want("a long burst", 4)
		db.add(1)
		write(2*lookEvery, burst)
		want("in the same burst", 5)
		p.Done()
		p.Done()
		write(2*lookEvery, burst)
		db.add(1)
		write(time.Second, burst)
		want("all were done in between", 5)

		// One that ends after the database has been closed asks it nothing.
		write(2*lookEvery, 0)
		want("the end of all bursts", 6)
		p.Unregister()
		db.mu.Lock()
		db.closed = true
		db.mu.Unlock()
		p.Done()
		if ok, _ := p.TrySchedule(); ok {
			t.Error("a compaction begins in a closed database")
		}
	})
}
