// Package memkv is a kv.DB in the memory of one process, for tests of packages above the contract:
// multi-version, strictly serializable, with real lock waits (shared and exclusive, points and
// spans), WAIT_DIE and NO_WAIT, snapshot reads and validated meta reads and pins. Several gateways
// of several regions may share one store ([DB.Gateway]). It is not durable and not fast: locks are
// lists.
package memkv

import (
	"bytes"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// DefaultLockTimeout bounds a wait for a lock where Options says nothing.
const DefaultLockTimeout = 10 * time.Second

type version struct {
	ts    base.Timestamp
	value []byte // nil is a tombstone
	home  base.RegionID
}

// store is the state that all gateways share; mu guards everything.
type store struct {
	mu       sync.Mutex
	keys     []string // sorted
	versions map[string][]version
	last     base.Timestamp
	txns     map[*txn]struct{} // those that hold locks
	released chan struct{}     // closed and replaced when locks go
	topo     *base.Topology
	metaCh   chan struct{}
	seq      atomic.Uint32
	// statements of other gateways that have been settled, by name.
	statements map[base.TxnID]kv.Settled
	prepared   map[string]*prepared
}

// DB is one gateway.
type DB struct {
	*store
	region base.RegionID
	node   base.NodeID
	calls  *atomic.Int64
	traced *atomic.Int64
	// Most is what a transaction of this gateway may write; zero: as much as it likes.
	Most kv.Volume
	// Lose says whether a commit of a transaction with a trace, which are those of sessions, loses
	// a conflict, by how many rows it writes; nil: none does.
	Lose func(writes int) bool
}

var (
	_ kv.DB  = (*DB)(nil)
	_ kv.Txn = (*txn)(nil)
)

// New makes an empty store with the regions named and a number of data shards,
// and returns the gateway of the first region.
func New(shards int, regions ...string) *DB {
	if len(regions) == 0 {
		regions = []string{"local"}
	}
	t := &base.Topology{Version: 1, ClusterID: "memkv", ClusterVersion: base.VersionNewest, Shards: shards}
	for i, r := range regions {
		t.Regions = append(t.Regions, base.Region{ID: base.RegionID(i + 1), Name: r})
		t.Nodes = append(t.Nodes, base.Node{ID: base.NodeID(i + 1), Region: base.RegionID(i + 1)})
	}
	for range shards {
		var set []base.NodeID
		for _, n := range t.Nodes {
			set = append(set, n.ID)
		}
		t.Replicas = append(t.Replicas, set)
	}
	s := &store{
		versions: map[string][]version{}, txns: map[*txn]struct{}{}, released: make(chan struct{}),
		topo: t, metaCh: make(chan struct{}),
	}
	return &DB{store: s, region: 1, node: 1, calls: new(atomic.Int64), traced: new(atomic.Int64)}
}

// Gateway is another gateway of the same store, in a region.
func (d *DB) Gateway(region base.RegionID) *DB {
	return &DB{store: d.store, region: region, node: base.NodeID(region), calls: new(atomic.Int64), traced: new(atomic.Int64)}
}

// Calls counts Get, Scan and Commit calls made through this gateway: each
// would be at least one trip in a cluster.
func (d *DB) Calls() int64 { return d.calls.Load() }

// Traced counts those of transactions with a trace, which sessions give to all of theirs: what a
// gateway does beside its statements has none.
func (d *DB) Traced() int64 { return d.traced.Load() }

// Begin implements kv.DB.
func (d *DB) Begin(opts kv.Options) kv.Txn {
	now := d.Clock()
	if opts.Age == 0 {
		opts.Age = now
	}
	if opts.LockTimeout == 0 {
		opts.LockTimeout = DefaultLockTimeout
	}
	return &txn{
		db: d, opts: opts, readTS: opts.ReadTS, id: base.MakeTxnID(now, d.node, d.seq.Add(1)),
		writes: map[string]int{}, points: map[string]kv.LockMode{},
	}
}

// Topology implements kv.DB.
func (d *DB) Topology() *base.Topology { return d.topo }

// Region implements kv.DB.
func (d *DB) Region() base.RegionID { return d.region }

// Node implements kv.DB.
func (d *DB) Node() base.NodeID { return d.node }

// Time implements kv.DB.
func (d *DB) Time() base.Timestamp { return base.FromTime(time.Now()) }

// Clock implements kv.DB.
func (d *DB) Clock() base.Timestamp {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now()
}

func (s *store) now() base.Timestamp {
	s.last = max(s.last.Next(), base.FromTime(time.Now()))
	return s.last
}

// Owner implements kv.DB: the gateway of a row's home; 0 for absent rows.
func (d *DB) Owner(key base.Key) (base.NodeID, base.RegionID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	home := newest(d.versions[string(key)]).home
	return base.NodeID(home), home
}

// MetaVersion implements kv.DB.
func (d *DB) MetaVersion(span base.Span) (changed, complete base.Timestamp) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := d.seek(span.Start); i < len(d.keys) && d.keys[i] < string(span.Limit()); i++ {
		changed = max(changed, newest(d.versions[d.keys[i]]).ts)
	}
	return changed, d.last
}

// MetaChanged implements kv.DB.
func (d *DB) MetaChanged() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.metaCh
}

func (s *store) seek(k []byte) int {
	return sort.SearchStrings(s.keys, string(k))
}

func newest(vs []version) version {
	if len(vs) == 0 {
		return version{}
	}
	return vs[len(vs)-1]
}

func at(vs []version, ts base.Timestamp) version {
	i := sort.Search(len(vs), func(i int) bool { return vs[i].ts > ts })
	if i == 0 {
		return version{}
	}
	return vs[i-1]
}

func (s *store) apply(key string, v version) {
	if _, ok := s.versions[key]; !ok {
		i := sort.SearchStrings(s.keys, key)
		s.keys = append(s.keys, "")
		copy(s.keys[i+1:], s.keys[i:])
		s.keys[i] = key
	}
	s.versions[key] = append(s.versions[key], v)
}

// changedAfter reports whether a key of the span has a version above ts and at or below limit.
func (s *store) changedAfter(span base.Span, ts, limit base.Timestamp) bool {
	end := span.Limit()
	for i := s.seek(span.Start); i < len(s.keys) && bytes.Compare([]byte(s.keys[i]), end) < 0; i++ {
		if v := at(s.versions[s.keys[i]], limit); v.ts > ts {
			return true
		}
	}
	return false
}
