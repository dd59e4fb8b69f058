package txn

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/base/basetest"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/txn/bounds"
	"github.com/godwitdb/godwit/wire"
)

var must = basetest.Must

const (
	oneWay    = 50 * time.Millisecond
	bound     = 2 * time.Millisecond
	heartbeat = 50 * time.Millisecond
)

// skewed is a wall clock that is off by less than its bound.
type skewed struct{ off, bound time.Duration }

func (s skewed) Read() (base.Timestamp, time.Duration) {
	return base.FromTime(time.Now().Add(s.off)), s.bound
}

// cluster is a small one below SQL: one node per region, all in one process.
type cluster struct {
	t     testing.TB
	net   *wan.Network
	topo  *base.Topology
	nodes []*node // by id-1
	// crashable file systems can lose what was not synced.
	crashable bool
	calm      bool          // nothing is broken
	broken    bool          // a rule is left out: what breaks is for the checkers
	prepares  bool          // half of the transactions are prepared, and ended later
	relays    bool          // most of the others cross regions at slots
	streams   bool          // random transactions log what they can before they commit
	skew      time.Duration // of the clocks; half their bound
	modeless  bool          // clocks of nodes that are started wait to be told a mode
	oc        func(*owner.Config)
	tc        func(*Config)
	logger    *slog.Logger
}

type node struct {
	c      *cluster
	id     base.NodeID
	region base.RegionID
	fs     vfs.FS
	store  *store.Store
	trans  wan.Transport
	host   *group.Host
	clock  *clock.Clock
	set    *owner.Set
	db     *DB
	stop   chan struct{}
	wg     sync.WaitGroup
	up     atomic.Pointer[DB] // db while the node runs, for clients beside the one who restarts it

	mu    sync.Mutex
	leads map[base.GroupID]base.NodeID
}

// Leader and Replicas make the node its own directory, fed by heartbeats.
func (n *node) Leader(g base.GroupID) base.NodeID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.leads[g]
}

func (n *node) Replicas(g base.GroupID) []base.NodeID { return n.c.topo.ShardReplicas(g.Shard()) }

func newCluster(t testing.TB, regions, shards int, tune ...func(*cluster)) *cluster {
	level := slog.LevelError
	if os.Getenv("GODWIT_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	c := &cluster{t: t, logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))}
	c.skew = bound / 2
	for _, f := range tune {
		f(c)
	}
	c.net = wan.NewNetwork(wan.NetOptions{Seed: 1, WAN: wan.LinkSpec{Delay: oneWay}})
	c.topo = &base.Topology{ClusterVersion: base.VersionNewest, Version: 1, Shards: shards}
	var ids []base.NodeID
	for r := 1; r <= regions; r++ {
		c.topo.Regions = append(c.topo.Regions, base.Region{ID: base.RegionID(r), Name: fmt.Sprint("r", r)})
		c.topo.Nodes = append(c.topo.Nodes, base.Node{ID: base.NodeID(r), Region: base.RegionID(r)})
		ids = append(ids, base.NodeID(r))
	}
	c.topo.MetaVoters = ids
	for range shards {
		c.topo.Replicas = append(c.topo.Replicas, ids)
	}
	must(t, c.topo.Validate())
	for _, id := range ids {
		fs := vfs.NewMem()
		if c.crashable {
			fs = vfs.NewCrashableMem()
		}
		c.nodes = append(c.nodes, &node{c: c, id: id, region: base.RegionID(id), fs: fs})
	}
	for _, n := range c.nodes {
		n.start()
	}
	for _, n := range c.nodes {
		for _, g := range c.topo.Groups() {
			if g.Region() == n.region || g == base.MetaGroup && n.id == 1 {
				n.host.Group(g).Campaign()
			}
		}
	}
	return c
}

func (n *node) start() {
	c, t := n.c, n.c.t
	var err error
	n.store, err = store.Open(store.Options{Dir: "db", FS: n.fs, Simulation: true, Logger: c.logger})
	must(t, err)
	n.trans = c.net.Join(n.id, n.region)
	for _, o := range c.topo.Nodes {
		n.trans.SetPeer(o.ID, "", o.Region)
	}
	n.mu.Lock()
	n.leads = map[base.GroupID]base.NodeID{}
	n.mu.Unlock()
	n.stop = make(chan struct{})
	n.clock = clock.New(skewed{time.Duration(int(n.id)%3-1) * c.skew, 2 * c.skew})
	if c.modeless {
		n.clock.Wait(nil)
	}
	n.host, err = group.NewHost(group.HostOptions{Self: n.id, Store: n.store, Transport: n.trans, Logger: c.logger,
		Fatal: func(g base.GroupID, err error) { t.Errorf("node %d group %v: %v", n.id, g, err) }})
	must(t, err)
	alone := func() bool { return len(c.topo.Nodes) == 1 }
	oc := owner.Config{Self: n.id, Store: n.store, Clock: n.clock, Transport: n.trans, Directory: n, Logger: c.logger,
		Timing: owner.Timing{GCInterval: -1},
		Facts: owner.Facts{Alone: alone, Groups: c.topo.Groups,
			Ahead: func() time.Duration { return 2*oneWay + heartbeat + 20*time.Millisecond }}}
	if c.oc != nil {
		c.oc(&oc)
	}
	n.set = owner.NewSet(oc)
	n.trans.HandleOrdered(wire.KindHeartbeat, func(from base.NodeID, body []byte) {
		var p wire.Heartbeat
		if p.UnmarshalVT(body) == nil {
			n.hear(from, p.Leads)
		}
	})
	for _, g := range c.topo.Groups() {
		rep, err := n.set.Add(g)
		must(t, err)
		want := base.NodeID(g.Region())
		if g == base.MetaGroup {
			want = 1
		}
		grp, err := n.host.Open(g, group.Conf{Voters: c.topo.MetaVoters}, rep, func() base.NodeID { return want })
		must(t, err)
		rep.Attach(grp)
	}
	heard := bounds.Listen(n.trans)
	must(t, n.trans.Start())
	must(t, n.host.Start())
	n.set.Start()
	tc := Config{Self: n.id, Region: n.region, Owners: n.set, Clock: n.clock, Transport: n.trans, Directory: n,
		Topology: func() *base.Topology { return c.topo }, Commits: CommitConfig{Alone: alone}, Logger: c.logger,
		Bounds: heard}
	if c.tc != nil {
		c.tc(&tc)
	}
	n.db = New(tc)
	n.up.Store(n.db)
	n.wg.Go(n.heartbeats)
}

func (n *node) hear(from base.NodeID, leads []*wire.GroupLead) {
	n.mu.Lock()
	for _, l := range leads {
		n.leads[base.GroupID(l.Group)] = from
	}
	n.mu.Unlock()
	n.set.OnLeads(leads)
}

func (n *node) heartbeats() {
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-n.stop:
			return
		case <-tick.C:
		}
		leads := n.set.Leads()
		n.hear(n.id, leads)
		for _, o := range n.c.topo.Nodes {
			if o.ID != n.id {
				_ = n.trans.Send(o.ID, wire.KindHeartbeat, &wire.Heartbeat{Node: uint32(n.id), Leads: leads})
			}
		}
	}
}

// halt stops a node; start brings it back with what its disk holds.
func (n *node) halt() {
	n.up.Store(nil)
	close(n.stop)
	n.wg.Wait()
	n.db.Close()
	n.set.Close()
	must(n.c.t, n.host.Close())
	must(n.c.t, n.trans.Close())
	for n.db.Load() > 0 { // a read may be at the store
		time.Sleep(time.Millisecond)
	}
	must(n.c.t, n.store.Close())
	n.stop = nil
}

func (c *cluster) close() {
	for _, n := range c.nodes {
		if n.stop != nil {
			n.halt()
		}
	}
	must(c.t, c.net.Close())
}

// ready waits until every group is served by the node of its region.
func (c *cluster) ready() {
	c.t.Helper()
	for range 400 {
		all := true
		for _, g := range c.topo.Groups() {
			id := max(1, int(g.Region()))
			if _, ok := c.nodes[id-1].set.Replica(g).Serving(); !ok {
				all = false
			}
		}
		if all {
			time.Sleep(500 * time.Millisecond)
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	for _, g := range c.topo.Groups() {
		for _, n := range c.nodes {
			term, ok := n.set.Replica(g).Serving()
			c.t.Logf("group %v node %d: term %d serving %v", g, n.id, term, ok)
		}
	}
	c.t.Fatal("the groups are not led by their regions")
}

func (c *cluster) db(region int) *DB { return c.nodes[region-1].db }

// bubble runs a test on virtual time with a cluster that is ready.
func bubble(t *testing.T, regions, shards int, test func(t *testing.T, c *cluster), tune ...func(*cluster)) {
	t.Helper()
	runtime.GC()
	runtime.GC()
	cryptotest.SetGlobalRandom(t, 1)
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, regions, shards, tune...)
		defer c.close()
		c.ready()
		test(t, c)
	})
}

// key names a row of a table whose gaps belong to region home at first.
func key(shard, home int, table uint64, name string) base.Key {
	return append(base.IndexPrefix(base.ShardID(shard), base.MakeTableID(table, base.RegionID(home)), 0, 0), name...)
}

func metaKey(name string) base.Key {
	return append(base.IndexPrefix(0, base.MakeTableID(1, 1), 0, 0), name...)
}

func num(n int64) []byte   { return binary.BigEndian.AppendUint64(nil, uint64(n)) }
func toNum(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) }

func ctx(t testing.TB) context.Context { return t.Context() }

// do runs a transaction once, without retry.
func do(ctx context.Context, db *DB, opts kv.Options, fn func(kv.Txn) error) (base.Timestamp, error) {
	x := db.Begin(opts)
	defer x.Rollback(ctx)
	if err := fn(x); err != nil {
		return 0, err
	}
	return x.Commit(ctx)
}

func put(t testing.TB, db *DB, kvs ...any) base.Timestamp {
	t.Helper()
	ts, err := kv.Run(t.Context(), db, kv.Options{}, func(x kv.Txn) error {
		for i := 0; i < len(kvs); i += 2 {
			x.Put(kvs[i].(base.Key), []byte(kvs[i+1].(string)), 0)
		}
		return nil
	})
	must(t, err)
	return ts
}

func get(t testing.TB, db *DB, k base.Key) string {
	t.Helper()
	x := db.Begin(kv.Options{ReadOnly: true})
	defer x.Rollback(t.Context())
	rows, err := x.Get(t.Context(), []base.Key{k}, kv.LockNone)
	must(t, err)
	if rows[0].Value == nil {
		return "-"
	}
	return string(rows[0].Value)
}
