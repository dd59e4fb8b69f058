package sim

import (
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

// Faults that are no clean crashes, and the invariant that goes with them: after the last fault
// every row is written within serveBound, and ten seconds after it a region's own rows are written
// as fast as before. (TestDamagedTable has a table that is damaged at rest.)
const (
	serveBound  = 3 * time.Second
	returnAfter = 10 * time.Second
	// returnSlack is by how much more than before a write may take: a tenth, and what one write
	// differs from the next by.
	returnSlack = 1.1
)

// grayKinds are the faults of PickGray.
var grayKinds = []string{"stalled disk", "slow disk", "slow node", "pause node", "delay ramp", "partial cut", "cut one way", "wrong start", "damaged tail"}

// exempt says what of the invariant is not asked for yet after a fault of a kind, and why.
var exempt = map[string]struct{ serve, latency string }{
	"partial cut": {latency: "a region's writes may take a third longer for some more seconds: seed 6"},
}

// PickGray draws a configuration whose faults leave processes running and parts of them broken.
func PickGray(seed uint64) Config {
	c := Pick(seed)
	r := rand.New(rand.NewPCG(seed, 9))
	c.Lively, c.Kinds = true, slices.Clone(grayKinds)
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

// latencies is how long a write of a row of its own takes in each region: the median of some.
func (b *bench) latencies() []time.Duration {
	if !b.w.cfg.Lively {
		return nil
	}
	out := make([]time.Duration, b.w.cfg.Regions)
	for i := range out {
		out[i] = b.latency(base.RegionID(i + 1))
	}
	return out
}

func (b *bench) latency(r base.RegionID) time.Duration {
	var took []time.Duration
	key := probeKey(base.DataGroup(1, r), 1000, 1)
	for range 15 {
		h := b.w.hosts[slices.IndexFunc(b.w.hosts, func(h *host) bool { return h.region == r })]
		l := h.up()
		if l == nil {
			return 0
		}
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
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// healed notes when the last fault was over.
func (o *Outcome) healed(w *world) {
	o.healedAt = time.Now()
	w.log.printf("%d faults are over", len(o.Faults))
}

// excused is why a run is not held to a part of the invariant.
func (o *Outcome) excused() (serve, latency string) {
	for _, f := range o.Faults {
		e := exempt[f.Kind]
		serve, latency = serve+e.serve, latency+e.latency
	}
	return serve, latency
}

// returned holds the run to the invariant.
func (b *bench) returned(o *Outcome, before []time.Duration) {
	w := b.w
	noServe, noLatency := o.excused()
	if o.Served > serveBound && noServe == "" {
		w.fail("the last row was written %v after the last fault, not within %v", o.Served, serveBound)
	}
	if d := time.Until(o.healedAt.Add(returnAfter)); d > 0 {
		time.Sleep(d)
	}
	after := b.latencies()
	noise := w.cfg.Jitter + w.cfg.SyncDelay
	for i, was := range before {
		o.Latency = append(o.Latency, [2]time.Duration{was, after[i]})
		if most := time.Duration(float64(was)*returnSlack) + noise; after[i] > most && noLatency == "" {
			w.fail("%v after the last fault a write of region %d's own row takes %v, before the faults %v", returnAfter, i+1, after[i], was)
		}
	}
}
