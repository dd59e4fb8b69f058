package collective

import (
	"context"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
)

// repair asks for what has not come: at its origin, and from the second attempt on
// at one more node each time, since an origin may have died after reaching some.
func (r *round) repair(ctx context.Context, attempt int) {
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	missing := r.missing()
	if len(missing) == 0 || r.finished {
		return
	}
	r.suspect()
	ask, lost := r.sources(missing)
	if n := len(c.nodes); attempt > 0 {
		if other := (r.self() + attempt) % n; other != r.self() {
			ask[other] = append(ask[other], missing...)
		}
	}
	for to, origins := range ask {
		if r.asking[to] || r.out(to) && !slices.Contains(origins, to) {
			continue
		}
		r.asking[to] = true
		c.stats.Wants++
		w := &wire.CollectiveWant{Comm: c.id, Round: r.num, Op: uint32(r.op), Root: uint32(r.root), Lost: lost[to]}
		slices.Sort(origins)
		for _, o := range slices.Compact(origins) {
			w.Origins = append(w.Origins, uint32(o))
		}
		go r.fetch(ctx, to, w)
	}
}

// suspect has a member that has heard nothing from its aggregator do without it for a while.
func (r *round) suspect() {
	if r.slot >= 0 || r.op == gather {
		return
	}
	aggregators := r.g.Aggregators
	if r.op != allGather {
		aggregators = aggregators[:1]
	}
	for _, a := range aggregators {
		if !r.heard[a] {
			r.c.failed(a)
		}
	}
}

// sources says which origins each node is asked for. lost are the senders whose message would have
// come over relays: what they were to send was lost on the way, if it was sent.
func (r *round) sources(missing []int) (ask map[int][]int, lost map[int]bool) {
	ask, lost = map[int][]int{}, map[int]bool{}
	for _, o := range missing {
		if o != r.self() {
			ask[o] = append(ask[o], o)
		}
		if s := r.sender(o); s != r.self() && len(r.plan.Routes[[2]int{s, r.self()}]) > 0 {
			lost[s] = true // its own data was in the same message, so it is asked
		}
	}
	return ask, lost
}

// sender is the node from which an origin's data should have come.
func (r *round) sender(origin int) int {
	switch {
	case r.slot < 0 && r.op != gather:
		return r.g.Aggregators[0]
	case r.mine(origin):
		return origin
	}
	return r.headOf(origin)
}

// fetch asks one node. While it answers nothing it is not asked again.
func (r *round) fetch(ctx context.Context, to int, w *wire.CollectiveWant) {
	c := r.c
	ctx, cancel := context.WithTimeout(ctx, max(2*time.Second, 4*r.makespan()))
	defer cancel()
	go func() { // an answer is of no use once the round is complete
		select {
		case <-r.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	var m wire.CollectiveMsg
	err := c.s.tr.Call(ctx, c.nodes[to], wire.KindCollectiveWant, w, &m)
	c.mu.Lock()
	delete(r.asking, to)
	var out []outgoing
	if err == nil {
		c.alive.Passed(to)
		for _, w := range m.Parts {
			if p := c.part(w); p != nil {
				r.add(p)
			}
		}
		out = r.step()
	} else if base.CodeOf(err) == base.CodeUnavailable {
		c.failed(to)
	}
	c.mu.Unlock()
	c.send(out)
}

// want answers with what is here of the contributions asked for; for its own it
// waits until there is one, or the asker's patience ends.
func (s *Service) want(ctx context.Context, from base.NodeID, body []byte) (wan.Msg, error) {
	var w wire.CollectiveWant
	if err := w.UnmarshalVT(body); err != nil {
		return nil, err
	}
	s.mu.Lock()
	c := s.comms[w.Comm]
	s.mu.Unlock()
	if c == nil {
		return nil, base.Errorf(base.CodeInvalid, "communicator %d is not on this node", w.Comm)
	}
	return c.answer(ctx, from, &w)
}

// answer serves a request for contributions, within the asker's patience.
func (c *Comm) answer(ctx context.Context, from base.NodeID, w *wire.CollectiveWant) (wan.Msg, error) {
	asker, ok := c.index[from]
	if !ok || int(w.Root) >= len(c.nodes) || !op(w.Op).known() {
		return nil, base.Errorf(base.CodeInvalid, "communicator %d has no node %d, or no such operation (%d, root %d)",
			c.id, from, w.Op, w.Root)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.round(w.Round, op(w.Op), int(w.Root))
	if r == nil || r.op != op(w.Op) {
		return nil, base.Errorf(base.CodeInvalid, "round %d is not kept on node %d", w.Round, c.nodes[c.self])
	}
	if w.Lost {
		r.blameRelays(asker)
	}
	to := asker // the node that the contributions are for
	if w.ForNode > 0 {
		if to = int(w.ForNode) - 1; to >= len(c.nodes) {
			return nil, base.Errorf(base.CodeInvalid, "there is no node %d in communicator %d", to, c.id)
		}
	}
	if parts := r.holds(to, w); len(parts) > 0 {
		return r.envelope(parts).msg, nil
	}
	switch {
	case slices.Contains(w.Origins, uint32(c.self)): // the call has not been made here yet
		c.mu.Unlock()
		r.awaitCall(ctx)
		c.mu.Lock()
		return r.envelope(r.holds(to, w)).msg, nil
	case w.ForNode > 0:
		return r.envelope(nil).msg, nil
	}
	// The asker may have no path to the origin: ask in its place.
	c.mu.Unlock()
	m := r.bridge(ctx, asker, w)
	c.mu.Lock()
	return m, nil
}

// blameRelays has the relays on the way to a node rest: what was sent over them did not arrive.
func (r *round) blameRelays(to int) {
	c := r.c
	for _, relay := range r.plan.Routes[[2]int{c.self, to}] {
		c.relays.Failed(relay, time.Since(c.birth))
	}
}

// awaitCall waits until the operation has been called on this node, the round is over, or ctx ends.
func (r *round) awaitCall(ctx context.Context) {
	select {
	case <-r.begin:
	case <-r.done:
	case <-ctx.Done():
	}
}

// bridge asks the first of the wanted origins on behalf of another node.
func (r *round) bridge(ctx context.Context, asker int, w *wire.CollectiveWant) *wire.CollectiveMsg {
	m := &wire.CollectiveMsg{}
	for _, o := range w.Origins {
		if int(o) < len(r.c.nodes) && int(o) != asker {
			q := &wire.CollectiveWant{Comm: w.Comm, Round: w.Round, Op: w.Op, Root: w.Root, Origins: []uint32{o},
				ForNode: uint32(asker) + 1}
			if r.c.s.tr.Call(ctx, r.c.nodes[o], wire.KindCollectiveWant, q, m) != nil {
				m = &wire.CollectiveMsg{} // the asker goes on asking others
			}
			break
		}
	}
	return m
}

// holds is what of the wanted contributions is here.
func (r *round) holds(to int, w *wire.CollectiveWant) (parts []*Part) {
	for _, o32 := range w.Origins {
		switch o := int(o32); {
		case o >= len(r.c.nodes):
		case o == r.self():
			parts = append(parts, r.original(to)...)
		default:
			parts = append(parts, r.cargo.holds(r, o, to)...)
		}
	}
	return parts
}
