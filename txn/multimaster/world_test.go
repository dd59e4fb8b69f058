package multimaster

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/policy/epoch"
	"github.com/godwitdb/godwit/policy/filter"
	"github.com/godwitdb/godwit/policy/plan"
	"github.com/godwitdb/godwit/wire"
)

// world is the nodes of a cluster that has nothing but epochs, in virtual time.
type world struct {
	t      testing.TB
	cfg    worldConfig
	net    *wan.Network
	rng    *rand.Rand
	nodes  []*machine
	reg    *registry
	mu     sync.Mutex
	sent   map[batchName][]byte // what was submitted, by (view, epoch, node)
	voters []base.NodeID
}

type batchName struct {
	view, num uint64
	node      base.NodeID
}

type worldConfig struct {
	seed     uint64
	regions  int
	per      int // nodes in each region
	oneWay   time.Duration
	sync     time.Duration
	hostile  bool // messages are lost, late and doubled
	sharded  bool // plans with a group for each region
	planned  bool // plans by measured round trips
	keep     uint64
	interval time.Duration
	early    bool // Config.early
}

// machine is a node and its disk, which outlives its processes.
type machine struct {
	w      *world
	id     base.NodeID
	region base.RegionID
	fs     *vfs.MemFS
	rng    *rand.Rand
	cut    bool        // from everybody, and from the registry
	frozen atomic.Bool // its disk takes nothing for a long time

	mu    sync.Mutex
	st    *store.Store
	eng   *Engine
	hook  func(n int) // called with the number of each message of this process before it is sent
	calls int
}

// rough is a transport that loses, repeats and delays one-way messages, and counts all that leave.
type rough struct {
	wan.Transport
	m *machine
}

func (r rough) count() {
	r.m.mu.Lock()
	r.m.calls++
	n, hook := r.m.calls, r.m.hook
	r.m.mu.Unlock()
	if hook != nil {
		hook(n)
	}
}

func (r rough) Send(to base.NodeID, kind wire.Kind, m wan.Msg) error {
	r.count()
	if r.m.w.cfg.hostile {
		r.m.mu.Lock()
		x := r.m.rng.IntN(100)
		r.m.mu.Unlock()
		switch {
		case x < 3:
			return nil
		case x < 6:
			time.AfterFunc(time.Duration(x)*11*time.Millisecond, func() { _ = r.Transport.Send(to, kind, m) })
		case x < 9:
			time.AfterFunc(time.Duration(x)*37*time.Millisecond, func() { _ = r.Transport.Send(to, kind, m) })
			return nil
		}
	}
	return r.Transport.Send(to, kind, m)
}

func (r rough) Call(ctx context.Context, to base.NodeID, kind wire.Kind, q, a wan.Msg) error {
	r.count()
	return r.Transport.Call(ctx, to, kind, q, a)
}

func (r rough) HandleOrdered(kind wire.Kind, h func(base.NodeID, []byte)) {
	r.Transport.HandleOrdered(kind, h)
}

// registry is the meta group: linearizable, some way off, out of reach for who is cut off.
type registry struct {
	w  *world
	mu sync.Mutex
	Memory
	wrong error
	away  atomic.Bool // nobody reaches it
}

type registryOf struct {
	r *registry
	m *machine
}

func (r registryOf) reach(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(r.r.w.cfg.oneWay):
	}
	if r.r.away.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	r.r.mu.Lock()
	defer r.r.mu.Unlock()
	if r.m.cut {
		return base.Errorf(base.CodeUnavailable, "cut off")
	}
	return nil
}

func (r registryOf) Load(ctx context.Context) (*epoch.View, error) {
	if err := r.reach(ctx); err != nil {
		return nil, err
	}
	return r.r.Memory.Load(ctx)
}

func (r registryOf) Replace(ctx context.Context, v *epoch.View) error {
	if err := r.reach(ctx); err != nil {
		return err
	}
	err := r.r.Memory.Replace(ctx, v)
	if base.CodeOf(err) == base.CodeInvalid {
		r.r.mu.Lock()
		defer r.r.mu.Unlock()
		r.r.wrong = err
	}
	return err
}

// at is the view that an epoch belongs to.
func (r *registry) at(num uint64) (in epoch.View) {
	for _, v := range r.All() {
		if v.Start <= num {
			in = v
		}
	}
	return in
}

func newWorld(t testing.TB, cfg worldConfig) *world {
	if cfg.per == 0 {
		cfg.per = 1
	}
	w := &world{t: t, cfg: cfg, rng: rand.New(rand.NewPCG(cfg.seed, 1)), sent: map[batchName][]byte{}}
	w.net = wan.NewNetwork(wan.NetOptions{Seed: cfg.seed, LAN: wan.LinkSpec{Delay: 250 * time.Microsecond}, DropSends: true})
	for a := 1; a <= cfg.regions; a++ {
		for b := a + 1; b <= cfg.regions; b++ {
			w.net.SetPaths(base.RegionID(a), base.RegionID(b),
				wan.LinkSpec{Delay: cfg.oneWay + time.Duration(a*b)*time.Millisecond, Jitter: time.Millisecond})
		}
	}
	w.reg = &registry{w: w}
	for i := range cfg.regions * cfg.per {
		m := &machine{w: w, id: base.NodeID(i + 1), region: base.RegionID(i/cfg.per + 1), fs: vfs.NewCrashableMem(),
			rng: rand.New(rand.NewPCG(cfg.seed, uint64(100+i)))}
		w.nodes = append(w.nodes, m)
		if i%cfg.per == 0 {
			w.voters = append(w.voters, m.id)
		}
	}
	return w
}

func (w *world) ids() (ids []base.NodeID) {
	for _, m := range w.nodes {
		ids = append(ids, m.id)
	}
	return ids
}

// frozenFor is how long a sync of a frozen disk takes.
const frozenFor = 20 * time.Second

// boot starts a process on a machine.
func (m *machine) boot() {
	w := m.w
	st, err := store.Open(store.Options{Dir: "db", FS: m.fs, Simulation: true, DelayAll: true, SyncDelay: func() time.Duration {
		if m.frozen.Load() {
			return frozenFor
		}
		return w.cfg.sync
	}})
	if err != nil {
		w.t.Fatalf("node %d: %v", m.id, err)
	}
	tr := rough{w.net.Join(m.id, m.region), m}
	cfg := Config{Self: m.id, Store: st, Transport: tr, Registry: registryOf{w.reg, m},
		Voters:  func() []base.NodeID { return w.voters },
		Suspect: time.Second, Ask: 500 * time.Millisecond, Keep: w.cfg.keep, early: w.cfg.early,
		Ailing: func(n base.NodeID) bool { return w.nodes[n-1].frozen.Load() },
		OnBatch: func(view, num uint64, batch []byte) {
			w.mu.Lock()
			defer w.mu.Unlock()
			name := batchName{view, num, m.id}
			if old, twice := w.sent[name]; twice && !bytes.Equal(old, batch) {
				w.t.Errorf("node %d has two batches for epoch %d of view %d", m.id, num, view)
			}
			w.sent[name] = batch
		}}
	if w.cfg.interval > 0 {
		cfg.Interval = func() time.Duration { return w.cfg.interval }
	}
	if w.cfg.sharded {
		cfg.Plan = w.regional
	}
	if w.cfg.planned {
		cfg.Region = func(n base.NodeID) base.RegionID { return w.nodes[n-1].region }
		cfg.RTT = func(n base.NodeID) time.Duration {
			a, b := m.region, w.nodes[n-1].region
			if a == b {
				return 500 * time.Microsecond
			}
			return 2 * w.net.Path(a, b).Delay
		}
	}
	eng, err := New(cfg)
	if err != nil {
		w.t.Fatalf("node %d: %v", m.id, err)
	}
	for _, o := range w.nodes {
		tr.SetPeer(o.id, "", o.region)
	}
	if err := tr.Start(); err != nil {
		w.t.Fatal(err)
	}
	m.mu.Lock()
	m.st, m.eng, m.calls = st, eng, 0
	m.mu.Unlock()
	eng.Start()
}

// regional is a plan with a group for each region, in which every node aggregates a slice.
func (w *world) regional(nodes []base.NodeID) *plan.Plan {
	f := &plan.Facts{}
	var groups []plan.Group
	of := map[base.RegionID]int{}
	for i, n := range nodes {
		m := w.nodes[n-1]
		row := make([]time.Duration, len(nodes))
		for j, o := range nodes {
			switch p := w.nodes[o-1]; {
			case i == j:
			case p.region == m.region:
				row[j] = 250 * time.Microsecond
			default:
				row[j] = w.cfg.oneWay
			}
		}
		f.Latency = append(f.Latency, row)
		f.Region = append(f.Region, int(m.region)-1)
		g, ok := of[m.region]
		if !ok {
			g = len(groups)
			of[m.region] = g
			groups = append(groups, plan.Group{})
		}
		groups[g].Members = append(groups[g].Members, i)
		groups[g].Aggregators = append(groups[g].Aggregators, i)
	}
	return plan.Evaluate(f, plan.Params{}, groups)
}

func (m *machine) engine() *Engine {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.eng
}

func (m *machine) store() *store.Store {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.st
}

// crash ends the process; what the disk has not synced is lost, more or less.
func (m *machine) crash() {
	m.mu.Lock()
	eng, st := m.eng, m.st
	m.eng, m.st = nil, nil
	m.mu.Unlock()
	if eng == nil {
		return
	}
	m.w.net.Crash(m.id)
	m.fs = m.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: m.w.rng.IntN(3) * 50, RNG: m.w.rng})
	eng.Close()
	_ = st.Close()
}

// restart kills the process of a node and starts it again, and waits until it takes part.
func (w *world) restart(n int) {
	w.t.Helper()
	w.nodes[n].crash()
	w.nodes[n].boot()
	w.settle(10 * time.Second)
}

func (m *machine) isolate(on bool) {
	m.w.reg.mu.Lock()
	m.cut = on
	m.w.reg.mu.Unlock()
	if on {
		m.w.net.Isolate(m.id)
	} else {
		m.w.net.Rejoin(m.id)
	}
}

func (w *world) start() {
	for _, m := range w.nodes {
		m.boot()
	}
	if err := w.nodes[0].eng.Begin(context.Background(), w.ids()); err != nil {
		w.t.Fatal(err)
	}
	for _, m := range w.nodes[1:] {
		m.eng.Watch()
	}
}

func (w *world) close() {
	for _, m := range w.nodes {
		if e := m.engine(); e != nil {
			e.Close()
			_ = m.st.Close()
		}
	}
	w.net.Close()
}

// settle waits until all nodes take part and have applied the same.
func (w *world) settle(within time.Duration) {
	w.t.Helper()
	deadline := time.Now().Add(within)
	for {
		what := w.unsettled()
		if what == "" {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("after %v: %s", within, what)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (w *world) unsettled() string {
	var first epoch.Digest
	for i, m := range w.nodes {
		e := m.engine()
		if e == nil {
			return fmt.Sprintf("node %d is down", m.id)
		}
		if err := e.Err(); err != nil {
			w.t.Fatalf("node %d: %v", m.id, err)
		}
		v, active := e.View()
		e.mu.Lock()
		busy := len(e.pending) + len(e.own) + len(e.queue)
		e.mu.Unlock()
		at, d := e.Digest()
		if i == 0 {
			first = d
		}
		if !active || len(v.Members) != len(w.nodes) || busy > 0 || d != first {
			return fmt.Sprintf("node %d: view %+v, active %v, %d unfinished, at epoch %d", m.id, v, active, busy, at)
		}
	}
	return ""
}

// memory is the state of the flat reference.
type memory map[string]filterVersion

type filterVersion struct {
	at  uint64
	val []byte
	del bool
}

func (m memory) Newest(key base.Key) (uint64, error) { return m[string(key)].at, nil }

func (m memory) Touched(span base.Span, after uint64) (bool, error) {
	for k, v := range m {
		if v.at > after && span.Contains(base.Key(k)) {
			return true, nil
		}
	}
	return false, nil
}

// reference replays what was submitted, whole and in one place, and says in which epoch each
// transaction has committed.
func (w *world) reference() (memory, epoch.Digest, map[base.TxnID]uint64) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	nums := map[uint64]bool{}
	for name := range w.sent {
		if w.reg.at(name.num).Number == name.view {
			nums[name.num] = true
		}
	}
	st, fates := memory{}, map[base.TxnID]uint64{}
	var d epoch.Digest
	for _, num := range slices.Sorted(maps.Keys(nums)) {
		view := w.reg.at(num)
		var batches []filter.Batch
		for _, n := range view.Members {
			if data, ok := w.sent[batchName{view.Number, num, n}]; ok {
				b, err := filter.Decode(int(n), data)
				if err != nil {
					w.t.Fatal(err)
				}
				batches = append(batches, *b)
			}
		}
		m, err := epoch.Merge(num, batches, st, d)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, id := range m.Committed {
			if old, twice := fates[id]; twice {
				w.t.Errorf("transaction %s commits in epochs %d and %d", id, old, num)
			}
			fates[id] = num
		}
		for _, x := range m.Writes {
			st[x.Key] = filterVersion{num, x.Value, x.Del}
		}
		d = m.Digest
	}
	return st, d, fates
}

// check compares all replicas with the reference.
func (w *world) check() map[base.TxnID]uint64 {
	w.t.Helper()
	if w.reg.wrong != nil {
		w.t.Error(w.reg.wrong)
	}
	st, d, fates := w.reference()
	for _, m := range w.nodes {
		at, got := m.eng.Digest()
		if got != d {
			w.t.Errorf("node %d, at epoch %d, has not done what a flat run does", m.id, at)
		}
		n := 0
		err := m.st.EachVersion(base.EpochShard, func(v *store.Version) error {
			want, ok := st[string(v.Key)]
			if !ok || uint64(v.TS) > want.at {
				return fmt.Errorf("%s@%d is there and should not", v.Key, v.TS)
			}
			if uint64(v.TS) == want.at {
				n++
				if v.Tombstone != want.del || !v.Tombstone && !bytes.Equal(v.Value, want.val) {
					return fmt.Errorf("%s@%d is %q instead of %q", v.Key, v.TS, v.Value, want.val)
				}
			}
			return nil
		})
		if err != nil || n != len(st) {
			w.t.Errorf("node %d: %d of %d rows, %v", m.id, n, len(st), err)
		}
	}
	return fates
}
