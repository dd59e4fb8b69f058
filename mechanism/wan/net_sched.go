package wan

import (
	"cmp"
	"math"
	"time"

	"github.com/godwitdb/godwit/wire"
)

// parcel is one encoded frame on its way.
type parcel struct {
	buf  []byte
	typ  frameType
	kind wire.Kind
	id   uint64
	wire int    // bytes on the line
	left int    // of them, not yet through the bottleneck
	gen  uint64 // of the hold, to know a stalled parcel
}

// path is the way from a region to another; its bandwidth is a single server
// that the classes share in turns.
type path struct {
	spec    LinkSpec
	busy    int64 // the line is taken until then
	last    int64 // newest arrival scheduled; what was lost arrives a timeout later
	drained int64 // when what was sent while the path was slower has arrived
	queue   [numClasses][]queued
	waiting int  // in queue
	turn    int  // class that is next
	armed   bool // an event to serve the queue is scheduled
}

type queued struct {
	p *pipe
	c parcel
}

// quantum is what a class may send before the next one has its turn: 16 KiB
// are 1.3 ms at 100 Mbit/s.
const quantum = 16 << 10

func (s *LinkSpec) serialise(bytes int) int64 {
	if s.Bandwidth <= 0 {
		return 0
	}
	return int64(math.Round(float64(bytes) * 8e9 / s.Bandwidth))
}

// pipe is one direction of a stream: first in, first out.
type pipe struct {
	conn     *netConn
	fwd      bool // requests; otherwise answers
	from, to *netEnd
	path     *path
	back     *path
	last     int64    // newest arrival scheduled
	inflight int      // queued, scheduled, or being handed over right now
	held     []parcel // wait for a cut to heal
	stuck    int64    // since when the first of them does
}

func (p *pipe) compare(o *pipe) int {
	return cmp.Or(cmp.Compare(p.from.id, o.from.id), cmp.Compare(p.to.id, o.to.id),
		cmp.Compare(p.conn.class, o.conn.class), cmp.Compare(p.conn.from.self, o.conn.from.self))
}

// event is due at a time; exactly one of pipe, path, fn is set.
type event struct {
	at   int64
	seq  uint64
	pipe *pipe // c arrives
	c    parcel
	path *path // serve its queue
	fn   func()
}

// eventHeap is a binary heap by (at, seq), so that equal times keep the order
// in which they were scheduled.
type eventHeap []event

func (h eventHeap) less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}

func (h *eventHeap) push(e event) {
	*h = append(*h, e)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s.less(i, up) {
			break
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h *eventHeap) pop() event {
	s := *h
	top := s[0]
	n := len(s) - 1
	s[0] = s[n]
	s[n] = event{}
	s = s[:n]
	*h = s
	for i := 0; ; {
		kid := 2*i + 1
		if kid >= n {
			break
		}
		if kid+1 < n && s.less(kid+1, kid) {
			kid++
		}
		if !s.less(kid, i) {
			break
		}
		s[i], s[kid] = s[kid], s[i]
		i = kid
	}
	return top
}

// schedule adds an event; n.mu is held.
func (n *Network) schedule(e event) {
	n.seq++
	e.seq = n.seq
	n.events.push(e)
	if e.at < n.asleep {
		n.asleep = e.at
		n.poke()
	}
}

func (n *Network) after(d time.Duration, fn func()) {
	n.schedule(event{at: n.now() + int64(d), fn: fn})
}

// enter takes a parcel into a pipe; n.mu is held. It reports whether the
// parcel arrives at once: then the caller must hand it over after unlocking.
func (n *Network) enter(p *pipe, c parcel) (now bool) {
	if n.isCut(p.from, p.to) || len(p.held) > 0 {
		n.hold(p, c)
		return false
	}
	t := n.now()
	w := p.path
	if w.spec.Bandwidth > 0 || w.waiting > 0 {
		c.left = c.wire
		if w.waiting > 0 || w.busy > t || c.left > quantum {
			p.inflight++
			w.queue[p.conn.class] = append(w.queue[p.conn.class], queued{p, c})
			w.waiting++
			if !w.armed {
				w.armed = true
				n.schedule(event{at: max(t, w.busy), path: w})
			}
			return false
		}
		w.busy = t + w.spec.serialise(c.left)
		return n.depart(p, c, w.busy, 0)
	}
	return n.depart(p, c, t, 0)
}

// depart puts a parcel that leaves the bottleneck at the given time on the
// line; extra is time already lost.
func (n *Network) depart(p *pipe, c parcel, at int64, extra time.Duration) (now bool) {
	s := &p.path.spec
	d := s.Delay + extra
	if s.Jitter > 0 {
		d += time.Duration(n.rnd.Int64N(int64(s.Jitter)))
	}
	if s.Loss > 0 {
		packets := (c.wire + 1447) / 1448
		if n.rnd.Float64() < 1-math.Pow(1-s.Loss, float64(packets)) {
			if n.opt.DropSends && c.typ == typeSend {
				p.lose(c)
				return false
			}
			d += n.rto(p.path, p.back)
		}
	}
	arrive := max(at+int64(d), p.last)
	p.last, p.path.last = arrive, max(p.path.last, arrive)
	if arrive <= n.now() && p.inflight == 0 {
		return true
	}
	p.inflight++
	n.schedule(event{at: arrive, pipe: p, c: c})
	return false
}

// serve gives each class that waits for the line one turn; n.mu is held.
func (n *Network) serve(w *path) {
	w.armed = false
	w.busy = max(w.busy, n.now())
	for range numClasses {
		q := &w.queue[w.turn]
		for room := quantum; room > 0 && len(*q) > 0; {
			head := &(*q)[0]
			seg := min(room, head.c.left)
			if !head.p.conn.dead {
				w.busy += w.spec.serialise(seg)
			}
			room -= seg
			if head.c.left -= seg; head.c.left > 0 {
				continue
			}
			done := *head
			(*q)[0] = queued{}
			*q = (*q)[1:]
			w.waiting--
			// inflight stays up until depart has scheduled it, so that it cannot
			// take the short cut past parcels that are being handed over.
			if !done.p.conn.dead {
				if n.isCut(done.p.from, done.p.to) || len(done.p.held) > 0 {
					n.hold(done.p, done.c)
				} else {
					n.depart(done.p, done.c, w.busy, 0)
				}
			}
			done.p.inflight--
		}
		if len(*q) == 0 {
			*q = nil
		}
		w.turn = (w.turn + 1) % int(numClasses)
	}
	if w.waiting > 0 {
		w.armed = true
		n.schedule(event{at: w.busy, path: w})
	}
}

// hold keeps a parcel until the cut heals; one-way messages are lost instead, but for
// NetOptions.Backlog.
func (n *Network) hold(p *pipe, c parcel) {
	if c.typ == typeSend && !n.opt.Backlog {
		p.lose(c)
		return
	}
	n.seq++
	c.gen = n.seq
	if len(p.held) == 0 {
		p.stuck = n.now()
	}
	p.held = append(p.held, c)
	n.held[p] = struct{}{}
	if c.typ == typeCancel {
		return
	}
	n.after(n.opt.StallAfter, func() {
		for i := range p.held {
			if p.held[i].gen == c.gen && !p.conn.dead {
				p.held = append(p.held[:i:i], p.held[i+1:]...)
				if len(p.held) == 0 {
					delete(n.held, p)
				}
				if c.typ == typeSend {
					p.lose(c)
				} else {
					p.conn.unhold(p, c)
				}
				return
			}
		}
	})
}

// arrival is a parcel to be handed over, outside the lock.
type arrival struct {
	p *pipe
	c parcel
}

// move is the goroutine that lets time pass.
func (n *Network) move() {
	defer close(n.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var due []arrival
	for {
		n.mu.Lock()
		for _, a := range due {
			a.p.inflight--
		}
		clear(due)
		if n.closed {
			n.failRest()
			n.mu.Unlock()
			return
		}
		now := n.now()
		due = n.happen(now, due[:0])
		wait := time.Hour
		if len(n.events) > 0 {
			wait = time.Duration(n.events[0].at - now)
		}
		n.asleep = math.MinInt64
		if len(due) == 0 {
			n.asleep = now + int64(wait)
		}
		n.mu.Unlock()
		if len(due) > 0 {
			for _, a := range due {
				a.p.conn.arrive(a.p, a.c)
			}
			continue
		}
		timer.Reset(wait)
		n.kernel.arm(wait)
		select {
		case <-timer.C:
		case <-n.wake:
		}
	}
}

// happen has everything happen that is due, but for arrivals: it adds those to due. mu is held.
func (n *Network) happen(now int64, due []arrival) []arrival {
	for len(n.events) > 0 && n.events[0].at <= now {
		e := n.events.pop()
		switch {
		case e.path != nil:
			n.serve(e.path)
		case e.fn != nil:
			e.fn()
		case e.pipe.conn.dead:
			e.pipe.inflight--
		case n.isCut(e.pipe.from, e.pipe.to), len(e.pipe.held) > 0:
			e.pipe.inflight--
			n.hold(e.pipe, e.c)
		default:
			due = append(due, arrival{e.pipe, e.c})
		}
	}
	return due
}

// failRest has what is left to happen in a network that is closed: that calls fail. mu is held.
func (n *Network) failRest() {
	for _, e := range n.events {
		if e.fn != nil {
			e.fn()
		}
	}
	n.events = nil
}
