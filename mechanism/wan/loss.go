package wan

import (
	"sync"
	"sync/atomic"
	"time"
)

// TCP hides the loss of packets from who uses it, but for the time that it takes to send them
// again. The kernel counts for each connection what it has sent, and what again. The watcher of
// connections that are stuck asks it anyway, and adds up what has come since the last time. What a
// connection sends between the last look and its end is not counted.

// Packets are TCP segments with data that were sent to a peer, and how many of them again.
type Packets struct{ Sent, Resent uint64 }

// lossWindow is how long a part of what was counted is looked at: loss is that of the last one to
// two of them.
const lossWindow = 30 * time.Second

// packets counts those of one peer, over all connections with it.
type packets struct {
	mu        sync.Mutex
	all       Packets
	cur, prev Packets
	since     time.Time // when cur began
}

// add counts what was sent lately.
func (p *packets) add(now time.Time, sent, resent uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn(now)
	for _, to := range []*Packets{&p.all, &p.cur} {
		to.Sent += sent
		to.Resent += resent
	}
}

// turn begins a new window if the present one is over.
func (p *packets) turn(now time.Time) {
	switch old := now.Sub(p.since); {
	case old >= 2*lossWindow:
		p.prev, p.cur, p.since = Packets{}, Packets{}, now
	case old >= lossWindow:
		p.prev, p.cur, p.since = p.cur, Packets{}, p.since.Add(lossWindow)
	}
}

func (p *packets) read(now time.Time) (sent, resent uint64, lately Packets) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn(now)
	return p.all.Sent, p.all.Resent, Packets{p.cur.Sent + p.prev.Sent, p.cur.Resent + p.prev.Resent}
}

// counted is what was counted of one connection. The kernel's counters are of 32 bits, and wrap.
type counted struct{ sent, resent atomic.Uint32 }

// note adds what a connection has sent since it was looked at last.
func (c *counted) note(to *packets, b backoff) {
	if b.packets == 0 { // it has sent nothing, was closed, or the kernel does not say
		return
	}
	sent, resent := b.packets-c.sent.Swap(b.packets), b.resent-c.resent.Swap(b.resent)
	if sent != 0 || resent != 0 {
		to.add(time.Now(), uint64(sent), uint64(resent))
	}
}
