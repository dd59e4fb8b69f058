package collective

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/godwitdb/godwit/policy/plan"
)

type op uint32

const (
	allGather op = 1 + iota
	allToAll
	gather
	broadcast
	allReduce
)

func (o op) known() bool { return o >= allGather && o <= allReduce }

// key names a part.
type key struct {
	origin, dest, slice, slices int
	set                         string
}

func keyOf(p *Part) key {
	k := key{p.Origin, p.Dest, p.Slice, p.Slices, ""}
	if len(p.Set) > 0 {
		b := make([]byte, 0, len(p.Set))
		for _, v := range p.Set {
			b = binary.AppendUvarint(b, uint64(v))
		}
		k.set, k.origin = string(b), 0
	}
	return k
}

// round is one round on one node; Comm.mu guards it.
type round struct {
	c     *Comm
	num   uint64
	op    op
	cargo cargo // of op
	root  int
	plan  *plan.Plan // the snapshot (COLL-2)
	g     plan.Group
	slot  int // which of the group's aggregators this node is; -1: none

	call
	legs
	store
	asking map[int]bool // nodes that have not answered yet

	begin, done chan struct{}
}

// call is this node's own call of the operation, if it has been made.
type call struct {
	started  bool
	finished bool     // it has all that it waits for, or the round is forgotten
	given    bool     // it gave up
	own      [][]byte // what it gave, by destination, or a single value
	reduce   func(a, b []byte) []byte
}

// legs says how far the round has gone. An aggregator waits for its members, and for the other
// groups, until it is late.
type legs struct {
	sentUp, sentAcross, sentDown bool
	lateUp, lateDown             bool
	timers                       []*time.Timer
}

// store is what has come.
type store struct {
	parts map[key]*Part
	cuts  map[int][]int // into how many slices each origin's contribution comes
	heard map[int]bool  // who has sent anything
}

func newRound(c *Comm, num uint64, o op, root int) *round {
	r := &round{c: c, num: num, op: o, cargo: cargoes[o], root: root, plan: c.planFor(num), slot: -1,
		store: store{parts: map[key]*Part{}, cuts: map[int][]int{}, heard: map[int]bool{}}, asking: map[int]bool{},
		begin: make(chan struct{}), done: make(chan struct{})}
	r.g = r.plan.Groups[r.plan.Of[c.self]]
	r.slot = slices.Index(r.g.Aggregators, c.self)
	if o != allGather && r.slot > 0 {
		r.slot = -1 // only AllGather is sliced
	}
	if r.slot >= 0 && len(r.g.Members) > 1 {
		r.after(r.makespan()/2+c.opt.Grace, func() { r.lateUp = true })
		r.after(r.makespan()*5/4+c.opt.Grace, func() { r.lateDown = true })
	}
	return r
}

// after changes the round later, unless it is forgotten.
func (r *round) after(d time.Duration, change func()) {
	r.timers = append(r.timers, time.AfterFunc(d, func() {
		r.c.mu.Lock()
		var out []outgoing
		if r.c.rounds[r.num] == r {
			change()
			out = r.step()
		}
		r.c.mu.Unlock()
		r.c.send(out)
	}))
}

func (r *round) forget() {
	for _, t := range r.timers {
		t.Stop()
	}
	r.finish()
}

// over: this node needs nothing more.
func (r *round) over() bool { return r.finished || r.given }

func (r *round) finish() {
	if !r.finished {
		r.finished = true
		close(r.done)
	}
}

func (r *round) makespan() time.Duration {
	if r.plan.Makespan > 0 {
		return r.plan.Makespan
	}
	return r.c.opt.Makespan
}

// patience is when what has not come is asked for: after the aggregators' own.
func (r *round) patience() time.Duration { return r.makespan()*9/4 + 2*r.c.opt.Grace }

func (r *round) self() int        { return r.c.self }
func (r *round) out(i int) bool   { return r.c.out(i, r.num) }
func (r *round) mine(i int) bool  { return contains(r.g, i) }
func (r *round) singleton() bool  { return len(r.g.Members) == 1 }
func (r *round) head(g int) int   { return r.plan.Groups[g].Aggregators[0] }
func (r *round) headOf(i int) int { return r.head(r.plan.Of[i]) }

// add stores a part and reports whether it is new. An original replaces what a filter left of it.
func (r *round) add(p *Part) bool {
	k := keyOf(p)
	old := r.parts[k]
	if old != nil && (p.Filtered || !old.Filtered) {
		r.c.stats.Duplicates++
		return false
	}
	r.parts[k] = p
	if p.Dest == everybody && len(p.Set) == 0 && !slices.Contains(r.cuts[p.Origin], p.Slices) {
		r.cuts[p.Origin] = append(r.cuts[p.Origin], p.Slices)
	}
	return old == nil
}

// valid: nothing that the filter relied on is excluded.
func (r *round) valid(p *Part) bool { return p != nil && !slices.ContainsFunc(p.Needs, r.out) }

// piece is a slice of an origin's contribution.
func (r *round) piece(origin, slice, of int) *Part {
	if p := r.parts[key{origin, everybody, slice, of, ""}]; r.valid(p) {
		return p
	}
	return nil
}

// share are the slices i with i mod q == slot of an origin's contribution, in
// whatever cut they have come; nil with false if some are missing.
func (r *round) share(origin, slot, q int) (parts []*Part, ok bool) {
	// The cut that the plan says may leave nothing for this slot.
	planned := len(r.plan.Groups[r.plan.Of[origin]].Aggregators)
	for _, n := range append([]int{planned}, r.cuts[origin]...) {
		parts, ok = nil, true
		for s := slot; s < n && ok; s += q {
			p := r.piece(origin, s, n)
			parts, ok = append(parts, p), p != nil
		}
		if ok {
			return parts, true
		}
	}
	return nil, false
}

// whole is an origin's contribution to everybody.
func (r *round) whole(origin int) ([]byte, bool) {
	parts := r.anyCut(origin)
	switch len(parts) {
	case 0:
		return nil, false
	case 1:
		return parts[0].Body, true
	}
	bodies := make([][]byte, len(parts))
	for i, p := range parts {
		bodies[i] = p.Body
	}
	return r.c.opt.Join(bodies), true
}

// anyCut are the slices of the first cut of an origin's contribution that is all here.
func (r *round) anyCut(origin int) []*Part {
	for _, n := range r.cuts[origin] {
		if parts, ok := r.fullCut(origin, n); ok {
			return parts
		}
	}
	return nil
}

// fullCut are the slices of an origin's contribution in a cut into n.
func (r *round) fullCut(origin, n int) ([]*Part, bool) {
	parts := make([]*Part, n)
	for s := range n {
		if parts[s] = r.piece(origin, s, n); parts[s] == nil {
			return nil, false
		}
	}
	return parts, true
}

// to is what an origin has for one node.
func (r *round) to(origin, dest int) *Part { return r.parts[key{origin, dest, 0, 1, ""}] }

// has reports whether what this node is to receive from an origin is here.
func (r *round) has(origin int) bool {
	if origin == r.self() && r.started || r.out(origin) {
		return true
	}
	switch r.op {
	case allGather, broadcast:
		return r.anyCut(origin) != nil
	case allToAll:
		return r.to(origin, r.self()) != nil
	case gather:
		return r.to(origin, r.root) != nil
	}
	return false
}

// missing are the origins that the call still waits for.
func (r *round) missing() (m []int) {
	switch r.op {
	case gather:
		if r.self() != r.root {
			return nil
		}
	case broadcast:
		if !r.has(r.root) {
			m = append(m, r.root)
		}
		return m
	case allReduce:
		_, m = r.cover(r.everyone())
		return m
	}
	for i := range r.c.nodes {
		if !r.has(i) {
			m = append(m, i)
		}
	}
	return m
}

// everyone are the nodes that count.
func (r *round) everyone() (all []int) {
	for i := range r.c.nodes {
		if !r.out(i) {
			all = append(all, i)
		}
	}
	return all
}

// cover finds disjoint reduced values that together hold exactly the wanted
// nodes; missing are those that no value can be had for.
func (r *round) cover(want []int) (parts []*Part, missing []int) {
	var all []*Part
	for _, p := range r.parts {
		if len(p.Set) > 0 && !slices.ContainsFunc(p.Set, func(i int) bool { return !slices.Contains(want, i) }) {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b *Part) int {
		if len(a.Set) != len(b.Set) {
			return len(b.Set) - len(a.Set)
		}
		return slices.Compare(a.Set, b.Set)
	})
	left := slices.Clone(want)
	for _, p := range all {
		if !slices.ContainsFunc(p.Set, func(i int) bool { return !slices.Contains(left, i) }) {
			parts = append(parts, p)
			left = slices.DeleteFunc(left, func(i int) bool { return slices.Contains(p.Set, i) })
		}
	}
	slices.SortFunc(parts, func(a, b *Part) int { return a.Set[0] - b.Set[0] })
	return parts, left
}

// combine reduces disjoint values, in the order of their first nodes.
func (r *round) combine(parts []*Part) *Part {
	out := &Part{Dest: everybody, Slices: 1}
	for i, p := range parts {
		out.Set = append(out.Set, p.Set...)
		if i == 0 {
			out.Body = p.Body
		} else {
			out.Body = r.reduce(out.Body, p.Body)
		}
	}
	slices.Sort(out.Set)
	return out
}

// step does all that can be done now.
func (r *round) step() (out []outgoing) {
	if r.started && !r.sentUp {
		r.sentUp = true
		out = append(out, r.up()...)
	}
	if r.slot >= 0 && !r.sentAcross {
		out = append(out, r.across()...)
	}
	if r.slot >= 0 && r.sentAcross && !r.sentDown && !r.singleton() {
		out = append(out, r.down()...)
	}
	if r.started && !r.finished && len(r.missing()) == 0 {
		r.finish()
		r.c.top = max(r.c.top, r.num)
		r.c.tidy()
	}
	return out
}

func (r *round) msg(to int, parts []*Part) []outgoing {
	return []outgoing{{to: to, round: r, env: r.envelope(parts)}}
}
