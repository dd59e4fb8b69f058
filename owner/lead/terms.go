package lead

import "time"

// Basis is what the leases of a leader follow from.
type Basis struct {
	Least time.Duration // length of a lease but for what renewals take
	Most  time.Duration // its greatest length
	// Farthest is the longest round trip to a node; 0: none is known, and leases are as long as
	// they may be.
	Farthest time.Duration
	// Hold is what a lease has to cover besides, and HoldAge at what age it is renewed then, at
	// most; 0: nothing.
	Hold, HoldAge time.Duration
}

// RenewEvery is the time between two looks at whether a lease is to be renewed.
const RenewEvery = 50 * time.Millisecond

// slotSpare is by how much more than the trip back a vote may lie ahead of the moment in which a
// transaction across regions asks for it. Votes lie below the end of the lease.
const slotSpare = 100 * time.Millisecond

// Terms is how long the next lease is to be, and at what age it is renewed (TIME-1a). That is the
// sum of three: its age when it is renewed; what a renewal takes, which is a look and a round trip,
// or as long as renewals took of late; and what is to be left then, for a process that does not
// run, a disk that does not sync, and votes ahead of now. What is slow counts once: the successor
// of a leader that was slow before it died waits for its last lease.
func (l *OwnLease) Terms(b Basis) (length, age time.Duration) {
	length, age = b.Most, b.Most/3
	if b.Farthest > 0 {
		age = b.Least * 3 / 8
		length = age + max(b.Farthest+RenewEvery, l.renewals.took) + max(b.Least-age, b.Farthest/2+slotSpare)
	}
	if b.Hold > 0 {
		age = min(age, b.HoldAge)
		length = max(length, b.Hold+age+RenewEvery)
	}
	return min(length, b.Most), age
}

// renewals is how long renewals took of late, from when they were due until they were applied. The
// longest counts at once, and an eighth less with each shorter one: a stall of two seconds is
// forgotten after twelve renewals, which are some five seconds. A stall that comes once in a while
// makes a lease lapse for as long as it is above what a lease has to spare. That costs what waits
// then no more than a renewal, while leases that are longer all the time would cost each death.
type renewals struct{ took time.Duration }

func (r *renewals) add(took time.Duration) { r.took = max(took, r.took-r.took/8) }
