package wan

import (
	"context"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// job is one request on its way to a handler.
type job struct {
	s    *session
	kind wire.Kind
	id   uint64
	ctx  context.Context
	body []byte
}

// maxIdle workers per kind are kept for the next request, because a goroutine
// whose stack has grown once is cheaper than a new one.
const maxIdle = 16

// pool runs the handlers of one kind: at most running of them at a time, and
// at most waiting requests behind them.
type pool struct {
	run              func(job)
	running, waiting int

	mu      sync.Mutex
	workers int
	idle    int
	queue   []job // ring: [head, head+n)
	head, n int
	closed  bool
	jobs    chan job // to idle workers; never blocks, as idle <= maxIdle
	wg      sync.WaitGroup
}

func newPool(running, waiting int, run func(job)) *pool {
	return &pool{run: run, running: running, waiting: waiting, jobs: make(chan job, maxIdle)}
}

// submit reports false, and does nothing, if the pool is full or closed.
func (p *pool) submit(j job) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return false
	case p.idle > 0:
		p.idle--
		p.jobs <- j
	case p.workers < p.running:
		p.workers++
		p.wg.Add(1)
		go p.work(j)
	case p.n < p.waiting:
		if p.n == len(p.queue) {
			bigger := make([]job, max(16, 2*p.n))
			for i := range p.n {
				bigger[i] = p.queue[(p.head+i)%len(p.queue)]
			}
			p.queue, p.head = bigger, 0
		}
		p.queue[(p.head+p.n)%len(p.queue)] = j
		p.n++
	default:
		return false
	}
	return true
}

func (p *pool) work(j job) {
	defer p.wg.Done()
	for {
		p.run(j)
		p.mu.Lock()
		switch {
		case p.n > 0:
			j = p.queue[p.head]
			p.queue[p.head] = job{}
			p.head = (p.head + 1) % len(p.queue)
			p.n--
			p.mu.Unlock()
			continue
		case p.closed || p.idle >= maxIdle:
			p.workers--
			p.mu.Unlock()
			return
		}
		p.idle++
		p.mu.Unlock()
		var ok bool
		if j, ok = <-p.jobs; !ok {
			return
		}
	}
}

// load is how many handlers are at work, and how many requests wait behind them.
func (p *pool) load() (running, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.workers - p.idle, p.n
}

// close lets queued jobs run out (their contexts have ended) and stops the workers.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		close(p.jobs)
	}
}

// session is the receiving end of a stream of requests: it knows how to answer
// and which requests of it are running.
type session struct {
	from  base.NodeID
	count *counters
	// reply queues an answer, waiting while the stream is full; it reports
	// nothing, as there is nobody left to tell.
	reply func(typ frameType, kind wire.Kind, id uint64, m Msg)

	mu      sync.Mutex
	cancels map[uint64]context.CancelFunc
	closed  bool
}

// begin makes the context of a request; false if the stream has ended or the id is in use.
func (s *session) begin(id uint64, timeout time.Duration) (context.Context, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, used := s.cancels[id]; used || s.closed {
		return nil, false
	}
	var ctx context.Context
	var cancel context.CancelFunc
	if timeout > 0 {
		ctx, cancel = context.WithTimeout(context.Background(), timeout)
	} else {
		ctx, cancel = context.WithCancel(context.Background())
	}
	if s.cancels == nil {
		s.cancels = map[uint64]context.CancelFunc{}
	}
	s.cancels[id] = cancel
	return ctx, true
}

// end forgets a request and ends its context.
func (s *session) end(id uint64) {
	s.mu.Lock()
	cancel := s.cancels[id]
	delete(s.cancels, id)
	s.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// cancel ends the context of a request; its handler goes on to answer.
func (s *session) cancel(id uint64) {
	s.mu.Lock()
	cancel := s.cancels[id]
	s.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// close ends the contexts of all requests.
func (s *session) close() {
	s.mu.Lock()
	s.closed = true
	cancels := s.cancels
	s.cancels = nil
	s.mu.Unlock()
	for _, cancel := range cancels {
		cancel()
	}
}
