package txn

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/clock"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/wire"
)

// Config of one gateway. The first block is required; zero fields of the rest take the defaults given.
type Config struct {
	Self      base.NodeID
	Region    base.RegionID
	Owners    *owner.Set
	Clock     *clock.Clock
	Transport owner.Transport
	Directory owner.Directory
	Topology  func() *base.Topology

	Logger *slog.Logger // nil discards
	// Alone reports that the cluster has no other node: then commit wait is skipped. Nil is never.
	Alone func() bool
	// OwnersOnly has snapshots of rows read at their owners, even if a replica here could answer: it is what benchmarks
	// compare reads of replicas with.
	OwnersOnly bool
	// RTT is the smoothed round trip to a node, 0 if unknown. Nil: strong reads never wait for closed timestamps here.
	RTT func(base.NodeID) time.Duration
	// Want is told that reads wait for closed timestamps, or will soon. It must be cheap. Nil ignores it.
	Want func()
	// Replica is the node to ask for a snapshot of a shard that is not held here, whose Serve answers; 0: nobody, ask the
	// owners. Nil: always.
	Replica func(shard base.ShardID, ts base.Timestamp) base.NodeID
	// Answered is told how long such a node took. Nil ignores it.
	Answered func(n base.NodeID, took time.Duration, err error)
	// CommitLead is how far ahead of now owners assign commit timestamps, at most. Nil is 0.
	CommitLead func() time.Duration
	// Committed is told of every transaction that locked or wrote, and whether it did so in other regions, too. It must be
	// quick. Nil ignores it.
	Committed func(crossed bool)

	LockTimeout      time.Duration // of one wait for a lock, where the transaction names none; default 10 s
	RequestTimeout   time.Duration // longest time to reach an owner for one step of a statement; default 15 s
	CommitTimeout    time.Duration // longest time for a commit; default 30 s
	AmbiguousTimeout time.Duration // how long the outcome of a lost commit is asked for; default 15 s
	Heartbeat        time.Duration // pause between signs of life of a transaction; default 1 s
	MaxWriteBytes    int           // keys and values buffered by one transaction; default 28 MiB
	MaxWrites        int           // writes buffered by one transaction; default 500,000
	MaxBackground    int           // releases and outcomes being sent; default 4096
}

const (
	maxRounds      = 24      // of following hand-overs for one read
	maxReroutes    = 12      // of a commit
	maxKnown       = 1 << 16 // keys a transaction remembers as present
	defaultScan    = 1 << 20 // bytes of one answer to Scan
	scanWindow     = 512     // spans asked for at a time
	segmentKeys    = 2000    // keys looked at to guess the owners of a range
	metaMargin     = 20 * time.Millisecond
	maxMetaMargin  = 2 * time.Second
	finishTimeout  = 10 * time.Second
	heartbeatAfter = time.Second
)

func (c *Config) fill() {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	num := func(n *int, v int) {
		if *n <= 0 {
			*n = v
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Alone == nil {
		c.Alone = func() bool { return false }
	}
	if c.Want == nil {
		c.Want = func() {}
	}
	if c.Answered == nil {
		c.Answered = func(base.NodeID, time.Duration, error) {}
	}
	if c.CommitLead == nil {
		c.CommitLead = func() time.Duration { return 0 }
	}
	def(&c.LockTimeout, 10*time.Second)
	def(&c.RequestTimeout, 15*time.Second)
	def(&c.CommitTimeout, 30*time.Second)
	def(&c.AmbiguousTimeout, 15*time.Second)
	def(&c.Heartbeat, time.Second)
	num(&c.MaxWriteBytes, 28<<20)
	num(&c.MaxWrites, 500_000)
	num(&c.MaxBackground, 4096)
}

// Stats count what a gateway's transactions came to.
type Stats struct {
	Begun, Committed, Failed atomic.Int64
	OneRound, TwoRound       atomic.Int64 // commits of one group, of several
	Crossed                  atomic.Int64 // transactions that turned to a second region without locks
	SlotsMissed              atomic.Int64 // slots that were past when a vote was cast
	MovedUp, Pushed          atomic.Int64 // timestamp ordering: reads that moved to a later timestamp, commits that had to
	Ambiguous                atomic.Int64 // commits whose outcome had to be asked for
	Moved                    atomic.Int64 // rows moved by the mover
	ReadsLocal, ReadsWaited  atomic.Int64 // snapshot reads served by replicas here: at once, after a wait for the closed timestamp
	ReadsServed              atomic.Int64 // snapshot reads of shards that are not held here, by other nodes' replicas
	ReadsAsked               atomic.Int64 // requests of snapshot reads to owners
	WaitsLost                atomic.Int64 // waits for the closed timestamp that were given up
	Forwarded                atomic.Int64 // keys and ranges found with another owner than guessed
}

// DB is a gateway: it runs transactions as their coordinator. It implements kv.DB.
type DB struct {
	horizon horizon
	slots   voteTimes
	leads   leadTimes // how long votes are on their way to their groups: timestamp ordering

	cfg    Config
	set    *owner.Set
	router *owner.Router
	clock  *clock.Clock
	seq    atomic.Uint32
	// ordered: the cluster orders by timestamps; managed: and regions have timestamp managers.
	ordered, managed bool
	stats            Stats

	liveMu sync.Mutex
	live   map[*Txn]struct{} // those that hold locks
	gate   gate

	touches touches
	busy    atomic.Int64 // reads and commits under way

	hintMu sync.Mutex
	hints  map[string]hint

	spawnMu    sync.Mutex
	stopped    bool
	background chan struct{}
	stopc      chan struct{}
	stop1      sync.Once
	wg         sync.WaitGroup
}

var _ kv.DB = (*DB)(nil)

// New makes a gateway and starts its heartbeats. Close it.
func New(cfg Config) *DB {
	cfg.fill()
	db := &DB{cfg: cfg, set: cfg.Owners, router: cfg.Owners.Router(), clock: cfg.Clock, live: map[*Txn]struct{}{},
		background: make(chan struct{}, cfg.MaxBackground), stopc: make(chan struct{})}
	db.ordered = db.set.Concurrency().Ordered()
	db.managed = db.set.Concurrency() == base.ByTimestampRelay
	db.seq.Store(rand.Uint32()) // before it has heard of any clock, a process cannot tell its ids from those of its former life
	db.wg.Go(db.heartbeats)
	return db
}

// Close ends the background work. Transactions under way lose their locks by silence.
func (db *DB) Close() {
	db.stop1.Do(func() {
		db.spawnMu.Lock()
		db.stopped = true
		db.spawnMu.Unlock()
		close(db.stopc)
	})
	db.wg.Wait()
}

// Stats are the gateway's counters, to be read.
func (db *DB) Stats() *Stats { return &db.stats }

// Begin starts a transaction. It does no I/O.
func (db *DB) Begin(opts kv.Options) kv.Txn {
	db.stats.Begun.Add(1)
	now := db.clock.Now()
	t := &Txn{db: db, opts: opts, begun: time.Now()}
	t.id = base.MakeTxnID(now, db.cfg.Self, db.seq.Add(1))
	if t.opts.Age == 0 {
		t.opts.Age = now
	}
	if t.opts.LockTimeout <= 0 {
		t.opts.LockTimeout = db.cfg.LockTimeout
	}
	if t.opts.Source == 0 {
		t.opts.Source = db.cfg.Region
	}
	t.readTS = opts.ReadTS
	if db.ordered {
		t.opts.Relay, t.patient = false, now.Sub(t.opts.Age) > patience
	}
	t.meta = wire.TxnMeta{Id: t.id[:], Age: uint64(t.opts.Age), Gateway: uint32(db.cfg.Self),
		GatewayRegion: uint32(t.opts.Source), Policy: uint32(opts.Policy), LockTimeoutNs: int64(t.opts.LockTimeout)}
	return t
}

// Topology implements kv.DB.
func (db *DB) Topology() *base.Topology { return db.cfg.Topology() }

// Region implements kv.DB.
func (db *DB) Region() base.RegionID { return db.cfg.Region }

// Node implements kv.DB.
func (db *DB) Node() base.NodeID { return db.cfg.Self }

// Clock implements kv.DB.
func (db *DB) Clock() base.Timestamp { return db.clock.Now() }

// Owner implements kv.DB, from the local replica and what is known better for a moment.
func (db *DB) Owner(key base.Key) (base.NodeID, base.RegionID) {
	h, ok := db.hint(key)
	if !ok {
		if h.group, ok = db.set.Locate(key); !ok {
			return 0, 0
		}
	}
	n := db.leaderOf(h.group)
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
	return db.clock.Settled(ts) || db.cfg.Alone() && ts <= db.clock.Seen()
}

// spawn runs f in the background; beyond the bound, here and now. What does not
// get done, because the node stops, is made good by the owners' recovery.
func (db *DB) spawn(f func(ctx context.Context)) {
	run := func() {
		ctx, cancel := context.WithTimeout(context.Background(), finishTimeout)
		defer cancel()
		done := make(chan struct{})
		defer close(done)
		go func() {
			select {
			case <-db.stopc:
				cancel()
			case <-done:
			}
		}()
		f(ctx)
	}
	db.spawnMu.Lock()
	stopped := db.stopped
	full := false
	if !stopped {
		select {
		case db.background <- struct{}{}:
			db.wg.Go(func() {
				defer func() { <-db.background }()
				run()
			})
		default:
			full = true
		}
	}
	db.spawnMu.Unlock()
	if full {
		run()
	}
}

// hint remembers that a key had another owner than the local replica thinks,
// until the replica has caught up.
type hint struct {
	group base.GroupID
	need  []*wire.GroupIndex
	until time.Time
}

const (
	maxHints = 4096
	hintLife = 2 * time.Second
)

func (db *DB) setHint(key base.Key, h hint) {
	db.hintMu.Lock()
	defer db.hintMu.Unlock()
	if db.hints == nil || len(db.hints) >= maxHints {
		db.hints = map[string]hint{}
	}
	h.until = time.Now().Add(hintLife)
	db.hints[string(key)] = h
}

func (db *DB) hint(key base.Key) (hint, bool) {
	db.hintMu.Lock()
	defer db.hintMu.Unlock()
	h, ok := db.hints[string(key)]
	if ok && time.Now().After(h.until) {
		delete(db.hints, string(key))
		ok = false
	}
	return h, ok
}

// heartbeats tells owners of transactions that are older than a moment.
func (db *DB) heartbeats() {
	tick := time.NewTicker(db.cfg.Heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-db.stopc:
			return
		case <-tick.C:
		}
		nodes := map[base.NodeID][][]byte{}
		db.liveMu.Lock()
		for t := range db.live {
			if time.Since(t.begun) < heartbeatAfter {
				continue
			}
			told := map[base.NodeID]bool{}
			for _, g := range t.liveGroups {
				n := db.leaderOf(g)
				if n != 0 && !told[n] {
					told[n] = true
					nodes[n] = append(nodes[n], t.id[:])
				}
			}
		}
		db.liveMu.Unlock()
		for n, ids := range nodes {
			q := &wire.TxnHeartbeatRequest{Txns: ids, Gateway: uint32(db.cfg.Self)}
			if n == db.cfg.Self {
				db.set.Heartbeat(q)
				continue
			}
			db.spawn(func(ctx context.Context) {
				ctx, cancel := context.WithTimeout(ctx, 5*db.cfg.Heartbeat)
				defer cancel()
				_ = db.cfg.Transport.Call(ctx, n, wire.KindTxnHeartbeat, q, &wire.TxnHeartbeatResponse{})
			})
		}
	}
}

func (db *DB) leaderOf(g base.GroupID) base.NodeID {
	if r := db.set.Replica(g); r != nil {
		if _, ok := r.Serving(); ok {
			return db.cfg.Self
		}
	}
	return db.cfg.Directory.Leader(g)
}
