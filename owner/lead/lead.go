// Package lead is the state machine of a group's lead at one node: how the node comes into service,
// and how it hands its lead to another node without an interruption (GeoLM, section V-C; TIME-6).
// It has the states, the moves between them, and what is kept for one term; package owner sends the
// messages and proposes the entries (owner/handover.go, owner/acquire.go, owner/passon.go). Nothing
// here is safe for concurrent use: owner guards it with the lock of its replica.
//
// # States
//
// The left column is a node that gets the lead, the right one a node that has it. Any state in
// which the node leads falls back to follower when the term is over (Stopped), and any state at all
// becomes closed when the replica is closed. These two are not drawn.
//
//	                  +----------+
//	      +---------->| follower |<--------------------------------------+
//	      |           +----------+                                       |
//	refused|    asked by  |  |  elected                                  |
//	      |    the leader |  +-------------+                             |
//	      |               v                |                             |
//	      |          +--------+            |                             | it hears of
//	      |          | target |            |                             | the next leader
//	      |          +--------+            |                             |
//	      |   told to     |                |                             |
//	      |   stand       v                v                       +------------+
//	      |        +-----------+ elected +-----------+             | forwarding |
//	      +--------| candidate |-------->| acquiring |<---+        +------------+
//	               +-----------+         +-----------+    |              ^
//	                   its lease is applied,  |  |        |              | the term is over:
//	                   or it has the          |  |        | given up     | sends its state
//	                   predecessor's state    |  v        |              |
//	                                          | +----------+             |
//	                                          | | relieved |             |
//	                                          | +----------+             |
//	                                          v                          |
//	                                     +---------+                     |
//	           +------------------------>| serving |                     |
//	           | given up                +---------+                     |
//	           |                              | the group revokes        |
//	           |                              v                          |
//	           |                         +----------+                    |
//	           +-------------------------| offering | target is asked    |
//	           |                         +----------+                    |
//	           |                              | the target agrees        |
//	           |                              v                          |
//	           |                         +---------+ lease transfer      |
//	           +-------------------------| sealing | entry is proposed   |
//	           |                         +---------+                     |
//	           |                              | its index is known       |
//	           |                              v                          |
//	           |                         +--------+  target is told      |
//	           +-------------------------| sealed |  to stand ---------->+
//	           |                         +--------+                      |
//	           |                              | the entry is applied     |
//	           |                              v                          |
//	           |                        +-------------+                  |
//	           +------------------------| transferred |----------------->+
//	                                    +-------------+
//
// # A planned hand-over
//
// The leader of term T hands its lead to the transfer target:
//
//  1. Offering. The leader asks the target. The target agrees if it follows the leader and holds
//     the whole shard (Figure 8, messages 1 and 2).
//  2. Sealing. The leader logs a lease transfer entry, which is a lease for the target. It proposes
//     nothing behind it. Reads and locks go on; commits wait. The leader's log ends with this
//     entry, at index I. As soon as I is known (sealed), the leader tells the target to stand for
//     election once the target's log ends at I, too.
//  3. The leader serves on under its lease until it hears that its term is over. It hears that when
//     it is asked for its vote. The group holds that request back until the entry is applied
//     (transferred), so nothing is under way. In that moment the leader stops and sends the target
//     what it has only in memory: locks, transactions, the floor (message 3). From then on it is
//     forwarding: requests under way or still arriving are passed on to the target
//     (owner/passon.go). If some node leads before the entry is applied, the leader sends its state
//     all the same: what is under way is in the target's log, which will say what became of it.
//  4. Once the target is elected and has that state, it goes on where the leader stopped.
//
// Reads pause for one trip of the transferred state, if the old leader belongs to the target's
// nearest majority; otherwise the rest of the election comes on top. Commits pause for that, for
// the trip of the lease transfer entry, which the election needs, and for the quorum of their own
// entry.
//
// # Why the target may serve as soon as it is elected
//
// The target serves before an entry of its own term is committed. Its log contains everything that
// is committed and ends at I. Its predecessor says whether I is committed; if the predecessor
// cannot say so, the target waits for it.
//
// No other node can have served in between. A leader of a term after T serves only once a lease of
// that term is committed behind I, and then the target is not elected with a log that ends at I.
//
// The old leader has stopped. It sends its state once, when its term is over, and does not serve
// again until it wins an election. If it never hears that its term is over, because the target does
// not stand, it just goes on.
//
// Until a lease behind the entry supersedes it, every other leader waits for the end of the
// transferred lease as for any lease. A leader of term T+1 need not: the target did not lead in
// T+1 then.
package lead

import (
	"fmt"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/owner/tscache"
	"github.com/godwitdb/godwit/wire"
)

// State is where a replica stands with the lead of its group; the drawing above has the moves.
type State uint8

const (
	Follower  State = iota // another node leads, or none that is known
	Target                 // it agreed to take over; requests go to the leader
	Candidate              // it campaigns to take over; requests wait for the outcome
	Acquiring              // it leads, but may not serve yet
	Relieved               // it leads, and gives the lead up before it ever asked for a lease
	Serving                // it is the owner
	Offering               // the owner; it asks the transfer target
	Sealing                // the owner; it has proposed the lease transfer entry
	Sealed                 // the owner; it knows where in the log that entry is
	// the owner; the entry is applied, and nothing is under way
	Transferred
	Forwarding // it has sent its state to the target, and passes requests on
	Closed     // the replica is closed
	numStates  // how many there are
)

// String is the name of the state, as traces, metrics and docs/protocol.md show it.
func (s State) String() string {
	return [...]string{"follower", "target", "candidate", "acquiring", "relieved", "serving", "offering", "sealing",
		"sealed", "transferred", "forwarding", "closed"}[s]
}

// In reports whether s is one of the states given.
func (s State) In(set StateSet) bool { return set&(1<<s) != 0 }

// StateSet is a set of states, by bit.
type StateSet uint16

func setOf(all ...State) (set StateSet) {
	for _, s := range all {
		set |= 1 << s
	}
	return set
}

var (
	// serves: the node is the owner, as far as its lease reaches.
	Serves = setOf(Serving, Offering, Sealing, Sealed, Transferred)
	// proposes: entries may be appended to the log.
	Proposes = setOf(Serving, Offering)
	// seals: the lease transfer entry is proposed, and nothing may lie behind it in the log.
	Seals = setOf(Sealing, Sealed, Transferred)
	// leaves: a hand-over is under way, which may still be given up.
	Leaves = setOf(Offering, Sealing, Sealed, Transferred)
	// departs: the target can find the end of the log, so that the lead may go to it.
	Departs = setOf(Sealed, Transferred)
)

// Moves are the states that may follow each state: the drawing as a table.
var Moves = [numStates]StateSet{
	Follower:    setOf(Target, Acquiring, Closed),
	Target:      setOf(Target, Candidate, Acquiring, Closed),
	Candidate:   setOf(Follower, Target, Acquiring, Closed),
	Acquiring:   setOf(Acquiring, Relieved, Serving, Follower, Closed),
	Relieved:    setOf(Relieved, Acquiring, Follower, Closed),
	Serving:     setOf(Offering, Follower, Closed),
	Offering:    setOf(Sealing, Serving, Follower, Closed),
	Sealing:     setOf(Sealed, Transferred, Serving, Follower, Closed),
	Sealed:      setOf(Transferred, Serving, Forwarding, Follower, Closed),
	Transferred: setOf(Serving, Forwarding, Follower, Closed),
	Forwarding:  setOf(Follower, Target, Acquiring, Closed),
	Closed:      setOf(Closed),
}

// Leadership is what an owner keeps in memory only. There is one value for each term, and one for
// each time between terms.
type Leadership struct {
	State State
	Term  uint64 // the term in which this node leads; 0 if it does not

	Candidacy   *Candidacy   // target, candidate; acquiring: what the predecessor has promised
	Acquisition *Acquisition // acquiring
	Successor   base.NodeID  // relieved: the node that gets the lead
	Transfer    *Transfer    // offering to forwarding

	OwnLease
	Ended *wire.Lease // where the predecessor's lease ended, to be logged with the next one

	Issued base.Timestamp // newest timestamp of the oracle (meta group)
	Floor  base.Timestamp // every timestamp assigned from now on is above (OWN-2)
	// highest closed timestamp put into a command or sent by heartbeat; at most floor
	Announced base.Timestamp
	Held      base.Timestamp // highest catalog hold sent by heartbeat: changes of the catalog lie above (OWN-17)
	Ends      tscache.Ends   // of transactions, for the region's timestamp manager (Order)
	Vector    [16]uint64     // siblings' applied indexes already in the log of this term
}

// To moves to another state of the same term. A move that the drawing does not have is a defect of
// this package, after which nothing can be said about who serves: the process stops.
func (l *Leadership) To(next State) {
	l.MustAllow(next)
	l.State = next
}

// MustAllow stops the process if the drawing does not have a move to next.
func (l *Leadership) MustAllow(next State) {
	if !next.In(Moves[l.State]) {
		panic(fmt.Sprintf("owner: the lead of term %d cannot go from %v to %v", l.Term, l.State, next))
	}
}

// Transfer is one hand-over, at the node that hands its lead over. Fields that change are guarded
// by the lock of the replica.
type Transfer struct {
	Target base.NodeID
	Term   uint64
	// the error of requests that have to go elsewhere; compared by identity
	Err   *base.Error
	Index uint64 // of the lease transfer entry, once it is in the log
	// departed is closed when this node has stopped, as its state is sent.
	Departed chan struct{}
	// over is closed when some node leads again: this one goes on, or another one does.
	Over chan struct{}
}

// GivesTo reports whether this node hands its lead over to the leader of a term, or has done so.
func (l *Leadership) GivesTo(to base.NodeID, term uint64) bool {
	return (l.State == Forwarding || l.State.In(Departs)) && l.Transfer.Target == to && l.Transfer.Term+1 == term
}

// End makes the requests that wait for the hand-over look for the leader.
func (t *Transfer) End() {
	if !IsClosed(t.Over) {
		close(t.Over)
	}
}

// IsClosed reports whether a channel that is only ever closed is.
func IsClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// Candidacy is one hand-over, at the transfer target.
type Candidacy struct {
	From     base.NodeID
	Term     uint64    // of the predecessor
	Since    time.Time // before the lease transfer entry was proposed
	Deadline time.Time // when the target stops waiting
	Stood    bool      // the predecessor has told it to stand for election
	State    *wire.TransferredState
	Arrived  chan struct{} // closed when the state has arrived
}

// Acquisition is one attempt of a new leader to come into service.
type Acquisition struct {
	Term  uint64
	Began time.Time
	// what the predecessor has promised; nil: the leader begins from the log alone
	Promised *Candidacy
	// newest is the end of the newest lease in the log, above which the new leader begins.
	Newest base.Timestamp
	// Closes: the leader has a lease of this term, under which it may close timestamps though it
	// does not serve yet
	Closes bool
	// Held is the catalog hold of predecessors that have released their leases, Ended the lease of
	// one of them, which ended at EndedOf.
	Held    base.Timestamp
	Ended   *wire.Lease
	EndedOf base.Timestamp
}

// OwnLease is what a leader knows of its own leases of a term (OWN-1).
type OwnLease struct {
	LeaseEnd base.Timestamp // of a lease of this node applied in this term
	Until    time.Time      // when that lease ends by the monotonic clock
	Low      base.Timestamp // the next lease ends well above it

	Requested      base.Timestamp // end of the newest lease proposed in this term
	RequestedUntil time.Time      // when that one ends by the monotonic clock
	latest         time.Time      // when the last of all of them ends by the monotonic clock
	// leases proposed in this term and not applied yet, the oldest first
	requests []leaseRequest
}

// leaseRequest is a lease on its way. until is when it ends by the monotonic clock, counted from
// before it was proposed; due is when it was time for it.
type leaseRequest struct {
	end   base.Timestamp
	until time.Time
	due   time.Time
}

// maxRequests bounds the leases that are remembered until they are applied; one is proposed a
// second.
const maxRequests = 64

// AtLeast is the length that a lease proposed at a time must have to end no sooner than those
// before it. Then a successor that knows only of this lease waits long enough (TIME-1a).
func (l *OwnLease) AtLeast(length time.Duration, now time.Time) time.Duration {
	if left := l.latest.Sub(now); left > binding(length) {
		length = clock.Stretched(clock.Stretched(left))
	}
	return length
}

// binding is how long the holder relies on a lease: a little less than its length, in case this
// clock runs slow.
func binding(length time.Duration) time.Duration { return 2*length - clock.Stretched(length) }

// Request notes a lease of some length that is about to be proposed. age is how old the lease
// before it was to become.
func (l *OwnLease) Request(end base.Timestamp, now time.Time, length, age time.Duration) {
	due := now
	if at := l.RequestedUntil.Add(age - length); !l.RequestedUntil.IsZero() && at.Before(now) {
		due = at
	}
	until := now.Add(binding(length))
	l.Requested, l.RequestedUntil = end, until
	l.Binds(until)
	if len(l.requests) >= maxRequests {
		l.requests = slices.Delete(l.requests, 0, 1)
	}
	l.requests = append(l.requests, leaseRequest{end, until, due})
}

// Binds notes that this node may serve until then, by the monotonic clock.
func (l *OwnLease) Binds(until time.Time) {
	if until.After(l.latest) {
		l.latest = until
	}
}

// Granted notes that a lease of this node was applied. It returns how long after its time that
// happened.
func (l *OwnLease) Granted(end base.Timestamp, now time.Time) (late time.Duration) {
	l.LeaseEnd = end
	for i, a := range l.requests {
		if a.end == end {
			l.Until = a.until
			l.requests = slices.Delete(l.requests, 0, i+1)
			return now.Sub(a.due)
		}
	}
	return 0
}

// ForgetRequest has the next lease proposed although an older one may be on its way.
func (l *OwnLease) ForgetRequest() { l.Requested, l.RequestedUntil = 0, time.Time{} }

// Due reports whether it is time for a lease that would end at end: leases have a length, and are
// renewed at an age. The monotonic clock decides, too: the other one may stand still, or have been
// set.
func (l *OwnLease) Due(length, renew time.Duration, now time.Time, end base.Timestamp) bool {
	if end.Sub(l.Requested) >= renew {
		return true
	}
	return l.Requested != 0 && !now.Add(length-renew).Before(l.RequestedUntil)
}
