package store

import (
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// maxIdle bounds the iterators kept for the next readers.
const maxIdle = 8

// idlePool keeps iterators of closed readers while no version has changed
// since they were made, so that a point read on a quiet store does not pay for
// a new one. gen counts the changes; it is read before an iterator is made, so an
// iterator tagged with the current gen shows every finished commit.
type idlePool struct {
	gen    atomic.Uint64
	n      atomic.Int32
	mu     sync.Mutex
	its    []*pebble.Iterator
	at     uint64 // gen of its
	closed bool
}

// take returns an iterator that shows all finished commits, nil if there is none.
func (p *idlePool) take() (it *pebble.Iterator, gen uint64) {
	gen = p.gen.Load()
	if p.n.Load() == 0 {
		return nil, gen
	}
	var old []*pebble.Iterator
	p.mu.Lock()
	if n := len(p.its); n > 0 {
		if p.at == gen {
			it, p.its[n-1] = p.its[n-1], nil
			p.its = p.its[:n-1]
			p.n.Store(int32(n - 1))
		} else {
			old = p.empty()
		}
	}
	p.mu.Unlock()
	closeAll(old)
	return it, gen
}

// put gives an iterator back that was made at gen.
func (p *idlePool) put(it *pebble.Iterator, gen uint64) {
	if gen == p.gen.Load() && p.n.Load() < maxIdle && it.Error() == nil {
		var old []*pebble.Iterator
		kept := false
		p.mu.Lock()
		if p.at != gen {
			old = p.empty()
		}
		if gen == p.gen.Load() && len(p.its) < maxIdle && !p.closed {
			p.at, kept = gen, true
			p.its = append(p.its, it)
			p.n.Store(int32(len(p.its)))
		}
		p.mu.Unlock()
		closeAll(old)
		if kept {
			return
		}
	}
	_ = it.Close()
}

// empty takes all iterators out; the caller holds the lock and closes them without it.
func (p *idlePool) empty() []*pebble.Iterator {
	old := p.its
	p.its = nil
	p.n.Store(0)
	return old
}

// expire makes the iterators out of date; the next reader closes them. It is
// called from Pebble's callbacks, so it must not close them itself.
func (p *idlePool) expire() { p.gen.Add(1) }

// close closes all of them, for good.
func (p *idlePool) close() {
	p.mu.Lock()
	old := p.empty()
	p.closed = true
	p.mu.Unlock()
	closeAll(old)
}

func closeAll(its []*pebble.Iterator) {
	for _, it := range its {
		_ = it.Close()
	}
}
