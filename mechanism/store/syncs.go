package store

import (
	"sync"
	"time"
)

// syncs measures the disk by what is asked of it: the commits that somebody waits for. A disk that
// stands still shows in the age of the oldest one under way, a slow one in how long they take.
type syncs struct {
	mu          sync.Mutex
	first, last *Batch // under way, by age
	done        int64
	took        time.Duration
}

// DiskUse is how the disk has served synced commits.
type DiskUse struct {
	// Age is how long the oldest one under way has taken so far; 0 if none is.
	Age time.Duration
	// Syncs are those that have ended since Open, Took how long they took, all together.
	Syncs int64
	Took  time.Duration
}

// DiskUse samples how the disk serves.
func (s *Store) DiskUse() DiskUse {
	x := &s.syncs
	x.mu.Lock()
	defer x.mu.Unlock()
	u := DiskUse{Syncs: x.done, Took: x.took}
	if x.first != nil {
		u.Age = time.Since(x.first.began)
	}
	return u
}

// begin notes that a batch goes to the disk. A batch may have to wait before it is even written:
// that counts.
func (x *syncs) begin(b *Batch) {
	b.began = time.Now()
	x.mu.Lock()
	defer x.mu.Unlock()
	b.older = x.last
	if x.last != nil {
		x.last.newer = b
	} else {
		x.first = b
	}
	x.last = b
}

// end notes that a batch is durable, or that it failed.
func (x *syncs) end(b *Batch) {
	if b.began.IsZero() {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.done++
	x.took += time.Since(b.began)
	if b.older != nil {
		b.older.newer = b.newer
	} else {
		x.first = b.newer
	}
	if b.newer != nil {
		b.newer.older = b.older
	} else {
		x.last = b.older
	}
	b.older, b.newer, b.began = nil, nil, time.Time{}
}
