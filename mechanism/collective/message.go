package collective

import (
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/policy/plan"
	"github.com/godwitdb/godwit/wire"
)

// outgoing is a message to one node. Messages are made under the lock and sent
// after it: a transport may deliver at once.
type outgoing struct {
	to    int
	round *round
	env   *envelope
	up    bool // to this node's own aggregator
}

// envelope is a message that may go to several nodes and is encoded once.
type envelope struct {
	msg  *wire.CollectiveMsg
	body []byte
}

func (r *round) envelope(parts []*Part) *envelope {
	m := &wire.CollectiveMsg{Comm: r.c.id, Round: r.num, Op: uint32(r.op), Root: uint32(r.root), Done: r.c.marks[r.c.self]}
	for _, p := range parts {
		m.Parts = append(m.Parts, p.wire())
	}
	return &envelope{msg: m}
}

func (p *Part) wire() *wire.CollectivePart {
	w := &wire.CollectivePart{Origin: uint32(p.Origin), Slice: uint32(p.Slice), Slices: uint32(p.Slices),
		Dest: uint32(p.Dest + 1),
		Body: p.Body, Filtered: p.Filtered}
	for _, n := range p.Needs {
		w.Needs = append(w.Needs, uint32(n))
	}
	for _, n := range p.Set {
		w.Set = append(w.Set, uint32(n))
	}
	return w
}

// part checks what came from the network; nil if it makes no sense.
func (c *Comm) part(w *wire.CollectivePart) *Part {
	n := len(c.nodes)
	p := &Part{Origin: int(w.Origin), Slice: int(w.Slice), Slices: int(w.Slices), Dest: int(w.Dest) - 1, Body: w.Body,
		Filtered: w.Filtered}
	if p.Origin >= n || p.Dest >= n || p.Slices < 1 || p.Slices > n || p.Slice >= p.Slices {
		return nil
	}
	for _, v := range w.Needs {
		p.Needs = append(p.Needs, int(v))
	}
	for _, v := range w.Set {
		if int(v) >= n || len(p.Set) > 0 && int(v) <= p.Set[len(p.Set)-1] {
			return nil
		}
		p.Set = append(p.Set, int(v))
	}
	return p
}

// send sends what the lock has been released for. An aggregator that is found
// dead at once is done without: this node becomes its own.
func (c *Comm) send(out []outgoing) {
	for len(out) > 0 {
		o := out[0]
		out = out[1:]
		if o.env.body == nil {
			body, err := o.env.msg.MarshalVT()
			if err != nil { // generated code does not fail
				continue
			}
			o.env.body = body
		}
		c.mu.Lock()
		route := c.relays.Route(o.round.plan, c.self, o.to, time.Since(c.birth))
		c.stats.Messages++
		c.stats.Bytes += uint64(len(o.env.body))
		c.mu.Unlock()
		f := &wire.CollectiveFrame{From: uint32(c.nodes[c.self]), Body: o.env.body}
		next := c.nodes[o.to]
		if len(route) > 0 {
			next = c.nodes[route[0]]
			for _, r := range route {
				f.Route = append(f.Route, uint32(c.nodes[r]))
			}
			f.Route = append(f.Route, uint32(c.nodes[o.to]))
		}
		err := c.s.tr.Send(next, wire.KindCollective, f)
		if base.CodeOf(err) != base.CodeUnavailable || err == nil {
			continue // lost or delayed: it will be asked for
		}
		c.mu.Lock()
		c.failed(c.index[next])
		if len(route) > 0 {
			c.relays.Failed(route[0], time.Since(c.birth))
			out = append(out, o) // the direct path, since the relay rests
		} else if o.up {
			out = append(out, o.round.alone()...)
		}
		c.mu.Unlock()
	}
}

// failed notes that a node did not do what it should have.
func (c *Comm) failed(node int) {
	if node != c.self {
		c.alive.Failed(node, time.Since(c.birth))
	}
}

// receive takes frames: for this node, or to pass on.
func (s *Service) receive(from base.NodeID, body []byte) {
	var f wire.CollectiveFrame
	if f.UnmarshalVT(body) != nil {
		return
	}
	if len(f.Route) > 0 {
		if len(f.Route) > maxRoute || base.NodeID(f.Route[0]) != s.tr.Self() {
			return
		}
		if f.Route = f.Route[1:]; len(f.Route) > 0 {
			s.mu.Lock()
			s.relay.Relayed++
			s.mu.Unlock()
			// If it fails, the receiver asks for it, and says that it was lost.
			_ = s.tr.Send(base.NodeID(f.Route[0]), wire.KindCollective, &f)
			return
		}
	}
	var m wire.CollectiveMsg
	if m.UnmarshalVT(f.Body) != nil {
		return
	}
	s.mu.Lock()
	c := s.comms[m.Comm]
	if c == nil {
		s.keep(early{base.NodeID(f.From), &m, len(f.Body)})
	}
	s.mu.Unlock()
	if c != nil {
		c.deliver(base.NodeID(f.From), &m)
	}
}

// deliver takes a message of this communicator.
func (c *Comm) deliver(from base.NodeID, m *wire.CollectiveMsg) {
	sender, ok := c.index[from]
	if !ok || int(m.Root) >= len(c.nodes) || !op(m.Op).known() {
		return
	}
	c.mu.Lock()
	c.alive.Passed(sender)
	c.marks[sender] = max(c.marks[sender], m.Done)
	r := c.round(m.Round, op(m.Op), int(m.Root))
	if r == nil || r.op != op(m.Op) {
		c.stats.Late++
		c.mu.Unlock()
		return
	}
	r.heard[sender] = true
	var fresh []*Part
	for _, w := range m.Parts {
		if p := c.part(w); p != nil && r.add(p) {
			fresh = append(fresh, p)
		}
	}
	out := append(r.pass(fresh), r.step()...)
	c.mu.Unlock()
	c.send(out)
}

func contains(g plan.Group, node int) bool { return slices.Contains(g.Members, node) }
