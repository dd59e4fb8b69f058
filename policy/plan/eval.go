package plan

import (
	"cmp"
	"slices"
	"time"
)

// model evaluates rounds over one set of facts.
type model struct {
	f   *Facts
	ps  *paths
	all float64 // bytes of all batches
	// scratch
	units []unit
	first []int // unit of each group's first aggregator
	sends []send
}

func newModel(f *Facts, p Params) *model {
	m := &model{f: f, ps: newPaths(f, p)}
	for i := range f.N() {
		m.all += f.batch(i)
	}
	return m
}

// unit is one aggregator of a round.
type unit struct {
	node, group int
	ready       float64 // its members' batches are in
	bytes       float64 // that it sends to each other group
	downs       float64 // from the last arrival until its last member has everything
	last        float64 // the last arrival from another group
	busy        float64 // its uplink is free again
	sent, got   int
}

// send is one message in an uplink.
type send struct {
	to   int // unit, or member
	time float64
	tail float64
	size float64
}

// verdict is what evaluation finds.
type verdict struct {
	time  float64 // ns
	cost  Cost
	worst int // most messages that one node sends and receives
}

// jackson serves the longest tail first, which minimises the time when the last
// is done (Jackson's rule), and returns when the uplink is free.
func jackson(sends []send, at float64, done func(s *send, sent float64)) float64 {
	if len(sends) > 32 {
		slices.SortStableFunc(sends, func(a, b send) int { return cmp.Compare(b.tail, a.tail) })
	} else {
		for i := 1; i < len(sends); i++ {
			for j := i; j > 0 && sends[j-1].tail < sends[j].tail; j-- {
				sends[j-1], sends[j] = sends[j], sends[j-1]
			}
		}
	}
	for i := range sends {
		at += sends[i].time
		done(&sends[i], at)
	}
	return at
}

// round evaluates groups. part says that more nodes and members will come: the
// result is then a lower bound for whatever they will be. direct uses no relays.
func (m *model) round(groups []Group, part, direct bool) (v verdict) {
	total := m.gather(groups, part, direct, &v)
	m.handDown(groups, total, direct, &v)
	m.exchange(groups, direct, &v)
	for x := range m.units {
		u := &m.units[x]
		at := max(u.last, u.ready)
		q := len(groups[u.group].Aggregators)
		if len(groups[u.group].Members) > 1 {
			at = max(at, u.busy) + u.downs
		}
		v.time = max(v.time, at)
		// An aggregator is also a member of the others in its group.
		v.worst = max(v.worst, u.sent+u.got+2*(q-1))
	}
	return v
}

// gather evaluates the way up: when each aggregator has what its members send. total is what all
// groups send across, in bytes.
func (m *model) gather(groups []Group, part, direct bool, v *verdict) (total float64) {
	f := m.f
	keep := f.keep()
	m.units, m.first = m.units[:0], m.first[:0]
	if part { // the bytes of nodes that will come go down, too
		total = keep * (m.all - m.bytesOf(groups))
	}
	for g := range groups {
		gr := &groups[g]
		q := float64(len(gr.Aggregators))
		sum := m.bytesOf(groups[g : g+1])
		k := keep
		if len(gr.Members) == 1 && !part {
			k = 1
		}
		total += k * sum
		m.first = append(m.first, len(m.units))
		for _, a := range gr.Aggregators {
			u := unit{node: a, group: g, bytes: k * sum / q}
			for _, i := range gr.Members {
				if i == a {
					continue
				}
				size := f.batch(i) / q
				w, lat := m.ps.best(i, a, size, direct)
				// A member's slices leave one after the other; the last one counts for all.
				u.ready = max(u.ready, f.batch(i)*f.perByte(i, a)+lat)
				v.cost.WANBytes += size * float64(w.hops)
				v.cost.Messages++
				u.got++
			}
			m.units = append(m.units, u)
		}
	}
	return total
}

// bytesOf is the size of all batches of the groups' members.
func (m *model) bytesOf(groups []Group) (sum float64) {
	for g := range groups {
		for _, i := range groups[g].Members {
			sum += m.f.batch(i)
		}
	}
	return sum
}

// handDown evaluates the way down: what an aggregator sends to its members, and how long that takes
// once it has everything.
func (m *model) handDown(groups []Group, total float64, direct bool, v *verdict) {
	f := m.f
	keep := f.keep()
	for x := range m.units {
		u := &m.units[x]
		gr := &groups[u.group]
		if len(gr.Members) == 1 {
			continue
		}
		q := float64(len(gr.Aggregators))
		m.sends = m.sends[:0]
		for _, j := range gr.Members {
			if j == u.node {
				continue
			}
			size := max(0, total-keep*f.batch(j)) / q
			w, lat := m.ps.best(u.node, j, size, direct)
			m.sends = append(m.sends, send{time: size * f.perByte(u.node, j), tail: lat})
			v.cost.WANBytes += size * float64(w.hops)
			v.cost.Messages++
			u.sent++
		}
		jackson(m.sends, 0, func(s *send, sent float64) { u.downs = max(u.downs, sent+s.tail) })
	}
}

// exchange evaluates the way across: each slice goes once to each other group.
func (m *model) exchange(groups []Group, direct bool, v *verdict) {
	f := m.f
	for x := range m.units {
		u := &m.units[x]
		m.sends = m.sends[:0]
		for g := range groups {
			if g == u.group {
				continue
			}
			y := m.first[g] + (x-m.first[u.group])%len(groups[g].Aggregators)
			to := &m.units[y]
			w, lat := m.ps.best(u.node, to.node, u.bytes, direct)
			m.sends = append(m.sends, send{to: y, time: u.bytes * f.perByte(u.node, to.node), tail: lat + to.downs, size: lat})
			v.cost.WANBytes += u.bytes * float64(w.hops)
			v.cost.Messages++
			u.sent++
			to.got++
		}
		u.busy = jackson(m.sends, u.ready, func(s *send, sent float64) {
			to := &m.units[s.to]
			to.last = max(to.last, sent+s.size)
		})
	}
}

// plan makes a plan of groups that were evaluated.
func (m *model) plan(groups []Group, v verdict, direct bool) *Plan {
	p := &Plan{Groups: groups, Of: make([]int, m.f.N()), Routes: map[[2]int][]int{}, Makespan: time.Duration(v.time),
		Cost: v.cost}
	total := 0.0
	sizes := make([]float64, len(groups))
	for g, gr := range groups {
		k := m.f.keep()
		if len(gr.Members) == 1 {
			k = 1
		}
		for _, i := range gr.Members {
			p.Of[i] = g
			sizes[g] += k * m.f.batch(i)
		}
		total += sizes[g]
	}
	route := func(u, v int, bytes float64) {
		if w, _ := m.ps.best(u, v, bytes, direct); len(w.relays) > 0 {
			p.Routes[[2]int{u, v}] = w.relays
		}
	}
	m.round(groups, false, direct) // for the units
	for g, gr := range groups {
		order := make([]send, 0, len(groups))
		for h := range groups {
			if h != g {
				to := &m.units[m.first[h]]
				_, lat := m.ps.best(gr.Aggregators[0], to.node, sizes[g]/float64(len(gr.Aggregators)), direct)
				order = append(order, send{to: h, tail: lat + to.downs})
			}
		}
		var served []int
		jackson(order, 0, func(s *send, _ float64) { served = append(served, s.to) })
		p.Order = append(p.Order, served)
		q := float64(len(gr.Aggregators))
		for s, a := range gr.Aggregators {
			for _, i := range gr.Members {
				if i != a {
					route(i, a, m.f.batch(i)/q)
					route(a, i, max(0, total-m.f.keep()*m.f.batch(i))/q)
				}
			}
			for h, to := range groups {
				if h != g {
					route(a, to.Aggregators[s%len(to.Aggregators)], sizes[g]/q)
				}
			}
		}
	}
	return p
}

// Evaluate predicts the round of the given groups, choosing relays.
func Evaluate(f *Facts, params Params, groups []Group) *Plan {
	params = params.withDefaults()
	m := newModel(f, params)
	return m.plan(groups, m.round(groups, false, params.NoRelays), params.NoRelays)
}

// Rerun predicts the round of a plan that was made from other facts: its groups
// and its routes stay as they are.
func Rerun(f *Facts, p *Plan) time.Duration {
	m := newModel(f, Params{NoRelays: true}.withDefaults())
	for k, relays := range p.Routes {
		m.ps.cache[k[0]*f.N()+k[1]] = []path{m.ps.over(k[0], k[1], relays)}
	}
	return time.Duration(m.round(p.Groups, false, true).time)
}

// Bound is a time below which no round can end: every pair of nodes is the
// shortest path apart, a node's filtered bytes must leave its region once, and
// all uplinks together must carry every region's bytes to every other region.
func Bound(f *Facts) time.Duration {
	dist, _ := shortest(f.Latency)
	n := f.N()
	region := func(i int) int {
		if len(f.Region) == 0 {
			return i
		}
		return f.Region[i]
	}
	// Bits per ns and bytes of each region; no entry in rate: without limit.
	rate, bytes := map[int]float64{}, map[int]float64{}
	free := map[int]bool{}
	for i := range n {
		r := region(i)
		bytes[r] += f.keep() * f.batch(i)
		if len(f.Uplink) == 0 || f.Uplink[i] == 0 {
			free[r] = true
		} else {
			rate[r] += f.Uplink[i] / 8e9
		}
	}
	worst, nearest := 0.0, -1.0
	for i := range n {
		for j := range n {
			if i == j {
				continue
			}
			d := dist[i*n+j]
			if r := region(i); r != region(j) {
				if nearest < 0 || d < nearest {
					nearest = d
				}
				if !free[r] {
					d += f.keep() * f.batch(i) / rate[r]
				}
			}
			worst = max(worst, d)
		}
	}
	if len(free) == 0 && len(bytes) > 1 {
		var all, rates float64
		for i := range n { // in the order of the nodes: sums of floats depend on it
			all += f.keep() * f.batch(i)
			rates += f.Uplink[i] / 8e9
		}
		worst = max(worst, all*float64(len(bytes)-1)/rates+nearest)
	}
	return time.Duration(worst)
}
