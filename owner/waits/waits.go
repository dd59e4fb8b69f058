// Package waits decides how long a request waits for a lock, and looks for deadlocks over the lock
// tables of one node.
//
// There are three kinds of cycles of waiting transactions. A lock table detects the cycles within
// itself. Each request that waits looks for the cycles over several tables of its node (Youngest).
// A bound on waits ends the cycles over several nodes (Left): in every cycle some transaction waits
// for an older one, and such a wait is short.
package waits

import (
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/lock"
	"github.com/godwitdb/godwit/owner/txns"
)

const (
	// Ending is how long a transaction waits for an older one that is committing.
	Ending = time.Second
	// voting is how long a transaction waits for an older one while its Prepare is evaluated. It is
	// shorter, since the votes of the transaction in other groups block others meanwhile.
	voting = Ending / 2
	// votingLast is how long a transaction waits for any other while its Prepare is evaluated. It
	// is longer than voting: of two that wait for each other's votes the younger must give up
	// first.
	votingLast = 3 * Ending / 2
)

// Patience is how long requests at an owner wait.
type Patience struct {
	// Deadlock is how long a transaction waits for an older one before that counts as a deadlock.
	// If it is longer than the three bounds above, it takes their place.
	Deadlock time.Duration
	// Alone: the cluster has no other node, so no cycle goes over several.
	Alone bool
}

// Wait is one wait of a request for a lock.
type Wait struct {
	Txn   *txns.Txn
	Span  base.Span
	Start time.Time
	// Brief: the request waits for committing transactions only ([lock.WaitEnding]), and no longer
	// than Ending.
	Brief bool
	older time.Time // since when it has waited for an older transaction; zero: it does not
}

// Verdict says whether a wait goes on.
type Verdict uint8

// The verdicts.
const (
	GoesOn  Verdict = iota
	Busy            // a brief wait has lasted for Ending
	Timeout         // the wait has lasted for the lock timeout of the transaction
	Cyclic          // the wait may be part of a deadlock over several nodes
)

// Left is how long the request may still wait, or why it gives up. older says that it waits for an
// older transaction, ending that the older one is committing.
func (w *Wait) Left(now time.Time, p Patience, older, ending bool) (left time.Duration, v Verdict) {
	x, waited := w.Txn, now.Sub(w.Start)
	if w.Brief {
		most := min(Ending, x.Timeout)
		if waited >= most {
			return 0, Busy
		}
		return most - waited, GoesOn
	}
	switch {
	case !older:
		w.older = time.Time{}
	case w.older.IsZero():
		w.older = now
	}
	if waited >= x.Timeout {
		return 0, Timeout
	}
	detects := x.Policy == lock.WaitDie || !p.Alone
	if older && detects && now.Sub(w.older) >= p.bound(x, ending) ||
		x.Voting && waited >= max(p.Deadlock, votingLast) {
		return 0, Cyclic
	}
	return x.Timeout - waited, GoesOn
}

// bound is how long a transaction waits for an older one.
func (p Patience) bound(x *txns.Txn, ending bool) time.Duration {
	switch {
	case x.Voting:
		return max(p.Deadlock, voting)
	case ending:
		return max(p.Deadlock, Ending)
	}
	return p.Deadlock
}
