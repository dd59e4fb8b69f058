package store

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// patience lets compactions wait while much is written: a burst of writes is over sooner if it does
// not share the processors and the disk with them. It implements [pebble.CompactionScheduler].
//
// They wait for the end of a burst, for patient at most, and for no other one until none is left to
// do. So what is left to do does not grow without bound: it is what is written in that time.
type patience struct {
	written atomic.Int64 // bytes, by all commits so far

	db         pebble.DBForCompaction
	stop, done chan struct{}
	poke       chan struct{}

	granting sync.Mutex // is held while db is asked

	mu      sync.Mutex
	closed  bool
	running int
	since   time.Time // a compaction first had to wait; zero: none has since all were done
	before  int64     // written, at the last look
	busy    bool      // more than a burst was written before the last look
}

const (
	patient = 3 * time.Second
	// lookEvery is how often the writes are looked at, and burst how many bytes in between are one.
	lookEvery = 100 * time.Millisecond
	burst     = 1 << 20
)

func newPatience() *patience {
	return &patience{stop: make(chan struct{}), done: make(chan struct{}), poke: make(chan struct{}, 1)}
}

// Register implements pebble.CompactionScheduler.
func (p *patience) Register(_ int, db pebble.DBForCompaction) {
	p.db = db
	go p.run()
}

// Unregister implements pebble.CompactionScheduler: nothing is asked of the database any more.
func (p *patience) Unregister() {
	close(p.stop)
	<-p.done
	p.granting.Lock()
	defer p.granting.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

// TrySchedule implements pebble.CompactionScheduler.
func (p *patience) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.may() {
		return false, nil
	}
	p.running++
	return true, p
}

// may reports whether a compaction may begin. p.mu is held.
func (p *patience) may() bool {
	if p.closed || p.running >= p.db.GetAllowedWithoutPermission() {
		return false
	}
	if !p.busy {
		return true
	}
	if p.since.IsZero() {
		p.since = time.Now()
	}
	return time.Since(p.since) >= patient
}

// UpdateGetAllowedWithoutPermission implements pebble.CompactionScheduler.
func (p *patience) UpdateGetAllowedWithoutPermission() {
	select {
	case p.poke <- struct{}{}:
	default:
	}
}

// Started implements pebble.CompactionGrantHandle.
func (p *patience) Started() {}

// MeasureCPU implements pebble.CompactionGrantHandle.
func (p *patience) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats implements pebble.CompactionGrantHandle.
func (p *patience) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// Done implements pebble.CompactionGrantHandle.
func (p *patience) Done() {
	p.mu.Lock()
	p.running--
	p.mu.Unlock()
	p.grant()
}

func (p *patience) run() {
	defer close(p.done)
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-t.C:
			p.look()
		case <-p.poke:
		}
		p.grant()
	}
}

// look finds out whether a burst is going on.
func (p *patience) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.written.Load()
	p.busy = now-p.before >= burst
	p.before = now
}

// grant begins the compactions that wait and may begin.
func (p *patience) grant() {
	p.granting.Lock()
	defer p.granting.Unlock()
	for p.take() {
		if p.db.Schedule(p) {
			continue
		}
		p.mu.Lock()
		p.running--
		p.mu.Unlock()
		return
	}
}

// take counts a compaction that waits and may begin. p.granting is held.
func (p *patience) take() bool {
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return false
	}
	waiting, _ := p.db.GetWaitingCompaction()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !waiting {
		if p.running == 0 {
			p.since = time.Time{}
		}
		return false
	}
	if !p.may() {
		return false
	}
	p.running++
	return true
}
