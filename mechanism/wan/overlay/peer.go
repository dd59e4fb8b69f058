package overlay

import (
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
)

// lane is a use that is made of another node on the way to a peer.
type lane uint8

const (
	laneRelay lane = iota // all that relays may carry, because it is faster
	laneFan               // what is shared with other nodes of the peer's region, to send it once
	lanes
)

// What is kept of a stint at most until it is confirmed; more means that the way is too slow.
const (
	maxKept      = 4096
	maxKeptBytes = 8 << 20
)

// raw is a message that is encoded already.
type raw []byte

func (r raw) MarshalVT() ([]byte, error)                   { return r, nil }
func (r raw) SizeVT() int                                  { return len(r) }
func (r raw) MarshalToSizedBufferVT(b []byte) (int, error) { return copy(b[len(b)-len(r):], r), nil }
func (r raw) UnmarshalVT([]byte) error                     { panic("overlay: encoded messages are only sent") }

// What a ParcelNotice says.
const (
	noticeBegin   = 1 + iota // a stint begins: what came directly before, precedes it
	noticeResent             // a message of the stint that was not confirmed
	noticeEnd                // it has ended
	noticeReceipt            // receiver to origin: all up to seq has arrived
	noticeLost               // relay to origin: something for node could not be passed on
	noticeProbe              // origin to receiver
	noticeEcho               // its answer; node is what the probe came over, 0: nothing
	noticeLinks              // who does not hear whom
	noticeOpen               // request: a detour is to begin; answer: seq is its number
	noticeDirect             // the detour of a number is over
	noticeDropped            // receiver to origin: it takes only what comes on the detour of a number, or directly (0)
)

// kept is a message of a stint that is not confirmed yet.
type kept struct {
	seq  uint64
	at   time.Duration
	kind wire.Kind
	body func() []byte
	size int
}

// way is one lane to a peer.
type way struct {
	via        base.NodeID // 0: the lane is not in use
	stint, seq uint64
	kept       []kept
	bytes      int
}

// peer is a node that consensus messages are sent to.
type peer struct {
	o  *Overlay
	id base.NodeID

	// mu is held while something is sent, so that what goes over relays and what goes directly have
	// an order.
	mu      sync.Mutex
	ways    [lanes]way
	out     outlet
	heals   time.Duration // since when all ways to it have links that are healing; of the goroutine that watches
	used    bool          // something was sent since the last look
	route   route
	probing probe
	stats   Stats
}

// probe is the one under way.
type probe struct {
	id              uint64
	at              time.Duration
	direct, relayed time.Duration // when the echoes came; 0: not yet
}

func (p *peer) send(kind wire.Kind, m wan.Msg) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used = true
	w := &p.ways[laneRelay]
	if w.via == 0 {
		return p.o.base(p.id, kind, m)
	}
	body, err := m.MarshalVT()
	if err != nil {
		return err
	}
	x := p.number(laneRelay, kind, len(body), func() []byte { return body })
	if x == nil { // the lane was too full, and has been given up
		return p.o.base(p.id, kind, raw(body))
	}
	x.Body = body
	p.stats.RelayedMsgs++
	p.stats.RelayedBytes += uint64(len(body))
	via := w.via
	if err := p.o.Transport.Send(via, wire.KindParcel, x); err != nil {
		p.stop(laneRelay, true, err.Error()) // sends it directly
	}
	return nil
}

// number makes the next parcel of a lane in use, and keeps what it carries; nil if too much is kept
// already. mu is held.
func (p *peer) number(l lane, kind wire.Kind, size int, body func() []byte) *wire.Parcel {
	w := &p.ways[l]
	if len(w.kept) >= maxKept || w.bytes+size > maxKeptBytes && len(w.kept) > 0 {
		p.stop(l, true, "too much is unconfirmed")
		return nil
	}
	w.seq++
	w.kept = append(w.kept, kept{w.seq, p.o.now(), kind, body, size})
	w.bytes += size
	return &wire.Parcel{Origin: uint32(p.o.Self()), To: uint32(p.id), Boot: p.o.boot, Lane: uint32(l), Stint: w.stint,
		Seq: w.seq, Kind: uint32(kind)}
}

func (p *peer) notice(what uint32, l lane, seq uint64) *wire.ParcelNotice {
	return &wire.ParcelNotice{What: what, Boot: p.o.boot, Lane: uint32(l), Stint: p.ways[l].stint, Seq: seq}
}

// begin starts a stint over a node; false if the direct path does not even take the notice. mu is
// held.
func (p *peer) begin(l lane, via base.NodeID) bool {
	w := &p.ways[l]
	*w = way{stint: w.stint + 1}
	if p.out.now.Load() != nil {
		return false // receipts would make a detour, too
	}
	if p.o.Transport.Send(p.id, wire.KindParcelNotice, p.notice(noticeBegin, l, 0)) != nil {
		return false
	}
	w.via = via
	p.stats.Stints++
	return true
}

// stop ends the stint of a lane: what is unconfirmed goes on the direct path, and so does what
// follows. mu is held.
func (p *peer) stop(l lane, failed bool, why string) {
	w := &p.ways[l]
	via := w.via
	if via == 0 {
		return
	}
	for _, k := range w.kept {
		x := p.notice(noticeResent, l, k.seq)
		x.Kind, x.Body = uint32(k.kind), k.body()
		if p.o.base(p.id, wire.KindParcelNotice, x) == nil {
			p.stats.ResentMsgs++
			p.stats.ResentBytes += uint64(k.size)
		}
	}
	// a message of the kind that comes directly says as much
	_ = p.o.base(p.id, wire.KindParcelNotice, p.notice(noticeEnd, l, w.seq))
	*w = way{stint: w.stint}
	if failed {
		p.stats.Fallbacks++
		p.o.log.Warn("messages go directly again", "to", uint32(p.id), "not_over", uint32(via), "why", why)
	}
	if l == laneFan {
		if failed {
			p.o.proxyFailed(via)
		}
		return
	}
	p.route.used(false, failed, p.o.now())
}

// giveUp ends a lane if it leads over a node.
func (p *peer) giveUp(l lane, via base.NodeID, why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ways[l].via == via && via != 0 {
		p.stop(l, true, why)
	}
}

// patience is how long something may be unconfirmed, with the round trip on the direct path.
func patience(rtt time.Duration) time.Duration {
	return rtt + receiptEvery + max(50*time.Millisecond, rtt/2)
}

// unknownRTT stands for a round trip that nobody has measured.
const unknownRTT = time.Second

func (p *peer) rtt() time.Duration {
	if d := p.o.opt.RTT(p.o.Self(), p.id); d >= 0 {
		return d
	}
	return unknownRTT
}

// expire ends lanes that were not confirmed in time, that lead over a node that has been silent, or
// that are not wanted any more.
func (p *peer) expire(params Params) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range lanes {
		w := &p.ways[l]
		switch {
		case w.via == 0:
		case l == laneRelay && !params.Relay, l == laneFan && !params.FanOut:
			p.stop(l, false, "")
		case len(w.kept) > 0 && p.o.now()-w.kept[0].at > patience(p.rtt()):
			p.stop(l, true, "no receipt in time")
		}
	}
	if !params.Relay {
		p.route, p.probing = route{rests: p.route.rests}, probe{}
	}
}

// busy reports whether a lane is in use.
func (p *peer) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ways[laneRelay].via != 0 || p.ways[laneFan].via != 0
}

// confirm takes a receipt.
func (p *peer) confirm(l lane, stint, seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &p.ways[l]
	if w.via == 0 || stint != w.stint {
		return
	}
	n := 0
	for n < len(w.kept) && w.kept[n].seq <= seq {
		w.bytes -= w.kept[n].size
		n++
	}
	rest := copy(w.kept, w.kept[n:])
	clear(w.kept[rest:])
	w.kept = w.kept[:rest]
}

// look looks for a relay.
func (p *peer) look(nodes []base.NodeID, params Params) {
	o := p.o
	region, self := o.Region(p.id), o.Self()
	p.mu.Lock()
	used := p.used
	p.used = false
	p.mu.Unlock()
	direct := o.opt.RTT(self, p.id)
	over := map[base.NodeID]time.Duration{}
	if used && region != o.Region(self) && direct > 0 {
		for _, n := range nodes {
			if n == self || n == p.id || !o.mayPass(p.id, n) {
				continue
			}
			if a, b := o.opt.RTT(self, n), o.opt.RTT(n, p.id); a >= 0 && b >= 0 {
				over[n] = (a + b) / 2
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.route.inUse && !used {
		return // nothing is sent; let it be
	}
	if p.route.look(o.now(), direct/2, over, params) == end {
		p.stop(laneRelay, false, "")
	}
}

// probe sends a probe both ways, and counts the one before as lost if it has not come.
func (p *peer) probe(params Params) {
	o := p.o
	p.mu.Lock()
	defer p.mu.Unlock()
	now, x := o.now(), &p.probing
	if x.at != 0 && x.relayed == 0 {
		if now-x.at <= patience(p.rtt()) {
			return // it may still come
		}
		if x.direct != 0 && p.route.relay != 0 && p.route.lost(now) {
			p.stop(laneRelay, true, "a probe was lost")
		}
	}
	if p.route.relay == 0 {
		*x = probe{id: x.id}
		return
	}
	*x = probe{id: x.id + 1, at: now}
	if o.Transport.Send(p.id, wire.KindParcelNotice, p.notice(noticeProbe, laneRelay, x.id)) != nil {
		return
	}
	if err := o.Transport.Send(p.route.relay, wire.KindParcel,
		&wire.Parcel{Origin: uint32(o.Self()), To: uint32(p.id), Boot: o.boot, Seq: x.id}); err != nil && p.route.lost(now) {
		p.stop(laneRelay, true, err.Error())
	}
}

// echo takes the answer to a probe.
func (p *peer) echo(id uint64, over base.NodeID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := &p.probing
	if id != x.id || x.at == 0 {
		return
	}
	now := p.o.now()
	switch {
	case over == 0:
		x.direct = now
	case over == p.route.relay:
		x.relayed = now
	default:
		return
	}
	if x.direct == 0 || x.relayed == 0 {
		return
	}
	gain := x.direct - x.relayed // both answers came on the same path
	x.at = 0
	switch p.route.sample(now, p.rtt()/2, gain, p.o.Params()) {
	case begin:
		via := p.route.relay
		if p.begin(laneRelay, via) {
			p.route.used(true, false, now)
			p.o.log.Info("messages go over a relay, which is faster", "to", uint32(p.id), "over", uint32(via), "gain", gain)
		}
	case end:
		p.stop(laneRelay, false, "")
	case fail:
		p.stop(laneRelay, true, "it has become slow")
	}
}
