// Package waits decides how long a request waits for a lock, and looks for deadlocks over the lock
// tables of one node.
//
// A table sees the cycles within itself. Those over several tables of a node are looked for here by
// each request that waits. Those over several nodes end because the time is bounded that a
// transaction waits for an older one: in every cycle some transaction does.
package waits

import (
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/lock"
	"github.com/godwitdb/godwit/owner/txns"
)

const (
	// Ending is how long a younger transaction waits for one that is committing.
	Ending = time.Second
	// voting is the same for one that has votes of its own elsewhere, which block others.
	voting = Ending / 2
	// votingLast is how long a transaction with votes waits for anybody, at most: the older of two
	// that wait for each other's votes must outlast the younger.
	votingLast = 3 * Ending / 2
)

// Patience is how long requests at an owner wait.
type Patience struct {
	// Deadlock is how long a transaction waits for an older one, at least, before that counts as a
	// deadlock.
	Deadlock time.Duration
	// Alone: there are no other nodes over which a cycle may go.
	Alone bool
}

// Wait is one wait of a request for a lock.
type Wait struct {
	Txn   *txns.Txn
	Span  base.Span
	Start time.Time
	// Brief: for committing transactions only ([lock.WaitEnding]).
	Brief bool
	older time.Time // since when it has waited for an older transaction; zero: it does not
}

// Verdict says whether a wait goes on.
type Verdict uint8

// The verdicts.
const (
	GoesOn  Verdict = iota
	Busy            // a brief wait is over
	Timeout         // it was as long as the transaction allows
	Cyclic          // it may be part of a deadlock over several nodes
)

// Left is how long the request may still wait, or why it gives up. older says that it waits for an
// older transaction, ending that this one is committing.
func (w *Wait) Left(now time.Time, p Patience, older, ending bool) (left time.Duration, v Verdict) {
	x, waited := w.Txn, now.Sub(w.Start)
	if w.Brief {
		if waited >= Ending {
			return 0, Busy
		}
		return Ending - waited, GoesOn
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
