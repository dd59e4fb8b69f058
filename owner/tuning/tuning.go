// Package tuning has the plain settings of owners: how long things last, the most that a replica
// takes on, and which rules a test leaves out; and the facts that a node is told of the cluster
// around it. Zero fields take the defaults that are given here.
package tuning

import (
	"time"

	"github.com/godwitdb/godwit/mechanism/lock"
)

// Timing is how long things last, and how often they are done.
type Timing struct {
	Lease      time.Duration // length of a lease, at most; default 3 s
	LeaseLeast time.Duration // what it is more than round trips (TIME-1a); default 1.2 s
	LeaseLate  time.Duration // by how much late renewals make it longer, at most; default 0.6 s
	// silence after which an unprepared transaction is aborted; default 10 s
	TxnIdle time.Duration
	// the same if its gateway is Gone; default 2.5 s: a living one says so every second
	TxnOrphan time.Duration
	// the same if its gateway is Lost, so that it cannot say so; default 500 ms
	TxnLost time.Duration
	// age at which a prepared transaction is resolved by the owner; default 2 s
	ResolveAfter time.Duration
	// the same if its gateway is Gone, or its vote is of a leader before this one that was lost;
	// default 250 ms
	ResolveSoon time.Duration
	// longest wait for one lock if the transaction names none; default 10 s
	LockTimeout time.Duration
	// DeadlockTimeout is how long a younger transaction waits for a lock of an older one where the
	// two may be in a deadlock over several nodes, which no node sees; default 100 ms. A cluster of
	// one node has no such bound.
	DeadlockTimeout time.Duration
	// EnterTimeout is the longest wait for a lease, for a vector, or for a leader after a
	// hand-over; default 4 s.
	EnterTimeout time.Duration
	// age at which old versions and tombstones are collected; default 10 min
	GCAge time.Duration
	// pause between collections; default 15 s; negative: only by Set.Collect
	GCInterval time.Duration
	// HoldRest is how long after a change of the catalog nothing is promised of it; default 1 s.
	HoldRest time.Duration
	// ClosedLag is how far behind now leaders close timestamps with timestamp ordering, so that
	// transactions can commit at the timestamps that they began with; default 2 s.
	ClosedLag time.Duration
}

// LeaseOver is how long a lease is to be over paths that take a round trip of path at least, and of
// trip now, where renewals took as long as this of late (TIME-1a). It is as short as it can be with
// renewals in time, of which a third of it is gone when the next one is due. So it grows by half
// more than what renewals take: a round trip, or as long as they took of late, which covers a busy
// machine too. These make it longer by LeaseLate at most: a leader that is silent for longer is
// left anyway, and then all wait for the rest of its lease.
func (t *Timing) LeaseOver(path, trip, renewals time.Duration) time.Duration {
	return min(t.LeaseLeast+max(3*path, min(max(trip, renewals)*3/2, t.LeaseLate)), t.Lease)
}

// LeaseTerms is how long a lease is to be, and at what age it is renewed (TIME-1a), where renewals
// took as long as this of late. A lease of the meta group's leader must also cover the time for
// which it promises that the catalog holds, if the clock is bounded. Where it is not, all
// timestamps come from that leader: without it nobody can go by such a promise, and its successor
// has to wait for the lease before there are timestamps again.
func LeaseTerms(t *Timing, f *Facts, meta, bounded bool, renewals time.Duration) (length, age time.Duration) {
	length = t.Lease
	if path, trip := f.Trips(); trip > 0 {
		length = t.LeaseOver(path, trip, renewals)
	}
	age = length / 3
	if !meta || f.Hold == nil {
		return length, age
	}
	if bounded {
		length = min(max(length, f.Hold()+metaRenew+Tick), t.Lease)
	}
	return length, min(age, metaRenew)
}

const (
	// metaRenew is the age at which a lease of the meta group is renewed, at most.
	metaRenew = 250 * time.Millisecond
	// Tick is how often a replica looks whether its lease is to be renewed.
	Tick = 200 * time.Millisecond
)

// Bounds are the most that a replica takes on.
type Bounds struct {
	Limits  lock.Limits
	MaxTxns int // active transactions per replica; default 50,000
	// requests waiting for a lease, a vector or an undecided commit, per replica; default 10,000
	MaxWaiting int
	MaxSpans   int // spans of one read; default 100,000
	MaxWrites  int // writes of one commit in one group; default 200,000
	MaxBytes   int // bytes of rows in one answer; default 4 MiB
	Bulk       Bulk
}

// Bulk says from how many writes on a commit is worth other ways.
type Bulk struct {
	// Walk: the places of its keys are found by stepping from key to key; default 256.
	Walk int
	// Together: its rows of one table are locked as one range, if that is free; default 8,192.
	Together int
	// Escalate: a transaction with so many locks locks what else it reads as ranges; default
	// 50,000.
	Escalate int
}

// Breaks leave rules of the protocol out, for tests that show what breaks then.
type Breaks struct {
	// NoBounds has readers of what a slot ahead writes not be bound by the slot.
	NoBounds bool
	// LateWriters has patches be evaluated without waiting for what commits below their slot
	// (REL-9d).
	LateWriters bool
	// VotesUnheld counts votes of asynchronous groups before the copy here has them (REL-10).
	VotesUnheld bool
	// NoMarks forgets up to when keys were read, NoTransferredState only what a former leader knew
	// of that.
	NoMarks, NoTransferredState bool
	// NoEarlyClose has a new leader of the meta group close nothing before it serves (OWN-15).
	NoEarlyClose bool
	// EarlySuccessors has a new leader wait for only half of a lease of its predecessor (OWN-1),
	// and LeasesShrink has a lease end before an older one of its holder (TIME-1a).
	EarlySuccessors, LeasesShrink bool
	// TakesBlindly has a node take the lead that lacks what its log relies on (OWN-16).
	TakesBlindly bool
	// NoRelease has a new leader ask nobody to release a lease, ServesOn has a leader that has
	// released its lease serve on, and Forgetful has it say that it has served nothing (TIME-1b).
	NoRelease, ServesOn, Forgetful bool
	// PatientSeals has a leader that hands its lead over wait for its lease transfer entry, and the
	// target for its state, as long as the hand-over may take (TIME-6b).
	PatientSeals bool
	// AnyRelease has a new leader go by what a deposed one has said unasked, whatever terms lie
	// between them (TIME-1c).
	AnyRelease bool
	// NoAboveHold has the meta group's leader change the catalog below what it has promised, and
	// NoHoldTransferred has the target of a hand-over not know what that is (OWN-17).
	NoAboveHold, NoHoldTransferred bool
	// SkipUnknown has a replica apply what it knows of an entry that needs more (VERSION-3).
	SkipUnknown bool
	// NoRefusal says that a forwarded statement has not committed without a refusal in the log
	// (FWD-3).
	NoRefusal bool
	// AnyPieces has votes of large transactions count whatever was staged (STAGE-1), HalfSettled
	// releases such a transaction with its first piece (STAGE-3), and Unlocked has pieces be staged
	// without locks (STAGE-2).
	AnyPieces, HalfSettled, Unlocked bool
	// NoStanding has prepared transactions keep no locks (XA-1), NoLasting has slots not wait for
	// them (XA-2), and PointsOnly has them lock no gaps (XA-3).
	NoStanding, NoLasting, PointsOnly bool
}

// Fill sets what is left to its default.
func (t *Timing) Fill() {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&t.Lease, 3*time.Second)
	def(&t.ClosedLag, 2*time.Second)
	def(&t.HoldRest, time.Second)
	def(&t.LeaseLeast, 1200*time.Millisecond)
	def(&t.LeaseLate, 600*time.Millisecond)
	def(&t.TxnIdle, 10*time.Second)
	def(&t.TxnOrphan, 2500*time.Millisecond)
	def(&t.TxnLost, 500*time.Millisecond)
	def(&t.ResolveAfter, 2*time.Second)
	def(&t.ResolveSoon, 250*time.Millisecond)
	def(&t.LockTimeout, 10*time.Second)
	def(&t.DeadlockTimeout, 100*time.Millisecond)
	def(&t.EnterTimeout, 4*time.Second)
	def(&t.GCAge, 10*time.Minute)
	def(&t.GCInterval, 15*time.Second)
}

// Fill sets what is left to its default.
func (b *Bounds) Fill() {
	num := func(n *int, v int) {
		if *n <= 0 {
			*n = v
		}
	}
	num(&b.MaxTxns, 50_000)
	num(&b.MaxWaiting, 10_000)
	num(&b.MaxSpans, 100_000)
	num(&b.MaxWrites, 200_000)
	num(&b.MaxBytes, 4<<20)
	num(&b.Bulk.Walk, 256)
	num(&b.Bulk.Together, 8192)
	num(&b.Bulk.Escalate, 50_000)
}
