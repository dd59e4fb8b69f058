package owner

import (
	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// Missing is what this node must still apply before the group may act as the owner of a gap that
// the entry w of another group's log gave it (HOME-9): all that group's log names, because keys
// whose homes are elsewhere may lie in what looks like a gap here. No replica's mu is held.
func (r *Replica) Missing(w base.GroupIndex) (need []*wire.GroupIndex) {
	if w.Index == 0 || w.Region == 0 || w.Region == r.region || r.vouched[w.Region].Load() >= w.Index {
		return nil
	}
	all := r.set.siblings(r.shard)
	sib := all[w.Region]
	if sib == nil {
		return nil
	}
	sib.mu.Lock()
	join, at := sib.rep.Join, sib.applied.Load()
	sib.mu.Unlock()
	for i, o := range all {
		if o != nil && o != r && o != sib && o.applied.Load() < join[i] {
			need = append(need, &wire.GroupIndex{Region: uint32(i), Index: join[i]})
		}
	}
	if need == nil && at >= w.Index {
		r.vouched[w.Region].Store(at)
	}
	return need
}
