package owner

import "github.com/godwitdb/godwit/base"

// ServiceKind is what an owner did with a key.
type ServiceKind uint8

// The kinds of services.
const (
	ReadService  ServiceKind = iota // showed it at a timestamp, At
	LockService                     // showed it under a lock, now
	WriteService                    // wrote it at a timestamp, At
	OrderService                    // showed it at a timestamp, At, to a transaction that may write it at the same
)

// Service is one key for which a group has answered as its owner.
type Service struct {
	Kind  ServiceKind
	Key   base.Key
	Group base.GroupID
	Term  uint64
	Node  base.NodeID
	Found bool           // the key has a version of its own; else it lies in a gap
	Since base.Timestamp // of the version whose label makes the group the owner
	At    base.Timestamp // of a read or write
}

// served tells of services, all of one kind, term and time.
func (r *Replica) served(kind ServiceKind, term uint64, at base.Timestamp, keys []seenKey) {
	for i := range keys {
		k := &keys[i]
		r.cfg.Serves(Service{Kind: kind, Key: k.key, Group: r.id, Term: term, Node: r.cfg.Self, Found: k.found, Since: k.since, At: at})
	}
}
