package gauge

import "github.com/godwitdb/godwit/base"

// ServiceKind is what an owner did with a key.
type ServiceKind uint8

// The kinds of services.
const (
	ReadService  ServiceKind = iota // showed it at a timestamp, At
	LockService                     // showed it under a lock, now
	WriteService                    // wrote it at a timestamp, At
	// showed it at a timestamp, At, to a transaction that may write it at the same timestamp
	OrderService
)

// Service is one key for which a group has answered as its owner.
type Service struct {
	Kind  ServiceKind
	Key   base.Key
	Group base.GroupID
	Term  uint64
	Node  base.NodeID
	Found bool           // the key has a version of its own; else it lies in a gap
	Since base.Timestamp // timestamp of the version whose label makes the group the owner
	At    base.Timestamp // timestamp of the read or write; 0 under a lock
}
