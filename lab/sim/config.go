package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/mechanism/wan/overlay"
	"github.com/godwitdb/godwit/policy/home"
)

// Config is everything that determines a run.
type Config struct {
	Seed           uint64
	Regions        int
	NodesPerRegion int
	Shards         int
	// Late is how many of the regions, the last ones, join while clients work.
	Late int
	// Leave drops one region while clients work, after those that come have come.
	Leave base.RegionID
	// Placed, above 0, has a placement of so many regions, the first ones, with registers of its
	// own.
	Placed int
	// Sets, with Placed, are the copy sets of the placement (PLACE-7). Sections makes more sections
	// of a table, and Believes changes what a node begins with.
	Sets     []base.Placement
	Sections func(ks *keyspace, letter string, seq uint64, n int) []*section
	Believes func(*join.Identity)
	// RowPlaced, with Placed, has a second placement of the other regions, and registers of one
	// table whose rows lie in the one, in the other or everywhere, and move between them.
	RowPlaced bool
	// Upgrade has the nodes be of two builds, and raises the version of the cluster; see
	// upgrade.go.
	Upgrade bool
	// ReplaceAfter is for how long a node is silent before others get its replicas; 0 is the
	// default.
	ReplaceAfter time.Duration
	// Delay[i][j] is the one-way delay between regions i+1 and j+1.
	Delay      [][]time.Duration
	LAN        time.Duration
	Jitter     time.Duration // of every WAN message
	Loss       float64       // of WAN packets, always
	ClockBound time.Duration
	SyncDelay  time.Duration // of the disk, drawn per commit between half of it and itself
	// SyncAll has each synced commit take that, and not only those of Raft logs.
	SyncAll bool

	Workload string // "mixed" or "bank"
	Clients  int    // per region
	Keys     int    // per table and shard ("mixed"), accounts in all ("bank")
	NoWait   int    // percent of transactions under NO_WAIT; see policy for the rest
	// Impatient is the percentage of transfers ("bank") that first read without waiting for locks.
	Impatient int
	// percent of the cross-region transactions that run without locks
	Relay int
	// percent of updates that are shipped to the owners, in cross-region transactions without locks
	Ships    int
	ShipOnly bool // "mixed": most transactions make shipped updates
	// percent of the transactions of "mixed" that are programs (kv.Program), if they qualify
	Programs int
	// percent of writes that also move their row, and of transactions that only move rows
	Moves    int
	Think    time.Duration // mean pause of a client between transactions
	Warmup   time.Duration // before the first fault
	Duration time.Duration // of the faults
	Faults   int           // how many
	Kinds    []string      // of faults; nil is all
	// HoldRest is how long after a change of the catalog nothing is promised of it; 0: the default.
	HoldRest time.Duration
	// GCAge below the run's length makes owners collect old versions and tombstones during the run.
	GCAge time.Duration
	// ShortLogs makes logs so short that a replica that was away needs a snapshot.
	ShortLogs bool

	// Concurrency is how the cluster orders transactions.
	Concurrency base.Concurrency

	// Network says how consensus messages may travel besides directly.
	Network overlay.Params

	// MaxLocks bounds the lock table of an owner; 0 is the default.
	MaxLocks int

	// Pieces, above 0, has transactions under locks commit in pieces of so many writes, as large
	// ones do.
	Pieces int

	// SQL makes the nodes serve the MySQL protocol, over pipes.
	SQL bool
	// Epochs makes clients write MULTI MASTER tables, too; needs SQL.
	Epochs bool
	// Backlog has one-way messages outlast cuts, as they do on TCP (wan.NetOptions.Backlog).
	Backlog bool
	// Stay switches off the home policy: rows keep their first homes.
	Stay bool
	// Homes are the parameters of the policy that moves rows; nil takes the defaults.
	Homes *home.Params
	// Never sets the home policy to never, so that leaders follow the load.
	Never bool

	// Lively demands that whole nodes are served (alive.go), and all others soon after the last
	// fault.
	Lively bool
	// Gray says that PickGray made this, Restarts that pickRestarts did.
	Gray, Restarts bool

	// Handover, if not nil, replaces the faults.
	Handover *HandoverFault

	// Break breaks an assumption of the database, from outside. The run must then fail.
	Break Break

	// play replaces the schedule of faults.
	play func(*world)
}

// Break names the assumptions of the database, or the rules of its protocol, that a run breaks
// deliberately, always from outside of the nodes.
type Break struct {
	// ClockBeyond makes clocks wrong by up to so many times the bound that they state.
	ClockBeyond float64
	// NoProof has nodes go by unconfirmed clocks (MODE-9), FarLeads leaves HEALTH-1 out.
	NoProof, FarLeads bool
	// NoEarlyClose makes a new leader of the meta group close nothing before it serves (OWN-15).
	NoEarlyClose bool
	// NoHold makes the meta group's leader promise nothing of the catalog, NoAboveHold makes it
	// change the catalog below what it has promised, and NoHoldTransferred makes the target of a
	// hand-over not know what that is (OWN-17).
	NoHold, NoAboveHold, NoHoldTransferred bool
	// LongLeases makes all leases as long as they may be (TIME-1a), and EarlySuccessors makes new
	// leaders wait for only half of the lease of the one before (OWN-1).
	LongLeases, EarlySuccessors bool
	// NoRelease has new leaders ask nobody to release a lease, ServesOn has those who have released
	// one serve on, and Forgetful has them say that they have served nothing (TIME-1b). KeepsVotes
	// and PatientSeals have one that hands its lead over wait as long as that may take (TIME-6b).
	NoRelease, ServesOn, Forgetful, KeepsVotes, PatientSeals bool
	// RemoteLocks makes owners take no locks for gateways on other nodes.
	RemoteLocks bool
	// LyingDisk makes a crash lose commits of the last moments although they were synced.
	LyingDisk bool
	// EarlyHeartbeats makes heartbeats close timestamps that are still in the future.
	EarlyHeartbeats time.Duration
	// UntoldReads hides from owners in other regions what a cross-region transaction has read of
	// them, so that it is neither locked nor validated (docs/protocol.md REL-3).
	UntoldReads bool
	// NoBounds makes owners forget the readers of rows that a future slot writes (REL-4).
	NoBounds bool
	// LateWriters has patches be evaluated without waiting for what commits below their slots
	// (REL-9d), EarlyPrograms and SameSlots leave out REL-12 and REL-13.
	LateWriters              bool
	EarlyPrograms, SameSlots time.Duration
	// BlindPrograms leaves out REL-14. LooseGuards has clients alone look at guards (REL-15).
	BlindPrograms, LooseGuards bool
	// OwnSlots makes every other region apply its part of a cross-region transaction at a slot of
	// its own, so much later, as in a literal reading of the Relay paper's Algorithm 1.
	OwnSlots time.Duration
	// NoRefresh makes owners answer other nodes that nothing of a transaction's reads has changed,
	// whatever timestamp it moves to (docs/protocol.md ORD-3).
	NoRefresh bool
	// NoManager cuts timestamp managers off from other nodes (ORD-8).
	NoManager bool
	// NoDoubt makes readers on other nodes ignore that clocks may be ahead of theirs (ORD-5).
	NoDoubt bool
	// NoMarks makes owners forget what was read (ORD-2). NoTransferredState makes them forget only
	// what was read under a former leader.
	NoMarks, NoTransferredState bool
	// ForgedAcks makes nodes acknowledge a clock mode of which one of them has not heard yet.
	ForgedAcks bool
	// NoNames takes the names of forwarded statements off their requests (docs/protocol.md, FWD-1),
	// and NoRefusal makes owners say that a statement has not committed without a refusal in the
	// log (FWD-3).
	NoNames, NoRefusal bool
	// PatientRefusers and HastyRefusers leave out parts of GRP-10: who refuses a candidate waits
	// for its turn though nobody is elected without it, or stands at once though somebody may be.
	PatientRefusers, HastyRefusers bool
	// FixedTurns has survivors wait for the turns of those that turn out to be lost, too (GRP-10).
	FixedTurns bool
	// PatientReturns has voters without a leader wait for their timers when another one comes back
	// (GRP-12).
	PatientReturns bool
	// StubbornLeaders has leaders that have lost the majority of their voters lead until raft
	// notices (GRP-15).
	StubbornLeaders bool
	// HastyReturns has voters that come back stand as soon as they see one other (GRP-12).
	// SplitVotes, AsksOnce and SickFirst leave GRP-16, GRP-20 and GRP-22 out.
	HastyReturns, SplitVotes, AsksOnce, SickFirst bool
	// HastyRegions brings a region that joins on without asking whether the nodes are ready
	// (REGION-2, REGION-3).
	HastyRegions bool
	// HastyUpgrade raises the version of the cluster without asking the nodes (VERSION-2).
	HastyUpgrade bool
	// NoLeaving has owners give rows a home in a region that leaves (REGION-4).
	NoLeaving bool
	// AnyPath lets messages between two regions of a placement go over others (PLACE-3).
	AnyPath bool
	// NoBegun leaves the owners of the first gaps of RowPlaced, and of a table spread over copy
	// sets, to the table id (PLACE-6).
	NoBegun bool
	// Astray has rows of RowPlaced written in the shards of all regions (PLACE-5).
	Astray bool
	// PatientSealed has nodes wait for whoever has sealed them, be it deaf (EPO-3b).
	PatientSealed bool
	// AnyHome gives rows homes in regions that do not vote for them (PLACE-7).
	AnyHome bool
	// NoHedges has no read be asked of a second node. NearOwners leaves HOME-10 out.
	NoHedges, NearOwners bool
	// EarlyCopies makes survivors of a lost region claim to hold more of it than they do.
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
		c.Ships = 0 // no transaction crosses regions
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
			// The delays are no metric, as real paths violate the triangle inequality too, and they
			// are a little asymmetric.
			d := 5*time.Millisecond + upTo(r, 100*time.Millisecond)
			c.Delay[i][j], c.Delay[j][i] = d, d+upTo(r, 3*time.Millisecond)
		}
	}
	if r := rand.New(rand.NewPCG(seed, 7)); r.IntN(2) == 0 {
		c.Network = pickNetwork(r)
	}
	return c
}

// pickNetwork draws whether consensus messages use relays and fan-out: both more often than one of
// them.
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

// upTo draws from [0, d).
func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// String is the configuration on a few lines.
func (c *Config) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d regions x %d nodes, %d shards, %s, %d clients a region, %d keys, think %v, "+
		"no-wait %d%%, relay %d%% (%d%% shipped), moves %d%%\n",
		c.Seed, c.Regions, c.NodesPerRegion, c.Shards, c.Workload, c.Clients, c.Keys, c.Think, c.NoWait, c.Relay,
		c.Ships, c.Moves)
	fmt.Fprintf(&b, "  clock bound %v, sync %v, jitter %v, loss %v, gc age %v, short logs %v, %d faults in %v, %v\n",
		c.ClockBound, c.SyncDelay, c.Jitter, c.Loss, c.GCAge, c.ShortLogs, c.Faults, c.Duration, c.Concurrency)
	if c.Network.Relay || c.Network.FanOut {
		fmt.Fprintf(&b, "  relays %v, fan-out %v\n", c.Network.Relay, c.Network.FanOut)
	}
	if c.Backlog {
		b.WriteString("  one-way messages outlast cuts (-backlog)\n")
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
