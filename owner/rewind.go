package owner

import (
	"github.com/godwitdb/godwit/owner/rewind"
	"github.com/godwitdb/godwit/owner/tuning"
)

// Rewind makes this node's copy of a group, which must not be open, part of a new incarnation, and
// says what it held beyond the cut. report is called with that before anything is changed.
func (s *Set) Rewind(r rewind.Rewinding, report func(rewind.Lost) error) error {
	n := rewind.Node{Self: s.cfg.Self, Store: s.cfg.Store, Mixed: func(participants []uint32) bool {
		return tuning.Mixed(s.cfg.Held, r.Group, participants)
	}}
	return rewind.Run(n, r, report)
}
