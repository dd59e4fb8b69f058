package owner

import (
	"bytes"

	"github.com/godwitdb/godwit/base"
)

// deadlocked reports whether the transaction is the youngest in a circle of
// transactions that wait for locks of this node's owners. The owners are asked one after the
// other, so that a circle may be seen that never was: at worst somebody is tried again in vain.
// No replica's mu is held.
func (s *Set) deadlocked(id base.TxnID, age base.Timestamp) bool {
	var at []*Replica
	for _, r := range *s.replicas.Load() {
		if r.queued.Load() > 0 {
			at = append(at, r)
		}
	}
	if len(at) < 2 {
		return false // its table has looked already
	}
	budget := maxDetect
	todo := []base.TxnID{id}
	seen := map[base.TxnID]struct{}{id: {}}
	for len(todo) > 0 {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, r := range at {
			found := false
			r.mu.Lock()
			r.locks.Awaited(next, func(b base.TxnID, bAge base.Timestamp) bool {
				if budget--; budget < 0 {
					return false
				}
				if b == id {
					found = true
					return false
				}
				if bAge < age || bAge == age && bytes.Compare(b[:], id[:]) < 0 {
					if _, ok := seen[b]; !ok {
						seen[b] = struct{}{}
						todo = append(todo, b)
					}
				}
				return true
			})
			r.mu.Unlock()
			if found {
				return true
			}
		}
		if budget < 0 {
			return false
		}
	}
	return false
}
