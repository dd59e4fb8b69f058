package sim

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/wan"
)

// Faults that are no clean crashes, and the invariant of all runs with Config.Lively: during
// faults that leave a majority whole, and after the last one, every row is written within a bound
// (alive.go), and ten seconds after the last one a region's own rows are written as fast as before.
// (A table that is damaged at rest is not among them: TestDamagedTable has it.)
const (
	serveBound  = 3 * time.Second
	returnAfter = 10 * time.Second
	// returnSlack is by how much more than before a write may take: a tenth, and what one write
	// differs from the next by.
	returnSlack = 1.1
)

// grayKinds are the faults of PickGray.
var grayKinds = []string{"stalled disk", "slow disk", "slow node", "pause node", "delay ramp", "partial cut",
	"cut one way", "wrong start", "damaged tail"}

// PickGray draws a configuration whose faults leave processes running and parts of them broken.
func PickGray(seed uint64) Config {
	c, r := Pick(seed), rand.New(rand.NewPCG(seed, 9))
	c.Gray, c.Kinds = true, slices.Clone(grayKinds)
	r.Shuffle(len(c.Kinds), func(i, j int) { c.Kinds[i], c.Kinds[j] = c.Kinds[j], c.Kinds[i] })
	c.Kinds = c.Kinds[:1+r.IntN(len(c.Kinds))]
	c.Faults = 1 + r.IntN(4)
	return c
}

// pauseNode stops a process for a while, as SIGSTOP does: it sends and takes nothing, and its disk
// neither. Its timers run on, so what a process finds out when it wakes up late is not in this.
func pauseNode(w *world, r *rand.Rand) (string, func()) {
	h, d := w.host(r), time.Second+upTo(r, 8*time.Second)
	h.freeze(d)
	w.net.Isolate(h.id)
	w.dying.Go(func() {
		time.Sleep(d)
		w.net.Rejoin(h.id)
	})
	return fmt.Sprint(h.id, " for ", d), nil
}

// delayRamp makes the paths of a region, or all, slower step by step, up to 1.4 s.
func delayRamp(w *world, r *rand.Rand) (string, func()) {
	const steps = 7
	var undo func()
	what, end := disturb(w, r, func(*wan.LinkSpec) {})
	undo = end
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	seed := r.Uint64()
	go func() {
		defer close(over)
		for range steps {
			if sleep(ctx, 300*time.Millisecond); ctx.Err() != nil {
				return
			}
			disturb(w, rand.New(rand.NewPCG(seed, 1)), func(s *wan.LinkSpec) { s.Delay += 200 * time.Millisecond })
		}
	}()
	return what, func() {
		cancel()
		<-over
		undo()
		w.calm()
	}
}

// partialCut cuts each pair of regions with an even chance, in one direction or both: what is left
// may be a chain, a ring, a star, or parts.
func partialCut(w *world, r *rand.Rand) (string, func()) {
	var cut [][2]base.RegionID
	for a := range w.cfg.Regions {
		for b := range a {
			x, y := base.RegionID(a+1), base.RegionID(b+1)
			switch r.IntN(6) {
			case 0, 1:
				cut = append(cut, [2]base.RegionID{x, y}, [2]base.RegionID{y, x})
			case 2:
				cut = append(cut, [2]base.RegionID{x, y})
			}
		}
	}
	for _, c := range cut {
		w.net.CutOneWay(c[0], c[1])
	}
	return fmt.Sprint(cut), func() {
		for _, c := range cut {
			w.net.Heal(c[0], c[1])
		}
	}
}

// wrongStartFault starts a node with a clock that is far off, and corrects that later.
func wrongStartFault(w *world, r *rand.Rand) (string, func()) {
	h := w.host(r)
	d := 8*time.Second + upTo(r, 90*time.Second)
	if r.IntN(2) == 0 {
		d = -d
	}
	h.crash()
	h.jumped.Store(false) // the start does not set the clock
	h.clock.Jump(d)
	h.wrong.Store(true)
	h.boot()
	return fmt.Sprint(h.id, " by ", d), func() { w.setClock(h, rand.New(rand.NewPCG(w.cfg.Seed, uint64(d)))) }
}

// damagedTail crashes a node and cuts the end off its log, also what was synced: of one node of a
// run only, since what two have lost may be nowhere else.
func damagedTail(w *world, r *rand.Rand) (string, func()) {
	h := w.hosts[w.cfg.Seed%uint64(len(w.hosts))]
	if len(w.hosts) < 3 || !h.crash() {
		return "nobody", nil
	}
	n := h.cutTail(1 + r.IntN(600))
	return fmt.Sprint(h.id, " by ", n, " bytes"), h.boot
}

// cutTail cuts so many bytes off the newest log file on the disk of a host that is down. It returns
// how many it has cut.
func (h *host) cutTail(n int) int {
	h.power <- struct{}{}
	defer func() { <-h.power }()
	names, err := h.fs.List("db")
	if err != nil {
		return 0
	}
	name := ""
	for _, f := range names {
		if strings.HasSuffix(f, ".log") && (len(f) > len(name) || len(f) == len(name) && f > name) {
			name = f
		}
	}
	if name == "" {
		return 0
	}
	path := h.fs.PathJoin("db", name)
	data, err := readFile(h.fs, path)
	if err != nil {
		return 0
	}
	end := len(data)
	for end > 0 && data[end-1] == 0 {
		end-- // a log file is longer than what was written
	}
	n = min(n, end)
	if err := writeFile(h.fs, path, data[:end-n]); err != nil {
		h.w.fail("node %d: the log is not cut: %w", h.id, err)
	}
	return n
}

func readFile(fs vfs.FS, path string) ([]byte, error) {
	f, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data := make([]byte, st.Size())
	_, err = f.ReadAt(data, 0)
	return data, err
}

func writeFile(fs vfs.FS, path string, data []byte) error {
	f, err := fs.Create(path, "sim")
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Sync()
}

// latency is how long a write of a region's own row takes.
type latency struct {
	took time.Duration // the median of some
	// behind is by how much the owner's clock is behind another one, at most. The clocks are within
	// their bounds, but a timestamp lies above all others that its owner has heard of, and is
	// waited out by the owner's clock.
	behind time.Duration
}

// latencies are those of all regions.
func (b *bench) latencies() []latency {
	if !b.w.cfg.Lively {
		return nil
	}
	out := make([]latency, b.w.cfg.Regions)
	for i := range out {
		out[i] = b.latency(base.RegionID(i + 1))
	}
	return out
}

// behind is by how much a host's clock is behind the one that is furthest ahead.
func (w *world) behind(h *host) (d time.Duration) {
	own, _ := h.clock.Read()
	for _, x := range w.hosts {
		ts, _ := x.clock.Read()
		d = max(d, ts.Sub(own))
	}
	return d
}

func (b *bench) latency(r base.RegionID) (out latency) {
	var took []time.Duration
	key := probeKey(base.DataGroup(1, r), 1000, 1)
	for range 15 {
		h := b.w.hosts[slices.IndexFunc(b.w.hosts, func(h *host) bool { return h.region == r })]
		l := h.up()
		if l == nil {
			return out
		}
		out.behind = max(out.behind, b.w.behind(cmp.Or(b.w.leaderOf(base.DataGroup(1, r)), h)))
		ctx, cancel := context.WithTimeout(context.Background(), liveBound)
		start := time.Now()
		_, err := kv.Run(ctx, l.node.DB(), kv.Options{}, func(t kv.Txn) error {
			t.Put(key, []byte("own"), r)
			return nil
		})
		cancel()
		if err == nil {
			took = append(took, time.Since(start))
		}
		time.Sleep(50 * time.Millisecond)
	}
	if len(took) > 0 {
		slices.Sort(took)
		out.took = took[len(took)/2]
	}
	return out
}

// healed notes when the last fault was over.
func (o *Outcome) healed(w *world) {
	o.healedAt = time.Now()
	w.log.printf("%d faults are over", len(o.Faults))
}

// relapsed waits for nodes that fell sick again after they had been well. Their leads come back
// later each time, by design.
func (w *world) relapsed() {
	const least = 5 * time.Second // patience after the first sickness
	for {
		waits := false
		for _, h := range w.hosts {
			if l := h.up(); l != nil {
				for _, o := range l.node.Cluster().Health().Organs {
					waits = waits || o.State == "recovering" && o.Patience > least
				}
			}
		}
		if !waits {
			return
		}
		time.Sleep(returnAfter / 2) // leads move back within that, too
	}
}

// returned holds the run to the invariant.
func (b *bench) returned(o *Outcome, before []latency, bound time.Duration) {
	w := b.w
	if o.Served > bound {
		w.fail("the last row was written %v after the last fault, not within %v", o.Served, bound)
	}
	if d := time.Until(o.healedAt.Add(returnAfter)); d > 0 {
		time.Sleep(d)
	}
	b.w.relapsed()
	after, noise := b.latencies(), w.cfg.Jitter+w.cfg.SyncDelay
	for i, was := range before {
		is := after[i]
		o.Latency = append(o.Latency, [2]time.Duration{was.took, is.took})
		// Before the faults a clock that is ahead may have cost nothing: an owner assigns
		// timestamps ahead of now only once it has committed some (TIME-4).
		most := time.Duration(float64(was.took)*returnSlack) + noise + is.behind
		if is.took > most {
			w.fail("%v after the last fault a write of region %d's own row takes %v, before the faults %v; "+
				"by their clocks at most %v",
				returnAfter, i+1, is.took, was.took, most)
		}
	}
}
