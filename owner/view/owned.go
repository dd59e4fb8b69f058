package view

import (
	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
)

// Owned is a part of a range and the group that owns it, as far as a replica knows.
type Owned struct {
	Span  base.Span
	Owner base.GroupID
}

// OwnerOf is the owner of a key, as the newest state here says.
func OwnerOf(st *store.Store, key base.Key) (g base.GroupID, ok bool) {
	rd := st.NewPointReader()
	defer rd.Close()
	p, err := Locate(rd, key)
	return p.Owner, err == nil
}

// OwnersOf are the owners of the parts of a range, in key order. It looks at no more than maxKeys
// keys and takes the rest for the last one's owner.
func OwnersOf(st *store.Store, span base.Span, maxKeys int) (out []Owned, ok bool) {
	rd := st.NewReader()
	defer rd.Close()
	it := rd.Iter(span, base.MaxTimestamp, store.IterOptions{KeysOnly: true})
	defer it.Close()
	seg := Segmenter{Reader: rd, Span: span, Emit: func(g Segment) { out = append(out, Owned{g.Span, g.Owner}) }}
	for n := 0; n < maxKeys && it.Next(); n++ {
		v := it.Version()
		if seg.Within(&v) {
			continue
		}
		v.Key = v.Key.Clone()
		if err := seg.Add(&v); err != nil {
			return nil, false
		}
	}
	if it.Err() != nil || seg.Finish(false, span.End) != nil {
		return nil, false
	}
	return out, true
}
