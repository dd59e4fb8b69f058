package base

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
)

// Key is a user key in the layout of the package comment.
type Key []byte

// TableID numbers a table; its low [TableRegionBits] bits are the region that
// owns its first gaps.
type TableID uint64

// IndexID numbers an index within its table; 0 is the primary key.
type IndexID uint32

const (
	// TableRegionBits is the width of the region inside a table id.
	TableRegionBits = 4
	// ByHome marks an index whose entries are keyed by home region.
	ByHome IndexID = 1 << 31
	// MaxIndexID bounds the numbers of indexes: the bits above are those of [IndexID.BegunIn].
	MaxIndexID IndexID = 1<<begunShift - 1
	begunShift         = 24
	begunMask  IndexID = (1<<TableRegionBits - 1) << begunShift
	// ShardPrefixLen is the length of the shard part of a key; what follows
	// orders the rows of a table across shards.
	ShardPrefixLen = 2
	// IndexPrefixLen is the length of shard, table and index.
	IndexPrefixLen = 2 + 8 + 4
)

// MakeTableID composes a table id from a sequence number and the region that
// owns its first gaps.
func MakeTableID(seq uint64, r RegionID) TableID {
	return TableID(seq<<TableRegionBits | uint64(r)&(1<<TableRegionBits-1))
}

// CatalogTable is the table of the meta shard that holds the definitions of tables and other
// objects. Statements hold on to them until they commit.
const CatalogTable = TableID(2 << TableRegionBits)

// CatalogSpan is where the catalog lies.
var CatalogSpan = Span{Start: IndexPrefix(MetaShard, CatalogTable, 0, 0), End: IndexPrefix(MetaShard, CatalogTable+1, 0, 0)}

// FirstSpace is the first sequence number of key spaces without SQL; it is above every one that SQL
// hands out.
const FirstSpace = 1 << 48

// FirstPrivate is the first sequence number of tables that one session alone knows (package
// kv/private). Neither SQL's stored tables nor key spaces have such numbers.
const FirstPrivate = 1 << 47

// IsPrivate reports whether t is a table that one session alone knows. No node stores its rows.
func (t TableID) IsPrivate() bool {
	seq := t >> TableRegionBits
	return seq >= FirstPrivate && seq < FirstSpace
}

// IsSpace reports whether t is a key space without SQL, whose rows have no index entries.
func (t TableID) IsSpace() bool { return t>>TableRegionBits >= FirstSpace }

// Region is the default owner of the table's gaps.
func (t TableID) Region() RegionID { return RegionID(t & (1<<TableRegionBits - 1)) }

// BegunIn is the index as it is in the keys of a section whose first gaps a region owns, instead of
// that of the table id: rows of one table lie in several placements, and no region is in all of
// them (docs/protocol.md, PLACE-6).
func (i IndexID) BegunIn(r RegionID) IndexID { return i&^begunMask | IndexID(r)<<begunShift&begunMask }

// IndexPrefix is the key prefix of one index of a table within a shard. home
// is used only for [ByHome] indexes.
func IndexPrefix(s ShardID, t TableID, i IndexID, home RegionID) Key {
	k := make(Key, 0, IndexPrefixLen+16)
	k = binary.BigEndian.AppendUint16(k, uint16(s))
	k = binary.BigEndian.AppendUint64(k, uint64(t))
	k = binary.BigEndian.AppendUint32(k, uint32(i))
	if i&ByHome != 0 {
		k = append(k, byte(home))
	}
	return k
}

// Shard is the shard of a key; a key too short to name one is in the meta shard.
func (k Key) Shard() ShardID {
	if len(k) < 2 {
		return MetaShard
	}
	return ShardID(binary.BigEndian.Uint16(k))
}

// Table is the table of a key; 0 if the key is too short to name one.
func (k Key) Table() TableID {
	if len(k) < 10 {
		return 0
	}
	return TableID(binary.BigEndian.Uint64(k[2:]))
}

// InCatalog reports whether the key is of the catalog.
func (k Key) InCatalog() bool { return k.Shard() == MetaShard && k.Table() == CatalogTable }

// Index is the index of a key, whoever owns its first gaps; 0 if the key is too short to name one.
func (k Key) Index() IndexID {
	i, _ := k.begun()
	return i
}

// begun is the index of a key, and the region that owns its first gaps if the key says so, else 0.
func (k Key) begun() (i IndexID, r RegionID) {
	if len(k) < IndexPrefixLen {
		return 0, 0
	}
	i = IndexID(binary.BigEndian.Uint32(k[10:]))
	return i &^ begunMask, RegionID(i & begunMask >> begunShift)
}

// Section is the part of the key space within which a label covers the gap
// after its key: one index of one table in one shard (and, for [ByHome]
// indexes, of one home). Gaps never reach across sections.
func (k Key) Section() Key {
	n := IndexPrefixLen
	if k.Index()&ByHome != 0 {
		n++
	}
	if len(k) < n {
		return k
	}
	return k[:n]
}

// DefaultOwner is the group that owns the gap before the first key of k's section. It owns every
// place that no label covers.
func (k Key) DefaultOwner() GroupID {
	s := k.Shard()
	if s == MetaShard {
		return MetaGroup
	}
	i, begun := k.begun()
	switch {
	case i&ByHome != 0 && len(k) > IndexPrefixLen:
		return DataGroup(s, RegionID(k[IndexPrefixLen]))
	case begun != 0:
		return DataGroup(s, begun)
	}
	return DataGroup(s, k.Table().Region())
}

// Next is the smallest key above k.
func (k Key) Next() Key { return append(bytes.Clone(k), 0) }

// PrefixEnd is the smallest key above every key with prefix k; nil if none.
func (k Key) PrefixEnd() Key {
	e := bytes.Clone(k)
	for i := len(e) - 1; i >= 0; i-- {
		if e[i]++; e[i] != 0 {
			return e[:i+1]
		}
	}
	return nil
}

// Compare orders keys.
func (k Key) Compare(o Key) int { return bytes.Compare(k, o) }

// Clone returns a copy that shares no memory with k.
func (k Key) Clone() Key { return bytes.Clone(k) }

// String shows the shard, table and index of the key, and the rest in hexadecimal.
func (k Key) String() string {
	if len(k) < IndexPrefixLen {
		return fmt.Sprintf("/%x", []byte(k))
	}
	return fmt.Sprintf("/s%d/t%d/i%d/%x", k.Shard(), k.Table(), k.Index(), []byte(k[IndexPrefixLen:]))
}

// Span is the half-open range [Start, End) of keys; a nil End is the single
// key Start.
type Span struct {
	Start, End Key
}

// PointSpan is the span of one key.
func PointSpan(k Key) Span { return Span{Start: k} }

// IsPoint reports whether the span is a single key.
func (s Span) IsPoint() bool { return s.End == nil }

// Limit is the exclusive end, also for a point.
func (s Span) Limit() Key {
	if s.End == nil {
		return s.Start.Next()
	}
	return s.End
}

// InCatalog reports whether the span has keys of the catalog alone.
func (s Span) InCatalog() bool {
	return s.Start.InCatalog() && (len(s.End) == 0 || bytes.Compare(s.End, CatalogSpan.End) <= 0)
}

// Contains reports whether k lies in the span.
func (s Span) Contains(k Key) bool {
	if s.End == nil {
		return bytes.Equal(s.Start, k)
	}
	return bytes.Compare(s.Start, k) <= 0 && bytes.Compare(k, s.End) < 0
}

// Overlaps reports whether the spans share a key.
func (s Span) Overlaps(o Span) bool {
	switch {
	case s.End == nil:
		return o.Contains(s.Start)
	case o.End == nil:
		return s.Contains(o.Start)
	}
	return bytes.Compare(s.Start, o.End) < 0 && bytes.Compare(o.Start, s.End) < 0
}

// String shows a single key as that key, and a range as [start,end).
func (s Span) String() string {
	if s.End == nil {
		return s.Start.String()
	}
	return fmt.Sprintf("[%s,%s)", s.Start, s.End)
}

func putUint64(b []byte, v uint64) { binary.BigEndian.PutUint64(b, v) }
func putUint32(b []byte, v uint32) { binary.BigEndian.PutUint32(b, v) }
func getUint64(b []byte) uint64    { return binary.BigEndian.Uint64(b) }
func getUint32(b []byte) uint32    { return binary.BigEndian.Uint32(b) }

// Disjoint are spans without overlaps that cover the same keys: an answer gives each row to one
// span only, and the other one would seem to be without it.
func Disjoint(spans []Span) []Span {
	slices.SortStableFunc(spans, func(a, b Span) int { return a.Start.Compare(b.Start) })
	out := spans[:min(len(spans), 1)]
	for _, s := range spans[len(out):] {
		last := &out[len(out)-1]
		switch {
		case last.Limit().Compare(s.Start) <= 0:
			out = append(out, s)
		case last.Limit().Compare(s.Limit()) < 0:
			*last = Span{Start: last.Start, End: s.Limit()}
		}
	}
	return out
}
