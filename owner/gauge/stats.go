package gauge

import "sync/atomic"

// Stats count what a replica did as an owner, since the process began.
type Stats struct {
	Reads, Commits, Prepares, Resolves, Errors        atomic.Int64
	LockWaits, LockWaitNanos, LockTimeouts, Deadlocks atomic.Int64
	Died                                              atomic.Int64 // requests that lost a conflict
	// reads that waited for an undecided commit
	UndecidedWaits atomic.Int64
	// waits for the outcome of a transaction whose slot had come
	SlotWaits atomic.Int64
	// patches evaluated at their slots
	Patches atomic.Int64
	// waits of writers over whose rows a patch on its way would not be defined
	PatchWaits atomic.Int64
	// patches that were not defined at their slots; always 0
	PatchesLost atomic.Int64
	// ends of transactions noted as the timestamp manager of its region
	Orders atomic.Int64
	// transactions aborted for silence
	Expired   atomic.Int64
	Collected atomic.Int64 // tombstones
	// hand-overs of the lead: state sent to the transfer target, taken up as transfer target, given
	// up
	HandedOver, Inherited, GivenUp atomic.Int64
	// leases that were released to this leader by those before it
	Released atomic.Int64
	// requests that met one and were passed on, or served later
	Helped atomic.Int64
}
