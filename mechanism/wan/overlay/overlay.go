package overlay

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/policy/plan"
	"github.com/godwitdb/godwit/wire"
)

// Options are what an overlay is made of.
type Options struct {
	Transport wan.Transport
	// Nodes are those that may relay now. Asked every second while relays are on.
	Nodes func() []base.NodeID
	// Peers are all nodes that may be reached, this one possibly among them, and that send this one
	// heartbeats several times a second. Nil: there are no detours.
	Peers func() []base.NodeID
	// RTT is the smoothed round trip between two nodes; negative if it is not known.
	RTT func(a, b base.NodeID) time.Duration
	// MayPass reports whether what two nodes send each other may go over a third one, by relays and
	// detours. Nil: always.
	MayPass func(from, to, over base.NodeID) bool
	// Opened is told of each detour that this node has opened; nil: nobody wants to know.
	Opened func(to base.NodeID)
	Logger *slog.Logger // nil discards
}

// Params say what the overlay does. The zero value is: nothing.
type Params struct {
	// Relay sends over relays where they are faster.
	Relay bool
	// FanOut sends what several nodes of a region get in common once.
	FanOut bool
	// MinGain and MinShare are what a relay must save: so much time, and such a share of the direct
	// path's. Defaults 2 ms and 0.05.
	MinGain  time.Duration
	MinShare float64
	// Window is how long it must have saved that before it is used, and how long it may save less
	// before it is given up. Default 3 s.
	Window time.Duration
	// Direct makes no detours, whatever is cut.
	Direct bool
	// Unnumbered takes what comes on any path, for tests that show what this breaks (OVL-5).
	Unnumbered bool
	// PatientDetours leaves OVL-8 out, for tests.
	PatientDetours bool
	// AnyPath sends over whatever nodes there are (Options.MayPass), for tests likewise.
	AnyPath bool
}

func (p Params) withDefaults() Params {
	if p.MinGain <= 0 {
		p.MinGain = 2 * time.Millisecond
	}
	if p.MinShare <= 0 {
		p.MinShare = 0.05
	}
	if p.Window <= 0 {
		p.Window = 3 * time.Second
	}
	return p
}

// Overlay is a transport whose messages may travel over other nodes: all of them where the direct
// path is cut, consensus messages also where that is better.
type Overlay struct {
	wan.Transport
	opt  Options
	log  *slog.Logger
	boot uint64 // names this process to the others; only compared for equality

	handlers [wire.KindMax]func(base.NodeID, []byte) // of one-way messages
	requests [wire.KindMax]wan.Handler

	mu      sync.RWMutex
	params  Params
	peers   map[base.NodeID]*peer   // as receivers of what is sent here
	senders map[base.NodeID]*sender // as senders of what is received here
	closed  bool

	proxyMu sync.Mutex
	proxys  map[base.RegionID]base.NodeID
	rests   plan.Health // of fan-out proxies

	linkMu  sync.Mutex
	links   *links
	news    chan struct{} // capacity 1: some node hears others than before
	numbers atomic.Uint64 // the newest one given to a detour that leads here

	born  time.Time
	kick  chan struct{} // capacity 1: the parameters have changed
	stopc chan struct{}
	ctx   context.Context // ends with stopc
	end   context.CancelFunc
	start sync.Once
	wg    sync.WaitGroup
}

// New makes an overlay that does nothing until [Overlay.SetParams] says otherwise. It is to be
// made before the transport starts.
func New(o Options) *Overlay {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Nodes == nil {
		o.Nodes = func() []base.NodeID { return nil }
	}
	if o.RTT == nil {
		o.RTT = func(a, b base.NodeID) time.Duration { return -1 }
	}
	if o.MayPass == nil {
		o.MayPass = func(_, _, _ base.NodeID) bool { return true }
	}
	if o.Opened == nil {
		o.Opened = func(base.NodeID) {}
	}
	now := time.Now()
	v := &Overlay{Transport: o.Transport, opt: o, log: o.Logger, boot: uint64(now.UnixNano()), params: Params{}.withDefaults(),
		peers: map[base.NodeID]*peer{}, senders: map[base.NodeID]*sender{}, proxys: map[base.RegionID]base.NodeID{},
		born: now, kick: make(chan struct{}, 1), stopc: make(chan struct{}), news: make(chan struct{}, 1),
		links: newLinks(o.Transport.Self(), uint64(now.UnixNano()))}
	v.ctx, v.end = context.WithCancel(context.Background())
	v.numbers.Store(v.boot) // none of those that the process before this one gave
	o.Transport.HandleOrdered(wire.KindParcel, v.gotParcel)
	o.Transport.HandleOrdered(wire.KindParcelNotice, v.gotNotice)
	v.handlers[wire.KindParcelNotice] = v.onNotice
	v.HandleOrdered(wire.KindRaftBundle, v.gotBundle)
	for _, k := range []wire.Kind{wire.KindDetour, wire.KindDetourSend} {
		o.Transport.HandleOrdered(k, v.onDetour(k))
	}
	for _, k := range []wire.Kind{wire.KindDetourCall, wire.KindDetourRead, wire.KindDetourCommit, wire.KindDetourBulk} {
		o.Transport.Handle(k, v.onDetourCall)
	}
	return v
}

// relayed reports whether messages of a kind may travel over other nodes.
func relayed(k wire.Kind) bool { return k == wire.KindRaft || k == wire.KindRaftBundle }

// HandleOrdered implements [wan.Transport].
func (o *Overlay) HandleOrdered(kind wire.Kind, h func(from base.NodeID, body []byte)) {
	o.handlers[kind] = h
	if !ordered(kind) {
		o.Transport.HandleOrdered(kind, h)
		return
	}
	o.Transport.HandleOrdered(kind, func(from base.NodeID, body []byte) {
		if kind == wire.KindHeartbeat {
			o.heardDirectly(from)
		}
		o.sender(from).arrive(0, func() { o.handle(from, kind, body) })
	})
}

// Start implements [wan.Transport].
func (o *Overlay) Start() error {
	if err := o.Transport.Start(); err != nil {
		return err
	}
	o.start.Do(func() {
		o.wg.Go(o.run)
		if o.opt.Peers != nil {
			o.wg.Go(o.watch)
		}
	})
	return nil
}

// Close implements [wan.Transport].
func (o *Overlay) Close() error {
	o.mu.Lock()
	if !o.closed {
		o.closed = true
		close(o.stopc)
		o.end()
	}
	o.mu.Unlock()
	err := o.Transport.Close()
	o.wg.Wait()
	return err
}

// SetParams says what to do from now on.
func (o *Overlay) SetParams(p Params) {
	o.mu.Lock()
	o.params = p.withDefaults()
	o.mu.Unlock()
	select {
	case o.kick <- struct{}{}:
	default:
	}
}

// Params are those in force.
func (o *Overlay) Params() Params {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.params
}

// PeerDown tells that a node does not answer any more: nothing is sent over it until it has rested.
func (o *Overlay) PeerDown(id base.NodeID) {
	o.linkMu.Lock()
	o.links.reset(id, o.now())
	o.linkMu.Unlock()
	o.proxyFailed(id)
	for _, p := range o.allPeers() {
		for l := range lanes {
			p.giveUp(l, id, "it is down")
		}
	}
}

// Send implements [wan.Transport]. m must not change afterwards.
func (o *Overlay) Send(to base.NodeID, kind wire.Kind, m wan.Msg) error {
	if !relayed(kind) {
		return o.base(to, kind, m)
	}
	return o.peer(to).send(kind, m)
}

// mayPass reports whether what is sent to a node may go over another one.
func (o *Overlay) mayPass(to, over base.NodeID) bool {
	return o.Params().AnyPath || o.opt.MayPass(o.Self(), to, over)
}

// now is the time that the policies count in.
func (o *Overlay) now() time.Duration { return time.Since(o.born) }

func (o *Overlay) peer(id base.NodeID) *peer {
	return base.Lazily(&o.mu, o.peers, id, func() *peer { return &peer{o: o, id: id, out: outlet{opening: 1}} })
}

func (o *Overlay) sender(id base.NodeID) *sender {
	return base.Lazily(&o.mu, o.senders, id, func() *sender {
		return &sender{o: o, id: id, in: inlet{turn: make(chan struct{}, 1)}}
	})
}

func (o *Overlay) allPeers() []*peer {
	o.mu.RLock()
	defer o.mu.RUnlock()
	out := make([]*peer, 0, len(o.peers))
	for _, p := range o.peers {
		out = append(out, p)
	}
	return out
}

// tickEvery is how often what is unconfirmed is looked at; lookEvery how often a relay is looked
// for; probeEvery is the time between two probes of one that is in use or may come to be.
const (
	tickEvery  = 25 * time.Millisecond
	probeEvery = 250 * time.Millisecond
	lookEvery  = time.Second
)

// tend looks after the ways to all peers once: what is unconfirmed, and with look and probe also
// which relays there are and how they are. It reports whether any way is in use.
func (o *Overlay) tend(p Params, look, probe bool) (busy bool) {
	var nodes []base.NodeID
	if look && p.Relay {
		nodes = o.opt.Nodes()
	}
	for _, x := range o.allPeers() {
		x.expire(p)
		if p.Relay && look {
			x.look(nodes, p)
		}
		if p.Relay && probe {
			x.probe(p)
		}
		busy = busy || x.busy()
	}
	return busy
}

// run looks after the ways until Close. With relays and fan-out off it sleeps.
func (o *Overlay) run() {
	t := time.NewTicker(tickEvery)
	defer t.Stop()
	var probed, looked time.Duration
	awake := true
	for {
		select {
		case <-o.stopc:
			return
		case <-o.kick:
		case <-t.C:
		}
		p := o.Params()
		on := p.Relay || p.FanOut
		if on && !awake {
			t.Reset(tickEvery)
		}
		now := o.now()
		look, probe := now-looked >= lookEvery, now-probed >= probeEvery
		if look {
			looked = now
		}
		if probe {
			probed = now
		}
		busy := o.tend(p, look, probe)
		if !on && !busy {
			t.Stop()
			awake = false
			continue
		}
		awake = true
	}
}
