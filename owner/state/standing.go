package state

import (
	"bytes"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/wire"
)

// stand takes note of a write that has a prepared transaction stand here, or ends it (XA-1).
func (s *State) stand(of *Group, w *wire.Write) {
	if base.Key(w.Key).Table() != base.PreparedTable {
		return
	}
	id, n, ok := base.PreparedBy(of.ID, w.Key)
	switch {
	case !ok || n != 0:
	case w.Kind == wire.WriteKind_DELETE:
		delete(s.Standing, id)
	default:
		s.Standing[id] = w.Value
	}
}

// loadStanding reads the locks of the transactions that stand in a group from their records.
func loadStanding(of *Group) (map[base.TxnID][]byte, error) {
	all := map[base.TxnID][]byte{}
	rd := of.Store.NewReader()
	defer rd.Close()
	it := rd.Iter(base.PreparedSpan(of.ID), base.MaxTimestamp, store.IterOptions{})
	defer it.Close()
	for it.Next() {
		v := it.Version()
		if id, n, ok := base.PreparedBy(of.ID, v.Key); ok && n == 0 && !v.Tombstone {
			all[id] = bytes.Clone(v.Value)
		}
	}
	return all, it.Err()
}
