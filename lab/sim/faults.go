package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/wan"
)

// Fault is one disturbance: it begins at At after the start of the faults and
// ends For later.
type Fault struct {
	At, For time.Duration
	Kind    string
	Seed    uint64 // of the details
}

// String shows when the fault begins, how long it lasts, its kind, and the seed of its details.
func (f Fault) String() string {
	return fmt.Sprintf("%v+%v %s(%d)", f.At.Round(time.Millisecond), f.For.Round(time.Millisecond), f.Kind, f.Seed)
}

// Schedule is the faults of a run in order of beginning.
type Schedule []Fault

// String shows one fault a line.
func (s Schedule) String() string {
	var b strings.Builder
	for _, f := range s {
		fmt.Fprintf(&b, "  %v\n", f)
	}
	return b.String()
}

// Compose draws the faults of a run.
func Compose(cfg *Config) Schedule {
	r := rand.New(rand.NewPCG(cfg.Seed, 3))
	kinds := cfg.Kinds
	if kinds == nil {
		for k := range faultKinds {
			switch k {
			case "move shard", "clock jump", "clock leap", "switch clock", "crash between", "isolate between",
				"stalled disk": // on top, below; or asked for
			case "pause node", "delay ramp", "partial cut", "wrong start", "damaged tail": // PickGray asks for them
			default:
				kinds = append(kinds, k)
			}
		}
		slices.Sort(kinds)
		// A run with few kinds tests these more deeply than a run with all of them.
		r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
		kinds = kinds[:2+r.IntN(len(kinds)-1)]
	}
	var s Schedule
	for range cfg.Faults {
		f := Fault{At: time.Duration(r.Int64N(int64(cfg.Duration))), Kind: kinds[r.IntN(len(kinds))], Seed: r.Uint64N(1000)}
		f.For = 200*time.Millisecond + time.Duration(r.Int64N(int64(5*time.Second)))
		if r.IntN(5) == 0 {
			f.For += 8 * time.Second
		}
		s = append(s, f)
	}
	if cfg.Kinds == nil && cfg.NodesPerRegion > 1 {
		// Membership changes happen on top of the other faults.
		r := rand.New(rand.NewPCG(cfg.Seed, 4))
		for range r.IntN(4) {
			s = append(s, Fault{At: time.Duration(r.Int64N(int64(cfg.Duration))), Kind: "move shard", Seed: r.Uint64N(1000)})
		}
	}
	if r := rand.New(rand.NewPCG(cfg.Seed, 8)); cfg.Kinds == nil && r.IntN(3) == 0 {
		// So do disks that stand still.
		for range 1 + r.IntN(3) {
			s = append(s, Fault{At: time.Duration(r.Int64N(int64(cfg.Duration))), Kind: "stalled disk", Seed: r.Uint64N(1000)})
		}
	}
	if r := rand.New(rand.NewPCG(cfg.Seed, 5)); cfg.Kinds == nil && r.IntN(3) == 0 {
		// So do changes of the clock mode and clocks that are set.
		for range 1 + r.IntN(6) {
			s = append(s, Fault{At: time.Duration(r.Int64N(int64(cfg.Duration))), For: upTo(r, 6*time.Second),
				Kind: pick(r, "clock jump", "switch clock", "switch clock"), Seed: r.Uint64N(1000)})
		}
	}
	slices.SortFunc(s, func(a, b Fault) int { return int(a.At - b.At) })
	return s
}

// faultKinds says how each kind begins. It returns a description, and a function that undoes the
// fault.
var faultKinds = map[string]func(w *world, r *rand.Rand) (what string, undo func()){
	"cut regions":     cutRegions,
	"cut one way":     cutOneWay,
	"isolate region":  isolateRegion,
	"isolate node":    isolateNode,
	"crash node":      crashNode,
	"crash region":    crashRegion,
	"crash between":   crashBetween,
	"isolate between": isolateBetween,
	"crash all":       crashAll,
	"restart":         restart,
	"loss":            loss,
	"delay":           delay,
	"slow node":       slowNode,
	"slow disk":       slowDisk,
	"stalled disk":    stalledDisk,
	"transfer leader": transferLeader,
	"clock step":      clockStep,
	"move shard":      moveShard,
	"clock jump":      clockJump,
	"clock leap":      clockLeap,
	"switch clock":    switchClock,
	"pause node":      pauseNode,
	"delay ramp":      delayRamp,
	"partial cut":     partialCut,
	"wrong start":     wrongStartFault,
	"damaged tail":    damagedTail,
}

// torment runs a schedule and returns when all is healed.
func (w *world) torment(s Schedule) {
	var wg sync.WaitGroup
	if w.cfg.Handover != nil {
		s = nil
		w.messages = w.handover(*w.cfg.Handover)
	}
	begin := time.Now()
	for _, f := range s {
		sleep(context.Background(), time.Until(begin.Add(f.At)))
		what, undo := faultKinds[f.Kind](w, rand.New(rand.NewPCG(w.cfg.Seed, 1000+f.Seed)))
		w.faults.Add(1)
		w.log.printf("fault %s: %s", f.Kind, what)
		if undo == nil {
			continue
		}
		wg.Go(func() {
			time.Sleep(f.For)
			undo()
			w.faults.Add(1)
			w.log.printf("fault over %s: %s", f.Kind, what)
		})
	}
	wg.Wait()
	for _, h := range w.hosts {
		// What such a disk takes before, it takes as long for, whatever is undone here.
		time.Sleep(time.Duration(max(h.frozen.Load(), h.drains.Load())) - w.now())
	}
	w.net.HealAll()
	w.calm()
	for _, h := range w.hosts {
		h.slow.Store(0)
		h.disk.Store(int64(w.cfg.SyncDelay))
		h.boot()
	}
	rng := rand.New(rand.NewPCG(w.cfg.Seed, 6))
	for _, h := range w.hosts {
		w.setClock(h, rng)
	}
	w.setPolicy(clock.Auto)
	for slices.ContainsFunc(w.hosts, func(a *host) bool { // what was sent while a path was slower is on its way still
		return slices.ContainsFunc(w.hosts, func(b *host) bool { return w.net.Drains(a.region, b.region) })
	}) {
		time.Sleep(aliveLook)
	}
	w.log.printf("all healed")
}

func (w *world) region(r *rand.Rand) base.RegionID { return base.RegionID(1 + r.IntN(w.cfg.Regions)) }
func (w *world) host(r *rand.Rand) *host           { return w.hosts[r.IntN(len(w.hosts))] }

func cutRegions(w *world, r *rand.Rand) (string, func()) {
	a, b := w.region(r), w.region(r)
	w.net.Cut(a, b)
	return fmt.Sprint(a, "-", b), func() { w.net.Heal(a, b) }
}

func cutOneWay(w *world, r *rand.Rand) (string, func()) {
	a, b := w.region(r), w.region(r)
	w.net.CutOneWay(a, b)
	return fmt.Sprint(a, ">", b), func() { w.net.Heal(a, b) }
}

func isolateRegion(w *world, r *rand.Rand) (string, func()) {
	a := w.region(r)
	each := func(f func(a, b base.RegionID)) {
		for b := range w.cfg.Regions {
			if base.RegionID(b+1) != a {
				f(a, base.RegionID(b+1))
			}
		}
	}
	each(w.net.Cut)
	return fmt.Sprint(a), func() { each(w.net.Heal) }
}

func isolateNode(w *world, r *rand.Rand) (string, func()) {
	h := w.host(r)
	w.net.Isolate(h.id)
	return fmt.Sprint(h.id), func() { w.net.Rejoin(h.id) }
}

func crashHosts(w *world, hs []*host) func() {
	var down []*host
	for _, h := range hs {
		if h.crash() {
			down = append(down, h)
		}
	}
	return func() {
		for _, h := range down {
			h.boot()
		}
	}
}

func names(hs []*host) string {
	var ids []base.NodeID
	for _, h := range hs {
		ids = append(ids, h.id)
	}
	return fmt.Sprint(ids)
}

func crashNode(w *world, r *rand.Rand) (string, func()) {
	hs := []*host{w.host(r)}
	return names(hs), crashHosts(w, hs)
}

func crashRegion(w *world, r *rand.Rand) (string, func()) {
	a := w.region(r)
	var hs []*host
	for _, h := range w.hosts {
		if h.region == a {
			hs = append(hs, h)
		}
	}
	return names(hs), crashHosts(w, hs)
}

// between draws a node over which others send consensus messages now: a relay or a fan-out proxy.
// If there is none, it draws any node.
func (w *world) between(r *rand.Rand) *host {
	used := map[base.NodeID]bool{}
	for _, h := range w.hosts {
		if l := h.up(); l != nil {
			for _, s := range l.node.Overlay().OverStats() {
				used[s.Via], used[s.Proxy] = true, true
			}
		}
	}
	var hs []*host
	for _, h := range w.hosts {
		if used[h.id] {
			hs = append(hs, h)
		}
	}
	if len(hs) == 0 {
		return w.host(r)
	}
	return hs[r.IntN(len(hs))]
}

func crashBetween(w *world, r *rand.Rand) (string, func()) {
	hs := []*host{w.between(r)}
	return names(hs), crashHosts(w, hs)
}

func isolateBetween(w *world, r *rand.Rand) (string, func()) {
	h := w.between(r)
	w.net.Isolate(h.id)
	return fmt.Sprint(h.id), func() { w.net.Rejoin(h.id) }
}

func crashAll(w *world, _ *rand.Rand) (string, func()) { return "", crashHosts(w, w.hosts) }

// restart stops a node in good order.
func restart(w *world, r *rand.Rand) (string, func()) {
	h := w.host(r)
	h.shutdown()
	return fmt.Sprint(h.id), h.boot
}

// disturb changes the paths of one region, or of all.
func disturb(w *world, r *rand.Rand, change func(*wan.LinkSpec)) (string, func()) {
	a := base.RegionID(r.IntN(w.cfg.Regions + 1))
	var undo []func()
	for i := range w.cfg.Delay {
		for j := range w.cfg.Delay {
			from, to := base.RegionID(i+1), base.RegionID(j+1)
			if a != 0 && a != from && a != to {
				continue
			}
			old := w.net.Path(from, to)
			s := old
			change(&s)
			w.net.SetPath(from, to, s)
			undo = append(undo, func() { w.net.SetPath(from, to, old) })
		}
	}
	return fmt.Sprint("region ", a), func() {
		for _, f := range undo {
			f()
		}
	}
}

func loss(w *world, r *rand.Rand) (string, func()) {
	p := 0.02 + 0.3*r.Float64()
	return disturb(w, r, func(s *wan.LinkSpec) { s.Loss = p })
}

func delay(w *world, r *rand.Rand) (string, func()) {
	d, jitter := upTo(r, 400*time.Millisecond), upTo(r, 300*time.Millisecond)
	return disturb(w, r, func(s *wan.LinkSpec) { s.Delay += d; s.Jitter += jitter })
}

func slowNode(w *world, r *rand.Rand) (string, func()) {
	h := w.host(r)
	d := time.Duration(1<<r.IntN(11)) * time.Millisecond
	h.slow.Store(int64(d))
	return fmt.Sprint(h.id, " by ", d), func() { h.slow.Store(0) }
}

func slowDisk(w *world, r *rand.Rand) (string, func()) {
	h := w.host(r)
	d := time.Duration(1<<r.IntN(12)) * time.Millisecond
	h.disk.Store(int64(d))
	return fmt.Sprint(h.id, " by ", d), func() {
		h.disk.Store(int64(w.cfg.SyncDelay))
		h.drains.Store(int64(w.now() + d))
	}
}

// stalledDisk has a disk take nothing for some seconds.
func stalledDisk(w *world, r *rand.Rand) (string, func()) {
	h := w.host(r)
	h.freeze(time.Duration(1+r.IntN(12)) * time.Second)
	return fmt.Sprint(h.id), nil
}

// transferLeader moves some leads, as the placement driver or an operator would.
func transferLeader(w *world, r *rand.Rand) (string, func()) {
	var moved []string
	groups := w.topology().Groups()
	for range 1 + r.IntN(len(groups)) {
		g, to := groups[r.IntN(len(groups))], w.host(r)
		for _, h := range w.hosts {
			l := h.up()
			if l == nil {
				continue
			}
			grp := l.node.Groups().Group(g)
			if grp == nil {
				continue
			}
			if n, _ := grp.Leader(); n == h.id && grp.Transfer(to.id) == nil {
				moved = append(moved, fmt.Sprint(g, ":", h.id, ">", to.id))
			}
		}
	}
	return strings.Join(moved, " "), nil
}

func clockStep(w *world, r *rand.Rand) (string, func()) {
	h := w.host(r)
	return fmt.Sprint(h.id, " to ", w.setClock(h, r)), nil
}

// clockJump sets a clock by far more than its bound, and back. The clock moves against the
// monotonic clock, so its node notices.
func clockJump(w *world, r *rand.Rand) (string, func()) {
	h := w.host(r)
	d := max(time.Duration(1<<r.IntN(15))*time.Millisecond, 3*w.cfg.ClockBound)
	if r.IntN(2) == 0 {
		d = -d
	}
	return w.jump(h, d)
}

// clockLeap sets a clock by more than other nodes accept.
func clockLeap(w *world, r *rand.Rand) (string, func()) {
	d := 8*time.Second + upTo(r, 40*time.Second) // no two alike, or they would be the majority
	if r.IntN(3) == 0 {
		d = -d
	}
	return w.jump(w.host(r), d)
}

func (w *world) jump(h *host, d time.Duration) (string, func()) {
	h.jumped.Store(true)
	h.clock.Jump(d)
	return fmt.Sprint(h.id, " by ", d), func() {
		h.jumped.Store(false)
		w.setClock(h, rand.New(rand.NewPCG(w.cfg.Seed, uint64(d))))
	}
}

// switchClock changes the clock mode as an operator does, and changes it again.
func switchClock(w *world, r *rand.Rand) (string, func()) {
	m := []clock.Setting{clock.WantGTM, clock.WantGTM, clock.WantGClock, clock.Auto}[r.IntN(4)]
	w.setPolicy(m)
	return string(m), func() {
		w.setPolicy([]clock.Setting{clock.WantGClock, clock.Auto}[r.IntN(2)])
	}
}

// moveShard gives a shard to another node of a region, as the placement rule does when nodes come
// and go.
func moveShard(w *world, r *rand.Rand) (string, func()) {
	region, shard := w.region(r), r.IntN(w.cfg.Shards)
	var l *life
	for _, h := range w.hosts {
		if h.up() != nil && (l == nil || r.IntN(2) == 0) {
			l = h.up()
		}
	}
	if l == nil {
		return "nobody is up", nil
	}
	pickTo := r.IntN(1000)
	w.dying.Go(func() {
		what := ""
		_, err := l.node.Cluster().Change(l.ctx, func(t *base.Topology) error {
			set := slices.Clone(t.Replicas[shard])
			var others []base.NodeID
			for _, n := range t.Nodes {
				if n.Region == region && !slices.Contains(set, n.ID) {
					others = append(others, n.ID)
				}
			}
			for i, id := range set {
				if len(others) > 0 && t.RegionOf(id) == region {
					what = fmt.Sprintf("shard %d: %d>%d", shard+1, id, others[pickTo%len(others)])
					set[i] = others[pickTo%len(others)]
					break
				}
			}
			t.Replicas = slices.Clone(t.Replicas)
			t.Replicas[shard] = set
			return nil
		})
		w.log.printf("move %s: %v", what, err)
	})
	return fmt.Sprint("shard ", shard+1, " in region ", region), nil
}
