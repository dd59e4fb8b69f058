package txn

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/txn/bounds"
	"github.com/godwitdb/godwit/txn/hedge"
)

// Config of one gateway. All fields of the first block are required; zero fields elsewhere take the
// defaults given.
type Config struct {
	Self      base.NodeID
	Region    base.RegionID
	Owners    *owner.Set
	Clock     *clock.Clock
	Transport owner.Transport
	Directory owner.Directory
	Topology  func() *base.Topology

	// Bounds are what owners tell of slots; nil: nothing is heard of them but with answers.
	Bounds *bounds.Notices
	// Store is where the replicas of this node are; nil: it tells no changes (kv.DB.Changes).
	Store   *store.Store
	Logger  *slog.Logger // nil discards
	Reads   ReadConfig
	Commits CommitConfig
	Limits  Limits
	Breaks
}

// Breaks leave rules out, for tests that show what breaks then.
type Breaks struct {
	// EarlyPrograms has programs read so long before their slots (REL-12); 0: just below them.
	EarlyPrograms time.Duration
	// SameSlots has gateways round slots and not name themselves in them (REL-13).
	SameSlots time.Duration
	// BlindPrograms has programs insert what may be there, and delete what may have changed since
	// the copy here showed it (REL-14).
	BlindPrograms bool
	// NearOwners has gateways that do not hold a shard ask the group of their own region (HOME-10).
	NearOwners bool
	// Strays lets a statement commit where the group that settles it takes no part (FWD-2).
	Strays bool
	// Rewrites lets a transaction write again what it has logged (STAGE-7).
	Rewrites bool
	// VotesEnd takes a vote for a statement that has not committed for its end (FWD-4).
	VotesEnd bool
	// EarlyAnswers tells of a commit that was asked for before its timestamp has passed (FWD-5).
	EarlyAnswers bool
	// BlankNames leaves TXN-9 out, TornReads REL-17.
	BlankNames, TornReads bool
}

// ReadConfig says where reads without locks are answered.
type ReadConfig struct {
	// OwnersOnly has snapshots of rows read at their owners, even if a replica here could answer.
	// Benchmarks compare reads of replicas with it.
	OwnersOnly bool
	// RTT is the smoothed round trip to a node, 0 if unknown. Nil: strong reads never wait for
	// closed timestamps here.
	RTT func(base.NodeID) time.Duration
	// Want is called when reads wait for closed timestamps, or will soon. It must be cheap. Nil
	// ignores it.
	Want func()
	// Replica is the node to ask for a snapshot of a shard, by [DB.Serve], other than this one and
	// than not; 0: none, ask the owners. Nil: always.
	Replica func(shard base.ShardID, ts base.Timestamp, not base.NodeID) base.NodeID
	// Answered reports how long such a node took. Nil ignores it.
	Answered func(n base.NodeID, took time.Duration, err error)
}

// CommitConfig is what commits depend on outside this package.
type CommitConfig struct {
	// Alone reports that the cluster has no other node: then commit wait is skipped. Nil is never.
	Alone func() bool
	// Lead is how far ahead of now owners assign commit timestamps, at most. Nil is 0.
	Lead func() time.Duration
	// Done reports every transaction that locked or wrote, and whether it did so in other regions,
	// too. It must be quick. Nil ignores it.
	Done func(crossed bool)
}

// Limits are bounds of time and size.
type Limits struct {
	Lock      time.Duration // one wait for a lock, where the transaction names none; default 10 s
	Request   time.Duration // reaching an owner for one step of a statement; default 15 s
	Commit    time.Duration // one commit; default 30 s
	Ambiguous time.Duration // asking for the outcome of a lost commit, at most; default kv.ReachIn
	Heartbeat time.Duration // pause between heartbeats of transactions; default 1 s

	WriteBytes int // keys and values that one transaction writes; default 1 GiB
	Writes     int // rows and entries of indexes that one transaction writes; default 10,000,000
	// SpillBytes of them stay in memory, the rest goes to temporary files; default 32 MiB.
	SpillBytes int
	// What is more than EntryBytes (default 28 MiB) or EntryWrites (default 200,000) is committed
	// in pieces of PieceBytes (default 2 MiB) or PieceWrites (default 40,000).
	EntryBytes, EntryWrites, PieceBytes, PieceWrites int
	// OnceBytes and OnceWrites are WriteBytes and Writes of transactions that cannot be committed
	// in pieces; default 28 MiB and 500,000.
	OnceBytes, OnceWrites int
	// Reads is how many keys and ranges a transaction remembers that has read them without locks of
	// several regions; default 65,536.
	Reads      int
	Background int // releases and outcomes being sent; default 4096
}

const (
	maxRounds   = 24      // owners asked one after the other for one read, following moves
	maxReroutes = 12      // tries of a commit, following moves
	defaultScan = 1 << 20 // bytes of one answer to Scan
	scanWindow  = 512     // spans asked for at a time
	segmentKeys = 2000    // keys looked at to guess the owners of a range
)

func (c *Config) fill() {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Reads.fill()
	c.Commits.fill()
	c.Limits.fill()
}

func (c *ReadConfig) fill() {
	if c.Want == nil {
		c.Want = func() {}
	}
	if c.Answered == nil {
		c.Answered = func(base.NodeID, time.Duration, error) {}
	}
}

func (c *CommitConfig) fill() {
	if c.Alone == nil {
		c.Alone = func() bool { return false }
	}
	if c.Lead == nil {
		c.Lead = func() time.Duration { return 0 }
	}
	if c.Done == nil {
		c.Done = func(bool) {}
	}
}

func (l *Limits) fill() {
	def(&l.Lock, 10*time.Second)
	def(&l.Request, 15*time.Second)
	def(&l.Commit, 30*time.Second)
	def(&l.Ambiguous, kv.ReachIn)
	def(&l.Heartbeat, time.Second)
	def(&l.WriteBytes, 1<<30)
	def(&l.Writes, 10_000_000)
	def(&l.SpillBytes, 32<<20)
	def(&l.EntryBytes, 28<<20)
	def(&l.EntryWrites, 200_000)
	def(&l.PieceBytes, 2<<20)
	def(&l.PieceWrites, 40_000)
	def(&l.OnceBytes, 28<<20)
	def(&l.OnceWrites, 500_000)
	def(&l.Reads, maxReads)
	def(&l.Background, 4096)
}

// def gives an unset field its default.
func def[T int | time.Duration](field *T, v T) {
	if *field <= 0 {
		*field = v
	}
}

// Stats count what a gateway's transactions came to.
type Stats struct {
	Begun, Committed, Failed atomic.Int64
	OneRound, TwoRound       atomic.Int64 // commits of one group, of several
	Crossed                  atomic.Int64 // transactions that left their region without locks
	SlotsMissed              atomic.Int64 // slots that had passed when a vote was cast
	Programs                 atomic.Int64 // transactions that read at their slots
	// With timestamp ordering: reads that moved to a later timestamp, commits that had to.
	MovedUp, Pushed atomic.Int64
	Ambiguous       atomic.Int64 // commits whose outcome had to be asked for
	Moved           atomic.Int64 // rows moved by package mover

	// Snapshot reads: by replicas here at once, and after a wait for the closed timestamp; of
	// shards that are not held here, by other nodes' replicas; requests to owners; waits for the
	// closed timestamp that were given up.
	ReadsLocal, ReadsWaited, ReadsServed, ReadsAsked, WaitsLost atomic.Int64

	// Hedged are the snapshot reads that a second node was asked for, too.
	Hedged hedge.Reads

	Forwarded atomic.Int64 // keys and ranges found with another owner than guessed
}
