package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan/overlay"
	"github.com/godwitdb/godwit/policy/home"
)

// Config is everything that a run depends on.
type Config struct {
	Seed           uint64
	Regions        int
	NodesPerRegion int
	Shards         int
	// Delay[i][j] is the one-way delay between regions i+1 and j+1.
	Delay      [][]time.Duration
	LAN        time.Duration
	Jitter     time.Duration // of every WAN message
	Loss       float64       // of WAN packets, always
	ClockBound time.Duration
	SyncDelay  time.Duration // of the disk, drawn per commit between half of it and itself

	Workload string // "mixed" or "bank"
	Clients  int    // per region
	Keys     int    // per table and shard ("mixed"), accounts in all ("bank")
	NoWait   int    // percent of transactions under NO_WAIT; the rest is WAIT_DIE
	// percent of transactions that cross regions without locks, where they cross
	Relay int
	// percent of updates that are left to the owners where a transaction crosses without locks
	Ships    int
	ShipOnly bool // "mixed": most transactions are of such updates
	// percent of writes that take their row to some region, and of transactions that only do that
	Moves    int
	Think    time.Duration // mean pause of a client between transactions
	Warmup   time.Duration // before the first fault
	Duration time.Duration // of the faults
	Faults   int           // how many
	Kinds    []string      // of faults; nil is all
	// GCAge below the run's length has old versions and tombstones collected during the run.
	GCAge time.Duration
	// ShortLogs makes logs so short that a replica that was away needs a snapshot.
	ShortLogs bool

	// Concurrency is how the cluster orders transactions.
	Concurrency base.Concurrency

	// Network says what consensus messages may do besides travelling directly.
	Network overlay.Params

	// MaxLocks bounds the lock table of an owner; 0 is the default.
	MaxLocks int

	// SQL has the nodes speak the MySQL protocol, over pipes.
	SQL bool
	// Epochs has clients write MULTI MASTER tables, too; needs SQL.
	Epochs bool
	// Stay has no policy move rows: they keep the homes they were made with.
	Stay bool
	// Homes are the parameters of the policy that moves rows; nil takes the defaults.
	Homes *home.Params
	// Never has the policy of homes switched off, so that leaders follow the load.
	Never bool

	// Handover, if not nil, takes the place of the faults.
	Handover *HandoverFault

	// Break breaks a promise that the database rests on, from outside; the run must then fail.
	Break Break

	// play is what happens instead of a schedule of faults.
	play func(*world)
}

// Break is what a deliberately broken run breaks, always from outside: a thing
// that the database is told it can rely on.
type Break struct {
	// ClockBeyond has the clocks off by up to so many times the bound that they state.
	ClockBeyond float64
	// NoProof has nodes go by their clocks before others have confirmed these (MODE-9).
	NoProof bool
	// NoEarlyClose has a new leader of the meta group close nothing before it serves (OWN-15).
	NoEarlyClose bool
	// RemoteLocks has owners take no locks for gateways on other nodes.
	RemoteLocks bool
	// LyingDisk has a crash lose commits of the last moments although they were synced.
	LyingDisk bool
	// EarlyHeartbeats has heartbeats close timestamps that are still to come.
	EarlyHeartbeats time.Duration
	// UntoldReads keeps from owners in other regions what a crossing transaction has read of them,
	// so that it is neither locked nor validated (docs/protocol.md REL-3).
	UntoldReads bool
	// NoBounds has owners forget the readers of what a slot ahead writes (REL-4).
	NoBounds bool
	// OwnSlots has every other region apply its piece of a crossing transaction on its own, up to
	// so much later, as a literal reading of Algorithm 1 of the Relay paper does.
	OwnSlots time.Duration
	// NoRefresh has owners say to other nodes that nothing has changed that a transaction has read,
	// whatever timestamp it moves to (docs/protocol.md ORD-3).
	NoRefresh bool
	// NoManager has timestamp managers neither heard nor asked by other nodes (ORD-8).
	NoManager bool
	// NoDoubt has readers on other nodes not count with clocks that are ahead of theirs (ORD-5).
	NoDoubt bool
	// NoMarks has owners forget what was read (ORD-2), NoTransferredState only what was read under
	// a former leader.
	NoMarks, NoTransferredState bool
	// ForgedAcks has nodes say that they have taken over a clock mode of which one of them has not
	// heard yet.
	ForgedAcks bool
	// EarlyCopies has survivors of a lost region state that they hold more of it than they do.
	EarlyCopies time.Duration
}

// Pick draws a configuration.
func Pick(seed uint64) Config {
	r := rand.New(rand.NewPCG(seed, 1))
	c := Config{
		Seed: seed, Regions: 3, NodesPerRegion: 1 + r.IntN(2), Shards: 1 + r.IntN(2),
		LAN: 250 * time.Microsecond, Jitter: time.Duration(r.IntN(4)) * 3 * time.Millisecond,
		ClockBound: pick(r, 100*time.Microsecond, 2*time.Millisecond, 10*time.Millisecond, 30*time.Millisecond),
		SyncDelay:  pick(r, 200*time.Microsecond, 2*time.Millisecond, 15*time.Millisecond),
		Workload:   pick(r, "mixed", "mixed", "mixed", "bank"), Clients: 1 + r.IntN(4),
		Keys: 2 + r.IntN(7), NoWait: pick(r, 0, 30, 100), Think: pick(r, 5*time.Millisecond, 50*time.Millisecond),
		Warmup: 2 * time.Second, Duration: 20 * time.Second, Faults: 3 + r.IntN(8),
		GCAge: pick(r, 10*time.Minute, 4*time.Second), ShortLogs: r.IntN(2) == 0,
	}
	c.Moves = pick(r, 0, 5, 30)
	c.Relay = []int{0, 50, 100}[rand.New(rand.NewPCG(seed, 2)).IntN(3)]
	if c.Relay > 0 {
		c.Ships = []int{0, 50, 100}[rand.New(rand.NewPCG(seed, 3)).IntN(3)]
	}
	switch r.IntN(6) {
	case 0:
		c.Regions, c.NodesPerRegion = 5, 1
	case 1:
		c.Regions, c.NodesPerRegion = 1, 3
		c.Ships = 0 // nothing crosses
	case 2:
		c.Regions = 2
	}
	if r.IntN(3) == 0 {
		c.Loss = 0.02
	}
	if c.Workload == "bank" {
		c.Keys = 5 + r.IntN(10)
	}
	c.Delay = make([][]time.Duration, c.Regions)
	for i := range c.Delay {
		c.Delay[i] = make([]time.Duration, c.Regions)
	}
	for i := range c.Delay {
		for j := range i {
			// Not a metric: real paths violate the triangle too. A little asymmetric.
			d := 5*time.Millisecond + upTo(r, 100*time.Millisecond)
			c.Delay[i][j], c.Delay[j][i] = d, d+upTo(r, 3*time.Millisecond)
		}
	}
	if r := rand.New(rand.NewPCG(seed, 7)); r.IntN(2) == 0 {
		c.Network = pickNetwork(r)
	}
	return c
}

// pickNetwork draws what consensus messages do besides travelling directly: both, more often than
// one of them.
func pickNetwork(r *rand.Rand) overlay.Params {
	p := overlay.Params{Relay: true, FanOut: true, Window: 500*time.Millisecond + upTo(r, 2*time.Second)}
	switch r.IntN(6) {
	case 0:
		p.FanOut = false
	case 1:
		p.Relay = false
	}
	return p
}

// detours has the way between the first and the last region much longer than over the second.
func detours(r *rand.Rand) [][]time.Duration {
	near, far := 5*time.Millisecond+upTo(r, 10*time.Millisecond), 60*time.Millisecond+upTo(r, 60*time.Millisecond)
	return [][]time.Duration{{0, near, far}, {near, 0, near}, {far, near, 0}}
}

// upTo draws from [0, d).
func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// String is the configuration on a few lines.
func (c *Config) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d regions x %d nodes, %d shards, %s, %d clients a region, %d keys, think %v, no-wait %d%%, relay %d%% (%d%% shipped), moves %d%%\n",
		c.Seed, c.Regions, c.NodesPerRegion, c.Shards, c.Workload, c.Clients, c.Keys, c.Think, c.NoWait, c.Relay, c.Ships, c.Moves)
	fmt.Fprintf(&b, "  clock bound %v, sync %v, jitter %v, loss %v, gc age %v, short logs %v, %d faults in %v, %v\n",
		c.ClockBound, c.SyncDelay, c.Jitter, c.Loss, c.GCAge, c.ShortLogs, c.Faults, c.Duration, c.Concurrency)
	if c.Network.Relay || c.Network.FanOut {
		fmt.Fprintf(&b, "  relays %v, fan-out %v\n", c.Network.Relay, c.Network.FanOut)
	}
	if c.Break != (Break{}) {
		fmt.Fprintf(&b, "  deliberately broken: %+v\n", c.Break)
	}
	fmt.Fprintf(&b, "  one-way delays:")
	for i := range c.Delay {
		for j := range i {
			fmt.Fprintf(&b, " %d-%d %v", j+1, i+1, c.Delay[i][j].Round(time.Millisecond))
		}
	}
	return b.String()
}
