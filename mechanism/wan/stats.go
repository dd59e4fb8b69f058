package wan

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// KindStats counts the messages of one kind on a link. Bytes are whole frames,
// without what TCP, IP and TLS add.
type KindStats struct {
	Kind                wire.Kind
	SentMsgs, SentBytes uint64
	RecvMsgs, RecvBytes uint64
}

// LinkStats are the counters of the traffic with one peer since Start.
type LinkStats struct {
	Peer      base.NodeID
	Region    base.RegionID
	Connected bool        // a stream to the peer is open (TCP), or the peer is up (emulation)
	Kinds     []KindStats // only kinds that were used, by kind
	// Sums over Kinds.
	SentMsgs, SentBytes uint64
	RecvMsgs, RecvBytes uint64
	// StreamSent and StreamRecv are bytes of frames that went into connections and came out of
	// them, WireSent and WireRecv what crossed the network for them: less, where it was compressed.
	StreamSent, WireSent uint64
	StreamRecv, WireRecv uint64
	// Writes are those of what was sent, each with one frame or several that had gathered.
	Writes uint64
	// Packets counts TCP segments with data that were sent to the peer, Resent those among them
	// that were sent again because they seemed lost. Resent of Packets is the loss of the path,
	// or somewhat more: what is only late is sent again, too. Both are 0 where the kernel does not
	// say (it is not Linux), or the network is emulated in the process.
	Packets, Resent uint64
	// Lately are those of the last half to whole minute.
	Lately Packets
	// Overloaded counts messages refused because a queue was full, here or (for
	// requests from the peer) at a handler.
	Overloaded uint64
	// Dropped counts one-way messages lost: stream broken, link cut, no handler.
	Dropped uint64
	// Connects counts streams opened to the peer, Beside connections that were tried beside stuck
	// ones.
	Connects, Beside uint64
	// QueuedMsgs and QueuedBytes wait to be sent now, over all classes.
	QueuedMsgs, QueuedBytes int
}

type kindCounters struct {
	sentMsgs, sentBytes, recvMsgs, recvBytes atomic.Uint64
}

// counters are those of one peer.
type counters struct {
	peer       base.NodeID
	region     atomic.Uint32
	kinds      [wire.KindMax]kindCounters
	lost       lost
	packets    packets
	overloaded atomic.Uint64
	dropped    atomic.Uint64
	connects   atomic.Uint64
	beside     atomic.Uint64
	// Bytes of streams as they were queued, and as they crossed the network.
	streamSent, wireSent, streamRecv, wireRecv atomic.Uint64
	writes                                     atomic.Uint64
}

func (c *counters) sent(kind wire.Kind, size int) {
	if kind < wire.KindMax {
		c.kinds[kind].sentMsgs.Add(1)
		c.kinds[kind].sentBytes.Add(uint64(size))
	}
}

// crossed counts a frame on an emulated link, at both ends.
func (c *counters) crossed(raw, wire int, to *counters) {
	c.streamSent.Add(uint64(raw))
	c.wireSent.Add(uint64(wire))
	c.writes.Add(1)
	to.streamRecv.Add(uint64(raw))
	to.wireRecv.Add(uint64(wire))
}

func (c *counters) received(f frame) {
	if f.kind < wire.KindMax {
		c.kinds[f.kind].recvMsgs.Add(1)
		c.kinds[f.kind].recvBytes.Add(uint64(f.size))
	}
}

func (c *counters) stats() LinkStats {
	s := LinkStats{
		Peer: c.peer, Region: base.RegionID(c.region.Load()), Overloaded: c.overloaded.Load(),
		Dropped: c.dropped.Load(), Connects: c.connects.Load(), Beside: c.beside.Load(),
		Writes: c.writes.Load(), StreamSent: c.streamSent.Load(), WireSent: c.wireSent.Load(),
		StreamRecv: c.streamRecv.Load(), WireRecv: c.wireRecv.Load(),
	}
	s.Packets, s.Resent, s.Lately = c.packets.read(time.Now())
	for k := range c.kinds {
		ks := KindStats{
			Kind: wire.Kind(k), SentMsgs: c.kinds[k].sentMsgs.Load(), SentBytes: c.kinds[k].sentBytes.Load(),
			RecvMsgs: c.kinds[k].recvMsgs.Load(), RecvBytes: c.kinds[k].recvBytes.Load(),
		}
		if ks.SentMsgs+ks.RecvMsgs == 0 {
			continue
		}
		s.Kinds = append(s.Kinds, ks)
		s.SentMsgs += ks.SentMsgs
		s.SentBytes += ks.SentBytes
		s.RecvMsgs += ks.RecvMsgs
		s.RecvBytes += ks.RecvBytes
	}
	return s
}

// allStats gathers the peers' counters; more adds what only the transport knows.
func (c *core) allStats(more func(*LinkStats)) []LinkStats {
	c.mu.RLock()
	all := make([]*counters, 0, len(c.peers))
	for _, p := range c.peers {
		all = append(all, p)
	}
	c.mu.RUnlock()
	slices.SortFunc(all, func(a, b *counters) int { return int(a.peer) - int(b.peer) })
	out := make([]LinkStats, 0, len(all))
	for _, p := range all {
		s := p.stats()
		more(&s)
		out = append(out, s)
	}
	return out
}
