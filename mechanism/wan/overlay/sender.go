package overlay

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

const (
	// receiptEvery is how long a receiver gathers what it confirms.
	receiptEvery = 20 * time.Millisecond
	// What waits at most at a receiver for what precedes it.
	maxHeld      = 4096
	maxHeldBytes = 8 << 20
	// earlyFor is how long parcels wait for the notice that their stint has begun.
	earlyFor = 2 * time.Second
)

// sender is a node that messages come from.
type sender struct {
	o  *Overlay
	id base.NodeID
	in inlet

	mu         sync.Mutex // held while a message of a stint is handled
	lanes      [lanes]inflow
	early      []early
	earlyBytes int
	stats      Received
}

// Received is what came from a node over others.
type Received struct {
	Msgs uint64 // delivered
	Late uint64 // dropped: doubled, or after the end of their stint
}

// inflow is what comes from a sender in one lane.
type inflow struct {
	boot, stint uint64
	open        bool
	next        uint64
	held        map[uint64]heldMsg
	bytes       int
	due         bool // a receipt is
}

type heldMsg struct {
	kind wire.Kind
	body []byte
}

type early struct {
	at time.Duration
	x  *wire.Parcel
}

// direct notes that a message came on the direct path, which the origin does not use during a stint
// of the relay lane.
func (s *sender) direct() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := &s.lanes[laneRelay]; f.open {
		f.close()
	}
}

func (f *inflow) close() { f.open, f.held, f.bytes = false, nil, 0 }

// parcel takes one that came over another node.
func (s *sender) parcel(x *wire.Parcel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &s.lanes[x.Lane]
	switch {
	case x.Boot == f.boot && x.Stint == f.stint && f.open:
		s.take(f, lane(x.Lane), x.Seq, wire.Kind(x.Kind), x.Body)
	case x.Boot == f.boot && x.Stint <= f.stint:
		s.stats.Late++
	default:
		s.wait(x)
	}
}

// wait keeps a parcel until its stint begins. mu is held.
func (s *sender) wait(x *wire.Parcel) {
	now := s.o.now()
	for len(s.early) > 0 && now-s.early[0].at > earlyFor {
		s.earlyBytes -= len(s.early[0].x.Body)
		s.early = s.early[1:]
		s.stats.Late++
	}
	if len(s.early) >= maxHeld || s.earlyBytes+len(x.Body) > maxHeldBytes {
		s.stats.Late++
		return
	}
	s.early = append(s.early, early{now, x})
	s.earlyBytes += len(x.Body)
}

// begin starts a stint from seq on, and takes what has come of it. mu is held.
func (s *sender) begin(l lane, boot, stint, seq uint64) {
	f := &s.lanes[l]
	*f = inflow{boot: boot, stint: stint, open: true, next: seq, due: f.due}
	waiting := s.early
	s.early, s.earlyBytes = nil, 0
	for _, e := range waiting {
		switch x := e.x; {
		case lane(x.Lane) != l:
			s.early = append(s.early, e)
			s.earlyBytes += len(x.Body)
		case x.Boot == boot && x.Stint == stint:
			s.take(f, l, x.Seq, wire.Kind(x.Kind), x.Body)
		case x.Boot == boot && x.Stint > stint:
			s.early = append(s.early, e)
			s.earlyBytes += len(x.Body)
		default:
			s.stats.Late++
		}
	}
}

// take delivers a message of the stint, and those that have waited for it. mu is held.
func (s *sender) take(f *inflow, l lane, seq uint64, kind wire.Kind, body []byte) {
	switch {
	case seq < f.next:
		s.stats.Late++
	case seq > f.next:
		if _, ok := f.held[seq]; ok || len(f.held) >= maxHeld || f.bytes+len(body) > maxHeldBytes {
			s.stats.Late++
			return
		}
		if f.held == nil {
			f.held = map[uint64]heldMsg{}
		}
		f.held[seq] = heldMsg{kind, body}
		f.bytes += len(body)
		return
	default:
		s.deliver(f, kind, body)
		for {
			h, ok := f.held[f.next]
			if !ok {
				break
			}
			delete(f.held, f.next)
			f.bytes -= len(h.body)
			s.deliver(f, h.kind, h.body)
		}
	}
	if !f.due {
		f.due = true
		time.AfterFunc(receiptEvery, func() { s.receipt(l) })
	}
}

func (s *sender) deliver(f *inflow, kind wire.Kind, body []byte) {
	f.next++
	s.stats.Msgs++
	if h := s.o.handlers[kind]; h != nil {
		h(s.id, body)
	}
}

// receipt tells the origin what has arrived.
func (s *sender) receipt(l lane) {
	s.mu.Lock()
	f := &s.lanes[l]
	x := &wire.ParcelNotice{What: noticeReceipt, Boot: f.boot, Lane: uint32(l), Stint: f.stint, Seq: f.next - 1}
	f.due = false
	open := f.open
	s.mu.Unlock()
	if open {
		_ = s.o.base(s.id, wire.KindParcelNotice, x) // without it the origin falls back
	}
}

// gotParcel is the handler of parcels: for this node, or to be passed on.
func (o *Overlay) gotParcel(from base.NodeID, body []byte) {
	x := new(wire.Parcel)
	if err := x.UnmarshalVT(body); err != nil || !relayed(wire.Kind(x.Kind)) && x.Stint != 0 || x.Lane >= uint32(lanes) {
		o.log.Warn("parcel refused", "from", uint32(from), "err", err)
		return
	}
	origin, to := base.NodeID(x.Origin), base.NodeID(x.To)
	switch {
	case to == o.Self() && origin == o.Self():
		o.refused(from)
	case to == o.Self() && x.Stint == 0:
		_ = o.Transport.Send(origin, wire.KindParcelNotice,
			&wire.ParcelNotice{What: noticeEcho, Boot: x.Boot, Seq: x.Seq, Node: uint32(from)})
	case to == o.Self():
		o.sender(origin).parcel(x)
	case from != origin:
		o.refused(from) // OVL-2: it has had its relay
	default:
		o.pass(origin, to, lane(x.Lane), raw(body))
	}
}

// pass sends a parcel on to its receiver.
func (o *Overlay) pass(origin, to base.NodeID, l lane, x raw) {
	err := o.Transport.Send(to, wire.KindParcel, x)
	p := o.peer(origin)
	p.mu.Lock()
	if err == nil {
		p.stats.PassedMsgs++
		p.stats.PassedBytes += uint64(len(x))
	}
	p.mu.Unlock()
	if err != nil {
		_ = o.Transport.Send(origin, wire.KindParcelNotice,
			&wire.ParcelNotice{What: noticeLost, Lane: uint32(l), Node: uint32(to)})
	}
}

// refused counts a parcel that would have gone round in cycles.
func (o *Overlay) refused(from base.NodeID) {
	p := o.peer(from)
	p.mu.Lock()
	p.stats.Refused++
	p.mu.Unlock()
	o.log.Warn("a parcel came over more than one relay", "from", uint32(from))
}

// gotNotice is the handler of notices that came directly. Those about detours count whatever path
// the sender uses.
func (o *Overlay) gotNotice(from base.NodeID, body []byte) {
	x := new(wire.ParcelNotice)
	if err := x.UnmarshalVT(body); err != nil {
		o.log.Warn("notice about parcels refused", "from", uint32(from), "err", err)
		return
	}
	switch x.What {
	case noticeLinks, noticeDropped:
		o.onNotice(from, body)
	case noticeDirect:
		o.sender(from).straightened(x.Seq)
	default:
		o.sender(from).arrive(0, func() { o.onNotice(from, body) })
	}
	if x.What == noticeLinks {
		o.heardDirectly(from)
	}
}

// onNotice takes a notice.
func (o *Overlay) onNotice(from base.NodeID, body []byte) {
	x := new(wire.ParcelNotice)
	if err := x.UnmarshalVT(body); err != nil || x.Lane >= uint32(lanes) {
		o.log.Warn("notice about parcels refused", "from", uint32(from), "err", err)
		return
	}
	l := lane(x.Lane)
	switch x.What {
	case noticeBegin, noticeResent, noticeEnd:
		o.sender(from).handleNotice(x)
	case noticeReceipt:
		if x.Boot == o.boot {
			o.peer(from).confirm(l, x.Stint, x.Seq)
		}
	case noticeLost:
		o.peer(base.NodeID(x.Node)).giveUp(l, from, "it cannot pass messages on")
	case noticeLinks:
		o.linkMu.Lock()
		if o.links.learn(x.Links, o.now()) {
			select {
			case o.news <- struct{}{}:
			default:
			}
		}
		if x.Seq == asks {
			o.links.asked = o.now()
		}
		o.linkMu.Unlock()
	case noticeDropped:
		o.peer(from).complaint(x.Seq)
	case noticeProbe:
		_ = o.Transport.Send(from, wire.KindParcelNotice, &wire.ParcelNotice{What: noticeEcho, Boot: x.Boot, Seq: x.Seq})
	case noticeEcho:
		if x.Boot == o.boot {
			o.peer(from).echo(x.Seq, base.NodeID(x.Node))
		}
	}
}

// handleNotice takes a notice about a stint.
func (s *sender) handleNotice(x *wire.ParcelNotice) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := lane(x.Lane)
	f := &s.lanes[l]
	current := x.Boot == f.boot && x.Stint == f.stint
	switch {
	case x.Boot == f.boot && x.Stint < f.stint:
		s.stats.Late++ // left in a connection that has ended
	case x.What == noticeBegin:
		s.begin(l, x.Boot, x.Stint, 1)
	case x.What == noticeResent && relayed(wire.Kind(x.Kind)):
		// its beginning was lost on the direct path, with whatever was sent there before
		if !current {
			s.begin(l, x.Boot, x.Stint, x.Seq)
		} else if !f.open {
			s.stats.Late++
			return
		} else if x.Seq > f.next { // what precedes it was lost there as well
			s.skip(f, x.Seq)
		}
		s.take(f, l, x.Seq, wire.Kind(x.Kind), x.Body)
	case x.What == noticeEnd && current:
		f.close()
	}
}

// skip gives up on what is missing before seq. mu is held.
func (s *sender) skip(f *inflow, seq uint64) {
	// seq may be anything: it is not counted up to
	for _, n := range slices.Sorted(maps.Keys(f.held)) {
		if n >= seq {
			break
		}
		h := f.held[n]
		delete(f.held, n)
		f.bytes -= len(h.body)
		f.next = n
		s.deliver(f, h.kind, h.body)
	}
	f.next = seq
}
