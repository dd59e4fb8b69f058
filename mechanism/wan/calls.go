package wan

import (
	"math"
	"sync"
)

// call is one Call waiting for its answer.
type call struct {
	done chan struct{} // capacity 1: an answer (f) or an error (err) is there
	f    frame
	err  error
	// start is the offset of the request in the stream (TCP only), by which it
	// can be told whether any of it was written.
	start uint64
}

// callPool reuses calls. Each transport has its own: a channel of one synctest
// bubble must not appear in another.
type callPool struct{ p sync.Pool }

func (p *callPool) get() *call {
	c, _ := p.p.Get().(*call)
	if c == nil {
		c = &call{done: make(chan struct{}, 1)}
	}
	c.f, c.err, c.start = frame{}, nil, math.MaxUint64
	return c
}

func (p *callPool) put(c *call) { p.p.Put(c) }

// callTable holds the unanswered calls of one stream. Whatever takes a call out of
// it completes it, once.
type callTable struct {
	mu     sync.Mutex
	calls  map[uint64]*call
	closed bool
}

type addResult uint8

const (
	added addResult = iota
	tableFull
	tableClosed
)

func (t *callTable) add(id uint64, c *call, limit int) addResult {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return tableClosed
	case len(t.calls) >= limit:
		return tableFull
	}
	if t.calls == nil {
		t.calls = map[uint64]*call{}
	}
	t.calls[id] = c
	return added
}

// take removes a call; nil if it is not there (answered, withdrawn, failed).
func (t *callTable) take(id uint64) *call {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.calls[id]
	delete(t.calls, id)
	return c
}

// answer completes the call of an answer; answers to withdrawn calls are dropped.
func (t *callTable) answer(f frame) {
	if c := t.take(f.id); c != nil {
		c.f = f
		c.done <- struct{}{}
	}
}

// fail completes one call with an error.
func (t *callTable) fail(id uint64, err error) {
	if c := t.take(id); c != nil {
		c.err = err
		c.done <- struct{}{}
	}
}

// drain fails all calls; with end, later adds are refused.
func (t *callTable) drain(end bool, errOf func(*call) error) {
	t.mu.Lock()
	calls := t.calls
	t.calls = nil
	t.closed = t.closed || end
	t.mu.Unlock()
	for _, c := range calls {
		c.err = errOf(c)
		c.done <- struct{}{}
	}
}
