package store

import (
	"encoding/binary"

	"github.com/godwitdb/godwit/base"
)

// Version is one version of a row: the row as of its commit timestamp.
type Version struct {
	Key       base.Key
	TS        base.Timestamp // commit timestamp, above 0
	Label     base.Label
	Tombstone bool // the row is absent from TS on; the label stays and covers the gap
	Value     []byte
	// Writer is the log entry that wrote the version: the home region of its group (0 in the meta
	// shard) and the index, above 0. It is also the version's identity in merges (STORE-2).
	Writer base.GroupIndex
}

// Encoded value of a version (FormatVersion 1):
//
//	flags (1): bit 0 tombstone, bits 4-7 writer region | label (8, little endian) | writer index
//	   (uvarint) | value
const (
	flagTombstone   = 1
	writerShift     = 4
	maxWriterRegion = 15
	headerMin       = 10
)

func headerLen(index uint64) int {
	n := headerMin
	for index >= 0x80 {
		index >>= 7
		n++
	}
	return n
}

// putVersionValue encodes into dst, whose length is headerLen + len(value).
func putVersionValue(dst []byte, v *Version) {
	dst[0] = byte(v.Writer.Region) << writerShift
	if v.Tombstone {
		dst[0] |= flagTombstone
	}
	binary.LittleEndian.PutUint64(dst[1:], uint64(v.Label))
	n := 9 + binary.PutUvarint(dst[9:], v.Writer.Index)
	copy(dst[n:], v.Value)
}

// decodeVersionValue fills all but Key and TS; Value shares memory with val.
func decodeVersionValue(val []byte, v *Version) bool {
	if len(val) < headerMin {
		return false
	}
	index, n := binary.Uvarint(val[9:])
	if n <= 0 || index == 0 {
		return false
	}
	v.Tombstone = val[0]&flagTombstone != 0
	v.Label = base.Label(binary.LittleEndian.Uint64(val[1:]))
	v.Writer = base.GroupIndex{Region: base.RegionID(val[0] >> writerShift), Index: index}
	v.Value = val[9+n:]
	return true
}

// dotOf is the writer of an encoded version.
func dotOf(val []byte) (base.GroupIndex, bool) {
	var v Version
	ok := decodeVersionValue(val, &v)
	return v.Writer, ok
}

// Vector holds a log index per home region of one shard: which entries have
// been seen. Index 0 is the meta group's, or unused.
type Vector [maxWriterRegion + 1]uint64

// Has reports whether the entry has been seen.
func (x *Vector) Has(d base.GroupIndex) bool {
	return d.Region <= maxWriterRegion && d.Index <= x[d.Region]
}

// Join makes x cover what o covers.
func (x *Vector) Join(o *Vector) {
	for i, v := range o {
		x[i] = max(x[i], v)
	}
}
