package collective

// The three legs of a round. Each operation is the same journey with other cargo:
//
//	           up                        across                         down
//	AllGather a slice to its aggregator the group's slices everything not the member's own
//	AllToAll   all parts to others        parts for the other group      the member's parts
//	Gather     the part for the root      all to the root                -
//	Broadcast  (root) to all aggregators  -                              the root's part
//	AllReduce  the value                  the group's reduced value      the total
//
// This file has the journey, cargo.go what each operation carries on it.

// up sends this node's own data on its way, and stores it.
func (r *round) up() []outgoing { return r.cargo.up(r) }

// toHead sends parts up to the group's first aggregator, unless that is this node.
func (r *round) toHead(parts ...*Part) []outgoing {
	if head := r.g.Aggregators[0]; head != r.self() && len(parts) > 0 {
		return []outgoing{{to: head, round: r, env: r.envelope(parts), up: true}}
	}
	return nil
}

// keep stores a part that this node sends on.
func (r *round) keep(p *Part) *Part {
	r.add(p)
	return p
}

// alone sends this node's own data to the other groups itself: its aggregator is gone.
func (r *round) alone() (out []outgoing) {
	if !r.started {
		return nil
	}
	if r.op == gather {
		return r.direct(r.root)
	}
	for _, m := range r.g.Members {
		out = append(out, r.direct(m)...)
	}
	for g := range r.plan.Groups {
		if g == r.plan.Of[r.self()] {
			continue
		}
		if r.op == allToAll {
			for _, m := range r.plan.Groups[g].Members {
				out = append(out, r.direct(m)...)
			}
			continue
		}
		out = append(out, r.direct(r.head(g))...)
	}
	return out
}

// direct sends this node's own data straight to one node.
func (r *round) direct(to int) []outgoing {
	if parts := r.original(to); to != r.self() && len(parts) > 0 {
		return r.msg(to, parts)
	}
	return nil
}

// original is this node's own data for another node.
func (r *round) original(to int) []*Part {
	if !r.started {
		return nil
	}
	if p := r.cargo.original(r, to); p != nil {
		return []*Part{p}
	}
	return nil
}

// across sends the group's data to the other groups, once it is here, or once
// waiting for the rest has lasted too long.
func (r *round) across() []outgoing {
	var parts []*Part
	complete := true
	for _, m := range r.g.Members {
		if r.out(m) {
			continue
		}
		got, ok := r.cargo.gathered(r, m)
		parts = append(parts, got...)
		complete = complete && ok
	}
	if !complete && !r.lateUp {
		return nil
	}
	if r.op == allReduce && !r.started {
		return nil // only the call says how to reduce
	}
	r.sentAcross = true
	return r.cargo.across(r, parts)
}

// others are the groups in the order in which the plan serves them.
func (r *round) others() (gs []int) {
	at := r.plan.Of[r.self()]
	if at < len(r.plan.Order) {
		return r.plan.Order[at]
	}
	for g := range r.plan.Groups {
		if g != at {
			gs = append(gs, g)
		}
	}
	return gs
}

// peer is the aggregator of another group that takes what this one sends across.
func (r *round) peer(g int) int {
	aggs := r.plan.Groups[g].Aggregators
	return aggs[r.slot%len(aggs)]
}

// filter replaces the stored parts by what the filter leaves of them.
func (r *round) filter(parts []*Part) []*Part {
	in := make([]Part, len(parts))
	for i, p := range parts {
		in[i] = *p
	}
	r.c.opt.Filter(r.num, in)
	out := make([]*Part, len(parts))
	for i := range in {
		p := in[i]
		p.Origin, p.Slice, p.Slices, p.Dest, p.Set = parts[i].Origin, parts[i].Slice, parts[i].Slices, parts[i].Dest, parts[i].Set
		out[i] = &p
		if p.Origin != r.self() { // the original of its own data may be asked for
			r.parts[keyOf(&p)] = &p
		}
	}
	return out
}

// down hands the members what came for them, in one message each.
func (r *round) down() (out []outgoing) {
	if !r.cargo.returns(r) {
		r.sentDown = true
		return nil
	}
	parts, complete := r.cargo.down(r)
	if !complete && !r.lateDown {
		return nil
	}
	r.sentDown = true
	for _, m := range r.g.Members {
		if m == r.self() || r.out(m) {
			continue
		}
		var theirs []*Part
		for _, p := range parts {
			if len(p.Set) > 0 || p.isFor(m) {
				theirs = append(theirs, p)
			}
		}
		// Even nothing at all tells the member that its aggregator lives.
		out = append(out, r.msg(m, theirs)...)
	}
	return out
}

// isFor reports whether another node than its origin waits for the part, and is m.
func (p *Part) isFor(m int) bool {
	return p.Origin != m && (p.Dest == everybody || p.Dest == m)
}

// pass sends on what came after its leg had gone.
func (r *round) pass(fresh []*Part) (out []outgoing) {
	if r.slot < 0 || r.op == gather || r.op == allReduce {
		return nil
	}
	for _, p := range fresh {
		if r.op != allToAll && p.Slice%len(r.g.Aggregators) != r.slot {
			continue // another aggregator's
		}
		if r.sentAcross && r.mine(p.Origin) && r.op != broadcast {
			out = append(out, r.passAcross(p)...)
		}
		if r.sentDown {
			out = append(out, r.passDown(p)...)
		}
	}
	return out
}

func (r *round) passAcross(p *Part) (out []outgoing) {
	for _, g := range r.others() {
		switch {
		case p.Dest == everybody:
			out = append(out, r.msg(r.peer(g), []*Part{p})...)
		case r.plan.Of[p.Dest] == g:
			out = append(out, r.msg(p.Dest, []*Part{p})...)
		}
	}
	return out
}

func (r *round) passDown(p *Part) (out []outgoing) {
	for _, m := range r.g.Members {
		if m != r.self() && p.isFor(m) {
			out = append(out, r.msg(m, []*Part{p})...)
		}
	}
	return out
}
