package base

import "encoding/binary"

// PreparedTable is the key space of transactions that XA has prepared (docs/protocol.md, XA): in
// the meta shard it has their names, and in each group in which one stands the locks and the writes
// that it has there.
const PreparedTable = TableID(1<<(49+TableRegionBits) | 1)

const (
	preparedRecords = 1 | ByHome
	preparedNames   = IndexID(2)
)

// PreparedSpan is where the records of a group lie. It is a section whose gaps are the group's own,
// and no row of it ever moves.
func PreparedSpan(g GroupID) Span {
	p := IndexPrefix(g.Shard(), PreparedTable, preparedRecords, g.Region())
	return Span{Start: p, End: p.PrefixEnd()}
}

// PreparedKey is the key of record n of a transaction in a group, by the name under which it
// stands: the first one, 0, has its locks, and those behind it have its writes.
func PreparedKey(g GroupID, id TxnID, n uint32) Key {
	k := IndexPrefix(g.Shard(), PreparedTable, preparedRecords, g.Region())
	return binary.BigEndian.AppendUint32(append(k, id[:]...), n)
}

// PreparedBy is the name and the number of the record with a key; ok: it is one of the group.
func PreparedBy(g GroupID, k Key) (id TxnID, n uint32, ok bool) {
	if k.Table() != PreparedTable || len(k) != IndexPrefixLen+1+len(id)+4 || !PreparedSpan(g).Contains(k) {
		return id, 0, false
	}
	copy(id[:], k[IndexPrefixLen+1:])
	return id, binary.BigEndian.Uint32(k[len(k)-4:]), true
}

// PreparedName is where the record of a name that a client has given lies.
func PreparedName(name []byte) Key {
	return append(IndexPrefix(MetaShard, PreparedTable, preparedNames, 0), name...)
}

// PreparedNames is where all of them lie.
func PreparedNames() Span {
	p := IndexPrefix(MetaShard, PreparedTable, preparedNames, 0)
	return Span{Start: p, End: p.PrefixEnd()}
}
