package plan

import (
	"slices"
	"time"
)

// Keeper holds the plan in force while the network changes. A [Damper] says when the network has
// moved away from what the plan was made for. Plans are made for the slowest that each path has
// been lately, so that one good measurement lures nobody into a detour, and as soon as the plan in
// force would be slower than the flat round on the latest facts, rounds are flat until there is a
// better one: that needs no damping, since flat rounds assume nothing.
//
// Planning takes time: call Observe off the path of rounds, and give its result to
// the rounds that begin afterwards.
type Keeper struct {
	Params Params
	Damper Damper
	// Memory is how many observations count as lately. Default 5.
	Memory int

	seen  []*Facts // oldest first
	plan  *Plan    // nil: none was made
	flat  *Plan
	Plans int // made so far
}

// Observe takes the latest facts and returns the plan in force.
func (k *Keeper) Observe(now time.Duration, f *Facts) (*Plan, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	memory := k.Memory
	if memory == 0 {
		memory = 5
	}
	if len(k.seen) > 0 && k.seen[0].N() != f.N() {
		k.seen, k.plan = nil, nil
	}
	if k.flat == nil || len(k.flat.Of) != f.N() {
		k.flat = Flat(f.N())
	}
	k.seen = append(k.seen, f)
	if len(k.seen) > memory {
		k.seen = slices.Delete(k.seen, 0, 1)
	}
	flat := Rerun(f, k.flat)
	k.flat = &Plan{Groups: k.flat.Groups, Of: k.flat.Of, Makespan: flat, Flat: flat}
	if k.Damper.Observe(now, f) {
		slow := k.slowest()
		p, err := Make(slow, k.Params)
		if err != nil {
			return nil, err
		}
		k.Plans++
		k.plan = p
		k.Damper.Planned(f)
	}
	if k.plan == nil || Rerun(f, k.plan) > flat {
		return k.flat, nil
	}
	return k.plan, nil
}

// slowest are the latest facts with the longest latency of each path in memory.
func (k *Keeper) slowest() *Facts {
	f := *k.seen[len(k.seen)-1]
	lat := make([][]time.Duration, f.N())
	for i := range lat {
		lat[i] = slices.Clone(f.Latency[i])
		for j := range lat[i] {
			for _, s := range k.seen {
				lat[i][j] = max(lat[i][j], s.Latency[i][j])
			}
		}
	}
	f.Latency = lat
	return &f
}
