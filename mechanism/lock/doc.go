// Package lock is the lock table of one owner: who may read and who may write
// which keys and gaps until its transaction ends. It is a pure data structure:
// no goroutine, no clock, no randomness; the same calls give the same answers.
//
// A lock covers a [base.Span]: one key (present or absent), or a half-open
// range with every gap in it. Locks are shared or exclusive; locks of one
// transaction never conflict with each other.
//
// # Which request waits for which
//
// A request that conflicts with nothing is granted. Otherwise its [Policy] decides:
//
//   - Detect (DL_DETECT): it waits. When that closes a cycle of waiting transactions, the youngest
//     of the cycle (largest Age, then largest id) dies at once. Cycles through other tables are
//     the caller's to break: in each, somebody waits for an older transaction, which [Table.Older]
//     tells.
//   - WaitDie (WAIT_DIE): it waits if its transaction is older than every one it would wait for,
//     else it dies.
//   - NoWait (NO_WAIT): it dies.
//   - WaitEnding: it waits if every transaction that it would wait for is committing
//     ([Table.Ending]), else it dies. The caller bounds the wait.
//
// A dead request changes nothing. Its transaction usually aborts; one that reads with NOWAIT or
// SKIP LOCKED goes on. A transaction that is tried again with its old Age is the oldest one day,
// and no cycle kills that one.
//
// Invariants:
//
//	LOCK-1 No two granted locks of different transactions overlap unless both are shared.
//	LOCK-2 First come, first served: a request waits for every earlier waiting request that it
//	   conflicts with, so a stream of readers cannot starve a writer. The only exception are
//	   upgrades: a request whose span the transaction already holds shared goes before all
//	   requests that are no upgrades.
//	LOCK-3 No transactions of one table wait for each other in a cycle. Under WAIT_DIE every one
//	   waits only for younger ones; an upgrade that goes before a younger conflicting waiter kills
//	   that waiter (it is reported in Events.Died, as the victims of Detect are). Waits for
//	   committing transactions ([Table.Ending]) under WAIT_DIE and WaitEnding are the exception.
//	   The caller bounds them.
//	LOCK-4 A waiting request is granted as soon as nothing it waits for is left.
package lock
