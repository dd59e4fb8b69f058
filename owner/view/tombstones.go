package view

import (
	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
)

const (
	maxTombKeys   = 10_000 // keys looked at for tombstones in one step
	maxTombstones = 256    // tombstones found in one step
)

// Tombstones looks for tombstones at or below a timestamp whose keys this group owns, in the keys
// from the one given on; nil is the first one. next is where to go on, nil at the end.
func (g *Group) Tombstones(from base.Key, below base.Timestamp) (found []base.Key, next base.Key, err error) {
	shard := g.ID.Shard()
	first := base.Key{byte(shard >> 8), byte(shard)}
	if from == nil {
		from = first
	}
	rd := g.Store.NewReader()
	defer rd.Close()
	it := rd.Iter(base.Span{Start: from, End: first.PrefixEnd()}, base.MaxTimestamp, store.IterOptions{KeysOnly: true})
	defer it.Close()
	for n := 0; it.Next(); n++ {
		v := it.Version()
		if n >= maxTombKeys || len(found) >= maxTombstones {
			next = v.Key.Clone()
			break
		}
		if v.Tombstone && v.TS <= below && HomeGroup(v.Key, v.Label) == g.ID {
			found = append(found, v.Key.Clone())
		}
	}
	return found, next, it.Err()
}

// TombstoneGap is everything from the key before a tombstone to the key behind it: what the
// tombstone's removal makes one gap. ok: the tombstone is still there, at or below a timestamp, and
// this group owns it together with the gap before it.
func (g *Group) TombstoneGap(key base.Key, below base.Timestamp) (gap base.Span, ok bool, err error) {
	rd := g.Store.NewReader()
	defer rd.Close()
	v, there, err := rd.Newest(key)
	if err != nil || !there || !v.Tombstone || v.TS > below || HomeGroup(key, v.Label) != g.ID {
		return base.Span{}, false, err
	}
	start, owner := key.Section().Clone(), key.DefaultOwner()
	p, before, err := rd.Pred(key)
	if err != nil {
		return base.Span{}, false, err
	}
	if before {
		start, owner = p.Key, HomeGroup(key, p.Label)
	}
	if key.Shard() == base.MetaShard {
		owner = base.MetaGroup
	}
	end, err := GapEnd(rd, key)
	return base.Span{Start: start, End: end}, owner == g.ID, err
}
