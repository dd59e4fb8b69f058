package store

import (
	"bytes"
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2/cockroachkvs"

	"github.com/godwitdb/godwit/base"
)

// Engine keys are those of cockroachkvs: bytes, a zero byte, and for versions
// an 8-byte timestamp with its length. Versions of one key sort newest first.
// The first byte says which area a key belongs to:
//
//	0x01 local    | name
//	0x02 state    | group (4) | name
//	0x03 txn      | group (4) | transaction id (16)
//	0x04 log      | group (4) | index (8)
//	0x05 version  | user key @ commit timestamp
//	0x06 mark     | user key @ collected-below timestamp
//	0x07 staging  | shard (2) | engine key of an unfinished snapshot import
const (
	areaLocal byte = iota + 1
	areaState
	areaTxn
	areaLog
	areaVersion
	areaMark
	areaStaging
)

const tsSuffixLen = 9 // timestamp and its length byte

// seal ends an engine key that has no timestamp.
func seal(k []byte) []byte { return append(k, 0) }

// sealAt ends an engine key with a timestamp above 0.
func sealAt(k []byte, ts base.Timestamp) []byte {
	k = append(k, 0)
	k = binary.BigEndian.AppendUint64(k, uint64(ts))
	return append(k, tsSuffixLen)
}

func localKey(name string) []byte {
	return seal(append([]byte{areaLocal}, name...))
}

func groupPrefix(area byte, g base.GroupID) []byte {
	return binary.BigEndian.AppendUint32([]byte{area}, uint32(g))
}

func stateKey(g base.GroupID, name string) []byte {
	return seal(append(groupPrefix(areaState, g), name...))
}

func txnKey(g base.GroupID, id base.TxnID) []byte {
	return seal(append(groupPrefix(areaTxn, g), id[:]...))
}

func logKey(g base.GroupID, index uint64) []byte {
	return seal(binary.BigEndian.AppendUint64(groupPrefix(areaLog, g), index))
}

// appendVersionKey appends the engine key of a version; ts 0 gives the bound
// before the newest version.
func appendVersionKey(dst []byte, key base.Key, ts base.Timestamp) []byte {
	dst = append(dst, areaVersion)
	dst = append(dst, key...)
	if ts == 0 {
		return seal(dst)
	}
	return sealAt(dst, ts)
}

func markKey(key base.Key, below base.Timestamp) []byte {
	return sealAt(append([]byte{areaMark}, key...), below)
}

// areaSpan is the engine key range of one area and prefix.
func areaSpan(prefix []byte) (lo, hi []byte) {
	end := base.Key(prefix).PrefixEnd()
	return seal(bytes.Clone(prefix)), seal(end)
}

// groupsSpan covers an area for all groups of a shard.
func groupsSpan(area byte, s base.ShardID) (lo, hi []byte) {
	first := uint32(s) << 4
	lo = seal(binary.BigEndian.AppendUint32([]byte{area}, first))
	hi = seal(binary.BigEndian.AppendUint32([]byte{area}, first+16))
	return lo, hi
}

// shardSpan covers an area keyed by user keys for one shard.
func shardSpan(area byte, s base.ShardID) (lo, hi []byte) {
	return areaSpan(binary.BigEndian.AppendUint16([]byte{area}, uint16(s)))
}

func stagingPrefix(s base.ShardID) []byte {
	return binary.BigEndian.AppendUint16([]byte{areaStaging}, uint16(s))
}

// splitKey parses an engine key: its bytes after the area without the zero
// byte, and its timestamp (0 if it has none).
func splitKey(ek []byte) (body []byte, ts base.Timestamp, ok bool) {
	k, version, ok := cockroachkvs.DecodeEngineKey(ek)
	if !ok || len(k) == 0 {
		return nil, 0, false
	}
	switch len(version) {
	case 0:
	case 8:
		ts = base.Timestamp(binary.BigEndian.Uint64(version))
	default:
		return nil, 0, false
	}
	return k[1:], ts, true
}

// prefixOf is the engine key without its timestamp.
func prefixOf(ek []byte) []byte { return ek[:cockroachkvs.Split(ek)] }

// versionTS is the timestamp of an engine key known to be a version's; 0 if it is malformed.
func versionTS(ek []byte) base.Timestamp {
	n := len(ek)
	if n < tsSuffixLen+2 || ek[n-1] != tsSuffixLen {
		return 0
	}
	return base.Timestamp(binary.BigEndian.Uint64(ek[n-tsSuffixLen:]))
}

// groupOf is the group of a state, txn or log key.
func groupOf(body []byte) (base.GroupID, []byte, bool) {
	if len(body) < 4 {
		return 0, nil, false
	}
	return base.GroupID(binary.BigEndian.Uint32(body)), body[4:], true
}

func compareEngine(a, b []byte) int { return cockroachkvs.Compare(a, b) }
