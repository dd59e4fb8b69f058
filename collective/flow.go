package collective

// The three legs of a round. Each operation is the same journey with other cargo:
//
//	           up                        across                         down
//	AllGather  a slice to its aggregator  the group's slices             everything not the member's own
//	AllToAll   all parts to others        parts for the other group      the member's parts
//	Gather     the part for the root      all to the root                -
//	Broadcast  (root) to all aggregators  -                              the root's part
//	AllReduce  the value                  the group's reduced value      the total

// up sends this node's own data on its way, and stores it.
func (r *round) up() (out []outgoing) {
	self, head := r.self(), r.g.Aggregators[0]
	keep := func(p *Part) *Part { r.add(p); return p }
	toHead := func(parts ...*Part) {
		if head != self && len(parts) > 0 {
			out = append(out, outgoing{to: head, round: r, env: r.envelope(parts), up: true})
		}
	}
	switch r.op {
	case allGather:
		q := len(r.g.Aggregators)
		slices := [][]byte{r.own[0]}
		if q > 1 {
			slices = r.c.opt.Split(r.own[0], q)
		}
		for s, a := range r.g.Aggregators {
			p := keep(&Part{Origin: self, Slice: s, Slices: q, Dest: everybody, Body: slices[s]})
			if a != self {
				out = append(out, outgoing{to: a, round: r, env: r.envelope([]*Part{p}), up: true})
			}
		}
	case allToAll:
		var parts []*Part
		for d := range r.c.nodes {
			if p := keep(&Part{Origin: self, Slices: 1, Dest: d, Body: r.own[d]}); d != self {
				parts = append(parts, p)
			}
		}
		toHead(parts...)
	case gather:
		p := keep(&Part{Origin: self, Slices: 1, Dest: r.root, Body: r.own[0]})
		if r.mine(r.root) && self != r.root {
			return r.msg(r.root, []*Part{p})
		}
		toHead(p)
	case broadcast:
		if self != r.root {
			return nil
		}
		env := r.envelope([]*Part{keep(&Part{Origin: self, Slices: 1, Dest: everybody, Body: r.own[0]})})
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
	case allReduce:
		toHead(keep(&Part{Set: []int{self}, Slices: 1, Dest: everybody, Body: r.own[0]}))
	}
	return out
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
	self := r.self()
	switch {
	case !r.started:
		return nil
	case r.op == allToAll:
		return []*Part{{Origin: self, Slices: 1, Dest: to, Body: r.own[to]}}
	case r.op == gather:
		return []*Part{{Origin: self, Slices: 1, Dest: r.root, Body: r.own[0]}}
	case r.op == broadcast && self != r.root:
		return nil
	case r.op == allReduce:
		return []*Part{{Set: []int{self}, Slices: 1, Dest: everybody, Body: r.own[0]}}
	}
	return []*Part{{Origin: self, Slices: 1, Dest: everybody, Body: r.own[0]}}
}

// across sends the group's data to the other groups, once it is here, or once
// waiting for the rest has lasted too long.
func (r *round) across() (out []outgoing) {
	self := r.self()
	var parts []*Part
	complete := true
	for _, m := range r.g.Members {
		if r.out(m) {
			continue
		}
		var got []*Part
		ok := true
		switch r.op {
		case allGather:
			got, ok = r.share(m, r.slot, len(r.g.Aggregators))
		case allToAll:
			for d := range r.c.nodes {
				if p := r.to(m, d); p != nil {
					got = append(got, p)
				} else if d != m {
					ok = false
				}
			}
		case gather:
			if p := r.to(m, r.root); p != nil && m != r.root {
				got = append(got, p)
			} else {
				ok = m == r.root
			}
		case allReduce:
			_, lacking := r.cover([]int{m})
			ok = len(lacking) == 0 && r.started
		case broadcast:
			_, ok = r.whole(r.root)
		}
		parts = append(parts, got...)
		complete = complete && ok
	}
	if !complete && (!r.lateUp || r.op == allReduce && !r.started) {
		return nil
	}
	r.sentAcross = true
	switch r.op {
	case allGather:
		if r.c.opt.Filter != nil && !r.singleton() {
			parts = r.filter(parts)
		}
		env := r.envelope(parts)
		for _, g := range r.others() {
			aggs := r.plan.Groups[g].Aggregators
			if to := aggs[r.slot%len(aggs)]; len(parts) > 0 && !r.out(to) {
				out = append(out, outgoing{to: to, round: r, env: env})
			}
		}
	case allToAll:
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
	case gather:
		if len(parts) > 0 && r.root != self && !r.mine(r.root) {
			out = r.msg(r.root, parts)
		}
	case allReduce:
		var members []int
		for _, m := range r.g.Members {
			if !r.out(m) {
				members = append(members, m)
			}
		}
		if values, _ := r.cover(members); len(values) > 0 {
			sum := r.combine(values)
			r.add(sum)
			env := r.envelope([]*Part{sum})
			for _, g := range r.others() {
				if !r.out(r.head(g)) {
					out = append(out, outgoing{to: r.head(g), round: r, env: env})
				}
			}
		}
	}
	return out
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
	complete := true
	var parts []*Part
	q := len(r.g.Aggregators)
	switch r.op {
	case gather:
		r.sentDown = true
		return nil
	case broadcast:
		if r.mine(r.root) {
			r.sentDown = true
			return nil
		}
		got, ok := r.fullCut(r.root, 1)
		parts, complete = got, ok
		if !ok {
			parts = nil
		}
	case allGather:
		for o := range r.c.nodes {
			if r.out(o) {
				continue
			}
			got, ok := r.share(o, r.slot, q)
			parts, complete = append(parts, got...), complete && ok
		}
	case allToAll:
		for o := range r.c.nodes {
			for _, m := range r.g.Members {
				if p := r.to(o, m); p != nil && o != m {
					parts = append(parts, p)
				} else if o != m && !r.out(o) && !r.out(m) {
					complete = false
				}
			}
		}
	case allReduce:
		values, lacking := r.cover(r.everyone())
		if complete = len(lacking) == 0 && r.reduce != nil; complete {
			sum := r.combine(values)
			r.add(sum)
			parts = []*Part{sum}
		}
	}
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
			if len(p.Set) > 0 || p.Origin != m && (p.Dest == everybody || p.Dest == m) {
				theirs = append(theirs, p)
			}
		}
		// Even nothing at all tells the member that its aggregator lives.
		out = append(out, r.msg(m, theirs)...)
	}
	return out
}

// pass sends on what came after its leg had gone.
func (r *round) pass(fresh []*Part) (out []outgoing) {
	if r.slot < 0 || r.op == gather || r.op == allReduce {
		return nil
	}
	q := len(r.g.Aggregators)
	for _, p := range fresh {
		if r.op != allToAll && p.Slice%q != r.slot {
			continue
		}
		if r.sentAcross && r.mine(p.Origin) && r.op != broadcast {
			for _, g := range r.others() {
				aggs := r.plan.Groups[g].Aggregators
				switch {
				case p.Dest == everybody:
					out = append(out, r.msg(aggs[r.slot%len(aggs)], []*Part{p})...)
				case r.plan.Of[p.Dest] == g:
					out = append(out, r.msg(p.Dest, []*Part{p})...)
				}
			}
		}
		if r.sentDown {
			for _, m := range r.g.Members {
				if m != r.self() && m != p.Origin && (p.Dest == everybody || p.Dest == m) {
					out = append(out, r.msg(m, []*Part{p})...)
				}
			}
		}
	}
	return out
}
