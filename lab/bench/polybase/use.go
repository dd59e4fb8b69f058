package polybase

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/lab/bench/rig"
)

// The shopping carts of section 6.3: each user has a row of its own and some items.
const (
	cartTable    = 1
	cartItems    = 4
	cartUsers    = 8    // of one client
	cartItemsNew = 1000 // number of the first item that a client adds
)

// cart makes the transactions of users: 75 % read, 8 % insert, 17 % update.
type cart struct {
	first int // user
	added *atomic.Int64
}

func (c cart) next(r *rand.Rand) rig.Job {
	u := c.first + r.IntN(cartUsers)
	switch n := r.IntN(100); {
	case n < 75:
		return rig.Job{{Kind: rig.OpRead, Keys: rig.Keys(cartTable, u, 0, 1+cartItems)}}
	case n < 83:
		return rig.Job{{Kind: rig.OpInsert, Keys: []base.Key{rig.Key(cartTable, u, cartItemsNew+int(c.added.Add(1)))}}}
	default:
		return rig.Job{{Kind: rig.OpUpdate, Keys: rig.Keys(cartTable, u, r.IntN(1+cartItems), 1)}}
	}
}

// carts loads the users of clients. The users of client c live in region born(c) at first.
func (g *sited) carts(ctx context.Context, clients int, born func(c int) int) error {
	for c := range clients {
		var ks []base.Key
		for u := range cartUsers {
			ks = append(ks, rig.Keys(cartTable, c*cartUsers+u, 0, 1+cartItems)...)
		}
		if err := g.load(ctx, born(c), ks); err != nil {
			return err
		}
	}
	return nil
}

// affinity measures Figure 10: users work from where they live, but their rows were placed by
// range. Each system has time to settle first.
func (b *polybase) affinity(ctx context.Context) (lines []rig.Line, err error) {
	gs, shut, err := b.open(ctx, european, policy, fixed, always, dynamas)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, shut()) }()
	const per = 3 // clients a region
	settle, run := rig.Pick(b.Params, 4*time.Second, 10*time.Second), rig.Pick(b.Params, 3*time.Second, 12*time.Second)
	if err := rig.Each(len(gs), func(i int) error {
		return gs[i].carts(ctx, 3*per, func(c int) int { return c % 3 })
	}); err != nil {
		return nil, err
	}
	var added atomic.Int64
	s := start(ctx, gs, func(int) (cs []*rig.Client) {
		for c := range 3 * per {
			cs = append(cs, rig.NewClient(c/per, 0, cart{c * cartUsers, &added}.next))
		}
		return cs
	})
	wait := rig.Pause(ctx, settle+run)
	all, err := s.end()
	if err := errors.Join(wait, err); err != nil {
		return nil, err
	}
	for i := range all {
		all[i] = all[i].Between(settle, settle+run)
	}
	// The paper's 2x and half the latency are over CockroachDB's row homes, the best of its
	// baselines.
	for i, v := range []system{fixed, always, dynamas} {
		var thr, lat *float64
		if i == 0 {
			thr, lat = rig.Float(2), rig.Float(0.5)
		}
		o := all[i+1]
		for r := range european {
			x := fmt.Sprintf("R%d", r+1)
			lines = append(lines,
				line("10", "godwit/"+v.Name, x, "throughput", "txn/s", rig.Higher, all[0].From(r).Rate(run),
					rig.Float(o.From(r).Rate(run)), thr),
				line("10", "godwit/"+v.Name, x, "mean latency", "ms", rig.Lower, all[0].From(r).Mean(),
					rig.Float(o.From(r).Mean()), lat),
				line("10", "godwit/"+v.Name, x, "p95 latency", "ms", rig.Lower, all[0].From(r).MS(.95),
					rig.Float(o.From(r).MS(.95)), lat))
		}
	}
	return lines, nil
}

// balancing measures Figure 11: two thirds of R2's surplus clients are sent to R1 and R3.
func (b *polybase) balancing(ctx context.Context) (lines []rig.Line, err error) {
	gs, shut, err := b.open(ctx, european, policy, dynamas)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, shut()) }()
	// clients of R1 and R3; of R2 in the surge, 2 of whom go to R1 and 2 to R3
	const per, surge = 2, 8
	before, settle, run := rig.Pick(b.Params, 2*time.Second, 6*time.Second), rig.Pick(b.Params, 4*time.Second,
		8*time.Second), rig.Pick(b.Params, 2*time.Second, 8*time.Second)
	lives := func(c int) int {
		switch {
		case c < per:
			return 0
		case c < per+surge:
			return 1
		}
		return 2
	}
	if err := rig.Each(len(gs), func(i int) error { return gs[i].carts(ctx, 2*per+surge, lives) }); err != nil {
		return nil, err
	}
	var added atomic.Int64
	all := make([][]*rig.Client, len(gs))
	s := start(ctx, gs, func(i int) []*rig.Client {
		for c := range 2*per + surge {
			all[i] = append(all[i], rig.NewClient(lives(c), 0, cart{c * cartUsers, &added}.next))
		}
		return all[i]
	})
	wait := rig.Pause(ctx, before)
	for _, cs := range all {
		for i := range 4 {
			cs[per+i].Region.Store(int32(i % 2 * 2))
		}
	}
	wait = errors.Join(wait, rig.Pause(ctx, settle+run))
	done, err := s.end()
	if err := errors.Join(wait, err); err != nil {
		return nil, err
	}
	in := func(o rig.Outcomes, regions ...int) rig.Outcomes {
		return o.Where(func(x *rig.Outcome) bool {
			for _, r := range regions {
				if x.Region == r {
					return true
				}
			}
			return false
		})
	}
	for i, v := range []system{policy, dynamas} {
		was, is := done[i].Between(before/4, before), done[i].Between(before+settle, before+settle+run)
		var paper *float64
		if i == 0 {
			paper = rig.Float(1.0924)
		}
		lines = append(lines,
			line("11", v.Name, "R1+R3", "throughput after the diversion beside before", "txn/s", rig.Higher,
				in(is, 0, 2).Rate(run), rig.Float(in(was, 0, 2).Rate(before*3/4)), paper),
			line("11", v.Name, "R2", "throughput after the diversion beside before", "txn/s", rig.Higher,
				in(is, 1).Rate(run), rig.Float(in(was, 1).Rate(before*3/4)), nil))
	}
	after := func(i int) rig.Outcomes { return done[i].Between(before+settle, before+settle+run) }
	lines = append(lines, line("11", "godwit/dynamast", "R1+R3", "throughput after the diversion", "txn/s",
		rig.Higher, in(after(0), 0, 2).Rate(run), rig.Float(in(after(1), 0, 2).Rate(run)), nil))
	return lines, nil
}

// mobility measures Figure 12: clients of R2 travel. A third goes to R1, a third to R3, and a third
// to R3 and then to R1.
func (b *polybase) mobility(ctx context.Context) (lines []rig.Line, err error) {
	gs, shut, err := b.open(ctx, european, policy, dynamas)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, shut()) }()
	const stay, travel = 3, 6
	leg, half := rig.Pick(b.Params, 5*time.Second, 10*time.Second), rig.Pick(b.Params, 1250*time.Millisecond, 5*time.Second)
	if err := rig.Each(len(gs), func(i int) error {
		return gs[i].carts(ctx, stay+travel, func(int) int { return 1 })
	}); err != nil {
		return nil, err
	}
	var added atomic.Int64
	all := make([][]*rig.Client, len(gs))
	s := start(ctx, gs, func(i int) []*rig.Client {
		for c := range stay + travel {
			all[i] = append(all[i], rig.NewClient(1, min(1, c/stay), cart{c * cartUsers, &added}.next))
		}
		return all[i]
	})
	at := func(regions ...int32) {
		for _, cs := range all {
			for i, c := range cs[stay:] {
				c.Region.Store(regions[i%3])
			}
		}
	}
	wait := rig.Pause(ctx, leg)
	at(0, 2, 2)
	wait = errors.Join(wait, rig.Pause(ctx, leg))
	at(0, 2, 0)
	wait = errors.Join(wait, rig.Pause(ctx, leg))
	done, err := s.end()
	if err := errors.Join(wait, err); err != nil {
		return nil, err
	}
	for i, v := range []system{policy, dynamas} {
		t := done[i].Tagged(1)
		was := t.Between(leg-half, leg).Rate(half)
		var paper *float64
		if i == 0 {
			paper = rig.Float(1) // the paper says "exceeding", without a number
		}
		lines = append(lines,
			line("12", v.Name, "travel, first leg", "settled throughput beside that at home", "txn/s", rig.Higher,
				t.Between(2*leg-half, 2*leg).Rate(half), rig.Float(was), paper),
			line("12", v.Name, "travel, second leg", "settled throughput beside that at home", "txn/s", rig.Higher,
				t.Between(3*leg-half, 3*leg).Rate(half), rig.Float(was), paper),
			line("12", v.Name, "travel", "dip: least throughput of half a second beside that at home", "txn/s",
				rig.Higher, t.Least(leg, 2*leg, time.Second/2), rig.Float(was), nil),
			line("12", v.Name, "travel", "time until throughput is back", "s", rig.Lower,
				t.Back(leg, 2*leg, was).Seconds(), nil, nil),
			line("12", v.Name, "stay", "settled throughput beside that at first", "txn/s", rig.Higher,
				done[i].Tagged(0).Between(3*leg-half, 3*leg).Rate(half),
				rig.Float(done[i].Tagged(0).Between(leg-half, leg).Rate(half)), nil))
	}
	for x := time.Duration(0); x < 3*leg; x += time.Second {
		rate := func(i int) float64 { return done[i].Tagged(1).Between(x, x+time.Second).Rate(time.Second) }
		lines = append(lines, line("12", "godwit/dynamast, travel", int((x+time.Second)/time.Second),
			"throughput of this second", "txn/s", rig.Higher, rate(0), rig.Float(rate(1)), nil))
	}
	return lines, nil
}

// crash measures Figure 13: R4 is lost, and its clients go on in R5 as soon as they notice.
func (b *polybase) crash(ctx context.Context) (lines []rig.Line, err error) {
	gs, shut, err := b.open(ctx, intercontinental, policy)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, shut()) }()
	const per = 3
	g := gs[0]
	if err := g.carts(ctx, 3*per, func(c int) int { return c / per }); err != nil {
		return nil, err
	}
	var added atomic.Int64
	var cs []*rig.Client
	for c := range 3 * per {
		cs = append(cs, rig.NewClient(c/per, 0, cart{c * cartUsers, &added}.next))
	}
	before, after := rig.Pick(b.Params, 2*time.Second, 6*time.Second), rig.Pick(b.Params, 9*time.Second, 25*time.Second)
	s := g.Work(ctx, cs)
	wait := rig.Pause(ctx, before)
	g.Network().Isolate(g.Nodes()[0].ID())
	for _, c := range cs[:per] {
		c.Leave(1)
	}
	wait = errors.Join(wait, rig.Pause(ctx, after))
	all, err := s.End()
	if err := errors.Join(wait, err); err != nil {
		return nil, err
	}
	end := before + after
	tail := after / 4
	was := all.Between(before/2, before).Rate(before / 2)
	lost := all.From(0).Between(before+100*time.Millisecond, end)
	first := end
	for i := range lost {
		if lost[i].Writes && lost[i].Region == 1 {
			first = min(first, lost[i].At)
		}
	}
	return []rig.Line{
		line("13", "godwit", "all", "throughput of the second after the loss, beside before", "txn/s", rig.Higher,
			all.Between(before, before+time.Second).Rate(time.Second), rig.Float(was), rig.Float(2./3)),
		line("13", "godwit", "all", "settled throughput beside before", "txn/s", rig.Higher,
			all.Between(end-tail, end).Rate(tail), rig.Float(was), nil),
		line("13", "godwit", "R4's clients", "time until their rows are written again (paper: about 5 s)", "s",
			rig.Lower, (first - before).Seconds(), nil, nil),
	}, nil
}
