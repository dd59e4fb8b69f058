package opt

import (
	"math/bits"
	"slices"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/expr"
)

// mostDP is how many relations are ordered by dynamic programming.
const mostDP = 10

// region is a set of relations that are joined, in any order, by conditions.
type region struct {
	leaves []algebra.Rel
	conds  []expr.Node
}

// flatten gathers the relations of inner joins.
func (g *region) flatten(r algebra.Rel, reorder bool) {
	switch r := r.(type) {
	case *algebra.Join:
		if r.Kind == algebra.Inner && !r.Straight && reorder {
			g.flatten(r.L, reorder)
			g.flatten(r.R, reorder)
			g.conds = append(g.conds, r.On...)
			return
		}
	case *algebra.Filter:
		if j, ok := r.In.(*algebra.Join); ok && j.Kind == algebra.Inner && !j.Straight && reorder && !anyVolatile(r.Conds) {
			g.flatten(j, reorder)
			g.conds = append(g.conds, r.Conds...)
			return
		}
	}
	g.leaves = append(g.leaves, r)
}

func anyVolatile(ns []expr.Node) bool {
	for _, n := range ns {
		if volatile(n) {
			return true
		}
	}
	return false
}

// joinOrder plans inner joins.
type joinOrder struct {
	o     *optimizer
	conds []expr.Node
	uses  []set // of conds
	sets  []set // columns of the leaves
	need  set
	// equal are sets of columns of different relations that conditions make equal, directly or over
	// others: any two of them may be compared instead.
	equal []set
	cols  map[expr.ColID]*expr.Col
}

func (o *optimizer) inner(r *algebra.Join, need set) *Plan {
	g := &region{}
	g.flatten(r, !o.opts.NoReorder)
	if len(g.leaves) < 2 {
		return o.straightJoin(r, need)
	}
	j := &joinOrder{o: o, need: need, cols: map[expr.ColID]*expr.Col{}}
	all := set{}
	j.conds, j.equal = j.classes(g)
	for _, c := range j.conds {
		j.uses = append(j.uses, colsOf(c))
	}
	for _, l := range g.leaves {
		s := setOf(l.Cols())
		j.sets = append(j.sets, s)
		for id := range s {
			all[id] = true
		}
	}
	for i := range j.uses { // columns of outer queries are constants here
		for id := range j.uses[i] {
			if !all[id] {
				delete(j.uses[i], id)
			}
		}
	}
	var base []*Plan
	for i, l := range g.leaves {
		base = append(base, o.physical(l, j.wanted(j.sets[i])))
	}
	var p *Plan
	if len(base) <= mostDP {
		p = j.dynamic(base)
	} else {
		p = j.greedy(base)
	}
	o.restrictGroups(p)
	return p
}

// straightJoin plans a join whose order is fixed.
func (o *optimizer) straightJoin(r *algebra.Join, need set) *Plan {
	j := &joinOrder{o: o, conds: r.On, need: need}
	for _, c := range r.On {
		j.uses = append(j.uses, colsOf(c))
	}
	ls, rs := setOf(r.L.Cols()), setOf(r.R.Cols())
	j.sets = []set{ls, rs}
	a, b := o.physical(r.L, j.wanted(ls)), o.physical(r.R, j.wanted(rs))
	return o.bestJoin(algebra.Inner, a, b, r.On, need, false)
}

// wanted are the columns of a set that are needed above, or by conditions that reach beyond it.
func (j *joinOrder) wanted(s set) set {
	out := set{}
	for id := range s {
		if j.need[id] {
			out[id] = true
		}
	}
	for _, u := range j.uses {
		if u.meets(s) && !u.within(s) {
			for id := range u {
				if s[id] {
					out[id] = true
				}
			}
		}
	}
	for _, e := range j.equal {
		if id, ok := e.firstIn(s); ok && !e.within(s) {
			out[id] = true
		}
	}
	return out
}

// firstIn is the least member of a set that is in another one, too.
func (e set) firstIn(s set) (first expr.ColID, ok bool) {
	for id := range e {
		if s[id] && (!ok || id < first) {
			first, ok = id, true
		}
	}
	return first, ok
}

// classes finds columns that are equal because they equal a third one: each relation has one of
// them at most. What makes them equal is left out of the conditions.
func (j *joinOrder) classes(g *region) (rest []expr.Node, equal []set) {
	of := map[expr.ColID]int{}
	for i, l := range g.leaves {
		for _, id := range l.Cols() {
			of[id] = i
		}
	}
	var found []set
	for _, c := range g.conds {
		a, b := columnsEqual(c)
		if a == nil {
			continue
		}
		j.cols[a.ID], j.cols[b.ID] = a, b
		one := set{a.ID: true, b.ID: true}
		var others []set
		for _, e := range found {
			if e.meets(one) {
				one.add(e.sorted()...)
			} else {
				others = append(others, e)
			}
		}
		found = append(others, one)
	}
	for _, e := range found {
		in := map[int]bool{}
		for id := range e {
			if i, ok := of[id]; ok {
				in[i] = true
			}
		}
		if len(e) > 2 && len(in) == len(e) {
			equal = append(equal, e)
		}
	}
	for _, c := range g.conds {
		a, _ := columnsEqual(c)
		if a == nil || !slices.ContainsFunc(equal, func(e set) bool { return e[a.ID] }) {
			rest = append(rest, c)
		}
	}
	return rest, equal
}

// between are the conditions that can be checked once two sets are joined, and could not before.
func (j *joinOrder) between(a, b set) (out []expr.Node, connected bool) {
	both := a.clone()
	for id := range b {
		both[id] = true
	}
	for i, u := range j.uses {
		if u.within(both) && !u.within(a) && !u.within(b) {
			out = append(out, j.conds[i])
			connected = true
		}
	}
	for _, e := range j.equal {
		x, ok := e.firstIn(a)
		y, ok2 := e.firstIn(b)
		if !ok || !ok2 {
			continue
		}
		eq, err := call("=", j.cols[x], j.cols[y])
		if err != nil {
			j.o.fail(err)
			continue
		}
		out, connected = append(out, eq), true
	}
	return out, connected
}

// dynamic finds the cheapest order of all.
func (j *joinOrder) dynamic(base []*Plan) *Plan {
	n := len(base)
	best, sets := make([]*Plan, 1<<n), make([]set, 1<<n)
	for i, p := range base {
		best[1<<i], sets[1<<i] = p, j.sets[i]
	}
	for m := 1; m < 1<<n; m++ {
		if bits.OnesCount(uint(m)) < 2 {
			continue
		}
		low := m & -m
		sets[m] = sets[low].clone()
		for id := range sets[m^low] {
			sets[m][id] = true
		}
		best[m] = j.bestOf(m, best, sets)
	}
	return j.rest(best[1<<n-1])
}

// bestOf joins two parts of a set; parts without a condition between them only if there are no
// others.
func (j *joinOrder) bestOf(m int, best []*Plan, sets []set) *Plan {
	var out *Plan
	linked := false
	need := j.wanted(sets[m])
	for a := (m - 1) & m; a > 0; a = (a - 1) & m {
		b := m ^ a
		if a < b || best[a] == nil || best[b] == nil {
			continue
		}
		conds, connected := j.between(sets[a], sets[b])
		if linked && !connected {
			continue
		}
		p := j.o.bestJoin(algebra.Inner, best[a], best[b], conds, need, true)
		if out == nil || connected && !linked || p.Cost() < out.Cost() {
			out = p
		}
		linked = linked || connected
	}
	return out
}

// greedy joins the two parts with the smallest result next.
func (j *joinOrder) greedy(base []*Plan) *Plan {
	live, sets := append([]*Plan(nil), base...), append([]set(nil), j.sets...)
	for len(live) > 1 {
		bi, bj, best, linked := 0, 1, -1.0, false
		for x := range live {
			for y := x + 1; y < len(live); y++ {
				conds, connected := j.between(sets[x], sets[y])
				rows := j.o.joinRows(live[x].Rows, live[y].Rows, conds)
				if best < 0 || connected && !linked || connected == linked && rows < best {
					bi, bj, best, linked = x, y, rows, connected
				}
			}
		}
		conds, _ := j.between(sets[bi], sets[bj])
		both := sets[bi].clone()
		for id := range sets[bj] {
			both[id] = true
		}
		live[bi] = j.o.bestJoin(algebra.Inner, live[bi], live[bj], conds, j.wanted(both), true)
		sets[bi] = both
		live, sets = append(live[:bj], live[bj+1:]...), append(sets[:bj], sets[bj+1:]...)
	}
	return j.rest(live[0])
}

// rest checks the conditions that use columns of one relation, or none.
func (j *joinOrder) rest(p *Plan) *Plan {
	var late []expr.Node
	for i, u := range j.uses {
		within := len(u) == 0
		for _, s := range j.sets {
			within = within || u.within(s)
		}
		if within {
			late = append(late, j.conds[i])
		}
	}
	return j.o.where(p, late, j.need)
}
