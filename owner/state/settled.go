package state

import (
	"sync"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// Settled is, by group of the cluster, before when all transactions are decided that began so long
// ago that their outcomes may be forgotten (GroupLead.settled, OWN-11). The zero value knows of no
// group.
type Settled struct {
	mu        sync.Mutex
	at        map[base.GroupID]base.Timestamp
	forgotten base.Timestamp
}

// Note takes what leaders say of themselves.
func (s *Settled) Note(leads []*wire.GroupLead) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == nil {
		s.at = map[base.GroupID]base.Timestamp{}
	}
	for _, l := range leads {
		g := base.GroupID(l.Group)
		s.at[g] = max(s.at[g], base.Timestamp(l.Settled))
	}
}

// Forget is before when all groups have decided everything; more: that is later than at the last
// call.
func (s *Settled) Forget(groups []base.GroupID) (before base.Timestamp, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = base.MaxTimestamp
	for _, g := range groups {
		before = min(before, s.at[g])
	}
	if before == base.MaxTimestamp || before <= s.forgotten {
		return 0, false
	}
	s.forgotten = before
	return before, true
}
