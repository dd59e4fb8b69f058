package view

import (
	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
)

// Living counts the keys of a group's shard that are there and have their home in the group's
// region, and hands each to row, in order, until that returns false.
func Living(st *store.Store, g base.GroupID, row func(key base.Key) bool) (n int, err error) {
	rd := st.NewReader()
	defer rd.Close()
	start := base.Key{byte(g.Shard() >> 8), byte(g.Shard())}
	it := rd.Iter(base.Span{Start: start, End: start.PrefixEnd()}, base.MaxTimestamp, store.IterOptions{KeysOnly: true})
	defer it.Close()
	for it.Next() {
		v := it.Version()
		if v.Tombstone || HomeGroup(v.Key, v.Label) != g {
			continue
		}
		if n++; !row(v.Key) {
			break
		}
	}
	return n, it.Err()
}
