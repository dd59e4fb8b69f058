package group

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/base/basetest"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/mechanism/wan/overlay"
	"github.com/godwitdb/godwit/wire"
)

var must = basetest.Must

// register is a state machine: a register that each command sets to its ts, and a chain of hashes
// over everything applied. The result of a command is what the register held before.
type register struct {
	g     base.GroupID
	s     *store.Store
	fatal func(format string, args ...any)

	mu        sync.Mutex
	index     uint64
	value     uint64
	hash      uint64
	count     uint64
	byIndex   map[uint64]uint64 // index -> proposal, of this life
	leads     uint64            // term told by Leading; 0 none
	events    []string
	installed int
	revoke    func(term uint64, done func(error)) // nil: agree at once
	rows      bool                                // write a row version per command too
	rec       *recorder
}

func newRegister(s *store.Store, g base.GroupID, fatal func(string, ...any)) *register {
	r := &register{g: g, s: s, fatal: fatal, byIndex: map[uint64]uint64{}}
	r.load()
	return r
}

func (r *register) load() {
	v, ok, err := r.s.GetState(r.g, "register")
	if err != nil {
		r.fatal("load: %v", err)
		return
	}
	if ok {
		r.index, r.value = binary.BigEndian.Uint64(v), binary.BigEndian.Uint64(v[8:])
		r.hash, r.count = binary.BigEndian.Uint64(v[16:]), binary.BigEndian.Uint64(v[24:])
	}
}

func chain(hash, index, proposal, ts uint64) uint64 {
	h := fnv.New64a()
	var b [32]byte
	binary.BigEndian.PutUint64(b[0:], hash)
	binary.BigEndian.PutUint64(b[8:], index)
	binary.BigEndian.PutUint64(b[16:], proposal)
	binary.BigEndian.PutUint64(b[24:], ts)
	h.Write(b[:])
	return h.Sum64()
}

func (r *register) Apply(b *store.Batch, ents []Entry) ([]any, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []any
	for _, e := range ents {
		if e.Index <= r.index {
			r.fatal("%v: entry %d applied after %d", r.g, e.Index, r.index)
		}
		out = append(out, r.value)
		r.byIndex[e.Index] = e.Cmd.Proposal
		r.hash = chain(r.hash, e.Index, e.Cmd.Proposal, e.Cmd.Ts)
		r.index, r.value = e.Index, e.Cmd.Ts
		r.count++
		r.rec.add(e.Index, e.Cmd.Ts, r.fatal)
		if r.rows {
			key := append(base.Key{byte(r.g.Shard() >> 8), byte(r.g.Shard()), 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1},
				fmt.Sprintf("k%d", e.Cmd.Ts%64)...)
			b.PutVersion(store.Version{Key: key, TS: base.Timestamp(e.Index<<8 | uint64(r.g.Region())), Value: make([]byte, 100),
				Writer: base.GroupIndex{Region: r.g.Region(), Index: e.Index}})
		}
	}
	var v []byte
	for _, x := range []uint64{r.index, r.value, r.hash, r.count} {
		v = binary.BigEndian.AppendUint64(v, x)
	}
	b.SetState(r.g, "register", v)
	return out, nil
}

func (r *register) event(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf(format, args...))
}

func (r *register) Applied(uint64) {}
func (r *register) Leading(term, first uint64) {
	r.event("leading %v", first > 0)
	r.mu.Lock()
	defer r.mu.Unlock()
	if first > 0 && r.leads != 0 {
		r.fatal("%v: leads term %d without having stopped %d", r.g, term, r.leads)
	}
	r.leads = term
}
func (r *register) Revoking(term uint64, to base.NodeID, done func(bool, error)) {
	r.event("revoking for %d", to)
	r.mu.Lock()
	f := r.revoke
	r.mu.Unlock()
	if f != nil {
		f(term, func(err error) { done(false, err) })
		return
	}
	done(false, nil)
}
func (r *register) Stopped(term uint64) {
	r.event("stopped")
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leads != term {
		r.fatal("%v: stopped term %d, led %d", r.g, term, r.leads)
	}
	r.leads = 0
}
func (r *register) SnapshotInstalled(index uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.index
	r.load()
	if r.index < old || r.index > index {
		r.fatal("%v: a snapshot of %d took the register from %d to %d", r.g, index, old, r.index)
	}
	r.installed++
}

func (r *register) state() (index, hash, count uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.index, r.hash, r.count
}

// member is one node of a test cluster.
type member struct {
	id    base.NodeID
	fs    *vfs.MemFS
	store *store.Store
	tr    wan.Transport
	host  *Host
	sms   map[base.GroupID]*register
	up    bool
}

type cluster struct {
	syncDelay func() time.Duration // of the disks; nil: none
	frozen    sync.Map             // base.NodeID -> time.Time until which its disk takes nothing
	t         testing.TB
	net       *wan.Network
	rng       *rand.Rand
	nodes     map[base.NodeID]*member
	ids       []base.NodeID
	opts      HostOptions
	groups    map[base.GroupID]Conf
	preferred map[base.GroupID]base.NodeID // fixed once a node has started
	moved     atomic.Bool                  // nobody is preferred any more
	rows      bool
	record    *recorder
	log       *slog.Logger
	over      *overlay.Params                 // nil: no overlay
	region    func(base.NodeID) base.RegionID // nil: regionOf
	spy       atomic.Pointer[spy]
}

// spy sees what arrives over an overlay's links in order; it may have it lost.
type spy func(at base.NodeID, k wire.Kind) bool

// spied is the transport below an overlay.
type spied struct {
	wan.Transport
	c *cluster
}

func (s spied) HandleOrdered(kind wire.Kind, h func(base.NodeID, []byte)) {
	s.Transport.HandleOrdered(kind, func(from base.NodeID, body []byte) {
		if look := s.c.spy.Load(); look == nil || !(*look)(s.Self(), kind) {
			h(from, body)
		}
	})
}

func (c *cluster) where(id base.NodeID) base.RegionID {
	if c.region != nil {
		return c.region(id)
	}
	return regionOf(id)
}

// overlaid is a node's transport with an overlay.
func (c *cluster) overlaid(id base.NodeID, tr wan.Transport) wan.Transport {
	o := overlay.New(overlay.Options{Transport: spied{tr, c}, Nodes: func() []base.NodeID { return c.ids },
		RTT: func(a, b base.NodeID) time.Duration {
			x, y := c.where(a), c.where(b)
			return c.net.Path(x, y).Delay + c.net.Path(y, x).Delay
		}})
	o.SetParams(*c.over)
	return o
}

// regionOf is the region of a node in tests: one each.
func regionOf(id base.NodeID) base.RegionID { return base.RegionID(id) }

func newCluster(t testing.TB, seed uint64, n int, net wan.NetOptions, opts HostOptions) *cluster {
	net.Seed = seed
	orDefault(&opts.MinShared, 1) // commands are small here
	c := &cluster{t: t, net: wan.NewNetwork(net), rng: rand.New(rand.NewPCG(seed, 7)), nodes: map[base.NodeID]*member{},
		opts: opts, groups: map[base.GroupID]Conf{}, preferred: map[base.GroupID]base.NodeID{},
		log: slog.New(slog.DiscardHandler)}
	if os.Getenv("GROUP_TEST_LOG") != "" {
		c.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	for i := 1; i <= n; i++ {
		c.ids = append(c.ids, base.NodeID(i))
	}
	return c
}

func (c *cluster) all() Conf { return Conf{Voters: slices.Clone(c.ids)} }

// start brings a node up on its file system, with every group that it is told of.
func (c *cluster) start(id base.NodeID) *member {
	c.t.Helper()
	m := c.nodes[id]
	if m == nil {
		m = &member{id: id, fs: vfs.NewCrashableMem()}
		c.nodes[id] = m
	}
	var err error
	m.store, err = store.Open(store.Options{Dir: "data", FS: m.fs, Simulation: true, SyncDelay: c.disk(id),
		Logger: slog.New(slog.DiscardHandler)})
	must(c.t, err)
	m.tr = c.net.Join(id, c.where(id))
	if c.over != nil {
		m.tr = c.overlaid(id, m.tr)
	}
	for _, other := range c.ids {
		m.tr.SetPeer(other, "", c.where(other))
	}
	o := c.opts
	o.Self, o.Store, o.Transport, o.Logger = id, m.store, m.tr, c.log.With("node", id)
	o.Fatal = func(g base.GroupID, err error) { c.t.Errorf("node %d group %v stopped: %v", id, g, err) }
	m.host, err = NewHost(o)
	must(c.t, err)
	m.sms = map[base.GroupID]*register{}
	for g := range c.groups {
		c.open(m, g)
	}
	must(c.t, m.tr.Start())
	must(c.t, m.host.Start())
	m.up = true
	return m
}

// disk is how long a node's disk takes.
func (c *cluster) disk(id base.NodeID) func() time.Duration {
	return func() (d time.Duration) {
		if c.syncDelay != nil {
			d = c.syncDelay()
		}
		if until, ok := c.frozen.Load(id); ok {
			d = max(d, time.Until(until.(time.Time)))
		}
		return d
	}
}

func (c *cluster) open(m *member, g base.GroupID) *Group {
	c.t.Helper()
	sm := newRegister(m.store, g, func(format string, args ...any) {
		c.t.Errorf("node %d: "+format, append([]any{m.id}, args...)...)
	})
	sm.rows, sm.rec = c.rows, c.record
	m.sms[g] = sm
	gr, err := m.host.Open(g, c.groups[g], sm, func() base.NodeID {
		if c.moved.Load() {
			return 0
		}
		return c.preferred[g]
	})
	must(c.t, err)
	if sm.index > gr.Applied() {
		c.t.Errorf("node %d: register at %d, applied %d", m.id, sm.index, gr.Applied())
	}
	return gr
}

func (c *cluster) startAll() {
	for _, id := range c.ids {
		c.start(id)
	}
}

// stop ends a node in order.
func (c *cluster) stop(id base.NodeID) {
	m := c.nodes[id]
	if !m.up {
		return
	}
	m.up = false
	must(c.t, m.host.Close())
	_ = m.tr.Close()
	must(c.t, m.store.Close())
}

// crash ends a node as a power failure does: what was not synced is lost in part.
func (c *cluster) crash(id base.NodeID) {
	m := c.nodes[id]
	if !m.up {
		return
	}
	c.net.Crash(id)
	clone := m.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: c.rng.IntN(101), RNG: c.rng})
	c.stop(id)
	m.fs = clone
}

func (c *cluster) close() {
	for _, id := range c.ids {
		if m := c.nodes[id]; m != nil {
			c.stop(id)
		}
	}
	_ = c.net.Close()
}

func (c *cluster) group(id base.NodeID, g base.GroupID) *Group {
	if m := c.nodes[id]; m != nil && m.up {
		return m.host.Group(g)
	}
	return nil
}

// leader waits until one of the nodes serves the group, at the newest term, and all that are named
// follow it.
func (c *cluster) leader(g base.GroupID, among ...base.NodeID) *Group {
	c.t.Helper()
	if len(among) == 0 {
		among = c.ids
	}
	for range 3000 {
		var lead *Group
		agreed := true
		var at base.NodeID
		for _, id := range among {
			r := c.group(id, g)
			if r == nil {
				continue
			}
			l, _ := r.Leader()
			if at == 0 {
				at = l
			}
			agreed = agreed && l == at && l != 0
			if _, ok := r.Leads(); ok && l == id {
				lead = r
			}
		}
		if agreed && lead != nil && lead.host.opts.Self == at {
			return lead
		}
		time.Sleep(20 * time.Millisecond)
	}
	for _, id := range among {
		if r := c.group(id, g); r != nil {
			c.t.Logf("node %d: %+v", id, r.Status())
		}
	}
	c.t.Fatalf("group %v has no leader", g)
	return nil
}

// until waits for a condition, in virtual time.
func (c *cluster) until(what string, f func() bool) {
	c.t.Helper()
	for range 6000 {
		if f() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatalf("never: %s", what)
}

// converge waits until all named nodes have applied the same, and compares.
func (c *cluster) converge(g base.GroupID, among ...base.NodeID) {
	c.t.Helper()
	if len(among) == 0 {
		among = c.ids
	}
	c.until("replicas apply the same", func() bool {
		applied := map[uint64]bool{}
		for _, id := range among {
			applied[c.group(id, g).Applied()] = true
		}
		return len(applied) == 1
	})
	var index, hash, count uint64
	for i, id := range among {
		a, b, n := c.nodes[id].sms[g].state()
		if i == 0 {
			index, hash, count = a, b, n
		} else if a != index || b != hash || n != count {
			c.t.Fatalf("group %v: node %d is at %d (%d commands, hash %x), node %d at %d (%d, %x)", g, among[0],
				index, count, hash, id, a, n, b)
		}
	}
	// Where lives overlap, they applied the same at each index.
	at := map[uint64]uint64{}
	for _, id := range among {
		for i, p := range c.nodes[id].sms[g].byIndex {
			if q, ok := at[i]; ok && q != p {
				c.t.Fatalf("group %v: index %d holds %x and %x", g, i, p, q)
			}
			at[i] = p
		}
	}
}

var testGroup = base.DataGroup(1, 1)

func put(v uint64) *wire.Command { return &wire.Command{Ts: v} }

// virtual runs a test in virtual time, with raft's dice seeded.
func virtual(t *testing.T, seed uint64, f func(t *testing.T)) {
	cryptotest.SetGlobalRandom(t, seed)
	runtime.GC() // Pebble's pools must not carry channels from one bubble to the next
	runtime.GC()
	synctest.Test(t, f)
}
