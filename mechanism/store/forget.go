package store

import "github.com/godwitdb/godwit/base"

// ForgetGroup removes the state records of a group, the applied index
// included, and its transaction records. What raft keeps (see Log) and the rows stay.
func (b *Batch) ForgetGroup(g base.GroupID) {
	lo, hi := areaSpan(groupPrefix(areaState, g))
	err := b.s.scan(lo, hi, func(ek, _ []byte) error {
		body, _, _ := splitKey(ek)
		if _, name, ok := groupOf(body); ok && !hasRaftName(name) {
			b.del(ek)
		}
		return nil
	})
	if err != nil {
		b.fail(err)
	}
	b.delRange(areaSpan(groupPrefix(areaTxn, g)))
}

func hasRaftName(name []byte) bool {
	return len(name) >= len(raftNames) && string(name[:len(raftNames)]) == raftNames
}
