package collective

// A cargo is what one operation carries on the three legs of a round. It has no state: that is the
// round's.
type cargo interface {
	// up stores this node's own data and sends it to its aggregators.
	up(r *round) []outgoing
	// gathered is what an aggregator has of a member's data for the other groups. ok is false while
	// some of it is missing.
	gathered(r *round, member int) (parts []*Part, ok bool)
	// across sends what was gathered to the other groups.
	across(r *round, parts []*Part) []outgoing
	// returns reports whether anything goes down to the members of this group.
	returns(r *round) bool
	// down is what an aggregator has for its members. complete is false while some of it is
	// missing.
	down(r *round) (parts []*Part, complete bool)
	// original is this node's own data for another one; nil if there is none.
	original(r *round, to int) *Part
	// holds is what is here of an origin's data for a node; nothing while a part of it is missing.
	holds(r *round, origin, to int) []*Part
}

var cargoes = [...]cargo{
	allGather: allGatherCargo{}, allToAll: allToAllCargo{}, gather: gatherCargo{}, broadcast: broadcastCargo{},
	allReduce: allReduceCargo{},
}

// ownPart is all that this node gave for dest, in one piece.
func (r *round) ownPart(dest int, body []byte) *Part {
	return &Part{Origin: r.self(), Slices: 1, Dest: dest, Body: body}
}

// allGatherCargo: everybody gets what everybody gave, in slices if the group has several
// aggregators.
type allGatherCargo struct{}

func (allGatherCargo) up(r *round) (out []outgoing) {
	q := len(r.g.Aggregators)
	slices := [][]byte{r.own[0]}
	if q > 1 {
		slices = r.c.opt.Split(r.own[0], q)
	}
	for s, a := range r.g.Aggregators {
		p := r.keep(&Part{Origin: r.self(), Slice: s, Slices: q, Dest: everybody, Body: slices[s]})
		if a != r.self() {
			out = append(out, outgoing{to: a, round: r, env: r.envelope([]*Part{p}), up: true})
		}
	}
	return out
}

func (allGatherCargo) gathered(r *round, member int) ([]*Part, bool) {
	return r.share(member, r.slot, len(r.g.Aggregators))
}

func (allGatherCargo) across(r *round, parts []*Part) (out []outgoing) {
	if r.c.opt.Filter != nil && !r.singleton() {
		parts = r.filter(parts)
	}
	env := r.envelope(parts)
	for _, g := range r.others() {
		if to := r.peer(g); len(parts) > 0 && !r.out(to) {
			out = append(out, outgoing{to: to, round: r, env: env})
		}
	}
	return out
}

func (allGatherCargo) returns(*round) bool { return true }

func (allGatherCargo) down(r *round) (parts []*Part, complete bool) {
	complete = true
	for o := range r.c.nodes {
		if r.out(o) {
			continue
		}
		got, ok := r.share(o, r.slot, len(r.g.Aggregators))
		parts, complete = append(parts, got...), complete && ok
	}
	return parts, complete
}

func (allGatherCargo) original(r *round, _ int) *Part { return r.ownPart(everybody, r.own[0]) }

func (allGatherCargo) holds(r *round, origin, _ int) []*Part { return r.anyCut(origin) }

// allToAllCargo: everybody gave a part for each other node, which gets it (AllToAll).
type allToAllCargo struct{}

func (allToAllCargo) up(r *round) []outgoing {
	var parts []*Part
	for d := range r.c.nodes {
		if p := r.keep(r.ownPart(d, r.own[d])); d != r.self() {
			parts = append(parts, p)
		}
	}
	return r.toHead(parts...)
}

func (allToAllCargo) gathered(r *round, member int) (parts []*Part, ok bool) {
	ok = true
	for d := range r.c.nodes {
		if p := r.to(member, d); p != nil {
			parts = append(parts, p)
		} else if d != member {
			ok = false
		}
	}
	return parts, ok
}

func (allToAllCargo) across(r *round, parts []*Part) (out []outgoing) {
	for _, g := range r.others() {
		var theirs []*Part
		for _, p := range parts {
			if p.Dest != p.Origin && r.plan.Of[p.Dest] == g {
				theirs = append(theirs, p)
			}
		}
		if to := r.head(g); len(theirs) > 0 && !r.out(to) {
			out = append(out, r.msg(to, theirs)...)
		}
	}
	return out
}

func (allToAllCargo) returns(*round) bool { return true }

func (allToAllCargo) down(r *round) (parts []*Part, complete bool) {
	complete = true
	for o := range r.c.nodes {
		for _, m := range r.g.Members {
			if p := r.to(o, m); p != nil && o != m {
				parts = append(parts, p)
			} else if o != m && !r.out(o) && !r.out(m) {
				complete = false
			}
		}
	}
	return parts, complete
}

func (allToAllCargo) original(r *round, to int) *Part { return r.ownPart(to, r.own[to]) }

func (allToAllCargo) holds(r *round, origin, to int) []*Part { return some(r.to(origin, to)) }

// gatherCargo: the root gets what everybody gave.
type gatherCargo struct{}

func (gatherCargo) up(r *round) []outgoing {
	p := r.keep(r.ownPart(r.root, r.own[0]))
	if r.mine(r.root) && r.self() != r.root {
		return r.msg(r.root, []*Part{p})
	}
	return r.toHead(p)
}

func (gatherCargo) gathered(r *round, member int) ([]*Part, bool) {
	if member == r.root {
		return nil, true
	}
	p := r.to(member, r.root)
	return some(p), p != nil
}

func (gatherCargo) across(r *round, parts []*Part) []outgoing {
	if len(parts) > 0 && r.root != r.self() && !r.mine(r.root) {
		return r.msg(r.root, parts)
	}
	return nil
}

func (gatherCargo) returns(*round) bool { return false }

func (gatherCargo) down(*round) ([]*Part, bool) { return nil, true }

func (gatherCargo) original(r *round, _ int) *Part { return r.ownPart(r.root, r.own[0]) }

func (gatherCargo) holds(r *round, origin, _ int) []*Part { return some(r.to(origin, r.root)) }

// broadcastCargo: everybody gets what the root gave. The root sends it to all aggregators itself,
// so nothing is left to go across.
type broadcastCargo struct{}

func (broadcastCargo) up(r *round) (out []outgoing) {
	self := r.self()
	if self != r.root {
		return nil
	}
	env := r.envelope([]*Part{r.keep(r.ownPart(everybody, r.own[0]))})
	for g := range r.plan.Groups {
		if g != r.plan.Of[self] && !r.out(r.head(g)) {
			out = append(out, outgoing{to: r.head(g), round: r, env: env})
		}
	}
	for _, m := range r.g.Members {
		if m != self {
			out = append(out, outgoing{to: m, round: r, env: env})
		}
	}
	return out
}

func (broadcastCargo) gathered(r *round, _ int) ([]*Part, bool) {
	_, ok := r.whole(r.root)
	return nil, ok
}

func (broadcastCargo) across(*round, []*Part) []outgoing { return nil }

// The root has served its own group.
func (broadcastCargo) returns(r *round) bool { return !r.mine(r.root) }

func (broadcastCargo) down(r *round) ([]*Part, bool) { return r.fullCut(r.root, 1) }

func (broadcastCargo) original(r *round, _ int) *Part {
	if r.self() != r.root {
		return nil
	}
	return r.ownPart(everybody, r.own[0])
}

func (broadcastCargo) holds(r *round, origin, _ int) []*Part { return r.anyCut(origin) }

// allReduceCargo: everybody gets one value made of all that were given. On the way disjoint sets of
// them are reduced; a part names the nodes whose values it holds.
type allReduceCargo struct{}

func (c allReduceCargo) up(r *round) []outgoing { return r.toHead(r.keep(c.original(r, 0))) }

func (allReduceCargo) gathered(r *round, member int) ([]*Part, bool) {
	_, lacking := r.cover([]int{member})
	return nil, len(lacking) == 0
}

func (allReduceCargo) across(r *round, _ []*Part) (out []outgoing) {
	var members []int
	for _, m := range r.g.Members {
		if !r.out(m) {
			members = append(members, m)
		}
	}
	values, _ := r.cover(members)
	if len(values) == 0 {
		return nil
	}
	sum := r.keep(r.combine(values))
	env := r.envelope([]*Part{sum})
	for _, g := range r.others() {
		if to := r.head(g); !r.out(to) {
			out = append(out, outgoing{to: to, round: r, env: env})
		}
	}
	return out
}

func (allReduceCargo) returns(*round) bool { return true }

func (allReduceCargo) down(r *round) (parts []*Part, complete bool) {
	values, lacking := r.cover(r.everyone())
	if len(lacking) > 0 || r.reduce == nil {
		return nil, false
	}
	return []*Part{r.keep(r.combine(values))}, true
}

func (allReduceCargo) original(r *round, _ int) *Part {
	return &Part{Set: []int{r.self()}, Slices: 1, Dest: everybody, Body: r.own[0]}
}

func (allReduceCargo) holds(r *round, origin, _ int) []*Part {
	if values, lacking := r.cover([]int{origin}); len(lacking) == 0 {
		return values
	}
	return nil
}

// some is a list of p, or of nothing.
func some(p *Part) []*Part {
	if p == nil {
		return nil
	}
	return []*Part{p}
}
