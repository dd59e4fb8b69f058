package collective

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/policy/plan"
	"github.com/godwitdb/godwit/wire"
)

// Options of a communicator. All nodes must agree on Split, Join and Filter.
type Options struct {
	// Filter shortens the contributions of a group; see the package comment.
	Filter func(round uint64, parts []Part)
	// Split cuts a contribution to AllGather into n slices, one for each aggregator
	// of the group, and Join undoes it. By default slices are runs of bytes; with a
	// filter, cut by key, so that conflicting updates meet.
	Split func(data []byte, n int) [][]byte
	Join  func(slices [][]byte) []byte
	// Makespan is assumed of rounds whose plan does not predict it. Default 400 ms.
	Makespan time.Duration
	// Grace is what a message may be later than the plan predicts. Default 50 ms.
	Grace time.Duration
	// Retry is the time between two attempts to get what is missing. Default 200 ms.
	Retry time.Duration
	// Retain is how many rounds are kept at most for nodes that are behind, or dead.
	// Rounds that all nodes have completed are forgotten sooner. Default 1024.
	Retain int
	// Ahead is how many rounds a node may be behind others before it drops what they
	// send and asks for it later. Default 64.
	Ahead int
}

// Part is one node's contribution to a round, or a slice of it.
type Part struct {
	Origin        int // index of the node
	Slice, Slices int
	Dest          int // index of the only receiver, or everybody
	Body          []byte
	// Filtered says that the body was shortened because of the contributions of
	// the nodes in Needs.
	Filtered bool
	Needs    []int
	// Set are the nodes whose values a reduced body holds.
	Set []int
}

const everybody = -1

// maxRoute bounds the relays that a message may name.
const maxRoute = 16

// Service connects a transport with the communicators of its node.
type Service struct {
	tr    wan.Transport
	mu    sync.Mutex
	comms map[uint32]*Comm
	relay Stats // what this node passed on for others
	early []early
}

// early is a message of a communicator that this node has not joined yet, or not used: nodes do not
// join at the same moment.
type early struct {
	from base.NodeID
	m    *wire.CollectiveMsg
	size int
}

// Of early messages so many, and so many bytes, are kept; the oldest are dropped, and asked for
// later.
const (
	maxEarly      = 256
	maxEarlyBytes = 8 << 20
)

// keep keeps an early message; the caller holds s.mu.
func (s *Service) keep(e early) {
	s.early = append(s.early, e)
	size := 0
	for i := len(s.early) - 1; i >= 0; i-- {
		if size += s.early[i].size; size > maxEarlyBytes || len(s.early)-i > maxEarly {
			s.early = slices.Delete(s.early, 0, i+1)
			return
		}
	}
}

// welcome delivers what came before this node used the communicator.
func (c *Comm) welcome() {
	c.s.mu.Lock()
	var mine []early
	if c.s.comms[c.id] == c && !c.used {
		c.used = true
		c.s.early = slices.DeleteFunc(c.s.early, func(e early) bool {
			if e.m.Comm == c.id {
				mine = append(mine, e)
			}
			return e.m.Comm == c.id
		})
	}
	c.s.mu.Unlock()
	for _, e := range mine {
		c.deliver(e.from, e.m)
	}
}

// New registers the handlers; call it before the transport starts.
func New(tr wan.Transport) *Service {
	s := &Service{tr: tr, comms: map[uint32]*Comm{}}
	tr.HandleOrdered(wire.KindCollective, s.receive)
	tr.Handle(wire.KindCollectiveWant, s.want)
	return s
}

// Comm is one node's end of a communicator. All methods may be called from any goroutine.
type Comm struct {
	s     *Service
	id    uint32
	nodes []base.NodeID
	index map[base.NodeID]int
	self  int
	opt   Options
	birth time.Time
	used  bool // it has been called; guarded by s.mu

	mu       sync.Mutex
	plans    []dated // by from, increasing
	rounds   map[uint64]*round
	top      uint64   // the highest round that is complete here
	floor    uint64   // rounds up to here are forgotten
	marks    []uint64 // what each node needs nothing more of
	excluded map[int]uint64
	alive    plan.Health // who may aggregate
	relays   plan.Health // who may relay: a node may be alive and not reach another
	stats    Stats
	closed   bool
}

type dated struct {
	from uint64
	p    *plan.Plan
}

// Stats count what a communicator has sent.
type Stats struct {
	Messages, Bytes uint64 // first sent here
	Relayed         uint64 // passed on for others
	Wants           uint64 // requests for what did not come
	Late            uint64 // messages of rounds that are over and forgotten, or too far ahead
	Duplicates      uint64 // parts that were there already
}

// Join makes this node's end of a communicator. The nodes are the same, in the
// same order, on all of them, and include this one.
func (s *Service) Join(id uint32, nodes []base.NodeID, opt Options) (*Comm, error) {
	c := &Comm{s: s, id: id, nodes: slices.Clone(nodes), index: map[base.NodeID]int{}, opt: opt, birth: time.Now(),
		rounds: map[uint64]*round{}, excluded: map[int]uint64{}, marks: make([]uint64, len(nodes))}
	for i, n := range nodes {
		if _, twice := c.index[n]; twice {
			return nil, fmt.Errorf("communicator %d names node %d twice", id, n)
		}
		c.index[n] = i
	}
	self, ok := c.index[s.tr.Self()]
	if !ok {
		return nil, fmt.Errorf("communicator %d does not name this node, %d", id, s.tr.Self())
	}
	c.self = self
	if (opt.Split == nil) != (opt.Join == nil) {
		return nil, fmt.Errorf("only one of Split and Join is set: one must undo the other")
	}
	if opt.Split == nil {
		c.opt.Split, c.opt.Join = cut, concat
	}
	for _, d := range []struct {
		v *time.Duration
		d time.Duration
	}{{&c.opt.Makespan, 400 * time.Millisecond}, {&c.opt.Grace, 50 * time.Millisecond}, {&c.opt.Retry, 200 * time.Millisecond}} {
		if *d.v <= 0 {
			*d.v = d.d
		}
	}
	if c.opt.Retain <= 0 {
		c.opt.Retain = 1024
	}
	if c.opt.Ahead <= 0 {
		c.opt.Ahead = 64
	}
	c.plans = []dated{{0, plan.Flat(len(nodes))}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.comms[id] != nil {
		return nil, fmt.Errorf("communicator %d exists on this node", id)
	}
	s.comms[id] = c
	return c, nil
}

// cut makes n runs of bytes.
func cut(data []byte, n int) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		out[i] = data[len(data)*i/n : len(data)*(i+1)/n]
	}
	return out
}

func concat(slices_ [][]byte) []byte { return slices.Concat(slices_...) }

// Close fails the calls that wait and forgets the communicator.
func (c *Comm) Close() {
	c.s.mu.Lock()
	if c.s.comms[c.id] == c {
		delete(c.s.comms, c.id)
	}
	c.s.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for n, r := range c.rounds {
		r.forget()
		delete(c.rounds, n)
	}
}

// SetPlan makes rounds follow p from a round on. Rounds that have begun here keep theirs (COLL-2).
func (c *Comm) SetPlan(p *plan.Plan, from uint64) error {
	if err := p.Check(len(c.nodes)); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plans = slices.DeleteFunc(c.plans, func(d dated) bool { return d.from >= from })
	c.plans = append(c.plans, dated{from, p})
	return nil
}

// planFor is the snapshot for a round: the plan without the nodes believed dead.
func (c *Comm) planFor(round uint64) *plan.Plan {
	i := len(c.plans) - 1
	for i > 0 && c.plans[i].from > round {
		i--
	}
	now := time.Since(c.birth)
	return c.plans[i].p.Without(func(node int) bool { return node != c.self && !c.alive.Usable(node, now) || c.out(node, round) })
}

// Exclude says that a node's contributions do not count from a round on. All
// nodes must agree on it. Rounds that waited for it go on.
func (c *Comm) Exclude(node base.NodeID, from uint64) error {
	i, ok := c.index[node]
	if !ok {
		return fmt.Errorf("node %d is not in communicator %d", node, c.id)
	}
	c.mu.Lock()
	if old, ok := c.excluded[i]; !ok || from < old {
		c.excluded[i] = from
	}
	var out []outgoing
	for n, r := range c.rounds {
		if n >= from {
			out = append(out, r.step()...)
		}
	}
	c.mu.Unlock()
	c.send(out)
	return nil
}

// out reports whether a node does not count in a round.
func (c *Comm) out(node int, round uint64) bool {
	from, ok := c.excluded[node]
	return ok && round >= from
}

// Suspects are the nodes that are believed dead: plan without them.
func (c *Comm) Suspects() (nodes []base.NodeID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Since(c.birth)
	for i, n := range c.nodes {
		if !c.alive.Usable(i, now) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// Stats are the counters so far.
func (c *Comm) Stats() Stats {
	c.s.mu.Lock()
	relayed := c.s.relay.Relayed
	c.s.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	st := c.stats
	st.Relayed = relayed
	return st
}

// round finds or begins a round; nil if it is forgotten or too far ahead.
func (c *Comm) round(num uint64, op op, root int) *round {
	if r := c.rounds[num]; r != nil {
		return r
	}
	if c.closed || num <= c.floor || num > c.top+uint64(c.opt.Ahead) && c.top > 0 || len(c.rounds) > c.opt.Ahead+c.opt.Retain {
		return nil
	}
	r := newRound(c, num, op, root)
	c.rounds[num] = r
	return r
}

// recent rounds are kept even if nobody seems to need them: a node may not have heard of one yet.
const recent = 16

// mark is the round up to which this node needs nothing more.
func (c *Comm) mark() uint64 {
	m := c.top
	for n, r := range c.rounds {
		if !r.over() && n <= m {
			m = n - 1
		}
	}
	return m
}

// tidy forgets rounds, oldest first, that nobody needs.
func (c *Comm) tidy() {
	c.marks[c.self] = c.mark()
	needed := c.top
	for i, m := range c.marks {
		if !c.out(i, c.top) {
			needed = min(needed, m)
		}
	}
	keep := func(n uint64) bool {
		return n+recent > c.top || n > needed && n+uint64(c.opt.Retain) > c.top
	}
	for _, n := range slices.Sorted(maps.Keys(c.rounds)) {
		r := c.rounds[n]
		if keep(n) || r.started && !r.over() {
			return
		}
		r.forget()
		delete(c.rounds, n)
		c.floor = n
	}
}
