package wan

import (
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// LinkSpec is the path from one region to another (or within one).
type LinkSpec struct {
	Delay  time.Duration // one way, without queueing
	Jitter time.Duration // added per message, uniform in [0, Jitter); never reorders a stream
	// Loss is the probability that a packet (1448 bytes of a message) is lost.
	// The message then arrives a retransmission timeout later, and with it all
	// behind it in its stream; or never, see NetOptions.DropSends.
	Loss float64
	// Bandwidth in bits per second is shared by all messages from the one region
	// to the other, fairly between classes; 0 is no limit.
	Bandwidth float64
}

// NetOptions configure an emulated network. The zero value is a network
// without delay.
type NetOptions struct {
	Seed uint64 // of jitter and loss
	// LAN is the path between nodes of one region.
	LAN LinkSpec
	// WAN is the path between regions that SetPath said nothing about.
	WAN LinkSpec
	// DropSends makes a lost one-way message really lost. Calls are never lost,
	// only late, as on TCP.
	DropSends bool
	// Backlog has one-way messages wait for a cut path to heal, as those do that a kernel holds for
	// a connection: they arrive then, late, and in order. What waits is sent again when TCP would,
	// after timeouts that double. Without it one-way messages that meet a cut are lost.
	Backlog bool
	// MinRTO is added to a round trip to give the retransmission timeout. Default 200 ms.
	MinRTO time.Duration
	// StallAfter is how long a request or answer waits for a cut path to heal
	// before its Call fails with CodeUnavailable, as TCP's user timeout does. Default 10 s.
	StallAfter time.Duration
	// Precise waits with the kernel's high-resolution timer as well as Go's,
	// which are 1 ms coarse on an idle process: delays are then right to about
	// 0.1 ms. Linux only (elsewhere ignored). Must be off on virtual time.
	Precise bool
	Limits  Limits
	Logger  *slog.Logger
}

// Network emulates the network between nodes of one process. Each message is
// encoded, waits in virtual or real time, and is decoded; nodes share no memory.
//
// One goroutine moves all messages. The streams are those of TCP: one per
// directed pair of nodes and class, in order, except that connecting costs
// nothing. Everything can be changed while it runs.
type Network struct {
	opt   NetOptions
	lim   Limits
	start time.Time

	mu     sync.Mutex
	rnd    *rand.Rand
	nodes  map[base.NodeID]*netNode
	where  map[base.NodeID]base.RegionID // also of nodes that are down
	paths  map[regionPair]*path
	cuts   cutSet
	events eventHeap
	seq    uint64
	asleep int64 // the mover sleeps until this time (ns since start)
	held   map[*pipe]struct{}
	closed bool

	sizer sizer
	tap   atomic.Pointer[func(Tapped)]

	wake   chan struct{}
	done   chan struct{}
	kernel *kernelTimer
}

type regionPair struct{ from, to base.RegionID }

type nodePair struct{ from, to base.NodeID }

// NewNetwork starts an emulated network. Under testing/synctest call it, and
// Close, inside the bubble.
func NewNetwork(opt NetOptions) *Network {
	if opt.MinRTO <= 0 {
		opt.MinRTO = 200 * time.Millisecond
	}
	if opt.StallAfter <= 0 {
		opt.StallAfter = 10 * time.Second
	}
	n := &Network{
		opt: opt, lim: opt.Limits.withDefaults(), start: time.Now(),
		rnd:   rand.New(rand.NewPCG(opt.Seed, 0x60d317)),
		nodes: map[base.NodeID]*netNode{}, where: map[base.NodeID]base.RegionID{},
		paths: map[regionPair]*path{}, held: map[*pipe]struct{}{},
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	if opt.Precise {
		n.kernel = newKernelTimer(n.wake)
	}
	go n.move()
	return n
}

// Close stops the network and closes the transports that are still open.
func (n *Network) Close() error {
	n.mu.Lock()
	var open []*netNode
	for _, v := range n.nodes {
		open = append(open, v)
	}
	n.mu.Unlock()
	for _, v := range open {
		v.Close()
	}
	n.mu.Lock()
	was := n.closed
	n.closed = true
	n.mu.Unlock()
	if !was {
		n.poke()
		<-n.done
		n.kernel.close()
	}
	return nil
}

// Join makes the transport of a node; it is on the network from its Start to
// its Close or Crash. After those the same id can join again.
func (n *Network) Join(id base.NodeID, region base.RegionID) Transport {
	v := &netNode{net: n, conns: map[connKey]*netConn{}}
	v.init(id, region, n.opt.Limits, n.opt.Logger)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.where[id] = region
	return v
}

// Tapped is a message between two regions as it enters the network.
type Tapped struct {
	At       time.Duration // since the network's start
	From, To base.NodeID
	Stream   string // what else tells the streams of two nodes apart: class and direction
	Kind     wire.Kind
	Frame    []byte // not to be changed
}

// Tap shows every message between regions to fn, from many goroutines; nil ends that.
func (n *Network) Tap(fn func(Tapped)) {
	if fn == nil {
		n.tap.Store(nil)
		return
	}
	n.tap.Store(&fn)
}

// SetPath sets the path from one region to another in this direction, for
// messages sent from now on; from == to is that region's LAN.
func (n *Network) SetPath(from, to base.RegionID, s LinkSpec) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := n.path(from, to)
	if s.Delay < p.spec.Delay {
		p.drained = max(p.drained, n.now()+int64(p.spec.Delay+p.spec.Jitter), p.last)
	}
	p.spec = s
}

// SetPaths sets both directions.
func (n *Network) SetPaths(a, b base.RegionID, s LinkSpec) {
	n.SetPath(a, b, s)
	n.SetPath(b, a, s)
}

// SetOneWay sets the delays between regions 1..len(delay) from a matrix of
// one-way delays (row: from), leaving the rest of the paths as it is. The
// diagonal is ignored: the LAN delay is NetOptions.LAN or SetPath.
func (n *Network) SetOneWay(delay [][]time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, row := range delay {
		for j, d := range row {
			if i != j {
				n.path(base.RegionID(i+1), base.RegionID(j+1)).spec.Delay = d
			}
		}
	}
}

// Path is the path from one region to another as it is now.
func (n *Network) Path(from, to base.RegionID) LinkSpec {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.path(from, to).spec
}

// Drains reports whether what was sent while the path was slower than now may be under way still.
// What is sent now arrives behind it on the same connection.
func (n *Network) Drains(from, to base.RegionID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.now() < n.path(from, to).drained
}

func (n *Network) path(from, to base.RegionID) *path {
	k := regionPair{from, to}
	p := n.paths[k]
	if p == nil {
		p = &path{spec: n.opt.WAN}
		if from == to {
			p.spec = n.opt.LAN
		}
		n.paths[k] = p
	}
	return p
}

// now is the network's time in ns since its start.
func (n *Network) now() int64 { return int64(time.Since(n.start)) }

// poke wakes the mover.
func (n *Network) poke() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}
