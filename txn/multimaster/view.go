package multimaster

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/collective"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/policy/epoch"
	"github.com/godwitdb/godwit/policy/plan"
	"github.com/godwitdb/godwit/wire"
)

// Steps of EpochControl.
const (
	stepSeal    uint32 = 1 + iota // take no further part in the view, and say what you hold
	stepCatchUp                   // hold everything up to an epoch
	stepInstall                   // here is the next view
	stepPull                      // give me epochs
	stepState                     // give me rows
	stepHello                     // are you there, and where
)

// manage brings about new views, and this node into them.
func (e *Engine) manage() {
	backoff := time.Duration(0)
	for {
		var why string
		select {
		case <-e.stopc:
			return
		case why = <-e.trouble:
		}
		if backoff > 0 {
			select {
			case <-e.stopc:
				return
			case <-time.After(backoff/2 + rand.N(backoff)):
			}
		}
		ctx, cancel := e.context(time.Minute)
		err := e.change(ctx, why)
		cancel()
		if err != nil {
			e.log.Info("no new view of epochs yet", "wanted", why, "err", err)
			// While the registry has no leader nobody commits, and soon after it has one all do.
			backoff = min(max(2*backoff, e.cfg.Ask/4), e.cfg.Ask)
			e.mu.Lock()
			clear(e.down) // without them it was not to be done
			if e.lostSince.IsZero() {
				e.lostSince = time.Now()
			}
			e.mu.Unlock()
			e.need(why)
			continue
		}
		backoff = 0
		e.mu.Lock()
		e.lostSince = time.Time{}
		e.mu.Unlock()
	}
}

// context ends when the engine stops.
func (e *Engine) context(d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	stop := make(chan struct{})
	go func() {
		select {
		case <-e.stopc:
			cancel()
		case <-stop:
		}
	}()
	return ctx, sync.OnceFunc(func() { cancel(); close(stop) })
}

// Begin makes the first view, of the nodes given, if there is none.
func (e *Engine) Begin(ctx context.Context, members []base.NodeID) error {
	v, err := e.cfg.Registry.Load(ctx)
	if err != nil {
		return err
	}
	if v == nil {
		err := e.cfg.Registry.Replace(ctx, &epoch.View{Number: 1, Start: 1, Members: members, Voters: e.cfg.Voters()})
		if err != nil && base.CodeOf(err) != base.CodeAborted {
			return err
		}
	}
	e.need("epochs begin")
	return nil
}

// Watch has the engine look at the registry, which has changed or may have.
func (e *Engine) Watch() { e.need("the registry has changed") }

// change installs the view in force, and asks for a new one unless this node can take part in it.
func (e *Engine) change(ctx context.Context, why string) error {
	if e.Err() != nil {
		return nil
	}
	soon, cancel := context.WithTimeout(ctx, e.cfg.Suspect)
	cur, err := e.cfg.Registry.Load(soon)
	cancel()
	if err != nil || cur == nil {
		return err
	}
	if err := e.adopt(cur); err != nil {
		return err
	}
	e.mu.Lock()
	mine, active, late, heard := e.place.View.Number, e.active, e.late, e.newest
	e.mu.Unlock()
	switch {
	case cur.Number < max(mine, heard):
		return base.Errorf(base.CodeUnavailable, "the registry here knows view %d, and there is %d", cur.Number, max(mine, heard))
	case active && !late && !e.votersChanged(cur):
		return nil
	}
	if !active {
		err := e.follow(ctx, cur)
		e.mu.Lock()
		near := e.full+1 >= cur.Start && !e.place.Loading
		e.mu.Unlock()
		if err != nil && !near { // if it is near, the others may be gone
			return err
		}
		if err := e.leaveAlone(ctx, cur); err != nil {
			return err
		}
	}
	return e.replace(ctx, cur, why)
}

// leaveAlone fails while a view goes on without this node, and one of its members is not reached
// from here: this node would end the view, and bring about one without that member (EPO-3a).
func (e *Engine) leaveAlone(ctx context.Context, cur *epoch.View) error {
	others := slices.DeleteFunc(slices.Clone(cur.Members), func(n base.NodeID) bool { return n == e.cfg.Self })
	goesOn, missing := false, slices.Clone(others)
	e.each(ctx, e.cfg.Ask, others, &wire.EpochControl{Step: stepHello}, func(n base.NodeID, a *wire.EpochAnswer) {
		goesOn = goesOn || a.View == cur.Number && !a.Sealed
		missing = slices.DeleteFunc(missing, func(m base.NodeID) bool { return m == n })
	})
	if goesOn && len(missing) > 0 {
		return base.Errorf(base.CodeUnavailable, "view %d goes on without this node, which does not reach its members %v yet",
			cur.Number, missing)
	}
	return nil
}

// Down notifies the engine that a node seems to have died: its connection has ended, or it has been
// silent. If it does not say otherwise at once, a view without it is asked for now and not only
// when its batch has been missing for Config.Suspect. A mistake costs a view change.
func (e *Engine) Down(n base.NodeID) {
	e.mu.Lock()
	view := e.place.View.Number
	concerned := e.active && n != e.cfg.Self && e.place.View.Has(n) && e.down[n].IsZero()
	if concerned {
		e.down[n] = time.Now()
	}
	e.mu.Unlock()
	if !concerned {
		return
	}
	e.spawn(func() { e.confirmDown(n, view) })
}

// confirmDown asks a node whether it takes part in the view, and for a new view if it does not.
func (e *Engine) confirmDown(n base.NodeID, view uint64) {
	ctx, cancel := e.context(e.cfg.Ask / 4)
	defer cancel()
	a, err := e.ask(ctx, n, &wire.EpochControl{Step: stepHello})
	e.mu.Lock()
	if err == nil && a.View == view && !a.Sealed || !e.memberOf(view) {
		delete(e.down, n)
		e.mu.Unlock()
		return
	}
	e.late = true
	// One after the other asks for the view: when two do at once, one of them loses time.
	turn := e.turn(func(o base.NodeID) bool { return !e.down[o].IsZero() })
	e.mu.Unlock()
	select {
	case <-e.stopc:
		return
	case <-time.After(time.Duration(turn) * e.cfg.Ask):
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.memberOf(view) {
		e.need("a node is down")
	}
}

// memberOf reports whether this node takes part in a view; the caller holds mu.
func (e *Engine) memberOf(view uint64) bool { return e.active && e.place.View.Number == view }

// awaited leaves out those known to be down: others need not wait for what they will not say.
func (e *Engine) awaited(nodes []base.NodeID) map[base.NodeID]bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := map[base.NodeID]bool{}
	for _, n := range nodes {
		if e.down[n].IsZero() {
			out[n] = true
		}
	}
	return out
}

// votersChanged reports whether a view with other voters is due, and this node is the one to ask
// for it.
func (e *Engine) votersChanged(cur *epoch.View) bool {
	want := e.cfg.Voters()
	if len(want) == 0 || len(want) == len(cur.Voters) && !slices.ContainsFunc(want,
		func(n base.NodeID) bool { return !slices.Contains(cur.Voters, n) }) {
		return false
	}
	return len(cur.Members) > 0 && cur.Members[0] == e.cfg.Self
}

// replace ends a view and begins the next one, of all who answer: it seals those that it reaches,
// has those that are to be members catch up with the last epoch that may be exposed, and puts the
// new view into the registry.
func (e *Engine) replace(ctx context.Context, cur *epoch.View, why string) error {
	targets := e.concerned(cur)
	held, newer := e.sealAll(ctx, cur, targets)
	if newer != nil {
		return e.install(newer)
	}
	if err := e.leaveOut(cur, held); err != nil {
		return err
	}
	last, holder, ok := cur.Decide(held)
	if !ok {
		return base.Errorf(base.CodeUnavailable, "%d of the nodes %v answer: a majority of the voters %v is needed",
			len(held), targets, cur.Voters)
	}
	if _, ok := held[e.cfg.Self]; !ok {
		return base.Errorf(base.CodeUnavailable, "this node is not ready for a view yet")
	}
	ready := e.bringUp(ctx, cur, held, last, holder)
	next := &epoch.View{Number: cur.Number + 1, Start: last + 1, Members: ready, Voters: e.cfg.Voters()}
	if len(next.Voters) == 0 {
		next.Voters = cur.Voters
	}
	is := func(n base.NodeID) bool { return slices.Contains(ready, n) }
	if !cur.Majority(is) || !next.Majority(is) || !is(e.cfg.Self) {
		return base.Errorf(base.CodeUnavailable, "only nodes %v could be brought up to epoch %d: "+
			"a majority of the voters %v is needed", ready, last, next.Voters)
	}
	if err := e.cfg.Registry.Replace(ctx, next); err != nil {
		return err
	}
	e.log.Info("epochs go on in a new view", "why", why, "view", next.Number, "from", next.Start,
		"members", next.Members, "voters", next.Voters)
	// Those that miss this learn it from the registry.
	e.spawn(func() {
		ctx, cancel := e.context(e.cfg.Ask)
		defer cancel()
		e.each(ctx, e.cfg.Ask, targets, &wire.EpochControl{Step: stepInstall, Install: next.Encode()},
			func(base.NodeID, *wire.EpochAnswer) {})
	})
	return e.install(next)
}

// sealAll ends a view at all nodes that answer. held is what those hold that are up to its start;
// newer is a view that replaces it already, if one of them knows such.
func (e *Engine) sealAll(ctx context.Context, cur *epoch.View,
	targets []base.NodeID) (held map[base.NodeID]uint64, newer *epoch.View) {
	held = map[base.NodeID]uint64{}
	e.each(ctx, e.cfg.Ask, targets, &wire.EpochControl{Step: stepSeal, View: cur.Number, Install: cur.Encode()},
		func(n base.NodeID, a *wire.EpochAnswer) {
			if a.View > cur.Number {
				if v, err := epoch.DecodeView(a.Installed); err == nil && (newer == nil || v.Number > newer.Number) {
					newer = v
				}
			}
			if a.View == cur.Number && a.Sealed && a.Held+1 >= cur.Start {
				held[n] = a.Held
				if d, err := epoch.ParseDigest(a.Digest); err == nil {
					e.mu.Lock()
					e.hear(n, a.Merged, d)
					e.mu.Unlock()
				}
			}
		})
	return held, newer
}

// leaveOut removes the nodes whose outcomes differ: they are not part of the next view, and a
// majority has to do without them. If it is this node that differs, it stops.
func (e *Engine) leaveOut(cur *epoch.View, held map[base.NodeID]uint64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.judge(e.cfg.Self, e.concerned(cur)) == outvoted {
		e.diverge()
	}
	for n := range e.differ {
		delete(held, n)
	}
	return e.failure
}

// bringUp has all who are to be members hold everything up to an epoch, so that nothing is lost
// with its holder. It returns those that do, in order.
func (e *Engine) bringUp(ctx context.Context, cur *epoch.View, held map[base.NodeID]uint64, last uint64,
	holder base.NodeID) (ready []base.NodeID) {
	members := slices.Collect(maps.Keys(held))
	e.each(ctx, 5*e.cfg.Ask, members, &wire.EpochControl{Step: stepCatchUp, View: cur.Number, To: last,
		Holder: uint32(holder)}, func(n base.NodeID, a *wire.EpochAnswer) {
		if a.View == cur.Number && a.Held >= last {
			ready = append(ready, n)
		}
	})
	slices.Sort(ready)
	return ready
}

// each asks nodes at once and gives the answers to fn, one at a time; those that fail are left out,
// and so are those known to be down that have not answered when all others have.
func (e *Engine) each(ctx context.Context, patience time.Duration, nodes []base.NodeID, q *wire.EpochControl,
	fn func(base.NodeID, *wire.EpochAnswer)) {
	var mu sync.Mutex
	var all, wanted sync.WaitGroup
	awaited := e.awaited(nodes)
	ctx, cancel := context.WithTimeout(ctx, patience)
	for _, n := range nodes {
		if awaited[n] {
			wanted.Add(1)
		}
		all.Go(func() {
			if awaited[n] {
				defer wanted.Done()
			}
			a, err := e.ask(ctx, n, q)
			if err != nil {
				e.log.Debug("no answer", "node", n, "step", q.Step, "err", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if ctx.Err() == nil || awaited[n] {
				fn(n, a)
			}
		})
	}
	wanted.Wait()
	mu.Lock()
	cancel()
	mu.Unlock()
	all.Wait()
}

func (e *Engine) ask(ctx context.Context, n base.NodeID, q *wire.EpochControl) (*wire.EpochAnswer, error) {
	if n == e.cfg.Self {
		return e.control(ctx, n, q)
	}
	a := &wire.EpochAnswer{}
	return a, e.cfg.Transport.Call(ctx, n, wire.KindEpochControl, q, a)
}

func (e *Engine) onControl(ctx context.Context, from base.NodeID, body []byte) (wan.Msg, error) {
	var q wire.EpochControl
	if err := q.UnmarshalVT(body); err != nil {
		return nil, base.Errorf(base.CodeInvalid, "a step of a view change cannot be read: %v", err)
	}
	a, err := e.control(ctx, from, &q)
	if err != nil {
		return nil, err
	}
	return a, nil
}

func (e *Engine) control(ctx context.Context, by base.NodeID, q *wire.EpochControl) (*wire.EpochAnswer, error) {
	if err := e.Err(); err != nil {
		return nil, base.Errorf(base.CodeUnavailable, "epochs have stopped on this node: %v", err)
	}
	switch q.Step {
	case stepSeal:
		return e.seal(by, q)
	case stepCatchUp:
		return e.catchUp(ctx, q)
	case stepInstall:
		v, err := epoch.DecodeView(q.Install)
		if err != nil {
			return nil, err
		}
		return e.answer(), e.install(v)
	case stepPull:
		return e.pull(q)
	case stepState:
		return e.state(q)
	case stepHello:
		return e.hello(), nil
	}
	return nil, base.Errorf(base.CodeInvalid, "a view change has no step %d", q.Step)
}

// answer says where this node stands.
func (e *Engine) answer() *wire.EpochAnswer {
	e.mu.Lock()
	defer e.mu.Unlock()
	digest := e.digest // a copy: the answer is encoded after mu is released
	return &wire.EpochAnswer{View: e.place.View.Number, Sealed: e.place.Sealed && !e.place.Loading, Held: e.full,
		Merged: e.applied.Load(), Digest: digest[:], Installed: e.place.View.Encode()}
}

// hello says where this node stands, and as Sealed whether it takes no part in its view: a process
// that was started lately does not either.
func (e *Engine) hello() *wire.EpochAnswer {
	a := e.answer()
	e.mu.Lock()
	defer e.mu.Unlock()
	a.Sealed = !e.memberOf(a.View)
	return a
}

// seal ends this node's part in a view for good, and reports (VIEW-2).
func (e *Engine) seal(by base.NodeID, q *wire.EpochControl) (*wire.EpochAnswer, error) {
	e.mu.Lock()
	behind := e.place.View.Number < q.View
	e.mu.Unlock()
	if behind {
		v, err := epoch.DecodeView(q.Install)
		if err != nil {
			return nil, err
		}
		if v.Number != q.View {
			return nil, base.Errorf(base.CodeInvalid, "view %d is told as %d", q.View, v.Number)
		}
		if err := e.adopt(v); err != nil {
			return nil, err
		}
	}
	if !e.lock() {
		return nil, base.Errorf(base.CodeUnavailable, "the node stops")
	}
	defer e.unlock()
	e.mu.Lock()
	p := e.place
	e.mu.Unlock()
	if p.View.Number == q.View && !p.Sealed {
		p.Sealed = true
		if err := e.j.savePlace(p); err != nil {
			return nil, err
		}
		e.mu.Lock()
		e.place = p
		e.retire()
		e.mu.Unlock()
		e.spawn(func() { e.remindSealed(p.View.Number, by) })
	}
	return e.answer(), nil
}

// remindSealed asks for a view if the node that has sealed this one does not bring one: soon if
// that node is ailing, for it may never hear the answers (EPO-3b).
func (e *Engine) remindSealed(number uint64, by base.NodeID) {
	patience := 3*e.cfg.Ask + rand.N(2*e.cfg.Ask)
	for began, step := time.Now(), e.cfg.Ask/2; time.Since(began) < patience; step = e.cfg.Ask / 4 {
		select {
		case <-e.stopc:
			return
		case <-time.After(min(step, patience)):
		}
		e.mu.Lock()
		still := e.place.View.Number == number && !e.active
		turn := e.turn(func(o base.NodeID) bool { return o == by || e.ailing(o) })
		e.mu.Unlock()
		switch {
		case !still:
			return
		case by != e.cfg.Self && e.ailing(by) && !e.cfg.Patient:
			patience = min(patience, time.Since(began)+time.Duration(turn)*e.cfg.Ask)
		}
	}
	e.need("sealed, and no view since")
}

// ailing is Config.Ailing.
func (e *Engine) ailing(n base.NodeID) bool { return e.cfg.Ailing != nil && e.cfg.Ailing(n) }

// turn is how many members ask for a view before this one, without those left out. The caller holds
// mu.
func (e *Engine) turn(without func(base.NodeID) bool) (n int) {
	for _, o := range e.place.View.Members {
		if o < e.cfg.Self && !without(o) {
			n++
		}
	}
	return n
}

// adopt makes a newer view this node's. What it does not include is discarded. A member that holds
// everything before it takes part; anybody else keeps out of it for good, as if sealed.
func (e *Engine) adopt(v *epoch.View) error {
	if !e.lock() {
		return base.Errorf(base.CodeUnavailable, "the node stops")
	}
	defer e.unlock()
	e.mu.Lock()
	old := e.place
	if v.Number <= old.View.Number || e.stopped || e.failure != nil {
		e.mu.Unlock()
		return nil
	}
	e.retire()
	e.mu.Unlock()
	keep := v.Start - 1
	if v.Number > old.View.Number+1 {
		// a view between may have ended sooner, and the numbers been used again
		keep = e.applied.Load()
	}
	if err := e.j.discard(keep); err != nil {
		return err
	}
	caught := e.discardAbove(keep)+1 >= v.Start && !old.Loading
	if caught {
		if err := e.applyTo(v.Start - 1); err != nil {
			return err
		}
	}
	p := place{View: *v, Loading: old.Loading, Sealed: !caught || !v.Has(e.cfg.Self)}
	if err := e.j.savePlace(p); err != nil {
		return err
	}
	if e.cfg.OnView != nil {
		e.cfg.OnView(*v)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.place = p
	clear(e.down)
	e.newest = max(e.newest, v.Number)
	e.counters.views.Add(1)
	if p.Sealed || e.stopped {
		return nil
	}
	return e.enter(v)
}

// discardAbove forgets the epochs above one, and returns the last that is left.
func (e *Engine) discardAbove(keep uint64) uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rounds = map[uint64][]byteFrame{}
	e.queue = slices.DeleteFunc(e.queue, func(h held) bool { return h.Epoch > keep })
	e.full = e.applied.Load()
	if n := len(e.queue); n > 0 {
		e.full = e.queue[n-1].Epoch
	}
	e.held = e.full
	return e.full
}

// enter takes part in a view from its start on; the caller holds mu.
func (e *Engine) enter(v *epoch.View) error {
	if e.stopped || e.failure != nil {
		return nil
	}
	comm, err := e.svc.Join(commBase|uint32(v.Number)&0xffffff, v.Members, e.options())
	if err != nil {
		return err
	}
	e.comm, e.active, e.planned, e.paths, e.keeper = comm, true, time.Time{}, map[base.NodeID]links{},
		&plan.Keeper{Damper: plan.Damper{Window: e.cfg.Settle}}
	// Everything before the view's start is applied: what is still without an outcome was
	// discarded.
	var again []*submission
	for _, num := range slices.Sorted(maps.Keys(e.own)) {
		again = append(again, e.own[num]...)
	}
	e.reclaim(again)
	clear(e.own)
	e.inForce, e.chosen, e.next = plan.Flat(len(v.Members)), "", nil
	e.viewCtx, e.leave = context.WithCancel(context.Background())
	e.begun, e.held, e.wanted, e.seen = v.Start-1, v.Start-1, 0, 0
	e.full, e.reported, e.late = v.Start-1, v.Start-1, false
	e.others, e.lastHeard = map[base.NodeID]uint64{}, map[base.NodeID]time.Time{}
	for _, n := range v.Members {
		e.lastHeard[n] = time.Now()
		e.others[n] = v.Start - 1
	}
	poke(e.kick)
	return nil
}

// options of a view's communicator. All nodes must have the same.
func (e *Engine) options() collective.Options {
	o := collective.Options{Split: epoch.Split, Join: epoch.Join, Retry: remind, Retain: 2 * window, Ahead: window + trail}
	if !e.cfg.NoFilter {
		o.Filter = func(_ uint64, parts []collective.Part) { Shorten(parts) }
	}
	return o
}

// Shorten filters the parts of a group, frames of an epoch: those of one slice together. It is what
// rounds of epochs have as their filter ([collective.Options]).
func Shorten(parts []collective.Part) {
	bySlice := map[[2]int][]int{}
	for i := range parts {
		k := [2]int{parts[i].Slice, parts[i].Slices}
		bySlice[k] = append(bySlice[k], i)
	}
	for _, at := range bySlice {
		origins, frames := make([]int, len(at)), make([][]byte, len(at))
		for i, p := range at {
			origins[i], frames[i] = parts[p].Origin, parts[p].Body
		}
		out, needs, err := epoch.Shorten(origins, frames)
		if err != nil || out == nil {
			continue // whoever merges complains, if it is damaged
		}
		for i, p := range at {
			if len(out[i]) != len(frames[i]) || len(needs[i]) > 0 {
				parts[p].Body, parts[p].Needs, parts[p].Filtered = out[i], needs[i], true
			}
		}
	}
}

// install brings this node to a view, and asks for the next one if it cannot take part.
func (e *Engine) install(v *epoch.View) error {
	if err := e.adopt(v); err != nil {
		return err
	}
	e.mu.Lock()
	out := !e.active && e.place.View.Number == v.Number && e.failure == nil
	e.mu.Unlock()
	if out {
		e.need("this node is not part of the view")
	}
	return nil
}
