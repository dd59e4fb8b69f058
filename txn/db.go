package txn

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/owner/route"
	"github.com/godwitdb/godwit/txn/background"
	"github.com/godwitdb/godwit/txn/contended"
	"github.com/godwitdb/godwit/txn/gate"
	"github.com/godwitdb/godwit/txn/hints"
	"github.com/godwitdb/godwit/txn/lately"
	"github.com/godwitdb/godwit/txn/slottime"
	"github.com/godwitdb/godwit/txn/touched"
	"github.com/godwitdb/godwit/wire"
)

// DB is a gateway: it runs transactions as their coordinator. It implements kv.DB.
type DB struct {
	cfg    Config
	set    *owner.Set
	router *route.Router
	clock  *clock.Clock
	seq    atomic.Uint32 // of transaction ids
	stats  Stats

	ordered bool // the cluster orders by timestamps,
	managed bool // and its regions have timestamp managers

	live    liveTxns
	gate    gate.Gate
	touches touched.Rows
	hints   hints.Hints
	tasks   background.Tasks
	busy    atomic.Int64 // reads and commits under way

	// What commits have taught about the time that the next ones need.
	horizon lately.Horizon // for the schema to be known ahead
	slots   slottime.Votes // by slot: for votes to be cast and back
	leads   slottime.Leads // by timestamp: for votes to arrive

	slotNames *slottime.Names
	contended contended.Rows
}

var _ kv.DB = (*DB)(nil)

// New makes a gateway and starts its heartbeats. Close it.
func New(cfg Config) *DB {
	cfg.fill()
	db := &DB{cfg: cfg, set: cfg.Owners, router: cfg.Owners.Router(), clock: cfg.Clock}
	db.slotNames = slottime.NewNames()
	db.live.set = map[*attempt]struct{}{}
	db.tasks.Init(cfg.Limits.Background)
	db.ordered = db.set.Concurrency().Ordered()
	db.managed = db.set.Concurrency() == base.ByTimestampRelay
	// Before it has heard of any clock, a process cannot tell its ids from those of its former
	// life.
	db.seq.Store(rand.Uint32())
	db.tasks.Go(db.heartbeats)
	return db
}

// Close ends the background work. Transactions under way lose their locks, because their heartbeats
// end.
func (db *DB) Close() { db.tasks.Close() }

// Stats are the gateway's counters, to be read.
func (db *DB) Stats() *Stats { return &db.stats }

// Begin starts a transaction. It does no I/O.
func (db *DB) Begin(opts kv.Options) kv.Txn {
	db.stats.Begun.Add(1)
	return db.begin(opts)
}

func (db *DB) begin(opts kv.Options) *Txn {
	begun, blank := time.Now(), db.clock.Blank() && !db.cfg.BlankNames
	now := db.clock.NowAt(begun)
	t := &Txn{attempt: attempt{db: db, begun: begun}, opts: opts, blank: blank}
	t.id = db.newID(now)
	opts.Touched.Next()
	t.buf.SpillAt = db.cfg.Limits.SpillBytes
	if t.opts.Age == 0 {
		t.opts.Age = now
	}
	if t.opts.LockTimeout <= 0 {
		t.opts.LockTimeout = db.cfg.Limits.Lock
	}
	if t.opts.Source == 0 {
		t.opts.Source = kv.HomeRegion(db)
	}
	t.readTS = opts.ReadTS
	t.mode = db.modeOf(t)
	t.meta = wire.TxnMeta{Id: t.id[:], Age: uint64(t.opts.Age), Gateway: uint32(db.cfg.Self),
		GatewayRegion: uint32(t.opts.Source), Policy: uint32(opts.Policy), LockTimeoutNs: int64(t.opts.LockTimeout)}
	return t
}

// newID is a name that no other attempt has.
func (db *DB) newID(begun base.Timestamp) base.TxnID {
	return base.MakeTxnID(begun, db.cfg.Self, db.seq.Add(1))
}

// Topology implements kv.DB.
func (db *DB) Topology() *base.Topology { return db.cfg.Topology() }

// Region implements kv.DB.
func (db *DB) Region() base.RegionID { return db.cfg.Region }

// Node implements kv.DB.
func (db *DB) Node() base.NodeID { return db.cfg.Self }

// Clock implements kv.DB.
func (db *DB) Clock() base.Timestamp { return db.clock.Now() }

// Time implements kv.DB.
func (db *DB) Time() base.Timestamp { return db.clock.Time() }

// Owner implements kv.DB, from the hints and the local replica.
func (db *DB) Owner(key base.Key) (base.NodeID, base.RegionID) {
	h, ok := db.hints.Get(key)
	if !ok {
		if h.Group, ok = db.set.Locate(key); !ok {
			return 0, 0
		}
	}
	n := db.leaderOf(h.Group)
	if n == 0 {
		return 0, 0
	}
	return n, db.cfg.Topology().RegionOf(n)
}

// MetaVersion implements kv.DB.
func (db *DB) MetaVersion(span base.Span) (changed, complete base.Timestamp) {
	return db.set.MetaVersion(span)
}

// MetaChanged implements kv.DB.
func (db *DB) MetaChanged() <-chan struct{} { return db.set.MetaChanged() }

// settle returns once every later snapshot anywhere is above ts (commit wait, in GClock mode).
func (db *DB) settle(ctx context.Context, ts base.Timestamp) error {
	if db.isSettled(ts) {
		return nil
	}
	return db.clock.Settle(ctx, ts)
}

func (db *DB) isSettled(ts base.Timestamp) bool {
	return db.clock.Settled(ts) || db.cfg.Commits.Alone() && ts <= db.clock.Seen()
}

// leaderOf is the leader of a group as far as this node knows; 0: it has no idea.
func (db *DB) leaderOf(g base.GroupID) base.NodeID {
	if db.leadsGroup(g) {
		return db.cfg.Self
	}
	return db.cfg.Directory.Leader(g)
}

// leadsGroup reports whether this node is the leader of a group, and serves it.
func (db *DB) leadsGroup(g base.GroupID) bool {
	r := db.set.Replica(g)
	if r == nil {
		return false
	}
	_, ok := r.Serving()
	return ok
}
