package store

import (
	"encoding/binary"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/godwitdb/godwit/base"
)

// A Record is one record of a store, as Walk shows it.
type Record struct {
	// Area says what it is: local, state, transaction, log, version, mark or staging.
	Area string
	// Shard is the shard to whose rows, or group, the record belongs; that of local records is the
	// meta shard, which every node holds.
	Shard base.ShardID
	// Group is that of a state, transaction or log record.
	Group base.GroupID
	// Key is the user key of a version or mark, and what follows the group or shard in others.
	Key, Value []byte
	// Command is what a log record has for the state machine; nil if it is for the group itself.
	Command []byte
	// Row is the value that a version gives its key; nil if it deletes it.
	Row []byte
}

var areaNames = map[byte]string{areaLocal: "local", areaState: "state", areaTxn: "transaction", areaLog: "log",
	areaVersion: "version", areaMark: "mark", areaStaging: "staging"}

// Walk calls fn for all records of the store, of all shards, old versions included. What it gets is
// valid during the call. Records that were removed may lie in files for a while: it does not show
// them.
func (s *Store) Walk(fn func(Record) error) error {
	return s.scan([]byte{areaLocal, 0}, []byte{areaStaging + 1, 0}, func(ek, val []byte) error {
		body, _, ok := splitKey(ek)
		if !ok {
			return s.corrupt(corruptf("store %s: a record has the malformed key %x", s.opts.Dir, ek))
		}
		r := Record{Area: areaNames[ek[0]], Key: body, Value: val}
		switch ek[0] {
		case areaState, areaTxn, areaLog:
			g, rest, ok := groupOf(body)
			if !ok {
				return s.corrupt(corruptf("store %s: a %s record has the malformed key %x", s.opts.Dir, r.Area, ek))
			}
			r.Group, r.Shard, r.Key = g, g.Shard(), rest
			if _, n := binary.Uvarint(val[min(1, len(val)):]); ek[0] == areaLog && n > 0 && pb.EntryType(val[0]) == pb.EntryNormal {
				r.Command = val[1+n:]
			}
		case areaVersion, areaMark:
			r.Shard = base.Key(body).Shard()
			var v Version
			if ek[0] == areaVersion && decodeVersionValue(val, &v) && !v.Tombstone {
				r.Row = v.Value
			}
		case areaStaging:
			if len(body) >= 2 {
				r.Shard, r.Key = base.ShardID(binary.BigEndian.Uint16(body)), body[2:]
			}
		}
		return fn(r)
	})
}
