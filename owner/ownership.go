package owner

import (
	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// writeSpans is what a logged write locks: its key, and if its row belongs to another group from
// then on, the gap behind it as well: that gap changes hands, and nothing locked does (HOME-2).
func (r *Replica) writeSpans(rd *store.Reader, w *wire.Write) (base.Span, error) {
	key := base.Key(w.Key)
	if !r.handsOver(w) {
		return base.PointSpan(key.Clone()), nil
	}
	end, err := view.GapEnd(rd, key)
	return base.Span{Start: key.Clone(), End: end}, err
}

// handsOver reports whether a labelled write gives its key to another group.
func (r *Replica) handsOver(w *wire.Write) bool {
	return view.HomeGroup(w.Key, base.Label(w.Label)) != r.id
}

// ownsSection reports whether all keys of key's section are this group's for good: an index keyed
// by home has a section for each home, and all labels in it name that one.
func (r *Replica) ownsSection(key base.Key) bool {
	return key.Shard() != base.MetaShard && key.Index()&base.ByHome != 0 && len(key) > base.IndexPrefixLen && key.DefaultOwner() == r.id
}

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
